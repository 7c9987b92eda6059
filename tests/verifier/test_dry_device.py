"""The device of a dry run: shapes and addresses without values."""

from __future__ import annotations

import pytest
import torch

from verifier.device.faults import CannotCompile, KernelFault, OutOfDeviceMemory
from verifier.dry.device import DryDevice
from verifier.dry.memory import ALIGNMENT, AddressSpace
from verifier.dry.shapes import ShapeSlab

FLOATS = 4
IR = "module {\n  tt.func public @halve(%arg0: !tt.ptr<f32>, %arg1: i32) {\n    tt.return\n  }\n}\n"


class FakeCompiler:
    """Stands for the line to the compile box."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal

    def compile(self, text: str, options: dict[str, int]) -> tuple[dict[str, int], bytes]:
        if self.refusal:
            raise CannotCompile(self.refusal)
        return {"registers": 40, "spilled": 8, "shared": 64, "warps": 4}, b"image"

    def disassemble(self, image: bytes) -> str:
        return f"text of {image.decode()}"


def make_device(capacity: int = 1 << 20, refusal: str = "") -> DryDevice:
    return DryDevice(FakeCompiler(refusal), capacity)  # type: ignore[arg-type]


def make_tensor(length: int) -> torch.Tensor:
    return torch.empty(length, dtype=torch.float32, device="meta")


def test_storages_lie_apart_and_aligned() -> None:
    space = AddressSpace(1 << 20)
    tensors = [make_tensor(3), make_tensor(1000), make_tensor(1)]
    first, second, third = (space.retain(tensor) for tensor in tensors)
    assert {first % ALIGNMENT, second % ALIGNMENT, third % ALIGNMENT} == {0}
    assert second >= first + 3 * FLOATS
    assert third >= second + 1000 * FLOATS


def test_a_storage_lives_until_its_last_holder_lets_go() -> None:
    space = AddressSpace(1000 * FLOATS)
    tensor = make_tensor(1000)
    base = space.retain(tensor)
    assert space.retain(tensor[10:]) == base
    space.release(base)
    with pytest.raises(OutOfDeviceMemory, match="0 of 4000 are free"):
        space.retain(make_tensor(1))
    space.release(base)
    assert space.retain(make_tensor(1000)) != base
    assert space.peak == 1000 * FLOATS


def test_an_empty_tensor_takes_no_memory() -> None:
    space = AddressSpace(0)
    base = space.retain(make_tensor(0))
    space.release(base)
    assert (base, space.used) == (0, 0)


def test_a_view_is_described_by_its_own_address() -> None:
    device = make_device()
    tensor = make_tensor(100)
    whole, part = (device.describe_tensor(device.add(value)) for value in (tensor, tensor[25:]))
    assert part["pointer"] == whole["pointer"] + 25 * FLOATS
    assert (part["storage"], part["storage_bytes"]) == (whole["pointer"], 100 * FLOATS)


def test_an_operator_gives_shapes() -> None:
    device = make_device()
    product = device.call_library("aten::mm", [make_tensor(6).view(2, 3), make_tensor(12).view(3, 4)], {})
    assert (product.shape, product.device.type) == ((2, 4), "meta")
    assert device.record.library_operations["mm"] > 2 * 2 * 3 * 4


def test_a_launch_is_recorded_and_not_run() -> None:
    device = make_device()
    number = device.load("halve", IR, {"num_warps": 4})
    device.launch(number, (7, 1, 1), [1 << 40, 5])
    (usage,) = device.record.kernels.values()
    assert (usage.launches, usage.programs, usage.grids) == (1, 7, [(7, 1, 1)])
    assert device.describe_kernel(device.kernels[number]) == {"registers": 40, "spilled": 2, "shared": 64}
    found, text = device.read_machine_code(device.kernels[number].digest)
    assert (found["registers"], text) == (40, b"text of image")


def test_a_launch_needs_every_argument() -> None:
    device = make_device()
    number = device.load("halve", IR, {})
    with pytest.raises(KernelFault, match="takes 2 arguments, not 1"):
        device.launch(number, (1, 1, 1), [1 << 40])


def test_a_kernel_that_does_not_compile_is_named_and_the_run_goes_on() -> None:
    device = make_device(refusal="no registers left")
    number = device.load("halve", IR, {})
    device.launch(number, (1, 1, 1), [1 << 40, 5])
    assert device.read_machine_code(device.kernels[number].digest) == ({"error": "no registers left"}, b"")


def test_an_autotuner_finds_all_configurations_equally_fast() -> None:
    device = make_device()
    times = []
    for _ in range(2):
        device.begin_bench()
        times.append(device.end_bench())
    assert times[0] == times[1] > 0


def test_only_shapes_cross_to_the_device() -> None:
    slab = ShapeSlab()
    (place,) = slab.write({"x": torch.arange(6, dtype=torch.int32).view(2, 3)})
    found = slab.read([place], torch.device("meta"))["x"]
    assert (found.shape, found.dtype, found.device.type) == ((2, 3), torch.int32, "meta")
