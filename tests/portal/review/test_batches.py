"""Many runs verified again: counted first, confirmed with a reason, compared afterwards."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied
from django.http import QueryDict

from portal.review.forms import BatchForm
from portal.review.models import Batch, TrailEvent
from portal.review.reverification import compare_batch, start_batch
from portal.runs import lease
from portal.runs.models import Run
from portal.runs.states import State
from tests.conftest import People, Submit
from tests.portal.factories import judge, reject
from tests.portal.pages.conftest import Finish, Visit
from verifier.verdict import FailureCode

REASON = "The rule for half-precision weights was wrong until today."
QUERY = "/review/again/?code=PREC_TF32&environment=cpu-interpreter"


@pytest.fixture
def three(submit: Submit, finish: Finish) -> list[Run]:
    """Two rejected for TF32, one accepted."""
    tf32 = [finish(submit(visibility="public"), reject, FailureCode.PREC_TF32) for _ in range(2)]
    return [*tf32, finish(submit(visibility="public"))]


def judge_next(*, accepted: bool) -> None:
    held = lease.claim_run(environment="cpu-interpreter", worker="w")
    assert held is not None
    assert held.lease_token is not None
    verdict = judge(held) if accepted else reject(held, FailureCode.PREC_TF32)
    lease.finish_run(token=held.lease_token, verdict=verdict)


@pytest.mark.parametrize(
    ("query", "found"),
    [("worker=host", 3), ("worker=other", 0), ("since=2026-01-01T00:00", 3), ("since=2999-01-01T00:00", 0)],
)
def test_what_one_host_judged_since_a_day_is_found(three: list[Run], query: str, found: int) -> None:
    form = BatchForm(QueryDict(query))
    assert form.is_valid()
    assert form.find_runs().count() == found


def test_nothing_is_queued_by_looking(three: list[Run], visit: Visit) -> None:
    page = visit("admin").get(QUERY).content.decode()
    assert "Verify these 2 runs again" in page
    assert not Run.objects.filter(state=State.QUEUED).exists()


def test_what_is_confirmed_is_queued_and_compared(three: list[Run], visit: Visit) -> None:
    client = visit("admin")
    page = client.post(QUERY, {"expected": 2, "reason": REASON}, follow=True).content.decode()
    assert "2 runs are queued" in page
    assert set(Run.objects.filter(state=State.QUEUED)) == set(three[:2])
    judge_next(accepted=True)
    judge_next(accepted=False)
    batch = Batch.objects.get()
    assert [(one.differs, one.waits) for one in compare_batch(batch)] == [(True, False), (False, False)]
    page = client.get(f"/review/again/{batch.pk}/").content.decode()
    assert "<dt>Verdict changed</dt><dd>1</dd>" in page
    assert "<dt>Verdict the same</dt><dd>1</dd>" in page
    assert REASON in page
    event = TrailEvent.objects.get(action="batch.start")
    assert (event.actor_name, event.after_values["runs"]) == ("admin", 2)


def test_a_fault_of_ours_is_told(three: list[Run], visit: Visit) -> None:
    visit("admin").post(QUERY, {"expected": 2, "reason": REASON})
    for _ in range(6):
        held = lease.claim_run(environment="cpu-interpreter", worker="w")
        assert held is not None
        assert held.lease_token is not None
        lease.fail_attempt(token=held.lease_token, reason="no sandbox")
    page = visit("admin").get(f"/review/again/{Batch.objects.get().pk}/").content.decode()
    assert "<dt>No verdict, a fault of ours</dt><dd>2</dd>" in page
    assert "the verdict before stands" in page


def test_what_is_no_longer_what_was_shown_is_refused(three: list[Run], visit: Visit) -> None:
    response = visit("admin").post(QUERY, {"expected": 3, "reason": REASON})
    assert response.status_code == 400
    assert "By now these are 2 runs, not 3" in response.content.decode()
    assert not Batch.objects.exists()


def test_a_second_click_queues_nothing_more(three: list[Run], visit: Visit) -> None:
    client = visit("admin")
    client.post(QUERY, {"expected": 2, "reason": REASON})
    assert client.post(QUERY, {"expected": 2, "reason": REASON}).status_code == 400
    assert Batch.objects.count() == 1


@pytest.mark.parametrize(("role", "status"), [("anonymous", 302), ("alice", 404), ("staff", 404), ("admin", 200)])
def test_only_administrators(three: list[Run], visit: Visit, role: str, status: int) -> None:
    assert visit(role).get(QUERY).status_code == status


def test_the_service_asks_too(three: list[Run], people: People) -> None:
    with pytest.raises(PermissionDenied):
        start_batch(user=people.staff, runs=Run.objects.all(), expected=3, filters="", reason=REASON)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("?environment=", 3),
        ("?outcome=accepted", 1),
        ("?task=l1-01", 0),
        ("?verifier=test", 3),
        ("?verifier=other", 0),
        ("?before=2020-01-01T00:00", 0),
        ("?before=2100-01-01T00:00", 3),
    ],
)
def test_filters(three: list[Run], visit: Visit, query: str, count: int) -> None:
    page = visit("admin").get(f"/review/again/{query}").content.decode()
    assert f'<h2 id="count">{count} run' in page


def test_a_filter_that_is_not_understood_chooses_nothing(three: list[Run], visit: Visit) -> None:
    page = visit("admin").get("/review/again/?task=none").content.decode()
    assert 'id="count"' not in page
