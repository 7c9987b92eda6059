"""Shared memory in which tensors pass between two of the verifier's processes, as raw bytes.

It lies beside `channel`: a message says where a tensor starts, how large it is and what it is.
"""

from __future__ import annotations

import mmap
import os
from typing import Any, Self

import torch

from verifier.candidate.transfer import DTYPES

ALIGNMENT = 256

Place = dict[str, Any]


def measure(shape: list[int], dtype: str) -> int:
    """Return the bytes of a tensor."""
    size = DTYPES[dtype].itemsize
    for length in shape:
        size *= length
    return size


class Slab:
    """One end of a shared piece of memory. With `pinned`, the GPU reads and writes it directly."""

    def __init__(self, descriptor: int, *, pinned: bool = False) -> None:
        """Map the memory behind a descriptor. Close it when it is pinned, or use it as a context manager."""
        self.size = os.fstat(descriptor).st_size
        self.bytes = torch.frombuffer(mmap.mmap(descriptor, self.size), dtype=torch.uint8)
        self.pinned = pinned
        if pinned:
            # The mapping may come to lie where an earlier one was, which the driver must not still know.
            check(torch.cuda.cudart().cudaHostRegister(self.bytes.data_ptr(), self.size, 0))

    def write(self, tensors: dict[str, torch.Tensor]) -> list[Place]:
        """Copy tensors in, from the start on, and return where they lie. Raises ValueError when they do not fit."""
        places: list[Place] = []
        offset = 0
        for name, value in tensors.items():
            shape, dtype = list(value.shape), str(value.dtype).removeprefix("torch.")
            size = measure(shape, dtype)
            if offset + size > self.size:
                raise ValueError(f"{name} does not fit: {offset + size} of {self.size} bytes")
            self.find(place := {"name": name, "shape": shape, "dtype": dtype, "offset": offset}).copy_(value)
            places.append(place)
            offset += -(-size // ALIGNMENT) * ALIGNMENT
        return places

    def find(self, place: Place) -> torch.Tensor:
        """Return the tensor at a place, as a view of the shared memory."""
        size = measure(place["shape"], place["dtype"])
        part = self.bytes[place["offset"] : place["offset"] + size]
        return part.view(DTYPES[place["dtype"]]).reshape(place["shape"])

    def read(self, places: list[Place], where: torch.device) -> dict[str, torch.Tensor]:
        """Return copies of the tensors at some places, on a device, by name."""
        copies = {}
        for place in places:
            copy = torch.empty(place["shape"], dtype=DTYPES[place["dtype"]], device=where)
            copies[place["name"]] = copy.copy_(self.find(place))
        return copies

    def close(self) -> None:
        """Let the driver forget the memory; the mapping goes with its last user."""
        if self.pinned:
            self.pinned = False
            torch.cuda.synchronize()
            check(torch.cuda.cudart().cudaHostUnregister(self.bytes.data_ptr()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def check(status: object) -> None:
    """Raise RuntimeError when a call of CUDA's runtime failed."""
    if int(status):  # type: ignore[call-overload]
        raise RuntimeError(f"CUDA's runtime refused to pin memory: {status}")
