"""What library operators are counted as: products by formula, single passes by what they touch, the unknown as products."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from verifier.device import costs
from verifier.reference import OperationCounter


def count(work: Callable[[], object]) -> int:
    with torch.no_grad(), OperationCounter() as counter:
        work()
    return counter.operations.total()


N, K, M = 8, 16, 4
A, B, V = torch.randn(N, K), torch.randn(K, M), torch.randn(K)
PLACES = torch.tensor([0, 2, 5, 7])
PRODUCT = N * K + K * M + N * M + 2 * N * K * M


@pytest.mark.parametrize(
    "work",
    [
        lambda: torch.empty(N, K),
        lambda: torch.zeros(N, K),
        lambda: A.t().reshape(-1, 1)[2:].view(-1),
        lambda: A.expand(3, N, K),
        lambda: torch.arange(100),
    ],
)
def test_allocations_fills_and_views_are_free(work: Callable[[], object]) -> None:
    # Reshaping a transposed matrix copies it.
    assert count(work) <= N * K


@pytest.mark.parametrize(
    ("work", "operations"),
    [
        (A.clone, N * K),
        (lambda: A + 1, 2 * N * K),
        (lambda: A * A, 3 * N * K),
        (lambda: torch.relu(A), 2 * N * K),
        (A.sum, N * K + 1),
        (lambda: A.amax(dim=0), N * K + K),
        (lambda: A @ B, PRODUCT),
        (lambda: torch.mm(A, B), PRODUCT),
        (lambda: torch.einsum("nk,km->nm", A, B), PRODUCT),
        (lambda: A @ V, N * K + K + N + 2 * N * K),
        (lambda: torch.dot(V, V), 2 * K + 1 + 2 * K),
        (lambda: torch.index_select(A, 0, torch.tensor([0, 1])), N * K + 2 + 2 * K),
        (lambda: torch.sort(V), K + 2 * K + K * 4),
        (lambda: torch.ops.aten._embedding_bag(A, PLACES, PLACES[:2]), N * K + 4 + 2 + 2 * K + 2 + 2),
    ],
)
def test_known_operators_cost_what_they_do(work: Callable[[], object], operations: int) -> None:
    assert count(work) == operations


@pytest.mark.parametrize(
    "work",
    [
        lambda: torch.cdist(A, A),
        lambda: torch.nn.functional.conv1d(A[None], torch.randn(M, N, 3)),
        lambda: torch.baddbmm(torch.zeros(1, N, M), A[None], B[None]),
        lambda: torch.addmv(torch.zeros(N), A, V),
        lambda: torch.nn.functional.scaled_dot_product_attention(A[None], A[None], A[None]),
        lambda: torch.linalg.solve(torch.eye(N), A),
        lambda: torch.fft.fft(A),
        lambda: torch.bilinear(A, A, torch.randn(M, K, K), None),
        lambda: torch.mm(A, B, out=torch.empty(N, M)),
        lambda: A.to(torch.complex64) @ B.to(torch.complex64),
        lambda: torch._foreach_mul([A, A], 2.0) and A @ B,
    ],
)
def test_contractions_and_the_unknown_cost_more_than_a_pass(work: Callable[[], object]) -> None:
    assert count(work) >= 3 * N * K


def test_a_complex_product_costs_four_real_ones() -> None:
    a, b = A.to(torch.complex64), B.to(torch.complex64)
    assert count(lambda: a @ b) == 2 * (N * K + K * M + N * M) + 4 * 2 * N * K * M


def test_arguments_where_no_formula_looks_for_them_cost_a_product() -> None:
    function = torch.ops.aten.mm.default
    result = A @ B
    assert costs.count_operations(function, (), {"self": A, "mat2": B}, result) >= PRODUCT


@pytest.mark.parametrize("name", ["relu_", "add_", "mul_"])
def test_an_operator_in_place_costs_what_the_other_form_does(name: str) -> None:
    value = torch.randn(N, K)
    arguments = () if name == "relu_" else (1.0,)
    assert count(lambda: getattr(value, name)(*arguments)) == 2 * N * K
