"""The spotlight: twelve published runs of one task as they were described, and our own re-creation of them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from portal.standings.published import Provenance
from verifier.task import find_tasks_root
from verifier.verdict import FailureCode, Outcome, Verdict

PATH = Path(__file__).parent / "data" / "spotlight.json"
RECORDED = Path("recorded") / "spotlight"


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedRuns(Model):
    """Runs that are described alike. Of one without a speedup only this is known: the passed run was slower."""

    kind: str
    count: int
    passed: bool
    timed: bool = True
    speedup: float | None = None
    speedup_provenance: Provenance = Provenance.UNKNOWN
    count_provenance: Provenance = Provenance.STATED
    labels: list[str]
    note: str = ""


class PublishedSpotlight(Model):
    """What the announcement says of the spotlight task."""

    schema_id: Literal["kernelquest.published-spotlight/1"] = Field(alias="schema")
    source: str
    task: str
    target: float
    bottleneck_percent: float
    steps_to_bottleneck: int
    shape: list[int]
    runs: list[PublishedRuns]

    @property
    def total(self) -> int:
        return sum(runs.count for runs in self.runs)

    @property
    def timed(self) -> int:
        return sum(runs.count for runs in self.runs if runs.timed)

    @property
    def passed(self) -> int:
        return sum(runs.count for runs in self.runs if runs.passed)

    def count_labelled(self, label: str) -> int:
        """Return how many runs were rejected for a reason, alone or beside others."""
        return sum(runs.count for runs in self.runs if label in runs.labels)

    @property
    def slowest(self) -> float:
        """The speedup of the passed run, which was the slowest that was timed."""
        return min(runs.speedup for runs in self.runs if runs.passed and runs.speedup)


class Recorded(Model):
    """One re-created submission, as the index of recorded submissions has it."""

    name: str
    file: str = ""
    archetype: str
    published: str
    expected: FailureCode | Literal[""]


class RecordedIndex(Model):
    """The re-created submissions of one task."""

    schema_id: Literal["kernelquest.recorded/1"] = Field(alias="schema")
    task: str
    submission: list[Recorded]


@dataclass(frozen=True)
class Archetype:
    """A re-created submission with its recorded verdict, or None while it has not been measured."""

    recorded: Recorded
    verdict: Verdict | None

    @property
    def agrees(self) -> bool | None:
        """Whether the verdict begins with the expected code; None while there is no verdict."""
        if self.verdict is None:
            return None
        return (self.verdict.primary_failure or "") == self.recorded.expected or (
            not self.recorded.expected and self.verdict.accepted
        )


@cache
def load_published(path: Path = PATH) -> PublishedSpotlight:
    """Return what was published. Raises pydantic.ValidationError when the file is malformed."""
    return PublishedSpotlight.model_validate_json(path.read_bytes())


def load_archetypes(environment: str | None, folder: Path | None = None) -> list[Archetype]:
    """Return the re-created submissions with their verdicts, read from ``verdicts/<environment>/<name>.json``.

    None stands for no environment, and then there is no verdict. Empty without an index. A verdict for another task or
    environment, or an infrastructure fault, is none.
    """
    folder = folder or find_tasks_root() / RECORDED
    if not (folder / "index.toml").is_file():
        return []
    index = RecordedIndex.model_validate(tomllib.loads((folder / "index.toml").read_text(encoding="utf-8")))
    if environment is None:
        return [Archetype(item, None) for item in index.submission]
    verdicts = folder / "verdicts" / environment
    return [
        Archetype(item, _load_verdict(verdicts / f"{item.name}.json", index.task, environment))
        for item in index.submission
    ]


def list_recorded_environments(folder: Path | None = None) -> list[str]:
    """Return the environments in which verdicts were recorded."""
    folder = folder or find_tasks_root() / RECORDED
    return sorted(path.name for path in (folder / "verdicts").glob("*") if path.is_dir())


def _load_verdict(path: Path, task: str, environment: str) -> Verdict | None:
    if not path.is_file():
        return None
    verdict = Verdict.model_validate_json(path.read_bytes())
    fits = (verdict.task, verdict.environment) == (task, environment)
    return verdict if fits and verdict.outcome is not Outcome.INFRASTRUCTURE else None
