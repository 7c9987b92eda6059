"""Conv-TasNet: each hidden distribution has the property for which it exists."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS, LoadedTask

SEEDS = range(3)


@pytest.fixture
def loaded() -> LoadedTask:
    return next(item for item in TASKS if item.task.id == "l3-13")


def encode(loaded: LoadedTask, distribution: str, seed: int) -> torch.Tensor:
    wave = loaded.generate(distribution, seed)["wave"]
    return torch.relu(loaded.build_model(seed).encoder(wave.unsqueeze(1)))


@pytest.mark.parametrize("seed", SEEDS)
def test_silence_gives_frames_without_any_variance(loaded: LoadedTask, seed: int) -> None:
    encoding = encode(loaded, "silence", seed)
    still = (encoding == 0).all(dim=1)
    assert (still.sum(dim=-1) > 0.8 * still.shape[-1]).all()
    assert (encoding.abs().amax(dim=(1, 2)) > 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_estimates_of_a_loud_wave_are_loud(loaded: LoadedTask, seed: int) -> None:
    loud, faint = (
        loaded.compute_oracles(loaded.generate(name, seed), loaded.build_model(seed))[0]
        for name in ("loud", "white-noise")
    )
    assert torch.allclose(loud, 1e3 * faint, rtol=1e-4, atol=1e-3 * float(loud.std()))


@pytest.mark.parametrize("seed", SEEDS)
def test_clipped_samples_have_one_magnitude(loaded: LoadedTask, seed: int) -> None:
    wave = loaded.generate("clipped", seed)["wave"]
    assert ((wave.abs() - 1.0).abs() < 0.01).double().mean() > 0.9
    assert (wave.sign().diff(dim=-1) != 0).any(dim=-1).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_has_no_pauses(loaded: LoadedTask, seed: int) -> None:
    def count_pauses(distribution: str) -> int:
        loudness = loaded.generate(distribution, seed)["wave"].abs().unfold(-1, 8, 8).amax(dim=-1)
        return int((loudness < 1e-3 * loudness.max()).sum())

    assert count_pauses("white-noise") == 0
    assert count_pauses("speech-like") > 0
