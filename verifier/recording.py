"""Recorded runs: submissions of the house's own, each with the verdict that it really got.

A folder of ``tasks/recorded/`` holds an index, the submitted files, and ``verdicts/<environment>/<name>.json``, which
only `kq record` writes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from verifier.task import Task, TaskError, parse_toml
from verifier.verdict import FailureCode, Verdict

INDEX = "index.toml"
# What a reference file holds beside the model.
NOT_THE_MODEL = {"get_init_inputs", "generate"}
COMPILED = """

class ModelNew(Model):
    \"\"\"The reference, compiled as the baseline is.\"\"\"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.compiled = torch.compile(super().forward)

    def forward(self, *inputs):
        return self.compiled(*inputs)
"""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class RecordedSubmission(Model):
    """One run of the house's own. Without a file it is a run that delivered none."""

    name: Name
    task: str = Field("", description="the task, where it is not the index's")
    system: str = Field("", description="what the run is shown as, such as: Reference, resubmitted")
    file: str = Field("", pattern=r"^$|^[\w-]+\.py$")
    archetype: str = ""
    published: str = Field("", description="what was published about such a run")
    expected: FailureCode | Literal[""] = Field("", description="the primary code, empty for an accepted run")


class RecordedIndex(Model):
    """The contents of index.toml."""

    schema_id: Literal["kernelquest.recorded/1"] = Field(alias="schema")
    task: str = ""
    submissions: list[RecordedSubmission] = Field(alias="submission", min_length=1)

    @model_validator(mode="after")
    def check_names(self) -> RecordedIndex:
        names = [item.name for item in self.submissions]
        if len(names) != len(set(names)):
            raise ValueError(f"names repeat: {sorted(names)}")
        if not self.task and not all(item.task for item in self.submissions):
            raise ValueError("each submission names its task where the index names none")
        return self


def load_index(folder: Path) -> RecordedIndex:
    """Return the index of a folder of recorded runs. Raises TaskError, also for a file that is missing."""
    path = folder / INDEX
    try:
        index = RecordedIndex.model_validate(parse_toml(path))
    except ValidationError as error:
        first = error.errors()[0]
        raise TaskError(path, ".".join(map(str, first["loc"])), first["msg"]) from error
    for item in index.submissions:
        if item.file and not (folder / item.file).is_file():
            raise TaskError(path, item.name, f"{item.file} is missing")
    return index


def read_submission(folder: Path, item: RecordedSubmission) -> bytes:
    """Return what was submitted: nothing at all for a run without a file."""
    return (folder / item.file).read_bytes() if item.file else b""


def find_verdict(folder: Path, environment: str, item: RecordedSubmission) -> Path:
    """Return where the verdict of a recorded run lies."""
    return folder / "verdicts" / environment / f"{item.name}.json"


def load_verdict(folder: Path, environment: str, item: RecordedSubmission) -> Verdict | None:
    """Return the recorded verdict, or None when there is none yet. Raises TaskError."""
    path = find_verdict(folder, environment, item)
    if not path.is_file():
        return None
    try:
        return Verdict.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise TaskError(path, "", str(error.errors()[0]["msg"])) from error


def write_verdict(folder: Path, item: RecordedSubmission, verdict: Verdict) -> Path:
    """Write a verdict, whole or not at all, and return its path."""
    path = find_verdict(folder, verdict.environment, item)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(verdict.to_json(indent=1) + "\n", encoding="utf-8")
    return unfinished.replace(path)


def list_names(node: ast.AST) -> set[str]:
    """Return every name that some code uses."""
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def list_defined(statement: ast.stmt) -> set[str]:
    """Return the names that a statement at the top of a file defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)}


def find_needed(statements: list[ast.stmt]) -> set[str]:
    """Return the names of everything at the top of a file that the model needs."""
    needed, fresh = set(), {"Model"}
    while fresh:
        needed |= fresh
        used = {name for item in statements if list_defined(item) & fresh for name in list_names(item)}
        fresh = {name for item in statements for name in list_defined(item)} & used - needed
    return needed - NOT_THE_MODEL


def is_kept(statement: ast.stmt, needed: set[str]) -> bool:
    """Return whether a statement of a reference belongs to the model."""
    if isinstance(statement, ast.ImportFrom):
        return not (statement.module or "").startswith("verifier")
    return isinstance(statement, ast.Import) or bool(list_defined(statement) & needed)


def resubmit_reference(task: Task, *, compiled: bool) -> str:
    """Return a submission that is the task's own reference, eager or compiled: what the baseline is measured on."""
    tree = ast.parse(task.reference_source)
    needed = find_needed(tree.body)
    tree.body = [item for item in tree.body if is_kept(item, needed)]
    text = ast.unparse(tree) + "\n"
    if compiled:
        return text + COMPILED
    return text.replace("class Model(", "class ModelNew(", 1)


def list_house_submissions(tasks: list[Task], honest: Path) -> Iterator[tuple[RecordedSubmission, str]]:
    """Yield the house's runs of every task with their text: certified, plain Triton, and the reference both ways."""
    for task in tasks:
        plain = honest / f"{task.id.replace('-', '_')}_plain.py"
        runs = {
            "certified": ("Certified solution", (task.path / "certified.py").read_text(encoding="utf-8"), ""),
            "plain": ("Plain Triton", plain.read_text(encoding="utf-8") if plain.is_file() else "", ""),
            "eager": ("Reference, eager", resubmit_reference(task, compiled=False), FailureCode.STRUCT_NO_TRITON),
            "compiled": ("Reference, compiled", resubmit_reference(task, compiled=True), FailureCode.STRUCT_NO_TRITON),
        }
        for kind, (system, text, expected) in runs.items():
            if text:
                name = f"{task.id}-{kind}"
                file = f"{name.replace('-', '_')}.py"
                yield RecordedSubmission(name=name, task=task.id, system=system, file=file, expected=expected), text
