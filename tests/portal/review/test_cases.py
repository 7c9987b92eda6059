"""Cases: who holds them, what is decided, what follows, what the team sees and says."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models.functions import Now
from django.test import Client

from portal.accounts.models import User
from portal.accounts.services import add_member
from portal.catalog.models import Task
from portal.notifications.models import Notification
from portal.review.models import Appeal, Case, Decision, Reply, TrailEvent
from portal.review.queue import list_reviewable, read_page
from portal.review.services import Ruling, decide, open_appeal, release_case, reply_to, take_case
from portal.runs import lease
from portal.runs.models import Run
from portal.runs.states import State
from portal.standings.models import Standing
from tests.conftest import People, Submit, add_second_factor
from tests.portal.factories import judge, judge_timed, reject
from tests.portal.pages.conftest import Finish, Visit
from tests.portal.runs.test_concurrency import do_at_once
from verifier.verdict import FailureCode

REASON = "The kernel reads its weights in full precision; the rule looks at the wrong instruction."
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture
def rejected(submit: Submit, finish: Finish) -> Run:
    return finish(submit(visibility="public"), reject, FailureCode.PREC_TF32)


@pytest.fixture
def second(people: People) -> User:
    """Another reviewer."""
    user = User.objects.create_user("second", is_staff=True)
    add_second_factor(user)
    return user


def settle(run: Run, user: User, kind: str = "overturn", **given: Any) -> Decision:
    take_case(run=run, user=user)
    usual: dict[str, Any] = {"kind": kind, "reason": REASON, "verdict_number": run.verdict.number if run.verdict else 0}
    decision = decide(run=run, user=user, **usual | given)
    run.refresh_from_db()
    return decision


class TestHolding:
    def test_one_reviewer_holds_a_case(self, rejected: Run, people: People, second: User) -> None:
        assert take_case(run=rejected, user=people.staff).holder == people.staff
        with pytest.raises(ValidationError, match="staff has this case until"):
            take_case(run=rejected, user=second)
        with pytest.raises(ValidationError, match="do not hold this case"):
            decide(run=rejected, user=second, kind="uphold", reason=REASON, verdict_number=1)

    def test_it_may_be_given_back_or_runs_out(self, rejected: Run, people: People, second: User) -> None:
        take_case(run=rejected, user=people.staff)
        release_case(run=rejected, user=second)
        assert Case.objects.get().holder == people.staff
        release_case(run=rejected, user=people.staff)
        assert take_case(run=rejected, user=second).holder == second
        Case.objects.update(assigned_until=Now() - timedelta(seconds=1))
        assert Case.objects.get().holder is None
        assert take_case(run=rejected, user=people.staff).holder == people.staff

    def test_a_case_that_ran_out_decides_nothing(self, rejected: Run, people: People) -> None:
        take_case(run=rejected, user=people.staff)
        Case.objects.update(assigned_until=Now() - timedelta(seconds=1))
        with pytest.raises(ValidationError, match="no longer"):
            decide(run=rejected, user=people.staff, kind="uphold", reason=REASON, verdict_number=1)

    @pytest.mark.parametrize("name", ["alice", "bob", "charlie"])
    def test_members_hold_none(self, rejected: Run, people: People, name: str) -> None:
        with pytest.raises(PermissionDenied):
            take_case(run=rejected, user=getattr(people, name))

    @pytest.mark.parametrize("name", ["staff", "admin"])
    def test_nobody_holds_a_case_of_their_own_team(self, rejected: Run, people: People, name: str) -> None:
        reviewer = getattr(people, name)
        add_member(team=people.team, user=reviewer)
        with pytest.raises(PermissionDenied):
            take_case(run=rejected, user=reviewer)

    def test_who_joins_the_team_meanwhile_decides_no_more(self, rejected: Run, people: People) -> None:
        take_case(run=rejected, user=people.staff)
        add_member(team=people.team, user=people.staff)
        with pytest.raises(PermissionDenied):
            decide(run=rejected, user=people.staff, kind="overturn", reason=REASON, verdict_number=1)


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_one_gets_the_case(rejected: Run, people: People) -> None:
    reviewers = [User.objects.create_user(f"reviewer-{number}", is_staff=True) for number in range(6)]

    def take(number: int) -> bool:
        try:
            take_case(run=rejected, user=reviewers[number])
        except ValidationError:
            return False
        return True

    assert sorted(do_at_once(take)) == [False] * 5 + [True]


class TestDeciding:
    def test_an_overturned_verdict_is_revised_and_counts(self, rejected: Run, people: People) -> None:
        decision = settle(rejected, people.staff)
        assert rejected.verdict is not None
        assert (rejected.verdict.number, rejected.verdict.outcome, rejected.verdict.reason) == (2, "accepted", REASON)
        assert decision.result == rejected.verdict
        assert (Standing.objects.get().accepted, Standing.objects.get().rejected) == (1, 0)
        event = TrailEvent.objects.about(rejected).last()
        assert event is not None
        assert (event.action, event.actor) == ("review.overturn", people.staff)
        assert event.before_values["verdict"]["outcome"] == "rejected"
        assert event.after_values["verdict"]["outcome"] == "accepted"

    def test_an_accepted_run_may_be_rejected(self, submit: Submit, finish: Finish, people: People) -> None:
        run = finish(submit(visibility="public"))
        settle(run, people.staff, ruling=Ruling(FailureCode.STALE_CONSTANT))
        assert run.verdict is not None
        assert (run.verdict.outcome, run.verdict.primary_failure) == ("rejected", "STALE_CONSTANT")
        assert Standing.objects.get().failure_modes == {"stale_output": 1}

    def test_an_upheld_verdict_stays_and_waits_no_longer(self, rejected: Run, people: People) -> None:
        assert list(list_reviewable(people.staff)) == [rejected]
        settle(rejected, people.staff, "uphold")
        assert rejected.verdicts.count() == 1
        assert list(list_reviewable(people.staff)) == []
        assert Case.objects.get().holder is None

    def test_a_flag_or_a_question_leaves_the_case_open(self, rejected: Run, people: People) -> None:
        settle(rejected, people.staff, "ask")
        settle(rejected, people.staff, "flag", pattern="remembers the last input")
        assert list(list_reviewable(people.staff)) == [rejected]
        assert Case.objects.get().holder == people.staff

    def test_verified_again_it_is_judged_anew(self, rejected: Run, people: People) -> None:
        settle(rejected, people.staff, "reverify")
        assert (rejected.state, rejected.priority) == (State.QUEUED, -10)
        assert list(list_reviewable(people.staff)) == []
        with pytest.raises(ValidationError, match="again already"):
            settle(rejected, people.staff, "reverify")
        with pytest.raises(ValidationError, match="being verified"):
            settle(rejected, people.staff, "overturn")
        held = lease.claim_run(environment="cpu-interpreter", worker="w")
        assert held is not None
        assert held.lease_token is not None
        lease.finish_run(token=held.lease_token, verdict=judge(held))
        rejected.refresh_from_db()
        assert rejected.verdict is not None
        assert (rejected.verdict.outcome, rejected.verdict.decided_by) == ("accepted", None)

    def test_a_verdict_that_changed_meanwhile_is_not_decided_on(self, rejected: Run, people: People) -> None:
        with pytest.raises(ValidationError, match="another verdict"):
            settle(rejected, people.staff, "uphold", verdict_number=2)

    @pytest.mark.parametrize("reason", ["", "wrong", " " * 40, "x" * 4_001])
    def test_a_reason_has_to_be_one(self, rejected: Run, people: People, reason: str) -> None:
        with pytest.raises(ValidationError, match="others will read why"):
            settle(rejected, people.staff, reason=reason)
        assert rejected.verdicts.count() == 1

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"kind": "flag"}, "Name the pattern"),
            ({"kind": "pardon"}, "Choose one of"),
            ({"ruling": Ruling(FailureCode.PREC_TF32)}, "says already"),
            ({"ruling": Ruling(FailureCode.INFRA_GPU_FAULT)}, "No run is rejected for"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, rejected: Run, people: People, given: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(ValidationError, match=words):
            settle(rejected, people.staff, **given)
        assert not Decision.objects.exists()

    def test_the_team_is_told(self, rejected: Run, people: People) -> None:
        settle(rejected, people.staff, "uphold")
        told = Notification.objects.filter(kind="decision")
        assert set(told.values_list("user__username", flat=True)) == {"alice", "bob"}


class TestAppeals:
    def test_a_team_appeals_once_for_each_verdict(self, rejected: Run, people: People) -> None:
        open_appeal(run=rejected, user=people.bob, reason=REASON)
        with pytest.raises(PermissionDenied):
            open_appeal(run=rejected, user=people.alice, reason=REASON)
        settle(rejected, people.staff, ruling=Ruling(FailureCode.CORR_VALUE))
        assert Appeal.objects.get().decision is not None
        open_appeal(run=rejected, user=people.alice, reason=REASON)
        assert Appeal.objects.count() == 2

    @pytest.mark.parametrize("name", ["charlie", "staff", "admin"])
    def test_others_do_not(self, rejected: Run, people: People, name: str) -> None:
        with pytest.raises(PermissionDenied):
            open_appeal(run=rejected, user=getattr(people, name), reason=REASON)

    def test_there_is_nothing_to_appeal_in_a_run_that_passes(
        self, submit: Submit, finish: Finish, people: People
    ) -> None:
        with pytest.raises(PermissionDenied):
            open_appeal(run=finish(submit()), user=people.alice, reason=REASON)

    def test_an_upheld_verdict_waits_again_when_appealed(self, rejected: Run, people: People) -> None:
        settle(rejected, people.staff, "uphold")
        open_appeal(run=rejected, user=people.alice, reason=REASON)
        assert list(list_reviewable(people.staff)) == [rejected]
        settle(rejected, people.staff, "uphold")
        assert list(list_reviewable(people.staff)) == []

    def test_an_appeal_outlives_a_further_verdict(self, rejected: Run, people: People) -> None:
        open_appeal(run=rejected, user=people.alice, reason=REASON)
        settle(rejected, people.staff, "reverify")
        assert list(list_reviewable(people.staff)) == [rejected]
        assert Appeal.objects.open().count() == 1

    def test_a_question_is_answered_once_by_the_team(self, rejected: Run, people: People) -> None:
        question = settle(rejected, people.staff, "ask")
        with pytest.raises(PermissionDenied):
            reply_to(decision=question, user=people.charlie, text="Hello.")
        reply_to(decision=question, user=people.bob, text="Because of the mask.")
        with pytest.raises(ValidationError, match="already"):
            reply_to(decision=question, user=people.alice, text="Again.")
        assert Reply.objects.get().text == "Because of the mask."


class TestQueue:
    def list_groups(self, user: User) -> list[tuple[list[Run], bool]]:
        _, groups = read_page(list_reviewable(user), None)
        return [(group.runs, group.fast) for group in groups]

    def test_appeals_come_first_then_what_was_fast(self, submit: Submit, finish: Finish, people: People) -> None:
        def make(number: int, **given: object) -> Run:
            return finish(
                submit(source=f"class ModelNew{'()' * number}: pass\n"), reject, FailureCode.PREC_TF32, **given
            )

        slow = make(1)
        fast = make(2, measured_speedup=3.0, target=2.0)
        appealed = make(3)
        open_appeal(run=appealed, user=people.alice, reason=REASON)
        assert self.list_groups(people.staff) == [([appealed], False), ([fast], True), ([slow], False)]

    def test_what_looks_alike_is_one_case(self, submit: Submit, finish: Finish, visit: Visit, people: People) -> None:
        runs = [finish(submit(source=f"class ModelNew:\n    pass  # {number}\n"), reject) for number in range(9)]
        page = visit("staff").get("/review/").content.decode()
        assert "8 alike" in page
        assert "and 3 more" in page
        ((named, _),) = self.list_groups(people.staff)
        assert named == runs[:6]

    def test_ones_own_teams_are_left_out(self, rejected: Run, people: People) -> None:
        add_member(team=people.team, user=people.staff)
        assert list(list_reviewable(people.staff)) == []
        assert list(list_reviewable(people.admin)) == [rejected]

    @pytest.mark.parametrize(
        ("query", "shown"),
        [
            ("", True),
            ("kind=appeals", False),
            ("kind=fast", False),
            ("held=free", True),
            ("held=mine", False),
            ("mode=precision_loss", True),
            ("mode=incorrect", False),
            ("task=l1-09&environment=cpu-interpreter", True),
            ("task=l1-01", False),
            ("pattern=tricks", False),
            ("kind=nonsense&page=x", True),
        ],
    )
    def test_filters(self, rejected: Run, visit: Visit, query: str, *, shown: bool) -> None:
        page = visit("staff").get(f"/review/?{query}").content.decode()
        assert (str(rejected.public_id)[:8] in page) is shown

    def test_a_flagged_pattern_is_found_again(self, rejected: Run, people: People, visit: Visit) -> None:
        settle(rejected, people.staff, "flag", pattern="Tricks")
        page = visit("staff").get("/review/?pattern=tricks&held=mine").content.decode()
        assert str(rejected.public_id) in page

    def test_an_empty_queue_says_so(self, visit: Visit) -> None:
        assert "Nothing waits" in visit("staff").get("/review/").content.decode()


class TestPages:
    def post(self, client: Client, run: Run, deed: str, **data: object) -> str:
        response = client.post(f"/review/{run.public_id}/{deed}/", data, follow=True)
        return response.content.decode()

    def test_a_reviewer_takes_a_case_and_overturns_it(self, rejected: Run, visit: Visit) -> None:
        client = visit("staff")
        page = client.get(f"/review/{rejected.public_id}/").content.decode()
        assert "Nobody holds this case" in page
        assert "PREC_TF32" in page
        page = self.post(client, rejected, "take")
        assert "You hold this case until" in page
        page = self.post(client, rejected, "decide", kind="overturn", ruling="accept", reason=REASON, verdict_number=1)
        assert "kept, and shown to the team" in page
        team = visit("bob").get(f"/runs/{rejected.public_id}/").content.decode()
        assert "The verdict was revised" in team
        assert REASON in team

    def test_a_refused_decision_keeps_what_was_typed(self, rejected: Run, visit: Visit) -> None:
        client = visit("staff")
        self.post(client, rejected, "take")
        page = self.post(client, rejected, "decide", kind="uphold", reason="too short", verdict_number=1)
        assert "at least 20 characters" in page
        assert "too short</textarea>" in page
        assert not Decision.objects.exists()

    def test_who_opens_a_case_reads_its_source_and_that_is_recorded(self, rejected: Run, visit: Visit) -> None:
        visit("staff").get(f"/review/{rejected.public_id}/")
        assert TrailEvent.objects.filter(action="source.read", actor_name="staff").count() == 1

    def test_the_team_appeals_and_sees_what_comes_of_it(self, rejected: Run, visit: Visit, people: People) -> None:
        client = visit("alice")
        page = client.get(f"/runs/{rejected.public_id}/").content.decode()
        assert "Appeal against this verdict" in page
        page = client.post(f"/runs/{rejected.public_id}/appeal/", {"reason": REASON}, follow=True).content.decode()
        assert "waits for a reviewer" in page
        assert "Appeal against this verdict" not in page
        settle(rejected, people.staff, "uphold", reason="The instruction multiplies in TF32, as the excerpt shows.")
        page = client.get(f"/runs/{rejected.public_id}/").content.decode()
        assert "refused" in page
        assert "as the excerpt shows" in page

    def test_a_question_is_answered_on_the_page(self, rejected: Run, visit: Visit, people: People) -> None:
        question = settle(rejected, people.staff, "ask")
        client = visit("bob")
        assert 'name="text"' in client.get(f"/runs/{rejected.public_id}/").content.decode()
        client.post(f"/runs/{rejected.public_id}/reply/{question.pk}/", {"text": "Because of the mask."})
        assert "Because of the mask." in visit("staff").get(f"/review/{rejected.public_id}/").content.decode()

    def test_strangers_see_revisions_and_no_more(self, rejected: Run, visit: Visit, people: People) -> None:
        open_appeal(run=rejected, user=people.alice, reason=REASON + " appealed")
        settle(rejected, people.staff, "ask", reason=REASON + " asked")
        settle(rejected, people.staff, "overturn", reason=REASON + " revised")
        page = visit("anonymous").get(f"/runs/{rejected.public_id}/").content.decode()
        assert "revised" in page
        assert "appealed" not in page
        assert "asked" not in page

    def test_markup_is_inert_everywhere(self, submit: Submit, finish: Finish, visit: Visit, people: People) -> None:
        run = finish(submit(source=f"'{MARKUP}'\n", visibility="public"), reject, FailureCode.PREC_TF32)
        other = finish(submit(source=f"'{MARKUP}'\nx = 1\n", visibility="public"), reject)
        open_appeal(run=run, user=people.alice, reason=f"{MARKUP} and more")
        question = settle(run, people.staff, "ask", reason=f"{MARKUP} and more")
        reply_to(decision=question, user=people.alice, text=MARKUP)
        settle(run, people.staff, "flag", reason=f"{MARKUP} and more", pattern=MARKUP)
        reviewer = visit("staff")
        for path in (
            "/review/",
            "/review/trail/",
            f"/review/{run.public_id}/",
            f"/review/{run.public_id}/diff/{other.public_id}/",
            f"/runs/{run.public_id}/",
        ):
            page = reviewer.get(path).content.decode()
            assert "<script>alert" not in page, path
            assert "<img src=x" not in page, path

    def test_the_trail_takes_any_filter(self, visit: Visit, people: People) -> None:
        for action in ("\0", "'--", "a" * 5_000):
            assert visit("staff").get("/review/trail/", {"action": action}).status_code == 200

    def test_a_run_alike_that_still_waits_is_not_offered(self, rejected: Run, submit: Submit, visit: Visit) -> None:
        waiting = submit()
        page = visit("staff").get(f"/review/{rejected.public_id}/").content.decode()
        assert str(waiting.public_id) not in page

    def test_two_runs_stand_side_by_side(self, submit: Submit, finish: Finish, visit: Visit) -> None:
        left = finish(submit(source="a = 1\nb = 2\n"), reject)
        right = finish(submit(source="a = 1\nb = 3\n"))
        client = visit("staff")
        found = client.get(f"/review/{left.public_id}/diff/", {"with": f"/runs/{right.public_id}/"}, follow=True)
        page = found.content.decode()
        assert re.search(r"difference__row--replace", page)
        assert TrailEvent.objects.filter(action="source.read").count() == 2
        lost = client.get(f"/review/{left.public_id}/diff/", {"with": "nonsense"}, follow=True).content.decode()
        assert "No other judged run" in lost

    def test_runs_of_two_tasks_do_not_compare(
        self, rejected: Run, submit: Submit, finish: Finish, visit: Visit
    ) -> None:
        other = finish(submit(task=Task.objects.get(id="l1-01")))
        assert visit("staff").get(f"/review/{rejected.public_id}/diff/{other.public_id}/").status_code == 404

    def test_a_timed_case_shows_its_timing(self, visit: Visit, submit: Submit, finish: Finish, gpu: object) -> None:
        run = finish(submit(environment=gpu), judge_timed, outcome="rejected", failures=["PREC_TF32"], speedup=None)
        page = visit("staff").get(f"/review/{run.public_id}/").content.decode()
        assert 'data-chart="timing"' in page
        assert "Two clocks" in page
