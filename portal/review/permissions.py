"""Who may do what in review: predicates, and the views that they stand before."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest, HttpResponse

from portal.accounts.models import User
from portal.runs.models import Run
from verifier.verdict import Outcome

Visitor = User | AnonymousUser
View = Callable[..., HttpResponse]


def may_review(user: Visitor) -> bool:
    """Reviewers and administrators see the queue and every case."""
    return user.is_authenticated and user.is_staff


def may_administer(user: Visitor) -> bool:
    """Administrators have many runs verified again at once."""
    return may_review(user) and user.is_superuser


def may_decide(user: Visitor, run: Run) -> bool:
    """Nobody decides on a run of their own or of their own team."""
    return may_review(user) and not run.is_shared_with(user)


def may_appeal(user: Visitor, run: Run) -> bool:
    """A team appeals against a verdict that does not pass its run, as long as nobody has for that verdict."""
    return (
        run.verdict is not None
        and run.verdict.outcome in (Outcome.REJECTED, Outcome.BELOW_TARGET)
        and run.is_of_team_of(user)
        and not run.appeals.filter(verdict=run.verdict).exists()
    )


def _require(permit: Callable[[Visitor], bool], view: View) -> View:
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        # Whoever may not see a page is not told that there is one.
        if request.user.is_authenticated and not permit(request.user):
            raise Http404
        return view(request, *args, **kwargs)

    return login_required(answer)


def for_reviewers(view: View) -> View:
    """Let only reviewers and administrators see `view`; others find nothing there."""
    return _require(may_review, view)


def for_administrators(view: View) -> View:
    """Let only administrators see `view`; others find nothing there."""
    return _require(may_administer, view)
