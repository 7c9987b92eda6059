"""Floats that are made of parts of integers, in IR that the pinned compiler makes."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tests.verifier.lowering import lower
from verifier.evidence.packing import count_left, find_parts, find_width

WORDS, SHORTS, BYTES, LONGS = (
    torch.zeros(64, dtype=dtype) for dtype in (torch.int32, torch.int16, torch.int8, torch.int64)
)
FLOATS = torch.zeros(64)


@triton.jit
def from_shorts(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, tl.load(p + place).to(tl.float32))


@triton.jit
def from_halves_of_words(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    pointer = p + place
    for _ in range(n):
        word = tl.load(pointer, mask=place < n, other=0)
        total += (word & -65536).to(tl.float32, bitcast=True) * (word << 16).to(tl.float32, bitcast=True)
        pointer += BLOCK
    tl.store(y + place, total)


@triton.jit
def from_three_bytes(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    word = tl.load(p + place).to(tl.int32) << 24
    word |= (tl.load(p + place + BLOCK).to(tl.int32) & 255) << 16
    word |= (tl.load(p + place + 2 * BLOCK).to(tl.int32) & 255) << 8
    tl.store(y + place, word.to(tl.float32, bitcast=True))


@triton.jit
def from_quotients(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    word = tl.load(p + place)
    tl.store(y + place, (word // 65536).to(tl.float32) + (word % 65536).to(tl.float32))


@triton.jit
def from_unknown_shifts(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, (tl.load(p + place) << n).to(tl.float32, bitcast=True))


@triton.jit
def beside_a_zero(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, (tl.load(p + place).to(tl.int32) + zero).to(tl.float32))


@triton.jit(noinline=True)
def widen(value):
    return value.to(tl.float32)


@triton.jit
def by_a_function(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.program_id(0)
    tl.store(y + place, widen(tl.load(p + place)))


@triton.jit
def while_it_lasts(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    word = tl.load(p + place)
    step = 0
    while step < n:
        word = word >> 8
        step += 1
    tl.store(y + place, word.to(tl.float32))


@triton.jit
def where_it_is_needed(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    word = tl.load(p + place)
    if n > 3:  # noqa: SIM108
        part = word >> 16
    else:
        part = word >> 20
    tl.store(y + place, part.to(tl.float32))


@triton.jit
def from_a_block(p, y, n, zero, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(p, (n,), (1,), (0,), (BLOCK,), (0,))
    tl.store(y + tl.arange(0, BLOCK), tl.load(block, boundary_check=(0,)).to(tl.float32))


@triton.jit
def beside_other_loops(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(n):
        flag = tl.load(p + place + step)
        total += tl.where(flag > 0, 1.0, 0.5)
    for step in range(n):
        position = place * step
        total += position.to(tl.float32)
    tl.store(y + place, total)


@triton.jit
def from_whole_words(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, tl.load(p + place).to(tl.float32, bitcast=True))


@triton.jit
def in_order_of_size(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    key = tl.load(p + place)
    tl.store(y + place, (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True))


@triton.jit
def beside_an_index(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    both = tl.load(p + place)
    tl.store(y + place, (both >> 32).to(tl.int32).to(tl.float32, bitcast=True), mask=(both & 0xFFFF) < n)


@triton.jit
def by_flags(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    word = tl.load(p + place // 32)
    tl.store(y + place, ((word >> (place % 32)) & 1).to(tl.float32))


@triton.jit
def by_comparison(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, tl.where(tl.load(p + place) > 0, 1.0, 0.5))


@triton.jit
def at_indices(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.load(p + tl.arange(0, BLOCK)).to(tl.int64)
    tl.store(y + place, tl.load(y + place) + tl.program_id(0).to(tl.float32))


def find(kernel: object, memory: torch.Tensor, own: tuple[int, ...] = (0, 1), width: int = 32) -> list[int]:
    """Return the parts that are found, the same whether or not functions are still called in the text."""
    texts = [
        lower(kernel, {"p": memory, "y": FLOATS, "n": 4, "zero": 0}, {"BLOCK": 64}, inline=inline)
        for inline in (True, False)
    ]
    found, in_calls = (find_parts(text, own, width) for text in texts)
    assert found == in_calls
    return found


@pytest.mark.parametrize(
    ("kernel", "memory", "parts"),
    [
        (from_shorts, SHORTS, [16]),
        (from_shorts, BYTES, [8]),
        (from_halves_of_words, WORDS, [16, 16]),
        (from_three_bytes, BYTES, [8]),
        (from_quotients, WORDS, [16, 16]),
        (from_unknown_shifts, WORDS, [16]),
        (beside_a_zero, SHORTS, [16]),
        (by_a_function, SHORTS, [16]),
        (while_it_lasts, WORDS, [24]),
        (where_it_is_needed, WORDS, [12]),
        (from_a_block, SHORTS, [16]),
    ],
)
def test_parts_of_own_integers_are_found(kernel: object, memory: torch.Tensor, parts: list[int]) -> None:
    assert find(kernel, memory) == parts


@pytest.mark.parametrize(
    ("kernel", "memory"),
    [
        (from_whole_words, WORDS),
        (in_order_of_size, WORDS),
        (beside_an_index, LONGS),
        (by_flags, WORDS),
        (by_comparison, BYTES),
        (at_indices, SHORTS),
        (beside_other_loops, BYTES),
    ],
)
def test_honest_uses_of_integers_are_not(kernel: object, memory: torch.Tensor) -> None:
    assert find(kernel, memory) == []


def test_inputs_may_be_packed() -> None:
    assert find(from_halves_of_words, WORDS, own=(1,)) == []
    assert find(from_shorts, SHORTS, own=()) == []


def test_a_half_is_whole_on_a_task_of_halves() -> None:
    assert find(from_shorts, SHORTS, width=16) == []
    assert find(from_shorts, BYTES, width=16) == [8]


@pytest.mark.parametrize(
    ("operation", "bits", "constant", "width", "left"),
    [
        ("arith.shrui", 32, 8, 32, 24),
        ("arith.shrui", 8, 8, 32, 8),
        ("arith.shli", 32, 16, 32, 16),
        ("arith.shrsi", 64, 32, 64, 32),
        ("arith.shli", 32, 99, 32, 0),
        ("arith.shli", 32, None, 32, 16),
        ("arith.andi", 32, 0xFF, 32, 8),
        ("arith.andi", 32, -1, 32, 32),
        ("arith.andi", 32, None, 32, 32),
        ("arith.remsi", 32, 10, 32, 4),
        ("arith.divsi", 32, 1024, 32, 22),
        ("arith.trunci", 64, None, 32, 32),
        ("arith.trunci", 64, None, 8, 8),
    ],
)
def test_what_an_operation_leaves(operation: str, bits: int, constant: int | None, width: int, left: int) -> None:
    assert count_left(operation, bits, constant, width) == left


@pytest.mark.parametrize(
    ("rest", "width"), [(" %1, %2 : tensor<64xi32>", 32), (" %1 : tensor<4xi64> to tensor<4xi8>", 8), (" %1 : f32", 64)]
)
def test_the_width_of_a_result(rest: str, width: int) -> None:
    assert find_width(rest) == width


@pytest.mark.parametrize(
    "text", ["", "module {", "tt.func public @k(", "  scf.yield %1", "  } = tt.load", "%a = scf.for"]
)
def test_any_text_is_read(text: str) -> None:
    assert find_parts(text, {0}, 32) == []


NAMED = """module {
  tt.func public @half(%words: !tt.ptr<i32> loc("words"(#loc)), %y: !tt.ptr<f32> loc("y"(#loc))) attributes {noinline = false} {
    %0 = tt.load %words : !tt.ptr<i32> loc(#loc)
    %1 = tt.call @"a.b.take(1)"(%0) : (i32) -> i32 loc(#loc)
    %2 = arith.sitofp %1 : i32 to f32 loc(#loc)
    tt.store %y, %2 : !tt.ptr<f32> loc(#loc)
    tt.return loc(#loc)
  } loc(#loc)
  tt.func private @"a.b.take(1)"(%word: i32 loc("word"(#loc))) -> i32 attributes {noinline = false} {
    %c16_i32 = arith.constant 16 : i32 loc(#loc)
    %0 = arith.shrui %word, %c16_i32 : i32 loc(#loc)
    tt.return %0 : i32 loc(#loc)
  } loc(#loc)
} loc(#loc)
"""


@pytest.mark.parametrize(("own", "parts"), [({0, 1}, [16]), ({1}, [])])
def test_parameters_and_functions_may_have_any_name(own: set[int], parts: list[int]) -> None:
    """Triton 3.6 names parameters as the source does, and quotes the names of some functions."""
    assert find_parts(NAMED, own, 32) == parts


@triton.jit
def by_a_maximum(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    word = tl.max(tl.load(p + place)[None, :].to(tl.int32), axis=0)
    tl.store(y + place, word.to(tl.float32))


@triton.jit
def from_parts_of_floats(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    word = tl.where(place < n, tl.load(p + place), 0.0).to(tl.int32, bitcast=True)
    tl.store(y + place, (word & -65536).to(tl.float32, bitcast=True) + (word << 16).to(tl.float32, bitcast=True))


@triton.jit
def by_libdevice(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, libdevice.int2float_rn(tl.load(p + place).to(tl.int32)))


@triton.jit
def by_the_exponent(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    word = tl.load(p + place).to(tl.int32, bitcast=True)
    exponent = ((word >> 23) - 127).to(tl.float32)
    tl.store(y + place, exponent + ((word & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True))


@triton.jit
def sums_of_floats(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(p + place), axis=0) + tl.program_id(0).to(tl.float32)
    tl.store(y + place, tl.load(p + place) / total)


@pytest.mark.parametrize(
    ("kernel", "memory", "parts"),
    [
        (by_a_maximum, SHORTS, [16]),
        (from_parts_of_floats, FLOATS, [16, 16]),
        (by_libdevice, SHORTS, [16]),
        (by_the_exponent, FLOATS, []),
        (sums_of_floats, FLOATS, []),
    ],
)
def test_no_operation_hides_a_part(kernel: object, memory: torch.Tensor, parts: list[int]) -> None:
    assert find(kernel, memory) == parts


@triton.jit
def at_a_number(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, tl.load(n.to(tl.int64).to(tl.pointer_type(tl.int16)) + place).to(tl.float32))


@triton.jit
def at_a_number_with_a_name(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    address = p.to(tl.int64) * zero + n
    tl.store(y + place, tl.load(address.to(tl.pointer_type(tl.int16)) + place).to(tl.float32))


@triton.jit
def at_the_rest_of_the_way(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, tl.load(p + (n - p.to(tl.int64)) + place).to(tl.float32))


@triton.jit
def at_a_distance(p, y, n, zero, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, tl.load(p + n + place).to(tl.float32))


@pytest.mark.parametrize("kernel", [at_a_number, at_a_number_with_a_name, at_the_rest_of_the_way])
def test_an_address_that_does_not_follow_its_parameter_may_be_anywhere(kernel: object) -> None:
    assert find(kernel, SHORTS, own=()) == [16]


def test_an_address_that_follows_its_parameter_is_that_parameters() -> None:
    assert find(at_a_distance, SHORTS, own=()) == []
    assert find(at_a_distance, SHORTS, own=(0,)) == [16]


@triton.jit
def by_assembly(p, y, n, zero, BLOCK: tl.constexpr, TEXT: tl.constexpr):
    place = tl.arange(0, BLOCK)
    word = tl.inline_asm_elementwise(TEXT, "=r,l", [p + place], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(y + place, (word & 0xFFFF).to(tl.float32) + (word >> 16).to(tl.float32))


@triton.jit
def converted_by_assembly(p, y, n, zero, BLOCK: tl.constexpr, TEXT: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, tl.inline_asm_elementwise(TEXT, "=f,l", [p + place], tl.float32, is_pure=True, pack=1))


PLAIN = "ld.global.b32 $0, [$1];"
HINTED = "{ .reg .b64 hint; createpolicy.fractional.L2::evict_last.b64 hint, 1.0; ld.global.L2::cache_hint.f32 $0, [$1], hint; }"
CONVERTED = "{ .reg .b16 half; ld.global.u16 half, [$1]; cvt.rn.f32.u16 $0, half; }"
UNPACKED = "{ .reg .b32 both; .reg .b16 low; ld.global.b32 both, [$1]; mov.b32 {low, _}, both; cvt.f32.f16 $0, low; }"


def find_assembled(kernel: object, text: str, own: tuple[int, ...]) -> list[int]:
    return find_parts(lower(kernel, {"p": WORDS, "y": FLOATS, "n": 4, "zero": 0}, {"BLOCK": 64, "TEXT": text}), own, 32)


@pytest.mark.parametrize(
    ("kernel", "text", "own", "parts"),
    [
        (by_assembly, PLAIN, (0,), [16, 16]),
        (by_assembly, PLAIN, (1,), []),
        (converted_by_assembly, HINTED, (0,), []),
        (converted_by_assembly, PLAIN.replace("b32", "f32"), (0,), []),
        (converted_by_assembly, CONVERTED, (0,), [8]),
        (converted_by_assembly, CONVERTED, (1,), [8]),
        (converted_by_assembly, UNPACKED, (0,), [8]),
    ],
)
def test_assembly_that_loads_is_followed(kernel: object, text: str, own: tuple[int, ...], parts: list[int]) -> None:
    assert find_assembled(kernel, text, own) == parts
