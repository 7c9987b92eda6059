"""Launches that get the inputs at other addresses than the submission knows."""

from __future__ import annotations

import torch

from verifier.gpu.signature import Parameter
from verifier.interpreter.simulated import SimulatedDevice

POINTER, NUMBER, DESCRIPTOR = Parameter("pointer", "f32"), Parameter("i64"), Parameter("descriptor", "f32", (8,))


def make_device() -> tuple[SimulatedDevice, torch.Tensor, torch.Tensor]:
    """Return a device in a call, with the call's one input and a tensor of the submission's."""
    device = SimulatedDevice(1 << 20)
    given, own = torch.arange(16.0), torch.ones(16)
    handle = device.add(given)
    device.add(own)
    device.look_away([handle])
    return device, given, own


def test_an_input_is_at_another_address_with_the_same_values() -> None:
    device, given, own = make_device()
    values = [given.data_ptr() + 8, own.data_ptr(), given.data_ptr()]
    with device.move_inputs([POINTER, POINTER, NUMBER], values) as moved:
        assert moved[0] not in range(given.data_ptr(), given.data_ptr() + 64)
        assert moved[1:] == values[1:]
        copy = next(tensor for tensor, base in device.tensors.values() if base == moved[0] - 8)
        assert torch.equal(copy.view(torch.float32), given)
    assert len(device.tensors) == 2


def test_parameters_that_reach_one_input_reach_one_copy() -> None:
    device, given, _ = make_device()
    with device.move_inputs([POINTER, DESCRIPTOR], [given.data_ptr() + 16, {"base": given.data_ptr()}]) as moved:
        assert moved[0] == moved[1]["base"] + 16


def test_a_tensor_is_an_input_only_while_its_call_lasts() -> None:
    device, given, _ = make_device()
    device.look_away(())
    with device.move_inputs([POINTER], [given.data_ptr()]) as moved:
        assert moved == [given.data_ptr()]
