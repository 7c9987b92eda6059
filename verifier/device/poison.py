"""The pattern that fills fresh memory, so that what a submission never wrote can be recognised."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

WIDE_ENOUGH = 4


def make_poison(dtype: torch.dtype, mark: int) -> np.ndarray[Any, Any]:
    """Return the pattern that marks unwritten memory: a NaN with a payload for floats."""
    if dtype == torch.float32:
        return np.asarray(0x7FC00000 | (mark & 0x3FFFFF) | 1, np.uint32)
    if dtype == torch.float64:
        return np.asarray(0x7FF8000000000000 | (mark & 0x7FFFFFFF) | 1, np.uint64)
    if dtype == torch.float16:
        return np.asarray(0x7E00 | (mark & 0x1FF) | 1, np.uint16)
    if dtype == torch.bfloat16:
        return np.asarray(0x7FC0 | (mark & 0x3F) | 1, np.uint16)
    if dtype == torch.bool:
        return np.asarray(1, np.uint8)
    size = torch.empty(0, dtype=dtype).element_size()
    return np.asarray(
        mark & ((1 << (8 * size - 2)) - 1), {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}.get(size, np.uint8)
    )


def has_poison(tensor: torch.Tensor, mark: int) -> bool:
    """Return whether a tensor of floats, or of integers wide enough to tell, holds the pattern of `mark` anywhere."""
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.element_size() >= WIDE_ENOUGH):
        return False
    pattern = make_poison(tensor.dtype, mark)
    signed = torch.from_numpy(pattern.view(f"i{pattern.itemsize}").reshape(1))
    return bool((tensor.contiguous().reshape(-1).view(signed.dtype) == int(signed)).any())
