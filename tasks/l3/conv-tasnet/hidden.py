"""Conv-TasNet: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_uniform

WINDOW = 16
STRIDE = 8
BLOCKS_PER_REPEAT = 8
SPEAKERS = 2
EPSILON = 1e-8

State = Mapping[str, torch.Tensor]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, samples = shape = (dims["B"], dims["T"])
    wave = draw_gaussian(shape, generator)
    match distribution:
        case "white-noise":
            pass
        case "silence":
            start = draw_uniform((batch, 1), 0.0, 0.9, generator) * samples
            place = torch.arange(samples, device=wave.device)
            wave = wave * ((place >= start) & (place < start + samples / 10))
        case "clipped":
            period = draw_uniform((batch, 1), 20.0, 200.0, generator)
            phase = torch.arange(samples, device=wave.device) * (2 * torch.pi) / period
            wave = torch.sin(phase + draw_uniform((batch, 1), 0.0, 6.0, generator)).sign() + 1e-3 * wave
        case "loud":
            wave = wave * 1e3
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"wave": wave}


def _normalise(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    """Normalise one sample of frames by channels."""
    centred = h - h.mean()
    return centred / torch.sqrt(centred.square().mean() + EPSILON) * state[f"{name}.weight"] + state[f"{name}.bias"]


def _project(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    return h @ state[f"{name}.weight"].squeeze(-1).T + state[f"{name}.bias"]


def _rectify(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    return h.clamp(min=0.0) + state[f"{name}.weight"] * h.clamp(max=0.0)


def _convolve(h: torch.Tensor, state: State, name: str, dilation: int) -> torch.Tensor:
    """Convolve every channel along the frames, with zeros beyond both ends."""
    padded = torch.nn.functional.pad(h, (0, 0, dilation, dilation))
    taps = state[f"{name}.weight"].squeeze(1).unbind(-1)
    shifted = [padded[tap * dilation : tap * dilation + len(h)] * weight for tap, weight in enumerate(taps)]
    return sum(shifted, state[f"{name}.bias"])


def _compute_masks(encoding: torch.Tensor, state: State, blocks: int) -> torch.Tensor:
    h = _project(_normalise(encoding, state, "norm"), state, "bottleneck")
    total = torch.zeros_like(h)
    for index in range(blocks):
        name = f"blocks.{index}"
        hidden = _rectify(_project(h, state, f"{name}.expand"), state, f"{name}.activation1")
        hidden = _normalise(hidden, state, f"{name}.norm1")
        hidden = _convolve(hidden, state, f"{name}.depthwise", 2 ** (index % BLOCKS_PER_REPEAT))
        hidden = _normalise(_rectify(hidden, state, f"{name}.activation2"), state, f"{name}.norm2")
        total = total + _project(hidden, state, f"{name}.skip")
        if index < blocks - 1:
            h = h + _project(hidden, state, f"{name}.residual")
    masks = torch.sigmoid(_project(_rectify(total, state, "activation"), state, "mask"))
    return masks.unflatten(1, (SPEAKERS, -1))


def _separate(wave: torch.Tensor, state: State, blocks: int) -> torch.Tensor:
    """Return the speakers of one sample: windows of samples are encoded, masked, decoded and added where they overlap."""
    encoding = (wave.unfold(0, WINDOW, STRIDE) @ state["encoder.weight"].squeeze(1).T).clamp(min=0.0)
    masked = _compute_masks(encoding, state, blocks) * encoding.unsqueeze(1)
    windows = (masked @ state["decoder.weight"].squeeze(1)).transpose(0, 1)
    estimate = wave.new_zeros(SPEAKERS, len(wave))
    estimate[:, :-STRIDE] += windows[..., :STRIDE].flatten(1)
    estimate[:, STRIDE:] += windows[..., STRIDE:].flatten(1)
    return estimate


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the estimates in float64, one sample at a time, with frames before channels."""
    wide = {name: value.double() for name, value in state.items()}
    return (torch.stack([_separate(wave, wide, dims["BLK"]) for wave in inputs["wave"].double()]),)
