from __future__ import annotations

import pytest
import torch

from verifier.gpu import noise
from verifier.gpu.noise import FLOATS, INTEGERS, LONGEST_TABLE, Storage, find_targets, replace_changes
from verifier.gpu.signature import Parameter

FLOAT_DTYPES = list(FLOATS.values())
INTEGER_DTYPES = list(INTEGERS.values())
COUNT = 200


def make_generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_before(dtype: torch.dtype) -> torch.Tensor:
    """Return what memory held before a launch."""
    return torch.arange(COUNT).remainder(50).to(dtype)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_only_what_a_launch_changed_becomes_noise(dtype: torch.dtype) -> None:
    before = make_before(dtype)
    written = torch.arange(COUNT).remainder(3) == 0
    after = torch.where(written, before + 64, before)
    target = after.clone()
    replace_changes(target, before, make_generator())
    assert torch.equal(target[~written], before[~written])
    assert torch.isfinite(target).all()
    assert (target[written] != after[written]).float().mean() > 0.9
    assert target[written].unique().numel() > COUNT / 10


@pytest.mark.parametrize("dtype", INTEGER_DTYPES)
def test_written_integers_are_shuffled_among_their_places(dtype: torch.dtype) -> None:
    before = make_before(dtype)
    written = torch.arange(COUNT) >= COUNT // 2
    after = before.clone()
    after[written] = torch.arange(60, 60 + COUNT // 2).remainder(120).to(dtype)
    # The last place changes too, so that all of the second half was written.
    assert bool((after[written] != before[written]).all())
    target = after.clone()
    replace_changes(target, before, make_generator())
    assert torch.equal(target[~written], before[~written])
    assert not torch.equal(target, after)
    assert torch.equal(target[written].sort().values, after[written].sort().values)


@pytest.mark.parametrize("dtype", [*FLOAT_DTYPES, *INTEGER_DTYPES])
def test_memory_that_nothing_changed_stays_as_it_is(dtype: torch.dtype) -> None:
    before = make_before(dtype)
    target = before.clone()
    replace_changes(target, before, make_generator())
    assert torch.equal(target, before)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_infinities_and_nan_become_finite(dtype: torch.dtype) -> None:
    before = make_before(dtype)
    target = before.clone()
    target[:3] = torch.tensor([float("inf"), float("-inf"), float("nan")])
    replace_changes(target, before, make_generator())
    assert torch.isfinite(target).all()
    assert torch.equal(target[3:], before[3:])


def test_a_nan_that_stands_there_is_no_change() -> None:
    before = torch.tensor([float("nan"), 1.0])
    target = before.clone()
    replace_changes(target, before, make_generator())
    assert torch.isnan(target[0])


def test_a_zero_that_changed_its_sign_counts_as_written() -> None:
    before, target = torch.zeros(2), torch.tensor([0.0, -0.0])
    replace_changes(target, before, make_generator())
    assert target[0] == 0.0
    assert target[1] != 0.0


def test_noise_on_the_largest_fp16_values_stays_in_range() -> None:
    before = torch.zeros(COUNT, dtype=torch.float16)
    target = torch.tensor([65504.0, -65504.0], dtype=torch.float16).repeat(COUNT // 2)
    replace_changes(target, before, make_generator())
    assert torch.isfinite(target).all()
    assert target.abs().max() <= 60_000


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_noise_is_about_as_large_as_what_was_written(dtype: torch.dtype) -> None:
    generator = make_generator()
    before, target = torch.zeros(2000, dtype=dtype), (1e3 * torch.randn(2000, generator=generator)).to(dtype)
    replace_changes(target, before, generator)
    assert float(target.float().std()) == pytest.approx(1e3, rel=0.1)


def test_infinities_do_not_hide_how_large_the_rest_was() -> None:
    generator = make_generator()
    before, target = torch.zeros(2000), 1e3 * torch.randn(2000, generator=generator)
    target[:10] = float("inf")
    replace_changes(target, before, generator)
    assert float(target.std()) == pytest.approx(1e3, rel=0.1)


def test_noise_is_made_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "SLICE", 7)
    before, target = torch.zeros(COUNT), torch.arange(COUNT).float()
    replace_changes(target, before, make_generator())
    assert target[0] == 0.0
    assert (target[1:] != torch.arange(1, COUNT)).float().mean() > 0.9
    assert float(target[-7:].mean()) < 20


def test_other_seeds_give_other_noise() -> None:
    before = torch.zeros(COUNT)
    first, again, other = (torch.ones(COUNT) for _ in range(3))
    for target, seed in ((first, 1), (again, 1), (other, 2)):
        replace_changes(target, before, make_generator(seed))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


class Storages:
    """The memory of a device: storages of bytes, found by any address in them."""

    def __init__(self, *sizes: int) -> None:
        self.all = [torch.zeros(size, dtype=torch.uint8) for size in sizes]

    def find(self, address: int) -> Storage | None:
        inside = (item for item in self.all if 0 <= address - item.data_ptr() < item.numel())
        return next((Storage(item, torch.float16) for item in inside), None)


def test_targets_are_found_through_pointers_and_descriptors() -> None:
    storages = Storages(64, 48, 32)
    first, second, _ = (item.data_ptr() for item in storages.all)
    parameters = [
        Parameter("pointer", pointee="f16"),
        Parameter("i32"),
        Parameter("descriptor", pointee="f32", block=(1, 8)),
    ]
    found = find_targets(parameters, [first + 16, 3, {"base": second, "shape": [3, 4]}], storages.find)
    assert [(item.data_ptr(), item.dtype, item.numel()) for item in found] == [
        (first, torch.float16, 32),
        (second, torch.float32, 12),
    ]
    found[1].fill_(1.0)
    assert storages.all[1].any()


def test_targets_are_found_through_tables_of_pointers() -> None:
    storages = Storages(32, 64, 48)
    table, first, second = (item.data_ptr() for item in storages.all)
    storages.all[0].view(torch.int64)[:] = torch.tensor([first + 8, 12345, 0, second])
    found = find_targets([Parameter("pointer", pointee="i64")], [table], storages.find)
    kinds = {item.data_ptr(): (item.dtype, item.numel()) for item in found}
    assert kinds == {table: (torch.int64, 4), first: (torch.float16, 32), second: (torch.float16, 24)}


def test_long_columns_of_integers_are_no_tables() -> None:
    storages = Storages(8 * LONGEST_TABLE + 8, 64)
    start, other = (item.data_ptr() for item in storages.all)
    storages.all[0].view(torch.int64)[:] = other
    assert len(find_targets([Parameter("pointer", pointee="i64")], [start], storages.find)) == 1


def test_a_storage_that_two_pointers_reach_is_one_target() -> None:
    storages = Storages(64)
    start = storages.all[0].data_ptr()
    pointers = [Parameter("pointer", pointee="f32"), Parameter("pointer", pointee="i32")]
    assert [item.dtype for item in find_targets(pointers, [start, start + 32], storages.find)] == [torch.float32]


def test_null_and_foreign_addresses_reach_nothing() -> None:
    pointer = Parameter("pointer", pointee="f32")
    assert find_targets([pointer, pointer], [0, 12345], Storages(64).find) == []


def test_what_is_left_of_a_storage_whose_size_is_odd_stays_untouched() -> None:
    storages = Storages(63)
    found = find_targets([Parameter("pointer", pointee="f64")], [storages.all[0].data_ptr()], storages.find)
    assert [(item.dtype, item.numel()) for item in found] == [(torch.float64, 7)]


def test_memory_of_an_unknown_type_is_taken_as_bytes() -> None:
    storages = Storages(16)
    found = find_targets([Parameter("pointer", pointee="f8E4M3FN")], [storages.all[0].data_ptr()], storages.find)
    assert [(item.dtype, item.numel()) for item in found] == [(torch.uint8, 16)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_noise_on_the_largest_values_is_finite(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    target = torch.tensor([largest, -largest] * 50, dtype=dtype)
    replace_changes(target, torch.zeros_like(target), make_generator())
    assert bool(torch.isfinite(target).all())
