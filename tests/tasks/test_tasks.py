"""What every task promises: its inputs, its oracle, and that the reference is well within the error budget."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import CASES, TASKS, LoadedTask

SEED = 20_240_601


@pytest.mark.parametrize(("loaded", "distribution"), CASES)
def test_inputs_are_what_the_task_says(loaded: LoadedTask, distribution: str) -> None:
    inputs = loaded.generate(distribution, SEED)
    expected = [(item.name, item.resolve_shape(loaded.dims), item.dtype) for item in loaded.task.specification.inputs]
    assert [(name, tuple(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in inputs.items()] == expected


@pytest.mark.parametrize(("loaded", "distribution"), CASES)
def test_inputs_follow_the_seed(loaded: LoadedTask, distribution: str) -> None:
    first, again, other = (loaded.generate(distribution, seed) for seed in (SEED, SEED, SEED + 1))
    for name, tensor in first.items():
        assert torch.equal(tensor, again[name])
        # A distribution may be about a tensor that holds one value only.
        assert not torch.equal(tensor, other[name]) or tensor.unique().numel() == 1
    assert any(not torch.equal(tensor, other[name]) for name, tensor in first.items())


@pytest.mark.parametrize(("loaded", "distribution"), CASES)
def test_reference_stays_within_a_third_of_the_budget(loaded: LoadedTask, distribution: str) -> None:
    for seed in range(SEED, SEED + 5):
        inputs, model = loaded.generate(distribution, seed), loaded.build_model(seed)
        assert not loaded.exceeds(model(*inputs.values()), loaded.compute_oracles(inputs, model), share=1 / 3)


@pytest.mark.parametrize(("loaded", "distribution"), CASES)
def test_reference_leaves_inputs_alone(loaded: LoadedTask, distribution: str) -> None:
    inputs = loaded.generate(distribution, SEED)
    kept = {name: tensor.clone() for name, tensor in inputs.items()}
    loaded.build_model(SEED)(*inputs.values())
    assert all(torch.equal(tensor, kept[name]) for name, tensor in inputs.items())


@pytest.mark.parametrize(("loaded", "distribution"), CASES)
def test_trivial_outputs_fail(loaded: LoadedTask, distribution: str) -> None:
    model = loaded.build_model(SEED)
    inputs, others = loaded.generate(distribution, SEED), loaded.generate(distribution, SEED + 1)
    oracles, first_input = loaded.compute_oracles(inputs, model), next(iter(inputs.values())).double()
    for index, other in enumerate(loaded.compute_oracles(others, model)):
        oracle = oracles[index]
        trivial = {
            "zeros": torch.zeros_like(oracle),
            "mean": torch.full_like(oracle, oracle.double().mean().item(), dtype=torch.float64),
            "another seed": other,
        }
        if first_input.shape == oracle.shape:
            trivial["input"] = first_input
        for name, output in trivial.items():
            outputs = (*oracles[:index], output, *oracles[index + 1 :])
            assert loaded.exceeds(outputs, oracles), name


@pytest.mark.parametrize(("loaded", "distribution"), CASES)
def test_skipping_the_last_row_fails(loaded: LoadedTask, distribution: str) -> None:
    inputs, model = loaded.generate(distribution, SEED), loaded.build_model(SEED)
    for oracle in loaded.compute_oracles(inputs, model):
        rows = oracle.reshape(-1, oracle.shape[-1] if oracle.ndim > 1 else 1)
        # An empty row of a graph is zero anyway.
        last = int(rows.abs().sum(dim=-1).nonzero()[-1])
        skipped = rows.clone()
        skipped[last] = 0
        assert loaded.exceeds(skipped, rows)


@pytest.mark.parametrize("loaded", TASKS, ids=lambda loaded: loaded.task.id)
def test_parameters_are_what_the_task_says_and_matter(loaded: LoadedTask) -> None:
    model = loaded.build_model(SEED)
    state = loaded.task.specification.list_state(loaded.dims)
    expected = {item.name: item.resolve_shape(loaded.dims) for item in state}
    assert {name: tuple(value.shape) for name, value in model.state_dict().items()} == expected
    inputs = loaded.generate(loaded.task.specification.distributions[0].name, SEED)
    oracles = loaded.compute_oracles(inputs, model)
    for value in model.state_dict().values():
        kept = value.clone()
        # A variance must stay positive.
        value.add_(torch.randn(value.shape).abs())
        assert loaded.exceeds(loaded.compute_oracles(inputs, model), oracles)
        value.copy_(kept)


@pytest.mark.parametrize("loaded", TASKS, ids=lambda loaded: loaded.task.id)
def test_unknown_distribution_is_refused(loaded: LoadedTask) -> None:
    for files in (loaded.reference, loaded.hidden):
        with pytest.raises(ValueError, match="unknown distribution 'moonlight'"):
            files.generate("moonlight", loaded.dims, torch.Generator())


@pytest.mark.parametrize("loaded", TASKS, ids=lambda loaded: loaded.task.id)
def test_reference_shows_no_hidden_distribution(loaded: LoadedTask) -> None:
    public = loaded.task.reference_source + loaded.task.instruction
    hidden = [item for item in loaded.task.specification.distributions if not item.visible]
    assert len(hidden) == 4
    assert [item.name for item in hidden if item.name in public] == []
