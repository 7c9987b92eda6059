"""Sample solutions to submit: one that is accepted and three that are not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "samples"


@dataclass(frozen=True)
class Sample:
    """One file of the samples folder, the task that it is for, and what to expect."""

    name: str
    task_id: str
    description: str

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.py"


SAMPLES = [
    Sample("honest", "l1-09", "Honest. Every gate that can be judged passes."),
    Sample("tf32", "l2-01", "A shortcut: tensor cores multiply in TF32, which is fast, close and not fp32."),
    Sample("constant", "l1-09", "A shortcut: the output does not follow the input."),
    Sample("unloadable", "l1-09", "Does not load: the file cannot be imported."),
]


def find_sample(name: str) -> Sample | None:
    """Return the sample called `name`, or None."""
    return next((sample for sample in SAMPLES if sample.name == name), None)
