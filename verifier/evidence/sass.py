"""Rules on machine code (SASS) that decide whether a kernel keeps the task's precision. Pure text in, facts out."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

MAXIMUM_LINES = 12

_INSTRUCTION = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\s*([^;]*);")
_TENSOR_CORE = re.compile(r"^(?:[HIQB]G?MMA|OMMA|UTC\w*MMA)(?:\.|$)")
_HALF_ARITHMETIC = re.compile(r"^(?:HADD2|HMUL2|HFMA2|HSET2|HSETP2|HMNMX2)(?:\.|$)")
_CONVERSION = re.compile(r"^(?:F2F|F2FP|F2FPP|I2F|I2FP)(?:\.|$)")
_HALF_TYPE = re.compile(r"\.(?:B?F16)(?:_V2)?(?:\.|$)")
_BFLOAT = re.compile(r"\.BF16(?:_V2)?(?:\.|$)")
_EIGHT_BIT_FLOAT = re.compile(r"\.E[45]M[123]")
# ptxas moves constants with a half FMA of nothing: HFMA2.MMA R1, -RZ, RZ, 1.875, 0 is an fp32 kernel's mov.
_CONSTANT_MOVE = re.compile(r"-RZ, RZ\b")


class MachineCode(NamedTuple):
    """What a kernel's machine code shows: counts of instructions by opcode."""

    instructions: int
    tensor_core: Counter[str]
    narrowing: Counter[str]
    lines: list[str]


def is_narrow(opcode: str, operands: str, dtype: str) -> bool:
    """Return whether an instruction works below `dtype` (fp32 or fp16)."""
    if _EIGHT_BIT_FLOAT.search(opcode):
        return True
    if dtype == "fp16":
        return bool(_CONVERSION.match(opcode) and _BFLOAT.search(opcode))
    if _HALF_ARITHMETIC.match(opcode):
        return not _CONSTANT_MOVE.search(operands)
    return bool(_CONVERSION.match(opcode) and _HALF_TYPE.search(opcode))


def is_forbidden_product(opcode: str, dtype: str) -> bool:
    """Return whether a tensor-core instruction multiplies below `dtype`."""
    if not _TENSOR_CORE.match(opcode):
        return False
    # TF32 holds every fp16 value, so on fp16 tasks its products lose nothing; bfloat16 does not.
    return dtype == "fp32" or not re.match(r"^HG?MMA\b", opcode) or bool(_BFLOAT.search(opcode))


def read_machine_code(sass: str, dtype: str) -> MachineCode:
    """Return the counts for a disassembly by nvdisasm, judged against a task of `dtype` (fp32 or fp16)."""
    tensor_core: Counter[str] = Counter()
    narrowing: Counter[str] = Counter()
    lines: list[str] = []
    instructions = 0
    for line in sass.splitlines():
        match = _INSTRUCTION.match(line)
        if not match:
            continue
        instructions += 1
        opcode, operands = match.groups()
        if is_forbidden_product(opcode, dtype):
            tensor_core[opcode] += 1
        elif is_narrow(opcode, operands, dtype):
            narrowing[opcode] += 1
        else:
            continue
        if len(lines) < MAXIMUM_LINES:
            lines.append(" ".join(line.split()))
    return MachineCode(instructions, tensor_core, narrowing, lines)
