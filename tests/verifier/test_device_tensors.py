"""PyTorch's ordinary habits on the submission's tensors, whose values a simulated device holds."""

from __future__ import annotations

import copy
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional

from verifier.candidate import cuda, names, tensors
from verifier.candidate.channel import Channel, ChannelClosed
from verifier.candidate.client import Client
from verifier.candidate.tensors import DEVICE, DeviceTensor
from verifier.device.service import CandidateService
from verifier.interpreter.simulated import SimulatedDevice

HOST = torch.arange(24.0).reshape(4, 6).sin()


def answer_requests(channel: Channel, service: CandidateService) -> None:
    while True:
        try:
            channel.send(*service.answer(*channel.receive()))
        except ChannelClosed:
            return


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedDevice]:
    """A simulated device that this process has for its GPU."""
    near, far = socket.socketpair()
    simulated = SimulatedDevice(1 << 26)
    thread = threading.Thread(target=answer_requests, args=(Channel(far), CandidateService(simulated)), daemon=True)
    thread.start()
    channel = Channel(near)
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: None)
    monkeypatch.setattr(tensors, "client", Client(channel), raising=False)
    monkeypatch.setattr(names.Defaults, "on_device", False)
    with torch.no_grad(), names.DeviceNames(), tensors.DeviceMode():
        yield simulated
    channel.close()
    thread.join(10)
    far.close()


@pytest.fixture
def z(device: SimulatedDevice) -> torch.Tensor:
    return HOST.to(DEVICE)


def is_same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether a tensor of the device has the type, the layout and the values of one of the host."""
    assert isinstance(found, DeviceTensor)
    values = found.cpu()
    assert (found.shape, found.stride(), found.dtype) == (expected.shape, expected.stride(), expected.dtype)
    return torch.equal(values, expected)


PICKED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a list": lambda x: x[[0, 2]],
    "a list behind a slice": lambda x: x[:, [0, 2]],
    "two lists": lambda x: x[[0, 1], [2, 3]],
    "a list of lists": lambda x: x[([0, 1], [2, 3])],
    "truth values": lambda x: x[[True, False, True, False]],
    "a range": lambda x: x[range(2)],
    "an empty list": lambda x: x[[]],
    "a tensor of the host": lambda x: x[torch.tensor([1, 1])],
    "a mask of the host": lambda x: x[torch.tensor([True, False, True, False])],
    "a list in a tuple": lambda x: x[None, [1], ..., :2],
    "a tuple in a list": lambda x: x[(slice(0, 2), (1, 2))],
}


@pytest.mark.parametrize("name", PICKED)
def test_subscripts_take_sequences_and_tensors_of_the_host(z: torch.Tensor, name: str) -> None:
    assert is_same(PICKED[name](z), PICKED[name](HOST))


def test_subscripts_are_written_to(z: torch.Tensor) -> None:
    expected = HOST.clone()
    for tensor in (z, expected):
        tensor[:, [0, 2]] = 2.0
        tensor[[0, 1], [1, 1]] = torch.tensor([5.0, 6.0])
        tensor[torch.tensor([3])] = tensor[0].clone()
    assert is_same(z, expected)


def test_indices_of_the_host_count_as_uploaded(device: SimulatedDevice, z: torch.Tensor) -> None:
    before = device.record.uploaded
    z[[0, 1, 2]]
    assert device.record.uploaded == before + 3


MADE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one_hot": lambda x: functional.one_hot((x[0] > 0).long(), 2),
    "one_hot of as many as there are": lambda x: functional.one_hot((x[0] > 0).long()),
    "quantile": lambda x: x.quantile(0.25, 1),
    "combinations": lambda x: torch.combinations(x[0]),
    "vander": lambda x: torch.vander(x[0]),
    "pad_sequence": lambda x: nn.utils.rnn.pad_sequence([x[0], x[1, :3]]),
    "new_tensor": lambda x: x.new_tensor([[1.0, 2.0]]),
    "new_tensor of a dtype": lambda x: x.new_tensor([1, 2], dtype=torch.int64),
    "values of tensors": lambda x: torch.tensor([x[0, 0], 2.0], device=x.device),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_beside_a_tensor_lies_where_it_does(z: torch.Tensor, name: str) -> None:
    assert is_same(MADE[name](z), MADE[name](HOST).contiguous())


RESHAPED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "unsqueeze_": lambda x: x.unsqueeze_(1),
    "squeeze_": lambda x: x.unsqueeze_(0).unsqueeze_(2).squeeze_(),
    "squeeze_ of one": lambda x: x.unsqueeze_(0).squeeze_(0),
    "squeeze_ of some": lambda x: x.unsqueeze_(0).unsqueeze_(2).squeeze_((0, 2)),
    "as_strided_": lambda x: x.as_strided_((3, 2), (6, 2)),
}


@pytest.mark.parametrize("name", RESHAPED)
def test_shapes_change_in_place(z: torch.Tensor, name: str) -> None:
    expected, part = HOST.clone(), z[0]
    assert RESHAPED[name](z) is z
    RESHAPED[name](expected)
    assert is_same(z, expected)
    part += 1.0
    assert torch.equal(z.cpu().flatten()[:1], expected.flatten()[:1] + 1.0)


def test_a_result_grows(device: SimulatedDevice, z: torch.Tensor) -> None:
    result = z.new_empty(0)
    assert torch.add(z, z, out=result) is result
    assert is_same(result, HOST + HOST)
    assert device.memory.find(result.data_ptr(), "load") == result.untyped_storage().data_ptr()
    assert is_same(result + z, HOST * 2 + HOST)


def test_a_parameter_takes_data_of_another_layout(device: SimulatedDevice, z: torch.Tensor) -> None:
    parameter = nn.Parameter(z.clone())
    handle = parameter.device_handle
    parameter.data = parameter.data.t().contiguous()
    assert isinstance(parameter, nn.Parameter)
    assert is_same(parameter.detach(), HOST.t().contiguous())
    z + z
    assert handle not in device.tensors


def test_new_data_are_shared_and_their_shape_is_not(z: torch.Tensor) -> None:
    other = z.t().contiguous()
    z.data = other
    other.t_().add_(1.0)
    assert is_same(z, HOST.t().contiguous() + 1.0)


def test_data_of_the_host_are_refused(z: torch.Tensor) -> None:
    with pytest.raises(TypeError, match="CUDA"):
        z.data = HOST


def test_layers_take_other_types_and_layouts(device: SimulatedDevice) -> None:
    layer = nn.Conv2d(2, 3, 3).to(DEVICE)
    layer.double().to(memory_format=torch.channels_last)
    assert layer.weight.dtype is torch.float64
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)


def test_moving_copies_where_it_must(z: torch.Tensor) -> None:
    assert z.to("cuda") is z
    assert z.to(DEVICE, torch.float32) is z
    copied = z.to(DEVICE, copy=True)
    assert z.to(torch.float32, copy=True) is not z
    z.zero_()
    assert is_same(copied, HOST)
    image = copied.reshape(1, 2, 2, 6)
    expected = HOST.reshape(1, 2, 2, 6).to(memory_format=torch.channels_last)
    assert is_same(image.to(DEVICE, memory_format=torch.channels_last), expected)
    assert is_same(image.to(image, memory_format=torch.channels_last), expected)


def test_copies_share_nothing(z: torch.Tensor) -> None:
    layer = nn.Linear(6, 2).to(DEVICE)
    layer.twin = layer.weight
    copied = copy.deepcopy(layer)
    assert copied.twin is copied.weight
    assert isinstance(copied.weight, nn.Parameter)
    assert copied.weight.requires_grad
    layer.weight.zero_()
    assert bool(copied.weight.cpu().any())
    again = copy.deepcopy([z, z])
    assert again[0] is again[1]
    assert is_same(again[0], HOST)
    assert is_same(copy.deepcopy(z.t()), HOST.t())
    shallow = copy.copy(z)
    shallow.zero_()
    assert not bool(z.cpu().any())


def test_the_order_of_dimensions_crosses(z: torch.Tensor) -> None:
    assert z.t().cpu().stride() == HOST.t().stride()
    assert is_same(HOST.t().to(DEVICE), HOST.t())
    assert is_same(HOST[:, ::2].to(DEVICE), HOST[:, ::2].clone())
    assert z[:, ::2].cpu().tolist() == HOST[:, ::2].tolist()


def test_a_number_is_formatted_and_counted(device: SimulatedDevice, z: torch.Tensor) -> None:
    before = device.record.downloaded
    assert f"{z[0, 1]:.3f}" == f"{HOST[0, 1].item():.3f}"
    assert device.record.downloaded == before + 1
    with pytest.raises(TypeError):
        f"{z[0]:.3f}"


def test_a_default_device_is_followed(device: SimulatedDevice) -> None:
    names.set_default_device("cuda")
    made = [torch.zeros(2), torch.arange(3), torch.tensor([1.0]), torch.as_tensor([2]), nn.Linear(2, 2).weight]
    assert all(value.is_cuda for value in made)
    assert names.get_default_device() == DEVICE
    assert not torch.zeros(2, device="cpu").is_cuda
    names.set_default_device("cpu")
    assert not torch.zeros(2).is_cuda
    assert names.get_default_device().type == "cpu"
    names.set_default_device(None)


def test_a_generator_draws_the_same_again(device: SimulatedDevice) -> None:
    drawn = []
    for _ in range(2):
        generator = cuda.Generator(device="cuda").manual_seed(3)
        assert generator.device == DEVICE
        weight = torch.empty(3, device=DEVICE)
        drawn.append([torch.randn(4, device="cuda", generator=generator), weight.normal_(generator=generator)])
    assert all(value.is_cuda for value in drawn[0])
    assert all(torch.equal(first.cpu(), second.cpu()) for first, second in zip(*drawn, strict=True))
    assert bool((drawn[0][0][:3].cpu() != drawn[0][1].cpu()).all())


def test_layers_made_without_values_come_to_the_device(device: SimulatedDevice, z: torch.Tensor) -> None:
    layer = nn.Linear(6, 2, device="meta").to_empty(device=DEVICE)
    layer.weight.fill_(1.0)
    layer.bias.zero_()
    assert torch.allclose(layer(z).cpu(), HOST.sum(1, keepdim=True).expand(4, 2), atol=1e-6)
