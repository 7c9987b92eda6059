from __future__ import annotations

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries

from portal.ops.models import Worker
from portal.runs import lease
from portal.runs.labels import GATE_EXPLANATIONS
from portal.runs.models import Run
from portal.runs.services import cancel_run
from tests.conftest import People, Submit
from tests.portal.factories import judge, reject
from tests.portal.pages.conftest import Finish, Visit, start_run
from verifier.verdict import (
    Check,
    DistributionRecord,
    Evidence,
    FailureCode,
    Gate,
    GateResult,
    GateStatus,
    KernelRecord,
    LibraryRecord,
    MachineCodeRecord,
)

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def read(client: Client, run: Run) -> str:
    response = client.get(f"/runs/{run.public_id}/")
    assert response.status_code == 200
    return response.content.decode()


def test_a_queued_run_says_how_many_are_ahead(visit: Visit, submit: Submit) -> None:
    submit()
    run = submit()
    page = read(visit("alice"), run)
    assert "Queued" in page
    assert "1 ahead in the queue" in page
    assert "No worker for CPU interpreter is at work now" in page


def test_a_worker_at_work_takes_the_warning_away(visit: Visit, submit: Submit) -> None:
    run = submit()
    Worker.objects.create(name="w", environment_slug="cpu-interpreter", host="h", started_at=Now(), last_seen_at=Now())
    assert "No worker for" not in read(visit("alice"), run)


def test_a_running_run_shows_its_gate_and_polls(visit: Visit, submit: Submit) -> None:
    run = start_run(submit())
    assert run.lease_token is not None
    progress = {
        "intake": {"t": 0.1, "event": "gate", "gate": "intake", "state": "passed"},
        "structural": {"t": 0.2, "event": "gate", "gate": "structural", "state": "started"},
    }
    lease.record_progress(token=run.lease_token, current_gate="structural", progress=progress)
    page = read(visit("alice"), run)
    gates = page.split('<ol class="gates">')[1].split("</ol>")[0]
    assert gates.index("passed") < gates.index("running") < gates.index("waiting")
    assert 'hx-trigger="every 1s"' in page
    assert "<noscript>" in page


def test_gates_of_a_cancelled_run_do_not_wait(visit: Visit, submit: Submit, people: People) -> None:
    run = cancel_run(run=submit(), user=people.alice)
    page = read(visit("alice"), run)
    gates = page.split('<ol class="gates">')[1].split("</ol>")[0]
    assert gates.count("not reached") == len(Gate)
    assert "hx-get" not in page


def test_an_attempt_that_was_lost_stays_on_the_timeline(visit: Visit, submit: Submit) -> None:
    run = start_run(submit())
    assert run.lease_token is not None
    lease.fail_attempt(token=run.lease_token, reason="The worker's disk is full.")
    page = read(visit("alice"), start_run(run))
    assert "Attempt 1" in page
    assert "The worker&#x27;s disk is full." in page
    assert "Attempt 2" in page


def test_a_finished_run_does_not_poll(visit: Visit, submit: Submit, finish: Finish) -> None:
    page = read(visit("alice"), finish(submit()))
    assert "Accepted, not timed here" in page
    assert "hx-get" not in page
    assert "htmx-2" not in page


def test_a_rejected_run_shows_every_code_with_its_explanation(visit: Visit, submit: Submit, finish: Finish) -> None:
    run = finish(submit(), reject, FailureCode.PREC_TF32, FailureCode.CORR_VALUE)
    page = read(visit("alice"), run)
    assert "/methodology/#PREC_TF32" in page
    assert "An executed kernel multiplies in TF32" in page
    assert page.index("PREC_TF32") < page.index("CORR_VALUE")


def test_gates_show_observed_against_allowed(visit: Visit, submit: Submit, finish: Finish) -> None:
    check = Check(
        name="share",
        label="Own share",
        passed=False,
        observed=0.12345,
        allowed=0.5,
        code=FailureCode.STRUCT_LIBRARY_OFFLOAD,
    )
    recorded = Check(name="note", label="Recorded only", passed=None, observed=1234567)
    gates = [
        GateResult(
            gate=gate,
            status=GateStatus.FAILED if gate is Gate.STRUCTURAL else GateStatus.SKIPPED,
            checks=[check, recorded],
        )
        for gate in Gate
    ]
    run = finish(submit(), reject, FailureCode.STRUCT_LIBRARY_OFFLOAD, gates=gates)
    page = read(visit("alice"), run)
    gate = page.split('id="gate-structural"')[1].split("</article>")[0]
    for text in ("Own share", "0.1235", "0.5", "STRUCT_LIBRARY_OFFLOAD", "1,234,567", "recorded"):
        assert text in gate


def test_what_decided_stands_before_everything_else(visit: Visit, submit: Submit, finish: Finish) -> None:
    decided = Check(name="a", label="Tensor cores", passed=False, observed=12, allowed=0, code=FailureCode.PREC_TF32)
    later = Check(name="b", label="Largest error", passed=False, observed=9.5, code=FailureCode.CORR_VALUE)
    gates = [
        GateResult(
            gate=gate,
            status=GateStatus.FAILED,
            checks={Gate.POLICY: [decided], Gate.CORRECTNESS: [later]}.get(gate, []),
        )
        for gate in Gate
    ]
    page = read(visit("alice"), finish(submit(), reject, FailureCode.PREC_TF32, FailureCode.CORR_VALUE, gates=gates))
    table = page.split("What decided: observed against allowed.")[1].split("</table>")[0]
    for text in ("Tensor cores", '<a href="#gate-policy">', ">12<", ">0<"):
        assert text in table
    assert "Largest error" not in table
    assert page.index("What decided:") < page.index('id="gates"')


def test_an_accepted_run_was_decided_by_nothing(visit: Visit, submit: Submit, finish: Finish) -> None:
    assert "What decided" not in read(visit("alice"), finish(submit()))


@pytest.mark.parametrize(("role", "linked"), [("alice", True), ("anonymous", False)])
def test_a_kernel_leads_to_its_line_for_who_may_read_it(
    visit: Visit, submit: Submit, finish: Finish, *, role: str, linked: bool
) -> None:
    kernel = KernelRecord(
        name="scale", digest="a" * 64, launches=1, programs=1, grids=[(1, 1, 1)], options={}, operations=1, own=True
    )
    source = "import triton\n\n\n@triton.jit\ndef scale(x):\n    pass\n\n\nclass ModelNew:\n    def scale(self): pass\n"
    run = finish(submit(visibility="public", source=source), evidence=Evidence(kernels=[kernel]))
    page = read(visit(role), run)
    assert ('<a href="#line-5"><code>scale</code></a>' in page) is linked
    assert ('<span id="line-5">' in page) is linked


def test_gates_say_what_they_ask_for(visit: Visit, submit: Submit, finish: Finish) -> None:
    page = read(visit("alice"), finish(submit()))
    for gate, explanation in GATE_EXPLANATIONS.items():
        assert escape(explanation) in page.split(f'id="gate-{gate}"')[1].split("</article>")[0]


def build_evidence() -> Evidence:
    return Evidence(
        kernels=[
            KernelRecord(
                name=f"k{MARKUP}", digest="a" * 64, launches=3, programs=64, grids=[(8, 8, 1)], options={"num_warps": 4},
                operations=5_000, own=True, ablation_share=0.75,
            )
        ],
        library=[LibraryRecord(name="aten::mm", calls=2, operations=77_777)],
        machine_code=[
            MachineCodeRecord(
                name="k", digest="a" * 64, architecture="sm_89", registers=128, tensor_core={"HMMA.1688.F32.TF32": 12},
                offending_lines=[f"line 3: {MARKUP}"],
            )
        ],
        distributions=[
            DistributionRecord(distribution="gauss", visible=True, passed=True, largest_error=1e-7, budget_ratio=0.25),
            DistributionRecord(distribution="ties", visible=False, passed=False, largest_error=3.0, budget_ratio=99.5),
        ],
        events=[f"imported {MARKUP}", "ties: released"],
        error=f"ties broke {MARKUP}",
        traceback=f"Traceback {MARKUP}",
        output_tail=f"printed {MARKUP}",
    )  # fmt: skip


def test_evidence_is_shown_and_escaped(visit: Visit, submit: Submit, finish: Finish) -> None:
    page = read(visit("alice"), finish(submit(), reject, evidence=build_evidence()))
    for text in (
        "8 \u00d7 8 \u00d7 1",
        "75.0 %",
        "aten::mm",
        "77,777",
        "HMMA.1688.F32.TF32 12",
        "99.5",
        "printed &lt;script&gt;",
    ):
        assert text in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_markup_in_the_source_is_escaped(visit: Visit, submit: Submit) -> None:
    page = read(visit("alice"), submit(source=f"# {MARKUP}\nclass ModelNew: pass\n"))
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert 'id="line-2"' in page


@pytest.mark.parametrize(("role", "named"), [("alice", False), ("staff", True)])
def test_hidden_distributions_are_named_to_reviewers_only(
    visit: Visit, submit: Submit, finish: Finish, *, role: str, named: bool
) -> None:
    page = read(visit(role), finish(submit(), reject, evidence=build_evidence()))
    assert ("ties: released" in page) is named
    assert ("hidden-1: released" in page) is not named
    assert "gauss" in page


@pytest.mark.parametrize(
    ("role", "seen"),
    [
        ("anonymous", {"public"}),
        ("charlie", {"public"}),
        ("bob", {"public", "team"}),
        ("alice", {"public", "team", "private"}),
        ("staff", {"public", "team", "private"}),
    ],
)
def test_who_sees_a_run(visit: Visit, submit: Submit, role: str, seen: set[str]) -> None:
    client = visit(role)
    for visibility in ("private", "team", "public"):
        run = submit(visibility=visibility)
        assert client.get(f"/runs/{run.public_id}/").status_code == (200 if visibility in seen else 404)


@pytest.mark.parametrize(
    ("role", "readable"), [("anonymous", False), ("charlie", False), ("bob", True), ("staff", True)]
)
def test_who_reads_the_source_and_output_of_a_public_run(
    visit: Visit, submit: Submit, finish: Finish, *, role: str, readable: bool
) -> None:
    page = read(visit(role), finish(submit(visibility="public"), evidence=Evidence(output_tail="secret words")))
    assert ('id="line-1"' in page) is readable
    assert ("secret words" in page) is readable


def test_a_released_source_is_read_by_everybody(client: Client, submit: Submit) -> None:
    assert 'id="line-1"' in read(client, submit(visibility="public", release_source=True))


@pytest.mark.parametrize(
    ("role", "offered"), [("anonymous", False), ("charlie", False), ("bob", True), ("alice", True)]
)
def test_only_owners_are_offered_to_cancel(visit: Visit, submit: Submit, *, role: str, offered: bool) -> None:
    page = read(visit(role), submit(visibility="public"))
    assert ("Cancel the run" in page) is offered


def test_a_crashed_run_says_that_it_does_not_count(visit: Visit, submit: Submit) -> None:
    run = submit()
    for _ in range(run.max_attempts):
        held = start_run(run)
        assert held.lease_token is not None
        lease.fail_attempt(token=held.lease_token, reason="lost")
    assert "has no verdict and does not count" in read(visit("alice"), run)


@pytest.mark.django_db
def test_an_unknown_run_is_not_found(client: Client) -> None:
    assert client.get("/runs/00000000-0000-4000-8000-000000000000/").status_code == 404


def test_the_number_of_queries_is_fixed(
    visit: Visit, submit: Submit, finish: Finish, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client, run = visit("alice"), finish(submit(), judge)
    # The first page of a session writes down that there is one, and the session takes six of the queries.
    read(client, run)
    with django_assert_max_num_queries(15):
        read(client, run)
