"""Which lines of a source matter for a verdict. Pure functions; hints for a reader, never a judgement."""

from __future__ import annotations

import re

from portal.catalog.markup import split_lines
from verifier.verdict import FailureMode, Verdict

# What to look for in a source that was rejected in a certain mode.
_HINTS: dict[FailureMode, list[tuple[str, str]]] = {
    FailureMode.PRECISION_LOSS: [
        (r"allow_tf32|set_float32_matmul_precision|input_precision|tf32", "chooses a precision"),
        (r"\.half\(\)|bfloat16|float16|float8|\.to\(\s*(tl|torch)\.", "converts numbers"),
        (r"\btl\.dot\b", "multiplies matrices"),
    ],
    FailureMode.STALE_OUTPUT: [
        (r"data_ptr|_cache\b|\bcache\b|lru_cache|self\._\w+\s*=", "may remember something between calls"),
        (r"\bglobal\b|\bstatic\b", "keeps a state outside the call"),
        (r"torch\.(zeros|empty|ones|full)\b", "makes an output"),
    ],
    FailureMode.NO_TRITON: [
        (r"torch\.(matmul|mm|bmm|addmm|einsum|softmax|conv\w*|compile)\b|nn\.functional|\bF\.\w+|@\s*\w+", "calls a library"),
        (r"@triton\.jit", "declares a kernel"),
    ],
    FailureMode.CUDA_GRAPH: [(r"CUDAGraph|cuda\.graph|make_graphed", "captures or replays a graph")],
    FailureMode.FOREIGN_BACKEND: [
        (r"load_inline|cpp_extension|ctypes|cupy|numba|cffi|nvrtc|\bexec\b|import\s+tilelang", "reaches another backend")
    ],
    FailureMode.TIMING_SIDESTEP: [
        (r"\bEvent\b|synchronize|\btime\.|perf_counter|Stream|thread|inspect|__globals__|gc\.", "touches time, streams or the harness")
    ],
    FailureMode.HIDDEN_DISTRIBUTION: [(r"\bif\b.*\b(max|min|any|all|abs|sum)\b", "chooses by the values")],
}  # fmt: skip
_HINTS[FailureMode.INCORRECT] = _HINTS[FailureMode.HIDDEN_DISTRIBUTION]
_FRAME = re.compile(r'File "[^"]*solution\.py", line (\d{1,6})')
_KERNEL = re.compile(r"\s*def\s+(\w+)\s*\(", re.ASCII)
# A longer line is data, not code.
_LONGEST_LINE = 2_000


def find_marks(source: str, verdict: Verdict) -> dict[int, str]:
    """Return the lines of `source` that matter for `verdict`, each with why, in order."""
    lines = split_lines(source)
    marks: dict[int, list[str]] = {}
    for number in map(int, _FRAME.findall(verdict.evidence.traceback)):
        if 0 < number <= len(lines):
            marks.setdefault(number, []).append("is in the traceback")
    offending = {record.name for record in verdict.evidence.machine_code if record.offending_lines or record.error}
    modes = dict.fromkeys(code.mode for code in verdict.failures)
    hints = [(re.compile(pattern), words) for mode in modes for pattern, words in _HINTS.get(mode, [])]
    for number, line in enumerate(lines, 1):
        text = line[:_LONGEST_LINE].split("#", 1)[0]
        if (kernel := _KERNEL.match(text)) and kernel[1] in offending:
            marks.setdefault(number, []).append("begins a kernel with machine code that is not allowed")
        for pattern, words in hints:
            if pattern.search(text):
                marks.setdefault(number, []).append(words)
    return {number: ", ".join(dict.fromkeys(words)) for number, words in sorted(marks.items())}
