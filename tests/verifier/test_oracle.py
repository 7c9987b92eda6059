from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import verifier.oracle
from verifier.oracle import compare, compare_all, fingerprint, has_same_bits
from verifier.task import Tolerance

ALLCLOSE = Tolerance(rule="allclose", rtol=1e-3, atol=1e-4, why="a test of the rule")
BY_ROW = Tolerance(rule="allclose", atol=1e-4, rms=1e-3, why="a test of the rule")
EXACT = Tolerance(rule="exact", why="a test of the rule")


def test_every_element_counts() -> None:
    oracle = torch.ones(1000, dtype=torch.float64)
    output = oracle.float()
    assert compare(output, oracle, ALLCLOSE).passed
    output[777] = 1.01
    result = compare(output, oracle, ALLCLOSE)
    assert (result.wrong, result.worst_index, result.passed) == (1, (777,), False)
    assert result.budget_ratio == pytest.approx(0.01 / 1.1e-3, rel=1e-4)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nonfinite_values_are_never_within_budget(bad: float) -> None:
    oracle = torch.zeros(4, dtype=torch.float64)
    output = torch.tensor([0.0, bad, 0.0, 0.0])
    result = compare(output, oracle, ALLCLOSE)
    assert (result.wrong, result.nonfinite_mismatches) == (1, 1)


def test_nonfinite_values_pass_where_the_oracle_has_them() -> None:
    oracle = torch.tensor([math.nan, math.inf, -math.inf, 1.0], dtype=torch.float64)
    assert compare(oracle.float(), oracle, ALLCLOSE).passed
    assert not compare(torch.tensor([math.nan, -math.inf, -math.inf, 1.0]), oracle, ALLCLOSE).passed


def test_exact_means_equal_values() -> None:
    oracle = torch.tensor([0.0, 1.5, math.inf])
    assert compare(torch.tensor([-0.0, 1.5, math.inf]), oracle, EXACT).passed
    assert compare(torch.tensor([0.0, 1.5000001, math.inf]), oracle, EXACT).wrong == 1


def test_integers_are_exact_whatever_the_rule() -> None:
    loose = Tolerance(rule="allclose", atol=10.0, why="a test of the rule")
    oracle = torch.tensor([0, 7, 1 << 40])
    assert compare(oracle.clone(), oracle, loose).passed
    assert compare(torch.tensor([0, 8, 1 << 40]), oracle, loose).worst_index == (1,)
    assert not compare(torch.tensor([True, False]), torch.tensor([True, True]), loose).passed


def test_the_budget_of_a_row_grows_with_its_root_mean_square() -> None:
    rule = Tolerance(rule="allclose", atol=1e-6, rms=0.01, why="a test of the rule")
    oracle = torch.tensor([[0.0, 3.0, 4.0, 0.0], [0.0, 30.0, 40.0, 0.0]], dtype=torch.float64)
    # The root mean squares are 2.5 and 25.
    assert compare(oracle + torch.tensor([[0.024], [0.24]]), oracle, rule).passed
    assert compare(oracle + torch.tensor([[0.026], [0.24]]), oracle, rule).wrong == 4
    assert compare(oracle + torch.tensor([[0.024], [0.26]]), oracle, rule).wrong == 4
    oracle[0, 0] = math.inf
    # Of the finite values that are left the first row's is still 2.5.
    assert compare(oracle.float(), oracle, rule).passed
    assert compare(oracle + torch.tensor([[0.026], [0.0]]), oracle, rule).wrong == 3


@pytest.mark.parametrize("shape", [(4,), (3, 2), (1, 2, 3), ()])
def test_another_shape_is_no_answer(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="cannot be compared with"):
        compare(torch.zeros(shape), torch.zeros(2, 3), ALLCLOSE)


def test_several_outputs_share_one_verdict() -> None:
    oracle = (torch.zeros(2, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    result = compare_all([torch.zeros(2), torch.tensor([0.0, 0.0, 1.0])], oracle, ALLCLOSE)
    assert (result.elements, result.wrong, result.worst_index) == (5, 1, (2,))


@pytest.mark.parametrize("output", [0.0, 1.0])
def test_zeros_and_means_are_no_answers_to_small_values(output: float) -> None:
    oracle = torch.rand(100, dtype=torch.float64) / 100
    assert not compare(
        torch.full((100,), output), oracle, Tolerance(rule="allclose", rtol=1e-4, atol=2e-6, why="as in sparsemax")
    ).passed


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare and print in pieces of 7 elements."""
    monkeypatch.setattr(verifier.oracle, "CHUNK", 7)


def make_pair() -> tuple[torch.Tensor, torch.Tensor]:
    """Return an output of 5 x 6 with errors in three places, and its oracle."""
    oracle = torch.linspace(-2, 2, 30, dtype=torch.float64).reshape(5, 6)
    output = oracle.float()
    output[0, 1] += 0.01
    output[3, 4] += 0.5
    output[4, 5] = math.nan
    return output, oracle


@pytest.mark.parametrize("tolerance", [ALLCLOSE, EXACT, BY_ROW], ids=["allclose", "exact", "by row"])
@pytest.mark.parametrize("size", [1, 7, 29, 30, 31])
def test_pieces_give_the_comparison_of_the_whole(
    tolerance: Tolerance, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, oracle = make_pair()
    whole = compare(output, oracle, tolerance)
    monkeypatch.setattr(verifier.oracle, "CHUNK", size)
    assert compare(output, oracle, tolerance) == whole


def test_the_worst_place_is_one_of_the_whole_tensor(small_chunks: None) -> None:
    output, oracle = make_pair()
    assert compare(output, oracle, ALLCLOSE).worst_index == (4, 5)
    output[4, 5] = oracle[4, 5]
    result = compare(output, oracle, ALLCLOSE)
    assert (result.worst_index, result.wrong, result.elements) == ((3, 4), 2, 30)
    assert result.largest_error == pytest.approx(0.5, rel=1e-6)


def test_nothing_to_compare_is_right() -> None:
    result = compare(torch.empty(0, 3), torch.empty(0, 3, dtype=torch.float64), ALLCLOSE)
    assert (result.elements, result.passed, result.worst_index) == (0, True, ())


def test_same_bits_are_more_than_same_values() -> None:
    assert has_same_bits([torch.tensor([math.nan, 1.0])], [torch.tensor([math.nan, 1.0])])
    assert not has_same_bits([torch.tensor([0.0])], [torch.tensor([-0.0])])
    assert not has_same_bits([torch.zeros(2)], [torch.zeros(2, dtype=torch.int32)])
    assert not has_same_bits([torch.zeros(2)], [torch.zeros(1, 2)])
    assert not has_same_bits([torch.zeros(2)], [])


payloads = st.binary(min_size=1, max_size=200)


def from_payload(payload: bytes) -> torch.Tensor:
    """Return the bytes as a tensor of its own memory."""
    return torch.tensor(list(payload), dtype=torch.uint8)


@given(payloads)
def test_equal_bytes_have_one_print(payload: bytes) -> None:
    assert fingerprint([from_payload(payload)]) == fingerprint([from_payload(payload)])


@given(payloads, st.data())
def test_one_flipped_bit_changes_the_print(payload: bytes, data: st.DataObject) -> None:
    place, bit = data.draw(st.integers(0, len(payload) - 1)), data.draw(st.integers(0, 7))
    other = from_payload(payload)
    other[place] ^= 1 << bit
    assert fingerprint([other]) != fingerprint([from_payload(payload)])


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=50), st.data())
def test_swapped_elements_change_the_print(values: list[int], data: st.DataObject) -> None:
    tensor = torch.tensor(values, dtype=torch.int32)
    left, right = (data.draw(st.integers(0, len(values) - 1)) for _ in range(2))
    assume(values[left] != values[right])
    swapped = tensor.clone()
    swapped[left], swapped[right] = tensor[right], tensor[left]
    assert fingerprint([swapped]) != fingerprint([tensor])


@given(payloads, st.integers(1, 5))
def test_another_size_changes_the_print(payload: bytes, more: int) -> None:
    assert fingerprint([from_payload(payload)]) != fingerprint([from_payload(payload + bytes(more))])


def test_another_dtype_of_the_same_bytes_changes_the_print() -> None:
    words = torch.arange(12, dtype=torch.int32)
    assert fingerprint([words]) != fingerprint([words.view(torch.int16)])
    assert fingerprint([words]) != fingerprint([words.view(torch.int64)])


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=15, max_size=40))
def test_swapped_pieces_change_the_print(values: list[int]) -> None:
    tensor = torch.tensor(values, dtype=torch.int32)
    assume(values[:7] != values[7:14])
    swapped = torch.cat([tensor[7:14], tensor[:7], tensor[14:]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifier.oracle, "CHUNK", 7)
        assert fingerprint([swapped]) != fingerprint([tensor])


def test_the_order_and_the_borders_of_tensors_change_the_print() -> None:
    left, right = torch.arange(4), torch.arange(4, 8)
    assert fingerprint([left, right]) != fingerprint([right, left])
    assert fingerprint([left, right]) != fingerprint([torch.cat([left, right])])


def test_a_print_follows_values_and_not_strides() -> None:
    tensor = torch.arange(35.0).reshape(5, 7)
    assert fingerprint([tensor.T]) == fingerprint([tensor.T.contiguous()])
    assert fingerprint([tensor.T]) != fingerprint([tensor])


def test_a_print_depends_on_the_secret_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = fingerprint([torch.arange(9)])
    monkeypatch.setattr(verifier.oracle, "_SALT", verifier.oracle._SALT ^ 2)
    assert fingerprint([torch.arange(9)]) != printed
