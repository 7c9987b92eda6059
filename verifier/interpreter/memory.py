"""The simulated device's memory: real storages, found by address, with bounds."""

from __future__ import annotations

from bisect import bisect_right, insort

import numpy as np
import torch

from verifier.device.faults import IllegalAccess, OutOfDeviceMemory
from verifier.interpreter.numbers import Array


class Memory:
    """Live storages by address. Addresses are those of the process, so views cost nothing."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self.bases: list[int] = []
        self.storages: dict[int, tuple[torch.UntypedStorage, Array, int]] = {}

    def retain(self, tensor: torch.Tensor) -> int:
        """Register the storage of `tensor` (once more) and return its base address. Raises OutOfDeviceMemory."""
        storage = tensor.untyped_storage()
        base, size = storage.data_ptr(), storage.nbytes()
        if size == 0:
            return 0
        if base in self.storages:
            kept, flat, count = self.storages[base]
            self.storages[base] = (kept, flat, count + 1)
            return base
        if self.used + size > self.capacity:
            raise OutOfDeviceMemory(
                f"tried to allocate {size} bytes; {self.capacity - self.used} of {self.capacity} are free"
            )
        self.used += size
        flat = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
        self.storages[base] = (storage, flat, 1)
        insort(self.bases, base)
        return base

    def release(self, base: int) -> None:
        """Drop one reference to the storage at `base`."""
        if base not in self.storages:
            return
        kept, flat, count = self.storages[base]
        if count > 1:
            self.storages[base] = (kept, flat, count - 1)
            return
        del self.storages[base]
        self.bases.remove(base)
        self.used -= flat.nbytes

    def flat(self, base: int) -> Array:
        """Return the bytes of the storage at `base`."""
        return self.storages[base][1]

    def locate(self, addresses: Array, size: int, action: str) -> list[tuple[int, Array, Array]]:
        """Group flat `addresses` of elements of `size` bytes by storage.

        Returns (base, positions in `addresses`, element indices in the storage). Raises IllegalAccess.
        """
        lowest, highest = int(addresses.min()), int(addresses.max())
        base = self.find(lowest, action)
        if highest + size <= base + self.flat(base).nbytes:
            return [(base, np.arange(addresses.size), self.index(addresses, base, size))]
        groups = []
        bases = np.asarray(self.bases, np.int64)
        owners = np.searchsorted(bases, addresses, side="right") - 1
        for owner in np.unique(owners):
            positions = np.nonzero(owners == owner)[0]
            part = addresses[positions]
            base = self.find(int(part.min()), action)
            if int(part.max()) + size > base + self.flat(base).nbytes:
                raise IllegalAccess(f"{action} beyond the end of an allocation of {self.flat(base).nbytes} bytes")
            groups.append((base, positions, self.index(part, base, size)))
        return groups

    def find(self, address: int, action: str) -> int:
        """Return the base of the storage that holds `address`. Raises IllegalAccess."""
        position = bisect_right(self.bases, address) - 1
        if position >= 0:
            base = self.bases[position]
            if address < base + self.flat(base).nbytes:
                return base
        raise IllegalAccess(f"{action} at an address outside every allocation")

    def index(self, addresses: Array, base: int, size: int) -> Array:
        """Return element indices of `addresses` in the storage at `base`. Raises IllegalAccess."""
        indices, rest = np.divmod(addresses - base, size)
        if rest.any():
            raise IllegalAccess("misaligned address")
        return indices
