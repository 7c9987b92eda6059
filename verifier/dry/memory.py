"""Addresses and sizes of storages that hold nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from verifier.device.faults import OutOfDeviceMemory

# PyTorch's allocator on a GPU aligns to this, and kernels are specialised on alignment.
ALIGNMENT = 512
FIRST_ADDRESS = 0x7000_0000_0000


@dataclass
class Allocation:
    """One live storage: kept so that its identity stays its own, with the number of its holders."""

    storage: torch.UntypedStorage
    base: int
    holders: int = 0


class AddressSpace:
    """Gives every storage an address of its own and adds up what is live, in bytes."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = self.peak = 0
        self.next_address = FIRST_ADDRESS
        self.allocations: dict[int, Allocation] = {}
        self.owners: dict[int, int] = {}

    def retain(self, tensor: torch.Tensor) -> int:
        """Count one more holder of a tensor's storage and return its address, 0 when it is empty. Raises OutOfDeviceMemory."""
        storage = tensor.untyped_storage()
        if not storage.nbytes():
            return 0
        identity = storage._cdata  # noqa: SLF001 - a meta storage has no address to be known by
        if identity not in self.allocations:
            self.allocations[identity] = Allocation(storage, self.reserve(storage.nbytes()))
            self.owners[self.allocations[identity].base] = identity
        allocation = self.allocations[identity]
        allocation.holders += 1
        return allocation.base

    def reserve(self, size: int) -> int:
        """Return a fresh address for `size` bytes. Raises OutOfDeviceMemory."""
        if self.used + size > self.capacity:
            raise OutOfDeviceMemory(
                f"tried to allocate {size} bytes; {self.capacity - self.used} of {self.capacity} are free"
            )
        self.used += size
        self.peak = max(self.peak, self.used)
        base = self.next_address
        self.next_address += -(-size // ALIGNMENT) * ALIGNMENT
        return base

    def release(self, base: int) -> None:
        """Drop one holder of the storage at `base`; the last one frees it."""
        identity = self.owners.get(base)
        if identity is None:
            return
        allocation = self.allocations[identity]
        allocation.holders -= 1
        if not allocation.holders:
            self.used -= allocation.storage.nbytes()
            del self.allocations[identity], self.owners[base]
