from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from verifier.candidate.slab import ALIGNMENT, Slab, measure
from verifier.candidate.transfer import DTYPES
from verifier.task import DTYPE_BYTES

CPU = torch.device("cpu")
SIZE = 1 << 16
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
COMPLEX = ("complex64", "complex128")


@pytest.fixture
def descriptor() -> Iterator[int]:
    """Shared memory of `SIZE` bytes."""
    opened = os.memfd_create("slab")
    os.ftruncate(opened, SIZE)
    yield opened
    os.close(opened)


def make_tensor(dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor of random bits that its dtype can have."""
    size = measure(list(shape), dtype)
    largest = 2 if dtype == "bool" else 256
    generator = torch.Generator().manual_seed(5)
    return torch.randint(largest, (size,), dtype=torch.uint8, generator=generator).view(DTYPES[dtype]).reshape(shape)


def read_bits(tensor: torch.Tensor) -> list[int]:
    """Return a tensor's bytes."""
    return list(tensor.contiguous().reshape(-1).view(torch.uint8))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + COMPLEX)
def test_every_dtype_comes_back_bit_for_bit(descriptor: int, dtype: str) -> None:
    slab, value = Slab(descriptor), make_tensor(dtype, (3, 5))
    found = slab.read(slab.write({"x": value}), CPU)["x"]
    assert (found.dtype, found.shape) == (value.dtype, value.shape)
    assert read_bits(found) == read_bits(value)


def test_the_dtypes_that_a_task_may_have_are_among_them() -> None:
    assert {name: DTYPES[name].itemsize for name in DTYPE_BYTES} == DTYPE_BYTES
    assert set(DTYPE_BYTES) <= {*FLOATS, *INTEGERS}


def test_empty_and_zero_dimensional_tensors_come_back(descriptor: int) -> None:
    slab = Slab(descriptor)
    values = {
        "none": torch.empty(0),
        "no_rows": torch.empty(0, 7, dtype=torch.int64),
        "scalar": torch.tensor(2.5),
        "flag": torch.tensor(True),
        "after": torch.arange(4),
    }
    found = slab.read(slab.write(values), CPU)
    assert list(found) == list(values)
    assert all(torch.equal(found[name], value) for name, value in values.items())
    assert [tuple(found[name].shape) for name in ("none", "no_rows", "scalar")] == [(0,), (0, 7), ()]


def test_a_view_is_written_in_its_own_order(descriptor: int) -> None:
    slab = Slab(descriptor)
    value = torch.arange(24).reshape(4, 6)
    found = slab.read(slab.write({"turned": value.T, "every_second": value[:, ::2]}), CPU)
    assert torch.equal(found["turned"], value.T)
    assert torch.equal(found["every_second"], value[:, ::2])


def test_places_are_aligned_and_do_not_overlap(descriptor: int) -> None:
    values = {name: make_tensor("uint8", (size,)) for name, size in (("a", 1), ("b", ALIGNMENT), ("c", 257), ("d", 3))}
    slab = Slab(descriptor)
    places = slab.write(values)
    assert [place["offset"] for place in places] == [0, ALIGNMENT, 2 * ALIGNMENT, 4 * ALIGNMENT]
    assert all(torch.equal(value, values[name]) for name, value in slab.read(places, CPU).items())


def test_what_fills_the_slab_fits_and_one_byte_more_does_not(descriptor: int) -> None:
    slab = Slab(descriptor)
    assert slab.write({"x": torch.ones(SIZE, dtype=torch.uint8)})[0]["offset"] == 0
    with pytest.raises(ValueError, match=f"x does not fit: {SIZE + 1} of {SIZE} bytes"):
        slab.write({"x": torch.ones(SIZE + 1, dtype=torch.uint8)})


def test_the_second_of_two_that_do_not_fit_together_is_named(descriptor: int) -> None:
    half = torch.ones(SIZE // 2, dtype=torch.uint8)
    with pytest.raises(ValueError, match="second does not fit"):
        Slab(descriptor).write({"first": half, "second": torch.ones(SIZE // 2 + 1, dtype=torch.uint8)})


def test_two_mappings_of_one_descriptor_see_each_other(descriptor: int) -> None:
    other = os.dup(descriptor)
    left, right = Slab(descriptor), Slab(other)
    os.close(other)
    places = left.write({"x": torch.arange(10)})
    assert torch.equal(right.read(places, CPU)["x"], torch.arange(10))
    right.find(places[0]).neg_()
    assert torch.equal(left.read(places, CPU)["x"], -torch.arange(10))


def test_what_was_read_is_a_copy(descriptor: int) -> None:
    slab = Slab(descriptor)
    places = slab.write({"x": torch.zeros(4)})
    found = slab.read(places, CPU)["x"]
    slab.write({"x": torch.ones(4)})
    assert torch.equal(found, torch.zeros(4))


def test_a_place_beyond_the_end_is_not_read(descriptor: int) -> None:
    place = {"name": "x", "shape": [SIZE], "dtype": "uint8", "offset": 1}
    with pytest.raises(RuntimeError, match="shape"):
        Slab(descriptor).find(place)
