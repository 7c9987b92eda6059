"""Each hidden distribution of l2-15 has the property for which it exists."""

from __future__ import annotations

import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l2-15")
CAP = LOADED.reference.CAP
IGNORED = LOADED.reference.IGNORED


def draw(distribution: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    inputs = LOADED.generate(distribution, 1)
    loss, lse = LOADED.hidden.compute_oracle(inputs, {}, LOADED.dims)
    return inputs["logits"].double(), inputs["labels"], loss, lse


def test_saturated_logits_reach_the_cap() -> None:
    logits, *_ = draw("saturated")
    assert (CAP * torch.tanh(logits / CAP)).abs().gt(CAP - 0.01).double().mean() > 0.5


def test_few_words_of_a_long_tail_hold_most_of_the_weight() -> None:
    logits, *_ = draw("long-tail")
    weights = (CAP * torch.tanh(logits / CAP)).softmax(dim=-1).sort(dim=-1, descending=True).values
    assert (weights[:, : weights.shape[1] // 100].sum(dim=-1) > 0.5).all()
    assert (weights[:, 0] < 0.5).all()
    assert len({tuple(row.tolist()) for row in logits}) == len(logits)


def test_half_of_the_rows_are_skipped_and_keep_their_lse() -> None:
    _, labels, loss, lse = draw("half-skipped")
    ignored = labels == IGNORED
    assert int(ignored.sum()) == LOADED.dims["M"] // 2
    assert (loss[ignored] == 0).all()
    assert (loss[~ignored] > 1).all()
    assert (lse > 1).all()


def test_a_single_word_has_all_the_weight() -> None:
    logits, labels, loss, lse = draw("single-word")
    assert logits.float().exp().isinf().any()
    assert torch.allclose(lse, CAP * torch.tanh(logits.amax(dim=-1) / CAP), atol=1e-3)
    hit = logits.argmax(dim=-1) == labels
    assert LOADED.dims["M"] // 2 <= int(hit.sum()) < LOADED.dims["M"]
    assert loss[hit].max() < loss[~hit].min()
