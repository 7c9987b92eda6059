"""Kernel parameters, read from IR of the pinned compiler and from lines as newer ones print them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tests.verifier.lowering import lower
from verifier.device.canonical import Canonicaliser
from verifier.device.faults import IRError, KernelFault
from verifier.evidence.compilation import count_entry_parameters
from verifier.gpu.signature import (
    Parameter,
    pack,
    parse_parameter,
    parse_signature,
    round_to_bfloat16,
)

TARGET = GPUTarget("cuda", 89, 32)


def scale(x: tl.tensor, y: tl.tensor, n: tl.tensor, factor: tl.tensor, size: tl.constexpr) -> None:
    offsets = tl.arange(0, size)
    tl.store(y + offsets, tl.load(x + offsets, mask=offsets < n) * factor, mask=offsets < n)


def fill(y: tl.tensor, value: tl.tensor) -> None:
    tl.store(y, value)


def nothing() -> None:
    return


def compile_types(
    function: Callable[..., None], types: dict[str, str], constants: dict[str, int], folder: Path
) -> tuple[str, str]:
    """Return the Triton IR and the PTX of a function for sm_89; the compiler caches in `folder`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        compiled = triton.compile(ASTSource(triton.jit(function), types, constants), target=TARGET)
    return compiled.asm["ttir"], compiled.asm["ptx"]


def pointer(pointee: str) -> Parameter:
    return Parameter("pointer", pointee=pointee)


SCALE = {"x": torch.zeros(4), "y": torch.zeros(4, dtype=torch.float16), "n": 3, "factor": 1.5}
SCALE_PARAMETERS = [pointer("f32"), pointer("f16"), Parameter("i32"), Parameter("f32")]


def test_parameters_of_lowered_and_of_canonical_ir() -> None:
    text = lower(triton.jit(scale), SCALE, {"size": 16})
    assert parse_signature(text) == SCALE_PARAMETERS
    assert parse_signature(Canonicaliser().rewrite(text)) == SCALE_PARAMETERS


def test_a_kernel_without_parameters_has_none() -> None:
    assert parse_signature(lower(triton.jit(nothing), {}, {})) == []


def test_helper_functions_are_not_taken_for_the_kernel() -> None:
    private = "  tt.func private @helper(%arg0: i64) -> i64 {"
    public = "  tt.func public @kernel(%arg0: f32) attributes {noinline = false} {"
    assert parse_signature(f"{private}\n{public}\n{private}") == [Parameter("f32")]


KINDS = {
    "i1": ("i1", 1),
    "i8": ("i8", 1),
    "i16": ("i16", 2),
    "i32": ("i32", 4),
    "i64": ("i64", 8),
    "u8": ("i8", 1),
    "u16": ("i16", 2),
    "u32": ("i32", 4),
    "u64": ("i64", 8),
    "fp16": ("f16", 2),
    "bf16": ("bf16", 2),
    "fp32": ("f32", 4),
    "fp64": ("f64", 8),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_scalar_that_the_front_end_knows(kind: str, tmp_path: Path) -> None:
    element, size = KINDS[kind]
    target = "*fp32" if kind.startswith(("fp", "bf")) else f"*{kind}"
    text, ptx = compile_types(fill, {"y": target, "value": kind}, {}, tmp_path)
    found = parse_signature(text)
    assert found[1] == Parameter(element)
    assert len(bytes(pack(found[1], 1))) == size
    assert count_entry_parameters(ptx) == 2


def test_hints_of_divisibility_and_newer_attributes_are_skipped() -> None:
    line = (
        '  tt.func public @k(%x_ptr: !tt.ptr<f32> {tt.divisibility = 16 : i32, tt.pointer_range = 32 : i32} loc("x_ptr"(#loc)), '
        '%out: !tt.ptr<bf16, 1> {tt.divisibility = 16 : i32} loc("out"("a.py":3:0)), %n: i32 {tt.divisibility = 16 : i32} loc(#loc7), '
        "%flag: i1 loc(unknown), %eps: f64) attributes {noinline = false} {"
    )
    assert parse_signature(f"#loc = loc(unknown)\nmodule {{\n{line}") == [
        pointer("f32"),
        pointer("bf16"),
        Parameter("i32"),
        Parameter("i1"),
        Parameter("f64"),
    ]


@pytest.mark.parametrize(
    ("text", "element", "block"),
    [
        ("!tt.tensordesc<tensor<1x256xf32>>", "f32", (1, 256)),
        ("!tt.tensordesc<tensor<128xbf16>>", "bf16", (128,)),
        ("!tt.tensordesc<tensor<1x2x4x8x16xsi8>>", "si8", (1, 2, 4, 8, 16)),
        ("!tt.tensordesc<tensor<64x64xf16, #shared>>", "f16", (64, 64)),
    ],
)
def test_tensor_descriptors(text: str, element: str, block: tuple[int, ...]) -> None:
    line = f"tt.func public @k(%desc: {text} loc(#loc1), %sizes: i32, %strides: i64 {{tt.divisibility = 16 : i32}}) {{"
    found = parse_signature(line)
    assert found == [Parameter("descriptor", pointee=element, block=block), Parameter("i32"), Parameter("i64")]
    assert [item.is_descriptor for item in found] == [True, False, False]
    assert not any(item.is_pointer for item in found)


def test_a_pointer_to_pointers_and_a_quoted_name() -> None:
    line = 'tt.func public @"<lambda>"(%arg0: !tt.ptr<!tt.ptr<f32>>, %arg-1: i8) {'
    assert parse_signature(line) == [pointer("!tt.ptr<f32>"), Parameter("i8")]


@pytest.mark.parametrize(
    "text", ["tensor<16xf32>", "index", "i128", "f8E4M3FN", "!tt.ptr<f32", "!ttg.memdesc<4xf32>", ""]
)
def test_types_that_no_launch_can_fill_are_refused(text: str) -> None:
    with pytest.raises(IRError, match="not known"):
        parse_parameter(text)


def test_ir_without_a_public_function_is_refused() -> None:
    with pytest.raises(IRError, match="no public function"):
        parse_signature("module {\n  tt.func private @k(%arg0: i32) {")


@pytest.mark.parametrize(
    ("element", "value", "expected"),
    [
        ("i1", True, b"\x01"),
        ("i1", 0, b"\x00"),
        ("i8", -1, b"\xff"),
        ("i8", 255, b"\xff"),
        ("i16", -2, b"\xfe\xff"),
        ("i32", -(2**31), b"\x00\x00\x00\x80"),
        ("i32", 2**32 - 1, b"\xff\xff\xff\xff"),
        ("i64", -(2**63), bytes(7) + b"\x80"),
        ("i64", 2**64 - 1, b"\xff" * 8),
        ("f16", 1.0, b"\x00\x3c"),
        ("bf16", 1.0, b"\x80\x3f"),
        ("f32", 1, b"\x00\x00\x80\x3f"),
        ("f64", -2.0, bytes(7) + b"\xc0"),
    ],
)
def test_scalars_are_packed_as_the_driver_reads_them(element: str, value: float, expected: bytes) -> None:
    assert bytes(pack(Parameter(element), value)) == expected


@pytest.mark.parametrize(("value", "expected"), [(0x7F00_0000_0100, 0x7F00_0000_0100), (0, 0), (-1, 2**64 - 1)])
def test_addresses_are_eight_bytes(value: int, expected: int) -> None:
    assert bytes(pack(pointer("f32"), value)) == struct.pack("<Q", expected)


@given(st.floats(width=32))
def test_bfloat16_rounds_as_pytorch_does(value: float) -> None:
    expected = torch.tensor(value, dtype=torch.float32).to(torch.bfloat16)
    found = torch.tensor(round_to_bfloat16(value), dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    assert torch.equal(found, expected) or (math.isnan(value) and bool(torch.isnan(found)))


@pytest.mark.parametrize("bits", [0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7F8000, 0x7F800000, 0x80000001])
def test_bfloat16_ties_go_to_even_and_the_largest_overflow(bits: int) -> None:
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    expected = torch.tensor(value, dtype=torch.float32).to(torch.bfloat16).view(torch.int16)
    assert round_to_bfloat16(value) == int(expected) & 0xFFFF


@given(st.floats(width=16, allow_nan=False))
def test_halves_keep_their_bits(value: float) -> None:
    expected = torch.tensor(value, dtype=torch.float64).half().view(torch.int16)
    assert int.from_bytes(bytes(pack(Parameter("f16"), value)), "little", signed=True) == int(expected)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        (Parameter("i32"), "seven"),
        (Parameter("i32"), None),
        (Parameter("i32"), math.nan),
        (Parameter("i64"), math.inf),
        (Parameter("f32"), "x"),
        (Parameter("f32"), [1.0]),
        (Parameter("f16"), 1e6),
        (Parameter("bf16"), 1e39),
        (Parameter("f64"), 10**400),
        (pointer("f32"), "address"),
        (pointer("f32"), None),
    ],
)
def test_values_that_do_not_fit_are_refused(parameter: Parameter, value: object) -> None:
    with pytest.raises(KernelFault, match="does not fit"):
        pack(parameter, value)


def test_a_descriptor_is_no_scalar() -> None:
    with pytest.raises(KernelFault, match="cannot be passed"):
        pack(Parameter("descriptor", pointee="f32", block=(1, 8)), 0)


def test_entry_parameters_of_real_ptx(tmp_path: Path) -> None:
    types = {"x": "*fp32", "y": "*fp16", "n": "i32", "factor": "fp32"}
    text, ptx = compile_types(scale, types, {"size": 128}, tmp_path)
    assert count_entry_parameters(ptx) == len(parse_signature(text)) == 4
    assert count_entry_parameters(compile_types(nothing, {}, {}, tmp_path)[1]) == 0


def test_scratch_pointers_of_newer_compilers_are_counted() -> None:
    ptx = """
.visible .entry attention_kernel(
	.param .u64 .ptr .global .align 1 attention_kernel_param_0,
	.param .align 64 .b8 attention_kernel_param_1[128],
	.param .u32 attention_kernel_param_2,
	.param .u64 .ptr .global .align 1 attention_kernel_param_3
)
.reqntid 128
{
"""
    assert count_entry_parameters(ptx) == 4
    assert count_entry_parameters(".func helper(.param .u64 x)") == 0


def test_a_location_that_looks_like_a_parameter_hides_none() -> None:
    text = 'tt.func public @k(%arg0: !tt.ptr<f32> loc("x"), %arg1: i32 loc("x), %arg7: i64 \\" {"), %arg2: f32) {'
    assert [item.element for item in parse_signature(text)] == ["pointer", "i32", "f32"]


def test_a_text_without_an_end_is_refused() -> None:
    with pytest.raises(IRError, match="does not end"):
        parse_signature('tt.func public @k(%arg0: i32 loc("x')
