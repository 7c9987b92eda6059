"""Shared memory in which tensors pass between two of the verifier's processes, as raw bytes.

It lies beside `channel`: a message says where a tensor starts, how large it is and what it is.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

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
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self.memory = mmap.mmap(descriptor, self.size)
        self.bytes = torch.frombuffer(self.memory, dtype=torch.uint8)
        if pinned:
            pin(self.bytes)

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


def pin(memory: torch.Tensor) -> None:
    """Let the GPU reach host memory directly. Without it copies work too, more slowly."""
    torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.numel(), 0)
