"""Runs and what became of them. The `Run` row is the queue: there is no other record of what is due."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from portal.accounts.models import Team, User
from portal.catalog.models import Environment, Task
from portal.runs.querysets import RunQuerySet, VerdictQuerySet
from portal.runs.states import HELD, TERMINAL, State
from portal.systems.models import System
from verifier.verdict import FailureCode, Gate, GateStatus, Outcome
from verifier.verdict import Verdict as VerdictBody

_NO_LEASE = Q(lease_token__isnull=True, lease_expires_at__isnull=True, worker="")
# A run that is verified again has ended before, and its verdict stands meanwhile.
_NOT_ENDED = Q(finished_at__isnull=True) | Q(verdict__isnull=False)


def _choices(values: type[Gate | GateStatus | Outcome | FailureCode]) -> list[tuple[str, str]]:
    return [(value.value, value.value.replace("_", " ")) for value in values]


class Source(models.Model):
    """The text of a submission. The same bytes are kept once."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    text = models.TextField()
    bytes = models.PositiveIntegerField()
    lines = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.sha256[:12]


class Run(models.Model):
    """One submitted solution for one task by one system, judged in one environment."""

    class Visibility(models.TextChoices):
        PRIVATE = "private", "Only me"
        TEAM = "team", "My team"
        PUBLIC = "public", "Everybody"

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="runs")
    task_digest = models.CharField(max_length=64, help_text="The task's digest when the run was submitted.")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="runs")
    system = models.ForeignKey(System, on_delete=models.PROTECT, related_name="runs")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="runs")
    submitted_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="runs")
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="runs")
    source_released = models.BooleanField(default=False, help_text="Everybody who sees the run may read its source.")
    visibility = models.CharField(max_length=7, choices=Visibility.choices, default=Visibility.PRIVATE)
    wall_clock_seconds = models.PositiveIntegerField(
        null=True, help_text="How long the agent worked on the solution, as its team says."
    )

    campaign = models.ForeignKey(
        "campaigns.Campaign", on_delete=models.PROTECT, null=True, related_name="runs", help_text="None for a lone run."
    )
    repetition = models.PositiveSmallIntegerField(null=True, help_text="Which run of its task within the campaign.")

    verdict = models.OneToOneField(
        "Verdict",
        on_delete=models.PROTECT,
        null=True,
        related_name="current_of",
        help_text="The one that stands: the last of its revisions.",
    )
    state = models.CharField(max_length=9, choices=State.choices, default=State.QUEUED)
    priority = models.SmallIntegerField(default=0, help_text="Higher goes first.")
    attempt = models.PositiveSmallIntegerField(default=0, help_text="How often a worker claimed the run.")
    max_attempts = models.PositiveSmallIntegerField(default=3)
    lease_token = models.UUIDField(null=True, unique=True, editable=False)
    lease_expires_at = models.DateTimeField(null=True)
    worker = models.CharField(max_length=120, blank=True)
    current_gate = models.CharField(max_length=11, choices=_choices(Gate), blank=True)
    progress = models.JSONField(default=dict, help_text="The last event of each gate, of timing and of waiting.")
    queued_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-queued_at", "-id"]
        indexes = [
            models.Index(
                F("environment"), F("priority").desc(), F("queued_at"), name="run_due", condition=Q(state="queued")
            ),
            models.Index(fields=["lease_expires_at"], name="run_leases", condition=Q(state__in=["leased", "running"])),
            models.Index(fields=["environment", "system", "state"], name="run_by_system"),
            models.Index(fields=["-queued_at", "-id"], name="run_newest"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=State.values), name="run_state_known"),
            models.CheckConstraint(
                condition=Q(visibility__in=["private", "team", "public"]), name="run_visibility_known"
            ),
            models.CheckConstraint(condition=Q(attempt__lte=F("max_attempts")), name="run_attempts_bounded"),
            models.UniqueConstraint(fields=["campaign", "task", "repetition"], name="run_once_per_repetition"),
            models.CheckConstraint(
                condition=Q(campaign__isnull=True, repetition__isnull=True)
                | Q(campaign__isnull=False, repetition__gte=1),
                name="run_repetition_of_a_campaign",
            ),
            models.CheckConstraint(
                condition=~Q(state="queued") | (_NO_LEASE & _NOT_ENDED & Q(attempt__lt=F("max_attempts"))),
                name="run_queued_consistent",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["leased", "running"])
                | _NOT_ENDED
                & Q(
                    lease_token__isnull=False,
                    lease_expires_at__isnull=False,
                    started_at__isnull=False,
                    attempt__gte=1,
                ),
                name="run_held_consistent",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["finished", "cancelled", "crashed"])
                | (_NO_LEASE & Q(finished_at__isnull=False)),
                name="run_ended_consistent",
            ),
        ]

    def __str__(self) -> str:
        return str(self.public_id)

    @property
    def is_held(self) -> bool:
        """True while a worker holds the run."""
        return self.state in HELD

    @property
    def is_terminal(self) -> bool:
        """True when nothing more will happen to the run."""
        return self.state in TERMINAL

    @property
    def is_verified_again(self) -> bool:
        """True while a worker is to judge, or judges, a run that has a verdict already."""
        return self.verdict_id is not None and not self.is_terminal

    def is_shared_with(self, user: User | AnonymousUser) -> bool:
        """True when the run is the user's own or one of their team."""
        return user.is_authenticated and (user.pk == self.submitted_by_id or self.is_of_team_of(user))

    def is_of_team_of(self, user: User | AnonymousUser) -> bool:
        """True when `user` speaks for the team of the run; whoever has left it does not, whoever submitted it."""
        return user.is_authenticated and self.team.memberships.filter(user=user).exists()

    def is_owned_by(self, user: User | AnonymousUser) -> bool:
        """True when `user` may cancel the run and change who sees it."""
        return user.is_authenticated and (user.is_superuser or self.is_of_team_of(user))

    def source_readable_by(self, user: User | AnonymousUser) -> bool:
        """True when `user`, who sees the run, may also read what was submitted."""
        return self.source_released or (user.is_authenticated and user.is_staff) or self.is_shared_with(user)


class Attempt(models.Model):
    """One execution of a run on a worker."""

    class Outcome(models.TextChoices):
        OPEN = "", "In progress"
        FINISHED = "finished", "Finished"
        INFRASTRUCTURE = "infrastructure", "Infrastructure fault"
        LEASE_EXPIRED = "lease_expired", "Worker lost"
        CANCELLED = "cancelled", "Cancelled"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveSmallIntegerField()
    worker = models.CharField(max_length=120)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=14, choices=Outcome.choices, blank=True, default=Outcome.OPEN)
    reason = models.CharField(max_length=300, blank=True)
    log_tail = models.TextField(blank=True, help_text="The end of what the verifier wrote; hostile text.")

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="attempt_number_once_per_run"),
            models.CheckConstraint(
                condition=Q(outcome="", ended_at__isnull=True) | (~Q(outcome="") & Q(ended_at__isnull=False)),
                name="attempt_ended_with_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.run_id}"


class Verdict(models.Model):
    """What the verifier found, or what a reviewer decided. Never updated: a correction is a revision, a further row."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="verdicts")
    number = models.PositiveSmallIntegerField(default=1, help_text="1 for the first verdict, then its revisions.")
    attempt = models.ForeignKey(
        Attempt, on_delete=models.PROTECT, related_name="verdicts", help_text="The one whose evidence it rests on."
    )
    reason = models.TextField(blank=True, help_text="Why the verdict before it was revised.")
    decided_by = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="+", null=True, help_text="None when the verifier judged."
    )
    outcome = models.CharField(max_length=14, choices=_choices(Outcome))
    primary_failure = models.CharField(max_length=40, choices=_choices(FailureCode), blank=True)
    failures = models.JSONField(default=list)
    speedup = models.FloatField(null=True)
    measured_speedup = models.FloatField(null=True)
    target = models.FloatField(null=True)
    reward = models.FloatField(null=True)
    capture = models.FloatField(null=True)
    verifier_version = models.CharField(max_length=60)
    body = models.JSONField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())

    objects = VerdictQuerySet.as_manager()

    class Meta:
        ordering = ["number"]
        indexes = [models.Index(fields=["outcome", "primary_failure"], name="verdict_by_failure")]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="verdict_number_once_per_run"),
            models.CheckConstraint(
                condition=Q(number=1, reason="", decided_by__isnull=True) | (Q(number__gt=1) & ~Q(reason="")),
                name="verdict_revision_has_reason",
            ),
            models.CheckConstraint(
                condition=Q(outcome__in=["passed", "accepted", "below_target", "rejected"]),
                name="verdict_never_infrastructure",
            ),
            models.CheckConstraint(
                condition=~Q(outcome="rejected") | Q(speedup__isnull=True), name="verdict_rejected_not_counted"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} {self.primary_failure}".strip()

    @property
    def primary_code(self) -> FailureCode | None:
        """The failure code that decides, with its mode and explanation."""
        return FailureCode(self.primary_failure) if self.primary_failure else None

    def parse_body(self) -> VerdictBody:
        """Return the verifier's verdict with all its evidence."""
        return VerdictBody.model_validate(self.body)


class GateResult(models.Model):
    verdict = models.ForeignKey(Verdict, on_delete=models.CASCADE, related_name="gates")
    gate = models.CharField(max_length=11, choices=_choices(Gate))
    status = models.CharField(max_length=9, choices=_choices(GateStatus))
    seconds = models.FloatField()
    note = models.TextField(blank=True)
    checks = models.JSONField(default=list)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["verdict", "gate"], name="gate_once_per_verdict")]

    def __str__(self) -> str:
        return f"{self.gate} {self.status}"
