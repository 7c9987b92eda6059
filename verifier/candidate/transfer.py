"""Tensors as a description and raw bytes, for the verifier's own channels."""

from __future__ import annotations

from typing import Any

import torch

Description = list[dict[str, Any]]
DTYPES = {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


def to_bytes(tensor: torch.Tensor) -> bytes:
    """Return a tensor's values in row-major order."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def from_bytes(data: bytes | memoryview, shape: list[int], dtype: str) -> torch.Tensor:
    """Return the tensor that `data` holds in row-major order. Raises ValueError when the size is wrong."""
    kind = DTYPES[dtype]
    flat = torch.frombuffer(bytearray(data), dtype=kind) if len(data) else torch.empty(0, dtype=kind, device="cpu")
    return flat.reshape(shape)


def pack_tensors(tensors: dict[str, torch.Tensor]) -> tuple[Description, bytes]:
    """Return the description and the bytes of named tensors."""
    described = [
        {"name": name, "shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        for name, value in tensors.items()
    ]
    return described, b"".join(to_bytes(value) for value in tensors.values())


def unpack_tensors(described: Description, data: bytes) -> dict[str, torch.Tensor]:
    """Return the named tensors behind a description and bytes."""
    tensors, offset, view = {}, 0, memoryview(data)
    for item in described:
        size = DTYPES[item["dtype"]].itemsize
        for length in item["shape"]:
            size *= length
        tensors[item["name"]] = from_bytes(view[offset : offset + size], item["shape"], item["dtype"])
        offset += size
    return tensors
