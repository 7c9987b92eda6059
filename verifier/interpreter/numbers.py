"""Numbers as the GPU holds them, in NumPy.

bfloat16 has no NumPy type: its values are float32 arrays that are rounded after each operation.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from verifier.device.faults import NotInterpretable

Array = np.ndarray[Any, Any]

DTYPES: dict[str, type[np.generic]] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
    "f16": np.float16,
    "bf16": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "ptr": np.int64,
}
STORED_DTYPES = {**DTYPES, "i1": np.int8, "bf16": np.uint16}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
FLOATS = ("f16", "bf16", "f32", "f64")


def find_dtype(element: str) -> type[np.generic]:
    """Return the NumPy type that holds `element`. Raises NotInterpretable."""
    if element not in DTYPES:
        raise NotInterpretable(f"values of type {element}")
    return DTYPES[element]


def find_size(element: str) -> int:
    """Return the bytes that one stored `element` takes. Raises NotInterpretable."""
    if element.startswith("!tt.ptr"):
        return 8
    if element not in STORED_DTYPES:
        raise NotInterpretable(f"memory of type {element}")
    return np.dtype(STORED_DTYPES[element]).itemsize


def round_to_bfloat16(values: Array) -> Array:
    """Return float32 values rounded to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(
        np.float32
    )
    return np.where(np.isnan(values), np.float32(np.nan), rounded).reshape(np.shape(values))


def round_to_tf32(values: Array) -> Array:
    """Return float32 values rounded to TF32's ten mantissa bits, as the tensor cores read them."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values).reshape(np.shape(values))


def convert(values: Any, element: str) -> Array:
    """Return `values` as `element` holds them, rounded where needed."""
    if element == "bf16":
        return round_to_bfloat16(np.asarray(values, np.float32))
    return np.asarray(values).astype(find_dtype(element), copy=False)


def encode(values: Array, element: str) -> Array:
    """Return the stored form of `values`."""
    if element == "bf16":
        return (
            (np.ascontiguousarray(values, np.float32).view(np.uint32) >> np.uint32(16))
            .astype(np.uint16)
            .reshape(np.shape(values))
        )
    return values.astype(STORED_DTYPES.get(element, np.int64), copy=False)


def decode(stored: Array, element: str) -> Array:
    """Return the values behind their stored form."""
    if element == "bf16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.astype(np.bool_) if element == "i1" else stored


def reinterpret(values: Array, source: str, target: str) -> Array:
    """Return the same bits as another type of the same width."""
    if source == target or "ptr" in (source, target):
        return values
    stored = np.ascontiguousarray(encode(values, source))
    kind = STORED_DTYPES.get(target)
    if kind is None:
        raise NotInterpretable(f"a bitcast to {target}")
    return decode(stored.view(kind).reshape(np.shape(values)), target)


def parse_constant(text: str, element: str) -> Array:
    """Return the scalar that a constant's text spells: ``dense<0xFF800000>``, ``-1``, ``true``."""
    if match := re.match(r"^dense<(.*)>$", text):
        text = match[1]
    if text in ("true", "false"):
        return np.asarray(text == "true", np.bool_)
    kind = find_dtype(element)
    if element in FLOATS and text.startswith("0x"):
        width = find_size(element)
        bits = np.asarray(int(text, 16), UNSIGNED[width])
        return decode(bits.view(np.uint16 if element == "bf16" else kind), element)
    if element in FLOATS:
        return convert(np.asarray(float(text)), element)
    value = int(text, 0) if text.lower().startswith(("0x", "-0x")) else int(text)
    return np.asarray(value).astype(kind) if value < 1 << 63 else np.asarray(value, np.uint64).astype(kind)


def as_unsigned(values: Array) -> Array:
    """Return integer values read as unsigned."""
    return values.view(UNSIGNED[values.dtype.itemsize]) if values.dtype != np.bool_ else values
