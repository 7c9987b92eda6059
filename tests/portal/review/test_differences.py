from __future__ import annotations

from portal.catalog.markup import highlight_lines, highlight_python, split_lines
from portal.review.differences import MOST_LINES, Gap, Line, compare_gates, compare_sources, compare_timings
from portal.review.marks import find_marks
from tests.portal.factories import GATES, TIMED, build_verdict
from verifier.verdict import (
    Check,
    Evidence,
    FailureCode,
    Gate,
    GateResult,
    GateStatus,
    MachineCodeRecord,
    Outcome,
    Verdict,
)


def numbers(rows: list[Line | Gap] | None) -> list[tuple[str, int | None, int | None]]:
    assert rows is not None
    return [(row.kind, row.left_number, row.right_number) for row in rows if isinstance(row, Line)]


def test_a_changed_an_added_and_a_taken_line() -> None:
    rows = compare_sources("a = 1\nb = 2\nc = 3\n", "a = 1\nb = 4\nc = 3\nd = 5\n")
    assert numbers(rows) == [("equal", 1, 1), ("replace", 2, 2), ("equal", 3, 3), ("insert", None, 4)]
    assert numbers(compare_sources("a\nb\n", "a\n")) == [("equal", 1, 1), ("delete", 2, None)]


def test_long_equal_stretches_are_left_out() -> None:
    same = "".join(f"x{number} = {number}\n" for number in range(50))
    rows = compare_sources(same + "a = 1\n", same + "a = 2\n")
    assert rows is not None
    assert isinstance(rows[0], Gap)
    assert rows[0].lines == 47
    assert numbers(rows)[-1] == ("replace", 51, 51)


def test_markup_in_a_source_is_escaped() -> None:
    rows = compare_sources("'<script>alert(1)</script>'\n", "'''<img src=x\nonerror=1>'''\n")
    assert rows is not None
    page = "".join(f"{row.left}{row.right}" for row in rows if isinstance(row, Line))
    assert "<script>" not in page
    assert "<img" not in page


def test_too_many_lines_are_not_compared() -> None:
    assert compare_sources("\n" * (MOST_LINES + 1), "") is None


def test_lines_agree_whatever_ends_them() -> None:
    for source in ("\n\na = 1\r\nb = '''x\ny'''\rc\x0cd\u2028e\n", "a", "\n", "a\n\n\n"):
        assert len(highlight_lines(source)) == len(split_lines(source)), source


def test_blank_lines_at_the_beginning_keep_the_numbers() -> None:
    page = highlight_python("\n\na = 1\n", "line")
    assert '<span id="line-3"><span class="n">a</span>' in page


def test_marked_lines_are_marked() -> None:
    assert '<span id="line-2"><span class="hll">' in highlight_python("a = 1\nb = 2\n", "line", frozenset({2}))


def test_checks_are_paired_and_differences_told() -> None:
    failed = GateResult(
        gate=Gate.POLICY,
        status=GateStatus.FAILED,
        checks=[Check(name="tf32", label="No TF32", passed=False, observed=4, allowed=0)],
    )
    pairs = compare_gates(build_verdict(), build_verdict(gates=[*GATES[:3], failed]))
    assert [(pair.gate, pair.label, pair.differs) for pair in pairs] == [
        (Gate.INTAKE, "An example", False),
        (Gate.STRUCTURAL, "An example", False),
        (Gate.CORRECTNESS, "An example", False),
        (Gate.POLICY, "An example", True),
        (Gate.POLICY, "No TF32", True),
        (Gate.PERFORMANCE, "An example", True),
    ]


def test_timings_stand_side_by_side() -> None:
    timed = Verdict.model_validate_json(TIMED.read_bytes())
    assert compare_timings(build_verdict(), build_verdict()) == []
    rows = compare_timings(timed, build_verdict())
    assert [label for label, _, _ in rows] == ["eager PyTorch", "compiled PyTorch", "this submission"]
    assert all(one is not None and other is None for _, one, other in rows)


class TestMarks:
    SOURCE = "import torch\n\ndef kernel(x):\n    tl.dot(a, b)  # allow_tf32\n    y.half()\n"

    def test_a_precision_loss_points_at_products_and_conversions(self) -> None:
        record = MachineCodeRecord(
            name="kernel", digest="0", architecture="sm_90", offending_lines=["HMMA.1688.F32.TF32"]
        )
        verdict = build_verdict(
            outcome=Outcome.REJECTED, failures=[FailureCode.PREC_TF32], evidence=Evidence(machine_code=[record])
        )
        marks = find_marks(self.SOURCE, verdict)
        assert list(marks) == [3, 4, 5]
        assert marks[3] == "begins a kernel with machine code that is not allowed"
        assert marks[4] == "multiplies matrices"

    def test_a_traceback_points_at_its_lines(self) -> None:
        traceback = (
            'File "/box/solution.py", line 5, in forward\nFile "/usr/lib/x.py", line 1\nFile "solution.py", line 99'
        )
        verdict = build_verdict(
            outcome=Outcome.REJECTED,
            failures=[FailureCode.ART_RUNTIME_ERROR],
            evidence=Evidence(traceback=traceback),
        )
        assert find_marks(self.SOURCE, verdict) == {5: "is in the traceback"}

    def test_an_accepted_run_has_no_marks(self) -> None:
        assert find_marks(self.SOURCE, build_verdict()) == {}
