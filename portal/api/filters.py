from __future__ import annotations

import django_filters
from django.db.models import Q, QuerySet
from rest_framework.request import Request

from portal.runs.models import Run
from portal.runs.states import State
from verifier.verdict import FailureCode, Outcome

_JUDGED = [outcome for outcome in Outcome if outcome is not Outcome.INFRASTRUCTURE]


class RunFilters(django_filters.FilterSet):
    """What narrows a list of runs."""

    task = django_filters.CharFilter(method="narrow_task", label="The number or the slug of a task.")
    environment = django_filters.CharFilter("environment_id")
    system = django_filters.CharFilter("system__slug")
    team = django_filters.CharFilter("team__slug")
    campaign = django_filters.UUIDFilter("campaign__public_id")
    source_sha256 = django_filters.CharFilter("source_id", label="Runs of the same bytes.")
    state = django_filters.ChoiceFilter(choices=State.choices)
    outcome = django_filters.ChoiceFilter("verdict__outcome", choices=[(row.value, row.value) for row in _JUDGED])
    failure = django_filters.ChoiceFilter(
        "verdict__primary_failure", choices=[(code.value, code.value) for code in FailureCode]
    )
    mine = django_filters.BooleanFilter(method="narrow_mine", label="Only those of my teams.")

    class Meta:
        model = Run
        fields: list[str] = []

    request: Request

    def narrow_task(self, runs: QuerySet[Run], _name: str, value: str) -> QuerySet[Run]:
        return runs.filter(Q(task_id=value) | Q(task__slug=value))

    def narrow_mine(self, runs: QuerySet[Run], _name: str, value: bool) -> QuerySet[Run]:  # noqa: FBT001  as it is called
        if not value:
            return runs
        user = self.request.user
        return runs.filter(team__memberships__user=user) if user.is_authenticated else runs.none()
