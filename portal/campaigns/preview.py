"""What a draft would become: for each file the run that it is for, and what stands in the way."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from portal.accounts.models import User
from portal.campaigns.file_names import Place, PlaceError, find_place
from portal.campaigns.models import Campaign, CampaignFile
from portal.catalog.models import Task
from portal.runs.models import Run


@dataclass(frozen=True)
class Row:
    """One file of a draft."""

    file: CampaignFile
    task: Task | None
    repetition: int | None
    problem: str
    earlier: Run | None
    # The name of a file of the draft with the same bytes for the same task.
    twin: str

    @property
    def is_duplicate(self) -> bool:
        """True when the same bytes are submitted for the same task already, or twice in the draft."""
        return self.earlier is not None or bool(self.twin)


@dataclass(frozen=True)
class Preview:
    """All files of a draft, in the order of tasks and repetitions."""

    rows: list[Row]
    digest: str

    @property
    def problems(self) -> list[Row]:
        """The rows that no run can be made of."""
        return [row for row in self.rows if row.problem]

    @property
    def duplicates(self) -> list[Row]:
        """The rows whose bytes are submitted already, or twice."""
        return [row for row in self.rows if row.is_duplicate]

    @property
    def tasks(self) -> int:
        """How many tasks the files are for."""
        return len({row.task.pk for row in self.rows if row.task})


def compute_digest(files: Iterable[CampaignFile]) -> str:
    """Return what changes whenever a draft does."""
    lines = sorted(f"{file.name}\0{file.sha256}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def list_task_names() -> tuple[dict[str, Task], dict[str, str]]:
    """Return the active tasks by their numbers, and the number for each number and slug."""
    tasks = {task.pk: task for task in Task.objects.active().for_lists()}
    names = {task.slug.lower(): number for number, task in tasks.items()}
    return tasks, names | {number.lower(): number for number in tasks}


def find_earlier(campaign: Campaign, user: User, digests: Iterable[str]) -> dict[tuple[str, str], Run]:
    """Return the latest run of each task and digest that `user` sees, for the campaign's system and environment."""
    runs = Run.objects.visible_to(user).submitted_for(system=campaign.system, environment=campaign.environment)
    rows = runs.filter(source__in=set(digests)).order_by("queued_at", "id").only("public_id", "task", "source")
    return {(run.task_id, run.source_id): run for run in rows}


def build_preview(campaign: Campaign, user: User) -> Preview:
    """Return the preview of a draft as `user` sees it."""
    files = list(campaign.files.defer("text"))
    tasks, names = list_task_names()
    found = [(file, *_read_place(file.name, names)) for file in files]
    counts = Counter(place for _, place, _ in found if place)
    earlier = find_earlier(campaign, user, (file.sha256 for file in files))
    firsts: dict[tuple[str, str], str] = {}
    rows = []
    for file, place, reason in sorted(found, key=lambda item: _order(*item)):
        if place is None:
            rows.append(Row(file, None, None, reason, None, ""))
            continue
        key = (place.task, file.sha256)
        twin = firsts.setdefault(key, file.name)
        problem = _describe_clash(counts[place])
        rows.append(
            Row(file, tasks[place.task], place.repetition, problem, earlier.get(key), "" if twin == file.name else twin)
        )
    return Preview(rows, compute_digest(files))


def _describe_clash(files: int) -> str:
    return "" if files == 1 else f"{files} files are for this task and repetition. Remove all but one."


def _read_place(name: str, names: dict[str, str]) -> tuple[Place | None, str]:
    try:
        return find_place(name, names), ""
    except PlaceError as error:
        return None, str(error)


def _order(file: CampaignFile, place: Place | None, _reason: str) -> tuple[bool, str, int, str]:
    # What no run can be made of stands first.
    return (place is not None, place.task if place else "", place.repetition if place else 0, file.name)
