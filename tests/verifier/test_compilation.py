"""Compiling hostile IR: what the compiler may use, and whose fault it is when that is not enough."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tests.verifier.lowering import lower
from verifier.candidate.channel import ChannelClosed
from verifier.compiler import Compiler
from verifier.evidence import compilation
from verifier.evidence.compilation import compile_forked
from verifier.faults import CandidateFault, InfrastructureFault
from verifier.verdict import FailureCode


@triton.jit
def double(x, y, n, size: tl.constexpr):
    index = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(y + index, tl.load(x + index, mask=index < n) * 2.0, mask=index < n)


@pytest.fixture(scope="module")
def text() -> str:
    return lower(double, {"x": torch.zeros(4), "y": torch.zeros(4), "n": 4}, {"size": 128})


def test_a_kernel_is_compiled_within_the_limits(text: str) -> None:
    described, image = compile_forked(text, {"num_warps": 4}, 89)
    assert (described["name"], described["warps"], described["parameters"]) == ("double", 4, 3)
    assert image.startswith(b"\x7fELF")


def test_a_compilation_that_needs_too_much_memory_ends_alone(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "COMPILE_BYTES", 1 << 20)
    described, image = compile_forked(text, {}, 89)
    assert described["error"]
    assert image == b""


@pytest.mark.parametrize(
    ("reason", "kind", "code"),
    [
        ("out of memory", CandidateFault, FailureCode.ART_COMPILE_ERROR),
        (None, InfrastructureFault, FailureCode.INFRA_EVIDENCE_LOST),
    ],
)
def test_a_compile_box_that_is_lost(reason: str | None, kind: type[Exception], code: FailureCode) -> None:
    box: Any = SimpleNamespace(process=SimpleNamespace(reason=reason, output=lambda: "the end"))
    fault = Compiler(box, 89).explain(ChannelClosed("gone"))
    assert isinstance(fault, kind)
    assert fault.code == code
