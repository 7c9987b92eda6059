"""The interpreter of Triton IR against PyTorch, on IR that the pinned Triton makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tests.verifier.lowering import lower, run
from verifier.device.faults import IllegalAccess, IRError, KernelFault, NotInterpretable
from verifier.interpreter.ir import parse_module
from verifier.interpreter.kernels import Kernel, OverBudget
from verifier.interpreter.memory import Memory


@triton.jit
def apply_unary(x, y, KIND: tl.constexpr, N: tl.constexpr):
    offsets = tl.arange(0, N)
    value = tl.load(x + offsets)
    if KIND == "exp":
        value = tl.exp(value)
    elif KIND == "log":
        value = tl.log(tl.abs(value))
    elif KIND == "sqrt":
        value = tl.sqrt(tl.abs(value))
    elif KIND == "rsqrt":
        value = tl.rsqrt(tl.abs(value))
    elif KIND == "sigmoid":
        value = tl.sigmoid(value)
    elif KIND == "erf":
        value = tl.erf(value)
    elif KIND == "floor":
        value = tl.floor(value)
    elif KIND == "tanh":
        value = libdevice.tanh(value)
    elif KIND == "softmax":
        value = tl.softmax(value)
    elif KIND == "cumsum":
        value = tl.cumsum(value, 0)
    elif KIND == "reverse cumsum":
        value = tl.cumsum(value, 0, reverse=True)
    elif KIND == "sort":
        value = tl.sort(value)
    elif KIND == "half":
        value = value.to(tl.float16).to(tl.float32)
    elif KIND == "bfloat16":
        narrow = value.to(tl.bfloat16)
        value = (narrow + narrow * narrow).to(tl.float32)
    elif KIND == "integer":
        value = (value * 10).to(tl.int32).to(tl.float32)
    elif KIND == "bits":
        value = (value.to(tl.int32, bitcast=True) & 0x7FFFFFFF).to(tl.float32, bitcast=True)
    elif KIND == "select":
        value = tl.where(value > 0, value, 2 * value)
    elif KIND == "clamp":
        value = tl.clamp(value, -0.5, 0.5)
    tl.store(y + offsets, value)


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp,
    "log": lambda x: torch.log(x.abs()),
    "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs()),
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
    "floor": torch.floor,
    "tanh": torch.tanh,
    "softmax": lambda x: torch.softmax(x, 0),
    "cumsum": lambda x: torch.cumsum(x, 0),
    "reverse cumsum": lambda x: torch.cumsum(x.flip(0), 0).flip(0),
    "sort": lambda x: torch.sort(x).values,
    "half": lambda x: x.half().float(),
    "bfloat16": lambda x: (x.bfloat16() + x.bfloat16() * x.bfloat16()).float(),
    "integer": lambda x: (x * 10).int().float(),
    "bits": torch.abs,
    "select": lambda x: torch.where(x > 0, x, 2 * x),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
}


@pytest.mark.parametrize("kind", UNARY)
def test_elementwise_operations_agree(kind: str) -> None:
    x, y = torch.randn(64), torch.empty(64)
    run(apply_unary, {"x": x, "y": y}, {"KIND": kind, "N": 64})
    torch.testing.assert_close(y, UNARY[kind](x), rtol=2e-6, atol=1e-6)


@triton.jit
def reduce_rows(x, best, where, total, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    value = tl.load(x + rows[:, None] * COLUMNS + columns[None, :])
    maximum, index = tl.max(value, 1, return_indices=True)
    tl.store(best + rows, maximum)
    tl.store(where + rows, index)
    tl.store(total + columns, tl.sum(value, 0))


def test_reductions_agree() -> None:
    x = torch.randn(16, 32)
    x[3, 5] = x[3, 9] = 9.0
    best, where, total = torch.empty(16), torch.empty(16, dtype=torch.int32), torch.empty(32)
    run(reduce_rows, {"x": x, "best": best, "where": where, "total": total}, {"ROWS": 16, "COLUMNS": 32})
    assert torch.equal(best, x.amax(1))
    assert torch.equal(where.long(), x.argmax(1))
    assert where[3] == 5
    torch.testing.assert_close(total, x.sum(0))


@triton.jit
def multiply(x, y, z, PRECISION: tl.constexpr, N: tl.constexpr):
    index = tl.arange(0, N)
    left = tl.load(x + index[:, None] * N + index[None, :])
    right = tl.load(y + index[:, None] * N + index[None, :])
    tl.store(z + index[:, None] * N + index[None, :], tl.dot(left, right, input_precision=PRECISION))


@pytest.mark.parametrize(("precision", "low", "high"), [("ieee", 0.0, 3e-6), ("tf32", 1e-4, 1e-2)])
def test_products_have_the_error_of_their_precision(precision: str, low: float, high: float) -> None:
    x, y, z = torch.randn(32, 32), torch.randn(32, 32), torch.empty(32, 32)
    run(multiply, {"x": x, "y": y, "z": z}, {"PRECISION": precision, "N": 32})
    exact = x.double() @ y.double()
    error = float((z - exact).norm() / exact.norm())
    assert low <= error <= high


@triton.jit
def count_up(x, n, LIMIT: tl.constexpr):
    total = 0
    step = 0
    while (step < n) & (total < LIMIT):
        step += 1
        if step % 3 == 0:
            total += step
    for index in range(0, n, 2):
        total += index
    tl.store(x, total)


def test_control_flow_agrees() -> None:
    x = torch.zeros(1, dtype=torch.int32)
    run(count_up, {"x": x, "n": 20}, {"LIMIT": 30})
    total = step = 0
    while step < 20 and total < 30:
        step += 1
        total += step if step % 3 == 0 else 0
    assert int(x) == total + sum(range(0, 20, 2))


@triton.jit
def leave_early(x, n):
    if tl.program_id(0) >= n:
        return
    tl.store(x + tl.program_id(0), tl.num_programs(0))


def test_an_early_return_ends_its_program_only() -> None:
    x = torch.zeros(6, dtype=torch.int32)
    run(leave_early, {"x": x, "n": 4}, {}, (6, 1, 1))
    assert x.tolist() == [6, 6, 6, 6, 0, 0]


@triton.jit
def update(counts, best, old, x, N: tl.constexpr):
    index = tl.arange(0, N)
    tl.atomic_add(counts + index % 4, 1.0)
    tl.atomic_max(best + index % 2, tl.load(x + index))
    tl.store(old + tl.program_id(0), tl.atomic_cas(old + 3, 0, 7))


def test_atomics_count_every_element() -> None:
    counts, best = torch.zeros(4), torch.full((2,), -99, dtype=torch.int32)
    old, x = torch.zeros(4, dtype=torch.int32), torch.randint(-50, 50, (32,), dtype=torch.int32)
    run(update, {"counts": counts, "best": best, "old": old, "x": x}, {"N": 32}, (2, 1, 1))
    assert counts.tolist() == [16.0] * 4
    assert best.tolist() == [int(x[0::2].max()), int(x[1::2].max())]
    assert old.tolist() == [0, 7, 0, 7]


@triton.jit
def double_it(value):
    return value * 2


@triton.jit(noinline=True)
def add_one(value):
    return value + 1


@triton.jit
def call_helpers(x, y, N: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(y + index, double_it(tl.load(x + index)) + add_one(tl.num_programs(0)))


def test_helper_functions_run_inlined_or_called() -> None:
    x, y = torch.randn(16), torch.empty(16)
    run(call_helpers, {"x": x, "y": y}, {"N": 16})
    torch.testing.assert_close(y, 2 * x + 2)


@triton.jit
def copy_block(x, y, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    source = tl.make_block_ptr(x, (rows, columns), (columns, 1), (0, 0), (ROWS, COLUMNS), (1, 0))
    target = tl.make_block_ptr(y, (rows, columns), (columns, 1), (0, 0), (ROWS, COLUMNS), (1, 0))
    value = tl.load(source, boundary_check=(0, 1), padding_option="zero")
    tl.store(target, tl.trans(tl.trans(value)), boundary_check=(0, 1))


def test_block_pointers_keep_their_bounds() -> None:
    x, y = torch.randn(13, 27), torch.zeros(13, 27)
    run(copy_block, {"x": x, "y": y, "rows": 13, "columns": 27}, {"ROWS": 16, "COLUMNS": 32})
    assert torch.equal(x, y)


@triton.jit
def drop_nan(x, y, N: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(y + index, tl.maximum(tl.load(x + index), 0.0))


def test_maximum_drops_nan_as_the_hardware_does() -> None:
    x, y = torch.tensor([1.0, float("nan"), -2.0, float("nan")]), torch.empty(4)
    run(drop_nan, {"x": x, "y": y}, {"N": 4})
    assert y.tolist() == [1.0, 0.0, 0.0, 0.0]


@triton.jit
def divide(x, y, quotient, remainder, N: tl.constexpr):
    index = tl.arange(0, N)
    left, right = tl.load(x + index), tl.load(y + index)
    tl.store(quotient + index, left // right)
    tl.store(remainder + index, left % right)


def test_integer_division_rounds_towards_zero() -> None:
    x = torch.tensor([7, -7, 7, -7], dtype=torch.int32)
    y = torch.tensor([2, 2, -2, -2], dtype=torch.int32)
    quotient, remainder = torch.empty_like(x), torch.empty_like(x)
    run(divide, {"x": x, "y": y, "quotient": quotient, "remainder": remainder}, {"N": 4})
    assert quotient.tolist() == [3, -3, -3, 3]
    assert remainder.tolist() == [1, -1, 1, -1]


@triton.jit
def draw(x, seed, N: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(x + index, tl.rand(seed, index))


def test_random_numbers_are_uniform() -> None:
    x = torch.empty(1024)
    run(draw, {"x": x, "seed": 5}, {"N": 1024})
    assert 0.0 <= float(x.min()) < 0.02
    assert 0.98 < float(x.max()) < 1.0
    assert len(x.unique()) > 1000


@triton.jit
def write_beyond(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N) + 8, 1.0)


@triton.jit
def spin(x):
    while tl.load(x) == 0:
        tl.store(x + 1, 1)


def test_an_access_outside_every_allocation_is_refused() -> None:
    with pytest.raises(IllegalAccess):
        run(write_beyond, {"x": torch.zeros(16)}, {"N": 16})


def test_an_endless_kernel_is_stopped() -> None:
    with pytest.raises(OverBudget):
        run(spin, {"x": torch.zeros(2, dtype=torch.int32)}, {})


@triton.jit
def use_assembly(x, N: tl.constexpr):
    index = tl.arange(0, N)
    value = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [tl.load(x + index)], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(x + index, value)


def test_what_has_no_model_is_named() -> None:
    with pytest.raises(NotInterpretable, match="inline_asm"):
        run(use_assembly, {"x": torch.zeros(16)}, {"N": 16})


@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + index, tl.load(x + index, mask=index < n) + 1.0, mask=index < n)


def test_what_a_launch_touches_is_counted() -> None:
    x, y = torch.randn(100), torch.zeros(100)
    touched = run(add, {"x": x, "y": y, "n": 100}, {"BLOCK": 32}, (4, 1, 1))
    assert torch.equal(y, x + 1)
    assert touched.reads == {x.untyped_storage().data_ptr()}
    assert set(touched.writes) == {y.untyped_storage().data_ptr()}
    written = [index for _, indices in touched.writes[y.data_ptr()] for index in indices]
    assert sorted(written) == list(range(100))
    assert touched.operations >= 300


@pytest.mark.parametrize(
    "text", ["", "module {", "module {\n  nonsense\n}", "module {\n tt.func public @k(%a: i32) {\n"]
)
def test_broken_text_is_refused(text: str) -> None:
    with pytest.raises(IRError):
        parse_module(text)


def test_a_kernel_wants_all_its_arguments() -> None:
    text = lower(add, {"x": torch.zeros(4), "y": torch.zeros(4), "n": 4}, {"BLOCK": 4})
    with pytest.raises(KernelFault, match="3 arguments"):
        Kernel(text, Memory(1024)).run((1, 1, 1), [1, 2], 100)


@pytest.mark.parametrize("value", ["seven", None, [1], {"tensor": 1}, 10**400])
def test_an_argument_must_be_a_number(value: Any) -> None:
    text = lower(add, {"x": torch.zeros(4), "y": torch.zeros(4), "n": 4}, {"BLOCK": 4})
    with pytest.raises(KernelFault, match=r"cannot be passed|does not fit"):
        Kernel(text, Memory(1024)).run((1, 1, 1), [0, 0, value], 100)


@triton.jit
def halve_by_bits(x, y, N: tl.constexpr):
    place = tl.arange(0, N)
    bits = libdevice.float_as_int(tl.load(x + place))
    halved = libdevice.int_as_float(bits - (1 << 23))
    tl.store(y + place, libdevice.add_rd(halved, libdevice.int2float_rn(libdevice.clz(bits))))


def test_a_kernel_reads_the_bits_of_floats_and_names_its_rounding() -> None:
    x, y = torch.rand(64) + 1.0, torch.empty(64)
    run(halve_by_bits, {"x": x, "y": y}, {"N": 64})
    # Of a float between 1 and 2 the sign and the exponent's highest bit are clear.
    exact = x.double() / 2 + 2
    assert bool((y.double() <= exact).all())
    assert bool((exact - y.double() < 2.0**-22).all())
