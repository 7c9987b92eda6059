"""Loads the Python files of a task. They are ours; a submission is never loaded here."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from verifier.task import Task, TaskError

if TYPE_CHECKING:
    import torch

NEEDED = {"reference.py": ("Model", "get_init_inputs", "generate"), "hidden.py": ("generate", "compute_oracle")}


def load_module(path: Path) -> ModuleType:
    """Return a task's file as a module. Raises TaskError when it does not load or lacks a name."""
    spec = importlib.util.spec_from_file_location(f"task_{path.parent.name.replace('-', '_')}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TaskError(path, "", f"does not load: {type(error).__name__}: {error}") from error
    for name in NEEDED.get(path.name, ()):
        if not hasattr(module, name):
            raise TaskError(path, name, "is missing")
    return module


@dataclass(frozen=True)
class TaskModules:
    """The callable parts of a task."""

    task: Task
    reference: ModuleType
    hidden: ModuleType

    def generate(
        self, distribution: str, dims: Mapping[str, int], generator: torch.Generator
    ) -> dict[str, torch.Tensor]:
        """Return one seeded input set, by input name, checked against the specification. Raises TaskError."""
        visible = {item.name for item in self.task.specification.visible_distributions}
        source = self.reference if distribution in visible else self.hidden
        inputs: dict[str, torch.Tensor] = source.generate(distribution, dims, generator)
        for expected in self.task.specification.inputs:
            found = inputs.get(expected.name)
            described = None if found is None else (tuple(found.shape), str(found.dtype).removeprefix("torch."))
            if described != (expected.resolve_shape(dims), expected.dtype):
                raise TaskError(Path(str(source.__file__)), f"{distribution}.{expected.name}", f"is {described}")
        return {expected.name: inputs[expected.name] for expected in self.task.specification.inputs}

    def compute_oracle(
        self, inputs: dict[str, torch.Tensor], state: dict[str, torch.Tensor], dims: Mapping[str, int]
    ) -> tuple[torch.Tensor, ...]:
        """Return the float64 (or exact) outputs."""
        oracle: Callable[..., tuple[torch.Tensor, ...]] = self.hidden.compute_oracle
        return oracle(inputs, state, dims)

    def get_init_inputs(self, dims: Mapping[str, int]) -> list[Any]:
        """Return the constructor's arguments."""
        return list(self.reference.get_init_inputs(dims))


def load_task_modules(task: Task) -> TaskModules:
    """Return the callable parts of `task`. Raises TaskError."""
    return TaskModules(task, load_module(task.path / "reference.py"), load_module(task.path / "hidden.py"))
