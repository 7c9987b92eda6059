"""What an operator does with a job of Harbor: look at what it would become, and import it, all or nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from portal.accounts.models import Team, User
from portal.accounts.services import check_manager
from portal.campaigns.models import Campaign
from portal.catalog.models import Environment, Task
from portal.imports.jobs import Job, Trial
from portal.imports.models import ImportedTrial
from portal.imports.packages import Package, list_known
from portal.imports.policy import Decision, Fate, decide
from portal.review.trail import record_event
from portal.runs.models import Run
from portal.runs.services import (
    LONGEST_WALL_CLOCK,
    check_environment,
    check_source,
    check_visibility,
    keep_source,
    queue_run,
    record_submission,
)
from portal.systems.models import System
from portal.systems.services import found_system


@dataclass(frozen=True)
class Row:
    """One trial, and what would become of it."""

    trial: Trial
    task: str
    system: str
    decision: Decision
    imported: bool

    @property
    def is_new(self) -> bool:
        """True when a run would be made of it."""
        return self.decision.fate is Fate.SCORE and not self.imported


@dataclass(frozen=True)
class Preview:
    """All trials of a job, in the order in which they count as repetitions."""

    job: Job
    package: Package
    rows: list[Row]

    @property
    def new(self) -> list[Row]:
        """The rows of which runs would be made."""
        return [row for row in self.rows if row.is_new]

    @property
    def counts(self) -> Counter[str]:
        """How many trials there are of each fate; those imported before are one of their own."""
        return Counter("imported before" if row.imported else row.decision.fate.value for row in self.rows)


@dataclass
class Imported:
    """What an import made."""

    runs: list[Run] = field(default_factory=list)
    campaigns: list[Campaign] = field(default_factory=list)


def clean(text: str, cap: int) -> str:
    """Return a text of others as one line that a database and a terminal can take."""
    return " ".join("".join(item if item.isprintable() else " " for item in text).split())[:cap]


def name_system(trial: Trial) -> str:
    """Return what a system is called here: the model in its scaffold."""
    agent = trial.result.agent_info
    scaffold = clean(f"{agent.name} {agent.version}", 60)
    return clean(f"{agent.model_info.name} in {scaffold}" if agent.model_info else scaffold, 120)


def build_preview(job: Job, package: Package) -> Preview:
    """Return what a job would become now."""
    known = list_known(package)
    ids = [trial.result.id for trial in job.trials]
    imported: set[UUID] = set(ImportedTrial.objects.filter(trial__in=ids).values_list("trial", flat=True))
    rows = []
    for trial in sorted(job.trials, key=order):
        task = known[trial.result.task_name].task if trial.result.task_name in known else ""
        done = trial.result.id in imported
        rows.append(Row(trial, task, name_system(trial), decide(trial, known), done))
    return Preview(job, package, rows)


def order(trial: Trial) -> tuple[str, str, str, str]:
    """Return what trials are sorted by: system and task, then time, since Harbor numbers no attempts."""
    began = trial.result.started_at
    return name_system(trial), trial.result.task_name, began.isoformat() if began else "", trial.folder


@transaction.atomic
def import_job(  # noqa: PLR0913  each is named at the call
    *,
    user: User,
    team: Team,
    job: Job,
    package: Package,
    visibility: str = Run.Visibility.PRIVATE,
    release_source: bool = False,
) -> Imported:
    """Queue a run for every trial that counts and is not imported yet, or for none; workers verify them all again.

    It is an operator's act and claims no quota. Raises ValidationError, and PermissionDenied when `user` does not manage
    the team.
    """
    check_manager(team, user)
    check_visibility(visibility)
    environment = Environment.objects.filter(slug=package.environment).first()
    if environment is None:
        raise ValidationError(f"There is no environment {package.environment} here. Load it first: load_tasks.")
    check_environment(environment)
    # Of two imports at once the second finds what the first made.
    Team.objects.select_for_update().get(pk=team.pk)
    made = Imported()
    campaigns: dict[str, Campaign] = {}
    rows = build_preview(job, package).new
    # Before anything is written to the trail, and in one order, so that nobody waits for us while we wait for them.
    for text, content in sorted({take_artifact(row.trial)[:2] for row in rows}):
        keep_source(text, content)
    for row in rows:
        if row.system not in campaigns:
            system = find_system(user=user, team=team, row=row)
            campaigns[row.system] = find_campaign(job, system, environment) or begin_campaign(
                user=user, job=job, system=system, environment=environment, visibility=visibility,
                release_source=release_source,
            )  # fmt: skip
        made.runs.append(import_trial(user=user, row=row, job=job, campaign=campaigns[row.system]))
    made.campaigns = list(campaigns.values())
    for run in made.runs:
        record_submission(run)
    for campaign in made.campaigns:
        count = sum(run.campaign_id == campaign.pk for run in made.runs)
        record_event(actor=user, action="campaign.import", subject=campaign, after={"job": str(job.id), "runs": count})
    return made


def find_system(*, user: User, team: Team, row: Row) -> System:
    """Return the team's system of this name, made when it is not there."""
    known = team.systems.filter(name=row.system).first()
    if known:
        return known
    agent = row.trial.result.agent_info
    vendor = agent.model_info.provider if agent.model_info and agent.model_info.provider else ""
    return found_system(
        user=user, team=team, name=row.system, vendor=clean(vendor, 120), scaffold=clean(agent.name, 120),
        version=clean(agent.version, 60),
    )  # fmt: skip


def find_campaign(job: Job, system: System, environment: Environment) -> Campaign | None:
    """Return the campaign that earlier trials of the job went into."""
    return Campaign.objects.filter(runs__trial__job=job.id, system=system, environment=environment).first()


def begin_campaign(  # noqa: PLR0913  each is named at the call
    *, user: User, job: Job, system: System, environment: Environment, visibility: str, release_source: bool
) -> Campaign:
    """Make a campaign that was never a draft."""
    return Campaign.objects.create(
        system=system,
        team=system.team,
        environment=environment,
        title=clean(job.name, 120),
        state=Campaign.State.SUBMITTED,
        submitted_at=timezone.now(),
        visibility=visibility,
        source_released=release_source,
        created_by=user,
    )


def import_trial(*, user: User, row: Row, job: Job, campaign: Campaign) -> Run:
    """Queue the run of a trial, and keep what was recorded of it."""
    trial, result = row.trial, row.trial.result
    text, content, notes = take_artifact(trial)
    last = campaign.runs.filter(task=row.task).aggregate(Max("repetition"))["repetition__max"] or 0
    run = queue_run(
        user=user,
        task=Task.objects.get(id=row.task),
        environment=campaign.environment,
        system=campaign.system,
        text=text,
        content=content,
        visibility=campaign.visibility,
        release_source=campaign.source_released,
        wall_clock_seconds=measure_work(trial),
        campaign=campaign,
        repetition=last + 1,
    )
    used = result.agent_result
    ImportedTrial.objects.create(
        run=run,
        trial=result.id,
        job=job.id,
        name=clean(result.trial_name, 200),
        digest=trial.digest,
        exception=clean(result.exception_info.exception_type, 120) if result.exception_info else "",
        flagged=row.decision.flagged,
        claimed_reward=(result.verifier_result.rewards or {}).get("reward") if result.verifier_result else None,
        started_at=result.agent_execution.started_at if result.agent_execution else None,
        input_tokens=used.n_input_tokens if used else None,
        cached_tokens=used.n_cache_tokens if used else None,
        output_tokens=used.n_output_tokens if used else None,
        cost_usd=used.cost_usd if used else None,
        trajectory=trial.trajectory,
        notes="\n".join(clean(note, 500) for note in notes),
        imported_by=user,
    )
    return run


def take_artifact(trial: Trial) -> tuple[str, bytes, tuple[str, ...]]:
    """Return the solution as text and bytes, both empty where the agent left none that can be judged, and notes."""
    notes = trial.notes
    if trial.artifact is None:
        return "", b"", (*notes, "The agent left no solution.")
    try:
        text, content = check_source(trial.artifact)
    except ValidationError as error:
        return "", b"", (*notes, f"What the agent left is no solution: {' '.join(error.messages)}")
    return text, content, notes


def measure_work(trial: Trial) -> int | None:
    """Return how long the agent worked, in whole seconds, building and grading left out."""
    timing = trial.result.agent_execution
    seconds = timing.seconds if timing else None
    return round(seconds) if seconds is not None and 1 <= seconds <= LONGEST_WALL_CLOCK else None
