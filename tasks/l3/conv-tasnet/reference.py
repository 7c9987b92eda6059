"""Conv-TasNet: a time-domain network that separates two speakers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian, draw_uniform

WINDOW = 16
STRIDE = 8
TAPS = 3
# Dilations double from block to block and start again at 1 after so many blocks.
BLOCKS_PER_REPEAT = 8
SPEAKERS = 2
EPSILON = 1e-8
SEGMENTS = 40


class GlobalNorm(nn.Module):
    """Normalise over channels and frames of a sample together, then scale and shift each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        # As after training: a fresh norm has neither scale nor shift.
        self.weight = nn.Parameter(1.0 + 0.2 * torch.randn(channels))
        self.bias = nn.Parameter(0.2 * torch.randn(channels))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        variance, mean = torch.var_mean(h, dim=(1, 2), correction=0, keepdim=True)
        normed = (h - mean) * torch.rsqrt(variance + EPSILON)
        return normed * self.weight[:, None] + self.bias[:, None]


class Block(nn.Module):
    """Expand, convolve each channel along the frames, and return what is added to the residual and the skip path."""

    def __init__(self, channels: int, hidden: int, dilation: int, *, last: bool) -> None:
        super().__init__()
        self.expand = nn.Conv1d(channels, hidden, 1)
        self.activation1 = nn.PReLU(init=float(torch.empty(1).uniform_(0.1, 0.4)))
        self.norm1 = GlobalNorm(hidden)
        self.depthwise = nn.Conv1d(hidden, hidden, TAPS, padding=dilation, dilation=dilation, groups=hidden)
        self.activation2 = nn.PReLU(init=float(torch.empty(1).uniform_(0.1, 0.4)))
        self.norm2 = GlobalNorm(hidden)
        self.skip = nn.Conv1d(hidden, channels, 1)
        # Nothing follows the last block on the residual path.
        self.residual = None if last else nn.Conv1d(hidden, channels, 1)

    def forward(self, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.norm1(self.activation1(self.expand(h)))
        hidden = self.norm2(self.activation2(self.depthwise(hidden)))
        return h if self.residual is None else h + self.residual(hidden), self.skip(hidden)


class Model(nn.Module):
    """estimate = decoder(encoding * masks), with one mask a speaker from a stack of dilated convolutions."""

    def __init__(self, filters: int, channels: int, hidden: int, blocks: int) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, filters, WINDOW, stride=STRIDE, bias=False)
        self.norm = GlobalNorm(filters)
        self.bottleneck = nn.Conv1d(filters, channels, 1)
        self.blocks = nn.ModuleList(
            Block(channels, hidden, 2 ** (index % BLOCKS_PER_REPEAT), last=index == blocks - 1)
            for index in range(blocks)
        )
        self.activation = nn.PReLU(init=float(torch.empty(1).uniform_(0.1, 0.4)))
        self.mask = nn.Conv1d(channels, SPEAKERS * filters, 1)
        self.decoder = nn.ConvTranspose1d(filters, 1, WINDOW, stride=STRIDE, bias=False)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        encoding = functional.relu(self.encoder(wave.unsqueeze(1)))
        h = self.bottleneck(self.norm(encoding))
        total = torch.zeros_like(h)
        for block in self.blocks:
            h, skip = block(h)
            total = total + skip
        masks = torch.sigmoid(self.mask(self.activation(total)))
        masked = masks.unflatten(1, (SPEAKERS, -1)) * encoding.unsqueeze(1)
        return self.decoder(masked.flatten(0, 1)).view(len(wave), SPEAKERS, -1)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: filters, channels, hidden channels and the number of blocks."""
    return [dims["N"], dims["BN"], dims["H"], dims["BLK"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than speech-like."""
    if distribution != "speech-like":
        raise ValueError(f"unknown distribution {distribution!r}; known: speech-like")
    batch, samples = dims["B"], dims["T"]
    noise = draw_gaussian((batch, samples), generator)
    # A moving mean keeps low frequencies; an envelope of segments makes bursts and pauses of it.
    smooth = functional.avg_pool1d(noise, 5, stride=1, padding=2, count_include_pad=True)
    envelope = (draw_uniform((batch, SEGMENTS), -0.5, 1.0, generator)).clamp(min=0.0)
    return {"wave": smooth * functional.interpolate(envelope.unsqueeze(1), size=samples, mode="linear").squeeze(1)}
