from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied, ValidationError

from portal.accounts.models import User
from portal.accounts.services import remove_member
from portal.review.permissions import may_appeal, may_decide
from portal.review.services import open_appeal
from portal.runs import lease
from portal.runs.models import Run
from portal.runs.services import cancel_run, set_visibility
from portal.runs.states import State
from portal.standings.models import Standing
from portal.systems.models import System
from tests.conftest import People, Submit
from tests.portal.factories import judge, reject


def find_user(people: People, name: str) -> User | AnonymousUser:
    return AnonymousUser() if name == "anonymous" else getattr(people, name)


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("anonymous", {"public"}),
        ("charlie", {"public"}),
        ("bob", {"public", "team"}),
        ("alice", {"public", "team", "private"}),
        ("staff", {"public", "team", "private"}),
    ],
)
def test_who_sees_which_runs(submit: Submit, people: People, name: str, seen: set[str]) -> None:
    for visibility in Run.Visibility.values:
        submit(visibility=visibility)
    visible = Run.objects.visible_to(find_user(people, name))
    assert sorted(visible.values_list("visibility", flat=True)) == sorted(seen)


def test_two_teams_do_not_show_a_run_twice(submit: Submit, people: People) -> None:
    people.other_team.memberships.create(user=people.bob)
    submit(visibility="team")
    assert Run.objects.visible_to(people.bob).count() == 1


@pytest.mark.parametrize(
    ("name", "released", "readable"),
    [
        ("anonymous", False, False),
        ("charlie", False, False),
        ("bob", False, True),
        ("alice", False, True),
        ("staff", False, True),
        ("anonymous", True, True),
        ("charlie", True, True),
    ],
)
def test_who_reads_the_source(submit: Submit, people: People, name: str, *, released: bool, readable: bool) -> None:
    run = submit(visibility="public", release_source=released)
    assert run.source_readable_by(find_user(people, name)) is readable


@pytest.mark.parametrize(
    ("name", "systems"), [("anonymous", 0), ("charlie", 0), ("bob", 1), ("alice", 1), ("staff", 0), ("admin", 1)]
)
def test_who_submits_for_a_system(system: System, people: People, name: str, systems: int) -> None:
    assert System.objects.submittable_by(find_user(people, name)).count() == systems


def test_whoever_has_left_the_team_changes_nothing_of_its_runs(submit: Submit, people: People) -> None:
    run = submit(user=people.bob, visibility="public")
    claimed = lease.claim_run(environment=run.environment_id, worker="w")
    assert claimed is not None
    assert claimed.lease_token is not None
    lease.finish_run(token=claimed.lease_token, verdict=reject(claimed))
    waiting = submit(user=people.bob, visibility="team")
    remove_member(team=people.team, user=people.alice, member=people.bob)
    run.refresh_from_db()
    with pytest.raises(PermissionDenied):
        set_visibility(run=run, user=people.bob, visibility="private", release_source=True)
    with pytest.raises(PermissionDenied):
        cancel_run(run=waiting, user=people.bob)
    with pytest.raises(PermissionDenied):
        open_appeal(run=run, user=people.bob, reason="The one appeal of the team for this verdict.")
    # What one wrote oneself stays readable, and nobody reviews it later.
    assert run.source_readable_by(people.bob)
    people.bob.is_staff = True
    assert not may_decide(people.bob, run)
    assert may_appeal(people.alice, run)


class TestCancel:
    def test_a_waiting_run_is_cancelled_at_once(self, run: Run, people: People) -> None:
        cancelled = cancel_run(run=run, user=people.bob)
        assert cancelled.state == State.CANCELLED
        assert cancelled.finished_at is not None
        assert lease.claim_run(environment="cpu-interpreter", worker="w") is None

    def test_a_stranger_may_not(self, run: Run, people: People) -> None:
        with pytest.raises(PermissionDenied):
            cancel_run(run=run, user=people.charlie)
        run.refresh_from_db()
        assert run.state == State.QUEUED

    def test_an_ended_run_stays_as_it_is(self, run: Run, people: People) -> None:
        cancel_run(run=run, user=people.alice)
        ended_at = run.finished_at
        with pytest.raises(ValidationError, match="has ended"):
            cancel_run(run=run, user=people.alice)
        run.refresh_from_db()
        assert run.finished_at == ended_at

    def test_asking_twice_keeps_the_first_time(self, run: Run, people: People) -> None:
        lease.claim_run(environment="cpu-interpreter", worker="w")
        first = cancel_run(run=run, user=people.alice).cancel_requested_at
        assert cancel_run(run=run, user=people.alice).cancel_requested_at == first


class TestSetVisibility:
    def test_it_moves_the_run_in_and_out_of_the_standings(self, run: Run, people: People) -> None:
        claimed = lease.claim_run(environment="cpu-interpreter", worker="w")
        assert claimed is not None
        assert claimed.lease_token is not None
        lease.finish_run(token=claimed.lease_token, verdict=judge(run))
        assert Standing.objects.get().runs == 0
        set_visibility(run=run, user=people.alice, visibility="public", release_source=True)
        assert (Standing.objects.get().runs, run.source_released) == (1, True)
        set_visibility(run=run, user=people.alice, visibility="team", release_source=False)
        assert Standing.objects.get().runs == 0

    def test_a_stranger_may_not(self, run: Run, people: People) -> None:
        with pytest.raises(PermissionDenied):
            set_visibility(run=run, user=people.charlie, visibility="public", release_source=False)

    def test_an_unknown_one_is_refused(self, run: Run, people: People) -> None:
        with pytest.raises(ValidationError, match="private, team, public"):
            set_visibility(run=run, user=people.alice, visibility="all", release_source=False)
