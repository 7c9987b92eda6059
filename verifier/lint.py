"""Checks every task on disk: its specification, its Python files, its generators and its oracle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from verifier.environment import list_environments
from verifier.modules import TaskModules, load_task_modules
from verifier.oracle import compare_all
from verifier.task import Task, TaskError, find_tasks_root, list_task_folders, load_task_folder

# An honest fp32 computation must sit well inside the budget that a submission gets.
REFERENCE_SHARE = 1 / 3
SEED = 20_240_901


@dataclass(frozen=True)
class Complaint:
    """What is wrong with a task: file, key and reason."""

    file: str
    key: str
    reason: str


def complain(path: Path, key: str, reason: str) -> Complaint:
    return Complaint(str(path), key, reason)


def lint_tasks(root: Path | None = None) -> tuple[list[Task], list[Complaint]]:
    """Return the sound tasks and every complaint, environments included."""
    tasks: list[Task] = []
    complaints: list[Complaint] = []
    try:
        list_environments(root)
    except TaskError as error:
        complaints.append(complain(error.path, error.key, error.reason))
    seen: dict[str, Path] = {}
    for folder in list_task_folders(root):
        try:
            task = load_task_folder(folder)
            found = lint_task(task)
        except TaskError as error:
            complaints.append(complain(error.path, error.key, error.reason))
            continue
        if task.id in seen:
            found.append(complain(folder / "task.toml", "id", f"{task.id} is also the id of {seen[task.id]}"))
        seen[task.id] = folder
        complaints += found
        if not found:
            tasks.append(task)
    if not seen and not complaints:
        complaints.append(complain(root or find_tasks_root(), "", "holds no tasks"))
    return tasks, complaints


def lint_task(task: Task) -> list[Complaint]:
    """Return the complaints about one task whose specification is sound. Raises TaskError."""
    modules = load_task_modules(task)
    complaints = lint_source(task)
    for distribution in task.specification.distributions:
        complaints += lint_distribution(task, modules, distribution.name)
    return complaints


def lint_source(task: Task) -> list[Complaint]:
    """Check texts that must agree with the specification."""
    certified = task.path / "certified.py"
    text = certified.read_text(encoding="utf-8")
    needed = ("class ModelNew", "triton.jit")
    complaints = [complain(certified, "", f"does not contain {name!r}") for name in needed if name not in text]
    hidden = [item.name for item in task.specification.distributions if not item.visible]
    for file in ("instruction.md", "reference.py"):
        shown = (task.path / file).read_text(encoding="utf-8")
        leaked = [name for name in hidden if name in shown]
        complaints += [complain(task.path / file, "", f"names the hidden distribution {name!r}") for name in leaked]
    return complaints


def lint_distribution(task: Task, modules: TaskModules, name: str) -> list[Complaint]:
    """Check one generator, the oracle and the eager reference on it."""
    dims = task.specification.dims.small
    hidden = task.path / "hidden.py"
    first, again, other = (
        modules.generate(name, dims, torch.Generator().manual_seed(seed)) for seed in (SEED, SEED, SEED + 1)
    )
    if any(not torch.equal(first[key], again[key]) for key in first):
        return [complain(hidden, name, "the same seed gives different inputs")]
    if all(torch.equal(first[key], other[key]) for key in first):
        return [complain(hidden, name, "another seed gives the same inputs")]
    torch.manual_seed(SEED)
    model = modules.reference.Model(*modules.get_init_inputs(dims)).eval()
    state = {key: value.detach() for key, value in model.state_dict().items()}
    state_tensors = task.specification.list_state(dims)
    expected_state = {item.name: (item.resolve_shape(dims), item.dtype) for item in state_tensors}
    found_state = {key: (tuple(value.shape), str(value.dtype).removeprefix("torch.")) for key, value in state.items()}
    if expected_state != found_state:
        return [
            complain(task.path / "reference.py", "Model", f"has state {found_state}, task.toml says {expected_state}")
        ]
    with torch.no_grad():
        result = model(*first.values())
    outputs = list(result) if isinstance(result, tuple | list) else [result]
    oracle = modules.compute_oracle(first, state, dims)
    expected = [(item.resolve_shape(dims), item.dtype) for item in task.specification.outputs]
    found = [(tuple(value.shape), str(value.dtype).removeprefix("torch.")) for value in outputs]
    if found != expected or [tuple(value.shape) for value in oracle] != [shape for shape, _ in expected]:
        return [complain(task.path / "reference.py", "Model", f"returns {found}, task.toml says {expected}")]
    ratio = compare_all(outputs, oracle, task.specification.tolerance).budget_ratio
    if not ratio <= REFERENCE_SHARE:
        return [
            complain(
                task.path / "task.toml",
                "tolerance",
                f"the reference itself takes {ratio:.3g} of the budget on {name}; at most {REFERENCE_SHARE:.2f}",
            )
        ]
    return []
