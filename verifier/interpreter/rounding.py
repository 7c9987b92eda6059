"""Results of single operations, rounded once in a named direction, as the GPU's instructions round them.

An exact result is a pair of float64 arrays: the nearest float64, and a number with the sign of what that leaves out.
Sources: D. E. Knuth, The Art of Computer Programming 2, 4.2.2 (sums); T. J. Dekker, Numer. Math. 18, 1971 (products);
S. Boldo and G. Melquiond, IEEE Trans. Comput. 57, 2008 (rounding to odd, and the fused operation made of it).
Single precision flushes subnormal numbers to zero, as libdevice does where Triton compiles it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from verifier.interpreter.numbers import Array

Pair = tuple[Array, Array]

DIRECTIONS = ("rn", "rz", "rd", "ru")
TO_WHOLE: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
# Cuts 53 bits of a significand into 26 and 27.
SPLITTER = float((1 << 27) + 1)


def add_exactly(x: Array, y: Array) -> Pair:
    """Return x + y as a pair whose sum is exact."""
    total = x + y
    part: Array = total - x
    return total, (x - (total - part)) + (y - part)


def split(x: Array) -> Pair:
    """Return two halves of a float64, short enough that their products are exact."""
    scaled = x * SPLITTER
    high = scaled - (scaled - x)
    return high, x - high


def multiply_exactly(x: Array, y: Array) -> Pair:
    """Return x * y as a pair whose sum is exact, unless the product is near float64's limits."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = split(x), split(y)
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def divide_exactly(x: Array, y: Array) -> Pair:
    quotient = x / y
    product, error = multiply_exactly(quotient, y)
    return quotient, ((x - product) - error) / y


def root_exactly(x: Array) -> Pair:
    root = np.sqrt(x)
    square, error = multiply_exactly(root, root)
    return root, (x - square) - error


def read_integer(values: Array) -> Pair:
    """Return signed or unsigned integers of up to 64 bits as exact pairs."""
    kind = np.int64 if values.dtype.kind == "i" else np.uint64
    high, low = np.divmod(values.astype(kind), kind(1 << 32))
    return add_exactly(high.astype(np.float64) * 2.0**32, low.astype(np.float64))


def round_to_odd(pair: Pair) -> Array:
    """Return the float64 that a later rounding to fewer bits treats as it would the exact result."""
    near, left = pair
    inexact_and_even = ((left > 0) | (left < 0)) & (near.view(np.int64) & 1 == 0)
    return np.where(inexact_and_even, np.nextafter(near, np.copysign(np.inf, left)), near)


def step(near: Array, left: Array, direction: str) -> Array:
    """Return `near`, the nearest value of its type, or the neighbour that `direction` asks for; `left` is the rest."""
    if direction == "rn":
        return near
    kind = near.dtype.type
    if direction == "rz":
        return np.where(near * left < 0, np.nextafter(near, kind(0)), near)
    beyond, limit = (left < 0, -np.inf) if direction == "rd" else (left > 0, np.inf)
    return np.where(beyond, np.nextafter(near, kind(limit)), near)


def flush(values: Array) -> Array:
    """Return values with single precision's subnormal numbers replaced by zeros of their sign."""
    return np.where(np.abs(values) < SMALLEST_NORMAL, np.copysign(values.dtype.type(0), values), values)


def round_to_single(pair: Pair, direction: str) -> Array:
    """Return exact results as float32, rounded once."""
    exact = round_to_odd(pair)
    near = exact.astype(np.float32)
    return flush(step(near, exact - near, direction))


def add_single(x: Array, y: Array, direction: str) -> Array:
    """Return x + y as float32. An exact zero of opposite terms is negative when rounded down (IEEE 754, 6.3)."""
    total = round_to_single(add_exactly(x, y), direction)
    if direction != "rd":
        return total
    return np.where((x == -y) & (np.signbit(x) != np.signbit(y)), np.float32(-0.0), total)


def fuse_double(x: Array, y: Array, z: Array) -> Array:
    """Return x * y + z as float64, rounded once to the nearest, unless the product is near float64's limits."""
    product, product_left = multiply_exactly(x, y)
    low, low_left = add_exactly(z, product_left)
    high, high_left = add_exactly(product, low)
    fused = high + round_to_odd(add_exactly(high_left, low_left))
    return np.where(np.isfinite(fused), fused, x * y + z)


def convert_to_integer(values: Array, kind: type[np.integer[Any]], direction: str) -> Array:
    """Return floats as integers, limited to the type's range.

    NaN becomes 0 from float32 to 32 bits and the highest bit alone otherwise (PTX ISA, cvt).
    """
    limits = np.iinfo(kind)
    short = values.dtype == np.float32
    whole = TO_WHOLE[direction](flush(values) if short else values).astype(np.float64)
    nothing = np.isnan(whole)
    above, below = whole >= float(limits.max), whole <= float(limits.min)
    unknown = kind(0 if short and limits.bits <= 32 else limits.min or 1 << (limits.bits - 1))  # noqa: PLR2004
    inside = np.where(nothing | above | below, 0.0, whole).astype(kind)
    return np.select([nothing, above, below], [unknown, kind(limits.max), kind(limits.min)], inside)
