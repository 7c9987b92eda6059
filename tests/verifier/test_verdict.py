from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from verifier.exits import Exit, find_exit
from verifier.verdict import (
    FAILURES,
    Check,
    FailureCode,
    FailureMode,
    Gate,
    GateResult,
    GateStatus,
    Outcome,
    Verdict,
    compute_digest,
    rank_failures,
)


def make_verdict(**given: object) -> Verdict:
    fields: dict[str, object] = {
        "task": "l1-09",
        "environment": "cpu-interpreter",
        "solution_sha256": "0" * 64,
        "verifier_version": "1",
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "seconds": 1.0,
        "outcome": Outcome.ACCEPTED,
        "gates": [GateResult(gate=gate, status=GateStatus.PASSED) for gate in Gate],
    }
    return Verdict.model_validate(fields | given)


def test_every_code_and_mode_is_explained() -> None:
    assert set(FAILURES) == set(FailureCode)
    assert {code.mode for code in FailureCode} == set(FailureMode)
    assert all(code.explanation.endswith((".", ")")) or "'" in code.explanation for code in FailureCode)
    assert all(mode.label for mode in FailureMode)


@pytest.mark.parametrize(
    ("codes", "primary"),
    [
        (["CORR_VALUE", "PREC_TF32"], "PREC_TF32"),
        (["PREC_TF32", "STALE_CONSTANT"], "STALE_CONSTANT"),
        (["STRUCT_NO_TRITON", "GRAPH_CAPTURE"], "STRUCT_NO_TRITON"),
        (["PERF_BELOW_TARGET", "TIMING_SIDESTEP"], "TIMING_SIDESTEP"),
        (["STALE_CONSTANT", "ART_RUNTIME_ERROR"], "ART_RUNTIME_ERROR"),
        (["ART_HANG", "INFRA_GPU_FAULT"], "INFRA_GPU_FAULT"),
    ],
)
def test_the_primary_code_follows_the_precedence(codes: list[str], primary: str) -> None:
    ranked = rank_failures([FailureCode(code) for code in [*codes, *codes]])
    assert ranked[0] == primary
    assert len(ranked) == len(set(codes))


def test_a_verdict_survives_its_json() -> None:
    check = Check(name="x", label="<b>", passed=False, observed=1.5, allowed="1", code=FailureCode.CORR_VALUE)
    verdict = make_verdict(
        outcome=Outcome.REJECTED,
        failures=[FailureCode.CORR_VALUE],
        gates=[GateResult(gate=Gate.CORRECTNESS, status=GateStatus.FAILED, checks=[check])],
    )
    assert Verdict.model_validate_json(verdict.to_json()) == verdict
    assert '"schema":"kernelquest.verdict/1"' in verdict.to_json()


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError):
        make_verdict(confession="all clean")


def test_the_digest_ignores_time_and_follows_the_decision() -> None:
    verdict = make_verdict()
    assert compute_digest(verdict) == compute_digest(make_verdict(seconds=99.0))
    assert compute_digest(verdict) != compute_digest(make_verdict(failures=[FailureCode.CORR_VALUE]))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ART_MISSING_FILE", Exit.NO_ARTIFACT),
        ("ART_SYNTAX", Exit.UNLOADABLE),
        ("STRUCT_DECOY", Exit.STRUCTURAL),
        ("CORR_HIDDEN_DIST", Exit.CORRECTNESS),
        ("STALE_CONSTANT", Exit.POLICY),
        ("PREC_TF32", Exit.POLICY),
        ("PERF_BELOW_FLOOR", Exit.BELOW_FLOOR),
        ("PERF_BELOW_TARGET", Exit.BELOW_TARGET),
        ("INFRA_WORKER_LOST", Exit.TRANSIENT),
    ],
)
def test_exit_codes_name_the_gate(code: str, expected: Exit) -> None:
    outcome = Outcome.INFRASTRUCTURE if code.startswith("INFRA") else Outcome.REJECTED
    assert find_exit(make_verdict(outcome=outcome, failures=[FailureCode(code)])) is expected
    assert find_exit(make_verdict()) is Exit.OK
