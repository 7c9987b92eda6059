"""Integer functions of libdevice, on the bits that a GPU's registers hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from verifier.interpreter.numbers import Array, as_unsigned


def count_bits(values: Array) -> Array:
    """Return how many bits of each integer are set, of its two's complement where it is negative."""
    return unpack_bits(values).sum(axis=-1, dtype=np.int32)


def unpack_bits(values: Array) -> Array:
    """Return the bits of each integer along a last axis, the lowest first."""
    octets = np.ascontiguousarray(values)[..., None].view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little").reshape(*np.shape(values), -1)


def reverse_bits(values: Array) -> Array:
    """Return each integer with its bits in the opposite order."""
    reversed_bits = np.ascontiguousarray(unpack_bits(values)[..., ::-1])
    return np.packbits(reversed_bits, axis=-1, bitorder="little").view(values.dtype).reshape(np.shape(values))


def find_highest_bit(values: Array) -> Array:
    """Return the place of the highest set bit, counted from 1, or 0 when none is set."""
    bits = unpack_bits(values)
    return np.max(bits * np.arange(1, bits.shape[-1] + 1, dtype=np.int32), axis=-1)


def find_lowest_bit(values: Array) -> Array:
    """Return the place of the lowest set bit, counted from 1, or 0 when none is set."""
    return find_highest_bit(values & -values)


def count_leading_zeros(values: Array) -> Array:
    return values.dtype.itemsize * 8 - find_highest_bit(values)


def multiply_high(x: Array, y: Array) -> Array:
    """Return the high half of the product of two integers, of the sign that their type says."""
    high = np.asarray(x, object) * np.asarray(y, object) >> x.dtype.itemsize * 8
    return np.asarray(high).astype(x.dtype)


def multiply_24_bits(x: Array, y: Array) -> Array:
    """Return the low 32 bits of the product of two integers of 24 bits, of the sign that their type says."""
    unused = x.dtype.type(8)
    return np.multiply((x << unused) >> unused, (y << unused) >> unused)


def average(x: Array, y: Array, upwards: int) -> Array:
    """Return (x + y + upwards) / 2 rounded down, without overflow. `upwards` is 0 or 1."""
    return ((x.astype(np.int64) + y.astype(np.int64) + upwards) >> 1).astype(x.dtype)


def add_difference(x: Array, y: Array, z: Array) -> Array:
    """Return the distance of x and y plus z, of which the low 32 bits count."""
    return (np.abs(x.astype(np.int64) - y.astype(np.int64)) + z.astype(np.int64)).astype(np.int32)


def pick_bytes(x: Array, y: Array, selector: Array) -> Array:
    """Return four of the eight bytes of x (0 to 3) and y (4 to 7): three bits of each hexadecimal digit name one."""
    octets = as_unsigned(x).astype(np.uint64) | as_unsigned(y).astype(np.uint64) << np.uint64(32)
    picked: Any = np.uint64(0)
    for place in range(4):
        shift = (as_unsigned(selector) >> np.uint32(4 * place) & np.uint32(7)).astype(np.uint64) * np.uint64(8)
        picked = picked | (octets >> shift & np.uint64(0xFF)) << np.uint64(8 * place)
    return np.asarray(picked).astype(np.uint32).view(np.int32)
