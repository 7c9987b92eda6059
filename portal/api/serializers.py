"""What the API shows of each thing. Field names are the words of the glossary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.accounts.models import ApiToken, Membership, User
from portal.catalog.models import Environment, Task
from portal.runs.models import Run
from portal.runs.quotas import read_quota
from portal.runs.services import LONGEST_WALL_CLOCK
from portal.runs.states import State
from portal.systems.models import System
from verifier.verdict import FailureCode, Outcome

if TYPE_CHECKING:
    Slug = serializers.SlugRelatedField[Any]


class TaskSummary(serializers.ModelSerializer[Task]):
    class Meta:
        model = Task
        fields = ["id", "slug", "level", "family", "title", "dtype", "timing_mode", "spotlight", "active", "digest"]


class TaskDetail(TaskSummary):
    targets = serializers.SerializerMethodField(help_text="The certified target in each environment that has one.")

    class Meta(TaskSummary.Meta):
        fields = [
            *TaskSummary.Meta.fields,
            *("competency", "summary", "instruction", "reference_source", "dims", "distributions"),
            *("hidden_distributions", "tolerance", "floor", "structure", "targets"),
        ]

    def get_targets(self, task: Task) -> dict[str, float]:
        rows = task.certificates.filter(target__isnull=False)
        return {row.environment_id: row.target for row in rows if row.target is not None}


class EnvironmentDetail(serializers.ModelSerializer[Environment]):
    served = serializers.SerializerMethodField(help_text="Whether runs for it are taken here.")

    class Meta:
        model = Environment
        fields = ["slug", "title", "description", "official", "timed", "dims", "clock_policy", "device", "versions"]
        fields += ["served"]

    def get_served(self, environment: Environment) -> bool:
        return environment.slug in self.context["served"]


class SystemDetail(serializers.ModelSerializer[System]):
    scaffold = serializers.SerializerMethodField()
    team: Slug = serializers.SlugRelatedField("slug", read_only=True)

    class Meta:
        model = System
        fields = ["slug", "name", "vendor", "scaffold", "team"]

    def get_scaffold(self, system: System) -> str | None:
        return str(system.scaffold) if system.scaffold else None


class VerdictSummary(serializers.Serializer[Any]):
    """The figures of the verdict that stands. What was measured counts for a rejected run never."""

    number = serializers.IntegerField(help_text="1, or more when the verdict was revised.")
    outcome = serializers.ChoiceField([outcome.value for outcome in Outcome])
    primary_failure = serializers.ChoiceField([code.value for code in FailureCode], allow_null=True)
    failures = serializers.ListField(child=serializers.CharField())
    speedup = serializers.FloatField(allow_null=True)
    measured_speedup = serializers.FloatField(allow_null=True)
    target = serializers.FloatField(allow_null=True)
    reward = serializers.FloatField(allow_null=True)
    capture = serializers.FloatField(allow_null=True)
    verifier_version = serializers.CharField()
    created_at = serializers.DateTimeField()

    def to_representation(self, instance: Any) -> dict[str, Any]:  # noqa: ANN401  a row of verdicts
        values = super().to_representation(instance)
        return values | {"primary_failure": values["primary_failure"] or None}


class RunDetail(serializers.ModelSerializer[Run]):
    id = serializers.UUIDField(source="public_id")
    task = serializers.CharField(source="task_id")
    environment = serializers.CharField(source="environment_id")
    system: Slug = serializers.SlugRelatedField("slug", read_only=True)
    team: Slug = serializers.SlugRelatedField("slug", read_only=True)
    state = serializers.ChoiceField(State.choices)
    visibility = serializers.ChoiceField(Run.Visibility.choices)
    source_sha256 = serializers.CharField(source="source_id")
    campaign = serializers.UUIDField(source="campaign.public_id", allow_null=True)
    cancel_requested = serializers.SerializerMethodField()
    verdict = VerdictSummary(allow_null=True)
    page = serializers.SerializerMethodField(help_text="The address of the run's page.")

    class Meta:
        model = Run
        fields = ["id", "task", "task_digest", "environment", "system", "team", "state", "visibility"]
        fields += ["source_released", "source_sha256", "attempt", "current_gate", "progress", "queued_at", "started_at"]
        fields += ["finished_at", "cancel_requested", "wall_clock_seconds", "campaign", "repetition", "verdict", "page"]

    def get_cancel_requested(self, run: Run) -> bool:
        return run.cancel_requested_at is not None

    def get_page(self, run: Run) -> str:
        return reverse("runs:run_detail", args=[run.public_id])


class WatchedRun(RunDetail):
    ahead = serializers.SerializerMethodField(help_text="How many runs a worker takes before this one.")

    class Meta(RunDetail.Meta):
        fields = [*RunDetail.Meta.fields, "ahead"]

    def get_ahead(self, run: Run) -> int:
        return Run.objects.ahead_of(run).count() if run.state == State.QUEUED else 0


class WallClockField(serializers.IntegerField):
    """How long an agent worked, where its team says it."""

    def __init__(self, **given: Any) -> None:
        usual = {"allow_null": True, "default": None, "help_text": "How long the agent worked on the solution."}
        super().__init__(min_value=1, max_value=LONGEST_WALL_CLOCK, **usual | given)


class Submission(serializers.Serializer[Any]):
    task = serializers.CharField(max_length=60, help_text="Its number or its slug, such as `l1-09`.")
    environment = serializers.CharField(max_length=60)
    system = serializers.CharField(max_length=60)
    source = serializers.CharField(  # type: ignore[assignment]
        trim_whitespace=False, help_text="The text of solution.py, at most 256 KiB."
    )
    visibility = serializers.ChoiceField(Run.Visibility.choices, default=Run.Visibility.PRIVATE)
    release_source = serializers.BooleanField(default=False)
    wall_clock_seconds = WallClockField()
    allow_duplicate = serializers.BooleanField(
        default=False,
        help_text="Submit although the same bytes were submitted for the task, system and environment before. "
        "Without it such a request is answered 409, with the address of the earlier run in `earlier_run`.",
    )


class VisibilityChange(serializers.Serializer[Any]):
    visibility = serializers.ChoiceField(Run.Visibility.choices)
    release_source = serializers.BooleanField()


class TokenDetail(serializers.ModelSerializer[ApiToken]):
    class Meta:
        model = ApiToken
        fields = ["name", "scope", "expires_at"]


class QuotaDetail(serializers.Serializer[Any]):
    daily = serializers.IntegerField(help_text="Runs in 24 hours.")
    used = serializers.IntegerField()
    limit_open = serializers.IntegerField(help_text="Runs that may wait for their verdict.")
    open = serializers.IntegerField()
    left = serializers.IntegerField(help_text="Runs that may be submitted now.")
    next_slot = serializers.DateTimeField(allow_null=True)


class MembershipDetail(serializers.ModelSerializer[Membership]):
    team: Slug = serializers.SlugRelatedField("slug", read_only=True)
    role = serializers.ChoiceField(Membership.Role.choices)
    systems = serializers.SerializerMethodField()
    quota = serializers.SerializerMethodField()

    class Meta:
        model = Membership
        fields = ["team", "role", "systems", "quota"]

    def get_systems(self, membership: Membership) -> list[str]:
        return list(membership.team.systems.values_list("slug", flat=True))

    @extend_schema_field(QuotaDetail)
    def get_quota(self, membership: Membership) -> dict[str, Any]:
        return dict(QuotaDetail(read_quota(membership.team)).data)


class PersonDetail(serializers.ModelSerializer[User]):
    teams = MembershipDetail(source="memberships", many=True)
    token = serializers.SerializerMethodField(help_text="The token of this request, if it has one.")

    class Meta:
        model = User
        fields = ["username", "is_staff", "teams", "token"]

    @extend_schema_field(TokenDetail(allow_null=True))
    def get_token(self, _: User) -> dict[str, Any] | None:
        token = self.context["request"].auth
        return dict(TokenDetail(token).data) if isinstance(token, ApiToken) else None
