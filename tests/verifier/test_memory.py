from __future__ import annotations

import numpy as np
import pytest
import torch

from verifier.device.faults import IllegalAccess, OutOfDeviceMemory
from verifier.device.poison import has_poison, make_poison
from verifier.interpreter.memory import Memory


def test_storages_are_found_by_address() -> None:
    memory, tensors = Memory(1 << 20), [torch.zeros(8), torch.zeros(16, dtype=torch.int64)]
    for tensor in tensors:
        memory.retain(tensor)
    addresses = np.asarray([tensors[0].data_ptr() + 4, tensors[1].data_ptr() + 8, tensors[0].data_ptr() + 28])
    groups = {
        base: (positions.tolist(), indices.tolist()) for base, positions, indices in memory.locate(addresses, 4, "read")
    }
    assert groups == {tensors[0].data_ptr(): ([0, 2], [1, 7]), tensors[1].data_ptr(): ([1], [2])}


@pytest.mark.parametrize("offset", [-4, 32, 30])
def test_an_address_outside_is_refused(offset: int) -> None:
    memory, tensor = Memory(1 << 20), torch.zeros(8)
    memory.retain(tensor)
    with pytest.raises(IllegalAccess):
        memory.locate(np.asarray([tensor.data_ptr() + offset]), 4, "read")


def test_a_misaligned_address_is_refused() -> None:
    memory, tensor = Memory(1 << 20), torch.zeros(8)
    memory.retain(tensor)
    with pytest.raises(IllegalAccess, match="misaligned"):
        memory.locate(np.asarray([tensor.data_ptr() + 2]), 4, "read")


def test_memory_runs_out_and_comes_back() -> None:
    memory, first = Memory(100), torch.zeros(16)
    base = memory.retain(first)
    memory.retain(first.view(4, 4))
    with pytest.raises(OutOfDeviceMemory):
        memory.retain(torch.zeros(16))
    memory.release(base)
    assert memory.used == 64
    memory.release(base)
    assert memory.used == 0
    memory.retain(torch.zeros(16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_poison_is_a_marked_nan(dtype: torch.dtype) -> None:
    pattern = make_poison(dtype, 0x1234567)
    poisoned = torch.from_numpy(np.full(4, pattern).view(np.uint8).copy()).view(dtype)
    assert bool(torch.isnan(poisoned).all())
    assert has_poison(poisoned, 0x1234567)
    assert not has_poison(torch.full((4,), float("nan"), dtype=dtype), 0x1234567)
