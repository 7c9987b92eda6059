from __future__ import annotations

import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from verifier.oracle import compute_budget
from verifier.task import Task, load_tasks


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

    def compute_oracle(self, inputs: dict[str, torch.Tensor], model: torch.nn.Module) -> torch.Tensor:
        (oracle,) = self.hidden.compute_oracle(inputs, model.state_dict(), self.dims)
        assert oracle.dtype is torch.float64
        return oracle

    def exceeds(self, output: torch.Tensor, oracle: torch.Tensor, share: float = 1.0) -> bool:
        """Return whether `output` leaves that share of the error budget anywhere."""
        budget = share * compute_budget(oracle, self.task.specification.tolerance)
        return bool(((output.double() - oracle).abs() > budget).any())


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
