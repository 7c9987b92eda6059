from __future__ import annotations

import pytest

from verifier.evidence.sass import read_machine_code


@pytest.mark.parametrize(
    "line",
    [
        "/*0910*/                   HMMA.1688.F32.TF32 R4, R12, R16, R4 ;",
        "HMMA.16816.F32.BF16 R4, R12, R16, R4 ;",
        "@P0 HGMMA.64x64x8.F32.TF32 R24, gdesc[UR4], R24 ;",
        "IMMA.16832.S8.S8 R4, R12.ROW, R16.COL, R4 ;",
        "QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24 ;",
    ],
)
def test_tensor_cores_break_an_fp32_task(line: str) -> None:
    assert sum(read_machine_code(line, "fp32").tensor_core.values()) == 1


@pytest.mark.parametrize(
    "line",
    [
        "F2FP.F16.F32.PACK_AB R9, R8, R9 ;",
        "F2F.BF16.F32 R3, R2 ;",
        "HADD2.F32 R5, -RZ, R4.H0_H0 ;",
        "@!P1 HFMA2 R3, R4, R5, R6 ;",
        "HFMA2.MMA R3, R4, R5, R6 ;",
        "F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C R3, R4, R5, RZ ;",
    ],
)
def test_narrow_values_break_an_fp32_task(line: str) -> None:
    assert sum(read_machine_code(line, "fp32").narrowing.values()) == 1


@pytest.mark.parametrize(
    "line",
    [
        "FFMA R4, R12, R16, R4 ;",
        "MUFU.EX2 R4, R12 ;",
        "DMMA.8x8x4 R4, R12, R16, R4 ;",
        "HFMA2.MMA R7, -RZ, RZ, 1.875, 0 ;",
        "F2F.F64.F32 R4, R12 ;",
        "I2F.U32 R4, R12 ;",
        '.headerflags    @"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_64BIT_ADDRESS EF_CUDA_SM89"',
        "// HMMA.1688.F32.TF32 in a comment",
    ],
)
def test_honest_instructions_pass_an_fp32_task(line: str) -> None:
    code = read_machine_code(line, "fp32")
    assert not code.tensor_core
    assert not code.narrowing


@pytest.mark.parametrize(
    ("line", "forbidden"),
    [
        ("HMMA.16816.F32 R4, R12, R16, R4 ;", 0),
        # TF32 holds every fp16 value.
        ("HMMA.1688.F32.TF32 R4, R12, R16, R4 ;", 0),
        ("IMMA.16832.S8.S8 R4, R12.ROW, R16.COL, R4 ;", 1),
        ("QMMA.16832.F32.E4M3.E4M3 R4, R2, R6, R4 ;", 1),
    ],
)
def test_fp16_tasks_may_use_their_own_tensor_cores(line: str, forbidden: int) -> None:
    assert sum(read_machine_code(line, "fp16").tensor_core.values()) == forbidden


def test_offending_lines_are_kept_and_capped() -> None:
    code = read_machine_code("FADD R1, R2, R3 ;\n" + "HMMA.1688.F32.TF32 R4, R12, R16, R4 ;\n" * 40, "fp32")
    assert code.instructions == 41
    assert code.tensor_core == {"HMMA.1688.F32.TF32": 40}
    assert len(code.lines) == 12
