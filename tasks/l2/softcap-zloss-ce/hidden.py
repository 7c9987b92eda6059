"""Soft-capped cross-entropy: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_permutation, draw_uniform

CAP = 30.0
SMOOTHING = 0.1
Z_WEIGHT = 1e-4
IGNORED = -100
ROWS_AT_ONCE = 128


def _draw_zipf_logits(rows: int, words: int, generator: torch.Generator) -> torch.Tensor:
    """Return log-probabilities of ranks, moved up by about 8. Every row is the same permutation, rotated by its own step."""
    rank = draw_permutation(words, generator).float() + 1.0
    scores = 8.0 - 1.1 * rank.log()
    rotations = torch.cat([scores, scores[:-1]]).unfold(0, words, 1)
    rotated = rotations[draw_integers(0, words, rows, generator)]
    return rotated + draw_uniform((rows, 1), -2.0, 2.0, generator)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    rows, words = dims["M"], dims["V"]
    labels = draw_integers(0, words, rows, generator)
    half = draw_permutation(rows, generator) < rows // 2
    match distribution:
        case "saturated":
            logits = 200.0 * draw_gaussian((rows, words), generator)
        case "long-tail":
            logits = _draw_zipf_logits(rows, words, generator)
        case "half-skipped":
            logits = 3.0 * draw_gaussian((rows, words), generator)
            labels = labels.masked_fill(half, IGNORED)
        case "single-word":
            word = torch.where(half, labels, draw_integers(0, words, rows, generator))
            logits = torch.full((rows, words), -1e4, device=generator.device)
            logits.scatter_(1, word.unsqueeze(-1), 10.0 ** draw_uniform((rows, 1), 1.0, 4.0, generator))
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"logits": logits, "labels": labels}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return loss and log-sum-exp in float64: the expected negative log-probability under the smoothed label."""
    losses, sums = [], []
    for logits, labels in zip(inputs["logits"].split(ROWS_AT_ONCE), inputs["labels"].split(ROWS_AT_ONCE), strict=True):
        capped = CAP * torch.tanh(logits.double() / CAP)
        largest = capped.amax(dim=-1, keepdim=True)
        lse = largest.squeeze(-1) + (capped - largest).exp().sum(dim=-1).log()
        surprise = lse.unsqueeze(-1) - capped
        known = labels != IGNORED
        picked = surprise.gather(-1, (labels * known).unsqueeze(-1)).squeeze(-1)
        entropy = (1.0 - SMOOTHING) * picked + SMOOTHING * surprise.mean(dim=-1)
        losses.append(torch.where(known, entropy + Z_WEIGHT * lse**2, 0.0))
        sums.append(lse)
    return torch.cat(losses), torch.cat(sums)
