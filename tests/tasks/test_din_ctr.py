"""Deep Interest Network: each hidden distribution has the property for which it exists."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS, LoadedTask

SEEDS = range(3)


@pytest.fixture
def loaded() -> LoadedTask:
    return next(item for item in TASKS if item.task.id == "l3-17")


@pytest.mark.parametrize("seed", SEEDS)
def test_full_histories_reach_the_last_step(loaded: LoadedTask, seed: int) -> None:
    inputs, model = loaded.generate("uniform-full", seed), loaded.build_model(seed)
    shorter = {**inputs, "length": inputs["length"] - 1}
    assert (inputs["length"] == loaded.dims["T"]).all()
    assert loaded.exceeds(loaded.compute_oracles(shorter, model), loaded.compute_oracles(inputs, model))


@pytest.mark.parametrize("seed", SEEDS)
def test_short_histories_have_every_length_from_none_to_three(loaded: LoadedTask, seed: int) -> None:
    assert loaded.generate("short", seed)["length"].unique().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", SEEDS)
def test_candidates_repeat_in_about_half_of_the_steps(loaded: LoadedTask, seed: int) -> None:
    inputs = loaded.generate("repeat-candidate", seed)
    same = inputs["history_items"] == inputs["candidate_item"].unsqueeze(-1)
    assert 0.4 < same.double().mean() < 0.65


@pytest.mark.parametrize("seed", SEEDS)
def test_one_interest_shows_weights_that_were_normalised(loaded: LoadedTask, seed: int) -> None:
    inputs, model = loaded.generate("one-interest", seed), loaded.build_model(seed)
    assert (inputs["history_items"] == inputs["history_items"][:, :1]).all()
    # A mean of equal rows is one row, which is what a single step gives.
    single = {**inputs, "length": torch.ones_like(inputs["length"])}
    assert loaded.exceeds(loaded.compute_oracles(single, model), loaded.compute_oracles(inputs, model))


@pytest.mark.parametrize("seed", SEEDS)
def test_popular_items_are_met_more_often_than_others(loaded: LoadedTask, seed: int) -> None:
    items = loaded.generate("popular", seed)["history_items"]
    assert (items < loaded.dims["VI"] // 5).double().mean() > 0.4
