from __future__ import annotations

import runpy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from verifier.oracle import compare_all
from verifier.task import Task, load_tasks

Outputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class LoadedTask:
    """A task with its Python files, on its small dims."""

    task: Task
    reference: SimpleNamespace
    hidden: SimpleNamespace

    @property
    def dims(self) -> Mapping[str, int]:
        return self.task.specification.dims.small

    def generate(self, distribution: str, seed: int) -> dict[str, torch.Tensor]:
        visible = any(item.name == distribution for item in self.task.specification.visible_distributions)
        files = self.reference if visible else self.hidden
        inputs: dict[str, torch.Tensor] = files.generate(distribution, self.dims, torch.Generator().manual_seed(seed))
        return inputs

    def build_model(self, seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        model: torch.nn.Module = self.reference.Model(*self.reference.get_init_inputs(self.dims))
        return model

    def compute_oracles(self, inputs: dict[str, torch.Tensor], model: torch.nn.Module) -> Outputs:
        oracles: Outputs = self.hidden.compute_oracle(inputs, model.state_dict(), self.dims)
        assert all(oracle.dtype is torch.float64 or not oracle.is_floating_point() for oracle in oracles)
        return oracles

    def compute_oracle(self, inputs: dict[str, torch.Tensor], model: torch.nn.Module) -> torch.Tensor:
        (oracle,) = self.compute_oracles(inputs, model)
        return oracle

    def exceeds(self, output: torch.Tensor | Outputs, oracle: torch.Tensor | Outputs, share: float = 1.0) -> bool:
        """Return whether an output, or any of several, leaves that share of the error budget anywhere."""
        outputs, oracles = as_tuple(output), as_tuple(oracle)
        return not compare_all(list(outputs), oracles, self.task.specification.tolerance).budget_ratio <= share


def as_tuple(outputs: torch.Tensor | Sequence[torch.Tensor]) -> Outputs:
    return (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)


TASKS = [
    LoadedTask(
        task,
        SimpleNamespace(**runpy.run_path(str(task.path / "reference.py"))),
        SimpleNamespace(**runpy.run_path(str(task.path / "hidden.py"))),
    )
    for task in load_tasks()
]
CASES = [
    pytest.param(loaded, distribution.name, id=f"{loaded.task.id}-{distribution.name}")
    for loaded in TASKS
    for distribution in loaded.task.specification.distributions
]
