"""What a task must show before it is admitted: wrong answers fail on it, honest ones have room, shortcuts are rejected.

Mutants are the reference's own oracle, spoilt in one way each. They are computed where the task is verified: on small
dims without a GPU, on the timed dims with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from verifier.admission import AdmissionReport, Finding
from verifier.environment import EnvironmentSpecification
from verifier.lint import REFERENCE_SHARE
from verifier.modules import TaskModules, load_task_modules
from verifier.oracle import compare_all
from verifier.task import Task, Tolerance

SEED = 20_261_130
SKIPPED_SHARE = 0.01

Outputs = tuple[torch.Tensor, ...]
Tensors = dict[str, torch.Tensor]


def keep_bits(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Return float64 values rounded to a significand of `bits`, the hidden bit included."""
    fraction, exponent = torch.frexp(values)
    return torch.ldexp(torch.round(fraction * 2.0**bits) / 2.0**bits, exponent)


@dataclass(frozen=True)
class Precision:
    """A narrower format: bits of the significand, and the largest value."""

    name: str
    bits: int
    largest: float

    def spoil(self, tensors: Mapping[str, torch.Tensor]) -> Tensors:
        """Return tensors whose floats went through this format; integers stay."""
        return {name: self.round(value) if value.is_floating_point() else value for name, value in tensors.items()}

    def round(self, values: torch.Tensor) -> torch.Tensor:
        rounded = keep_bits(values.double(), self.bits)
        return torch.where(rounded.abs() > self.largest, rounded.sign() * torch.inf, rounded)


BELOW = {
    "fp32": (Precision("tf32", 11, 3.4e38), Precision("fp16", 11, 65504.0), Precision("bf16", 8, 3.4e38)),
    "fp16": (Precision("bf16", 8, 3.4e38), Precision("fp8", 4, 448.0)),
}


def skip_rows(oracle: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return an output in which one row in a hundred, at least one that is not zero, was left out."""
    rows = oracle.reshape(-1, oracle.shape[-1] if oracle.ndim > 1 else 1).clone()
    filled = (rows != 0).any(dim=-1).nonzero().flatten()
    count = max(1, int(len(filled) * SKIPPED_SHARE))
    chosen = filled[torch.randperm(len(filled), generator=generator, device=generator.device)[:count].to(filled.device)]
    rows[chosen] = 0
    return rows.reshape(oracle.shape)


def spread_input(oracle: torch.Tensor, inputs: Tensors) -> torch.Tensor:
    """Return an output that repeats the first input's values."""
    first = next(value for value in inputs.values() if value.numel()).reshape(-1).to(oracle.dtype)
    repeats = -(-oracle.numel() // len(first))
    return first.repeat(repeats)[: oracle.numel()].reshape(oracle.shape)


def list_wrong_answers(inputs: Tensors, oracle: Outputs, other: Outputs) -> Iterator[tuple[str, Outputs]]:
    """Yield answers that must fail, by name. `other` is the oracle of another seed: a replay of the last call."""
    generator = torch.Generator(oracle[0].device).manual_seed(SEED)
    makers: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "zeros": torch.zeros_like,
        "mean": lambda output: torch.full_like(output, output.double().mean().item()),
        "input copy": lambda output: spread_input(output, inputs),
        "one row in a hundred left out": lambda output: skip_rows(output, generator),
    }
    for name, make in makers.items():
        yield name, tuple(make(output) for output in oracle)
    yield "replay of another call", other


class Admission:
    """One task under examination, in one environment."""

    def __init__(self, task: Task, environment: EnvironmentSpecification) -> None:
        self.task, self.environment = task, environment
        self.modules: TaskModules = load_task_modules(task)
        self.where = torch.device("cuda" if environment.timed else "cpu")
        dims = task.specification.dims
        self.dims = dims.timed if environment.dims == "timed" else dims.small
        self.tolerance: Tolerance = task.specification.tolerance
        torch.manual_seed(SEED)
        self.model = self.modules.reference.Model(*self.modules.get_init_inputs(self.dims)).to(self.where).eval()
        self.state = {name: value.detach() for name, value in self.model.state_dict().items()}
        self.exposed: set[str] = set()
        self.sensitive: set[str] = set()

    def draw(self, distribution: str, seed: int) -> Tensors:
        return self.modules.generate(distribution, self.dims, torch.Generator(self.where).manual_seed(seed))

    def solve(self, inputs: Tensors, state: Tensors | None = None) -> Outputs:
        return self.modules.compute_oracle(inputs, self.state if state is None else state, self.dims)

    def rate(self, outputs: Outputs, oracle: Outputs) -> float:
        return compare_all(list(outputs), oracle, self.tolerance).budget_ratio

    def examine(self, distribution: str) -> Iterator[Finding]:
        """Yield what one distribution shows."""
        inputs = self.draw(distribution, SEED)
        oracle = self.solve(inputs)
        with torch.no_grad():
            result = self.model(*inputs.values())
        eager = tuple(result) if isinstance(result, tuple | list) else (result,)
        ratio = self.rate(eager, oracle)
        yield Finding(
            test="eager reference",
            distribution=distribution,
            kind="must pass",
            budget_ratio=ratio,
            ok=ratio <= REFERENCE_SHARE,
        )
        for name, answer in list_wrong_answers(inputs, oracle, self.solve(self.draw(distribution, SEED + 1))):
            ratio = self.rate(answer, oracle)
            yield Finding(test=name, distribution=distribution, kind="must fail", budget_ratio=ratio, ok=ratio > 1)
        for precision in BELOW[self.task.specification.dtype]:
            ratio = self.rate(self.solve(precision.spoil(inputs), precision.spoil(self.state)), oracle)
            self.exposed |= {precision.name} if ratio > 1 else set()
            yield Finding(
                test=precision.name, distribution=distribution, kind="must fail somewhere", budget_ratio=ratio, ok=True
            )
        self.try_sensitivity(inputs, self.draw(distribution, SEED + 2), oracle)

    def try_sensitivity(self, inputs: Tensors, others: Tensors, oracle: Outputs) -> None:
        """Note which inputs and parameters change the result when they alone are another draw's."""
        torch.manual_seed(SEED + 2)
        model = self.modules.reference.Model(*self.modules.get_init_inputs(self.dims)).to(self.where).eval()
        state = {name: value.detach() for name, value in model.state_dict().items()}
        for name in inputs.keys() - self.sensitive:
            changed = {**inputs, name: change(inputs[name], others[name])}
            self.sensitive |= {name} if self.rate(self.solve(changed), oracle) > 1 else set()
        for name in self.state.keys() - self.sensitive:
            changed = {**self.state, name: change(self.state[name], state[name])}
            self.sensitive |= {name} if self.rate(self.solve(inputs, changed), oracle) > 1 else set()

    def run(self) -> Iterator[Finding]:
        """Yield every finding, distribution by distribution."""
        for item in self.task.specification.distributions:
            yield from self.examine(item.name)

    def report(self, findings: list[Finding]) -> AdmissionReport:
        """Return the whole answer, once every distribution was examined."""
        floats = any(value.is_floating_point() for value in (*self.draw_first().values(), *self.state.values()))
        names = [item.name for item in BELOW[self.task.specification.dtype]] if floats else []
        known = [*self.draw_first(), *self.state]
        return AdmissionReport(
            task=self.task.id,
            environment=self.environment.slug,
            findings=findings,
            unexposed=[name for name in names if name not in self.exposed],
            insensitive=[name for name in known if name not in self.sensitive],
        )

    def draw_first(self) -> Tensors:
        return self.draw(self.task.specification.distributions[0].name, SEED)


def change(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return another draw's values; where they are the same, as for fresh norms, values that grew by a half."""
    if torch.equal(value, other) and value.is_floating_point():
        return value * 1.5 + 0.5
    return other
