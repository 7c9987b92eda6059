"""Which words count as the submission's own: not the judge's, and neither truth values nor places."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from verifier.device.words import LARGEST_PLACE, Words, holds_places


@dataclass
class Parameter:
    pointee: str


class Memory:
    """Tensors by handle at their real addresses, some of them filled by the judge."""

    def __init__(self) -> None:
        self.tensors: dict[int, tuple[torch.Tensor, int]] = {}
        self.filled: set[int] = set()
        self.words = Words(self.tensors, self.filled)

    def add(self, tensor: torch.Tensor, *, filled: bool = False) -> int:
        """Keep a tensor and return its address."""
        handle = len(self.tensors)
        self.tensors[handle] = tensor, tensor.untyped_storage().data_ptr()
        self.filled |= {handle} if filled else set()
        return tensor.data_ptr()


@pytest.fixture
def memory() -> Memory:
    return Memory()


def test_what_the_judge_filled_is_not_own(memory: Memory) -> None:
    given = memory.add(torch.full((64,), 12345678, dtype=torch.int32), filled=True)
    own = memory.add(torch.full((64,), 1 << 30, dtype=torch.int32))
    memory.words.begin()
    memory.words.note(
        "k", [Parameter("i32"), Parameter(""), Parameter("i32"), Parameter("i32")], [given + 8, 3, own + 16, own]
    )
    memory.words.settle()
    assert memory.words.own["k"] == {2, 3}


def test_a_parameter_that_reached_both_is_own(memory: Memory) -> None:
    given = memory.add(torch.zeros(64, dtype=torch.int16), filled=True)
    own = memory.add(torch.full((64,), 300, dtype=torch.int16))
    for address in (given, own, given):
        memory.words.begin()
        memory.words.note("k", [Parameter("i16")], [address])
    memory.words.settle()
    assert memory.words.own["k"] == {0}


def test_floats_of_the_submission_are_words_whatever_they_hold(memory: Memory) -> None:
    own, given = memory.add(torch.zeros(8)), memory.add(torch.zeros(8), filled=True)
    memory.words.begin()
    memory.words.note("k", [Parameter("f32"), Parameter("f32"), Parameter("bf16")], [own, given, own])
    assert memory.words.own["k"] == {0, 2}


def test_what_is_written_later_in_a_call_counts(memory: Memory) -> None:
    content = torch.zeros(16, dtype=torch.int8)
    address = memory.add(content)
    memory.words.begin()
    memory.words.note("k", [Parameter("i8")], [address])
    content[3] = 77
    memory.words.begin()
    assert memory.words.own["k"] == {0}


def test_a_harmless_launch_hides_none_after_it(memory: Memory) -> None:
    harmless, packed = (
        memory.add(torch.zeros(8, dtype=torch.int16)),
        memory.add(torch.full((8,), 500, dtype=torch.int16)),
    )
    memory.words.begin()
    for address in (harmless, packed, harmless):
        memory.words.note("k", [Parameter("i16")], [address])
    memory.words.settle()
    assert memory.words.own["k"] == {0}


def test_an_address_that_the_judge_let_go_is_own_again(memory: Memory) -> None:
    address = memory.add(torch.full((8,), -5, dtype=torch.int32), filled=True)
    memory.words.begin()
    memory.filled.clear()
    memory.words.begin()
    memory.words.note("k", [Parameter("i32")], [address])
    memory.words.settle()
    assert memory.words.own["k"] == {0}


@pytest.mark.parametrize("value", [None, "text", {"shape": [1]}])
def test_what_is_no_address_is_left_to_the_launch(memory: Memory, value: object) -> None:
    memory.words.begin()
    memory.words.note("k", [Parameter("i32")], [value])
    memory.words.settle()
    assert memory.words.own["k"] == set()


def test_a_descriptor_has_its_address_in_its_base(memory: Memory) -> None:
    address = memory.add(torch.full((8,), 99, dtype=torch.int8))
    memory.words.begin()
    memory.words.note("k", [Parameter("si8")], [{"base": address, "shape": [8]}])
    memory.words.settle()
    assert memory.words.own["k"] == {0}


def test_words_outside_every_allocation_count(memory: Memory) -> None:
    memory.words.begin()
    memory.words.note("k", [Parameter("i16"), Parameter("i1")], [4096, 4096])
    assert memory.words.own["k"] == {0}


@pytest.mark.parametrize(
    ("dtype", "values", "places"),
    [
        (torch.int8, [0, 1, 1], True),
        (torch.int8, [0, 2], False),
        (torch.int8, [-1, 1], True),
        (torch.int8, [-2, 1], False),
        (torch.int16, [-1, 0], True),
        (torch.int16, [0, 1], True),
        (torch.int16, [0, 500], False),
        (torch.int32, [-1, 0, LARGEST_PLACE - 1], True),
        (torch.int32, [LARGEST_PLACE], False),
        (torch.int32, [-2], False),
        (torch.int64, [5, 4096], True),
        (torch.int64, [1 << 40], False),
        (torch.int64, [], True),
    ],
)
def test_truth_values_and_places(dtype: torch.dtype, values: list[int], places: object) -> None:
    content = torch.tensor(values, dtype=dtype)
    assert holds_places(content.view(torch.uint8), content.element_size() * 8) is places
