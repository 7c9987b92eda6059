# task: l3-13
# why: Convolutions by the library; one kernel for PReLU and the statistics of a row, one that normalises.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rectify_row(h_pointer, slope_pointer, mean_pointer, squares_pointer, frames, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    frame = tl.arange(0, BLOCK)
    inside = frame < frames
    h = tl.load(h_pointer + row * frames + frame, mask=inside, other=0.0)
    h = tl.where(h >= 0.0, h, h * tl.load(slope_pointer))
    mean = tl.sum(h, axis=0) / frames
    centred = tl.where(inside, h - mean, 0.0)
    tl.store(h_pointer + row * frames + frame, h, mask=inside)
    tl.store(mean_pointer + row, mean)
    tl.store(squares_pointer + row, tl.sum(centred * centred, axis=0))


@triton.jit
def normalise_row(h_pointer, factor_pointer, offset_pointer, normed_pointer, frames, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    frame = tl.arange(0, BLOCK)
    inside = frame < frames
    h = tl.load(h_pointer + row * frames + frame, mask=inside, other=0.0)
    h = h * tl.load(factor_pointer + row) + tl.load(offset_pointer + row)
    tl.store(normed_pointer + row * frames + frame, h, mask=inside)


def rectify_and_normalise(h, slope, norm):
    """Apply a PReLU in place and return the global norm of the result."""
    batch, channels, frames = h.shape
    block = triton.next_power_of_2(frames)
    means, squares = h.new_empty(2, batch, channels)
    rectify_row[(batch * channels,)](h, slope, means, squares, frames, BLOCK=block)
    mean = means.mean(dim=1, keepdim=True)
    variance = squares.sum(dim=1, keepdim=True) / (channels * frames)
    variance = variance + (means - mean).square().mean(dim=1, keepdim=True)
    factor = torch.rsqrt(variance + 1e-8) * norm.weight
    normed = torch.empty_like(h)
    normalise_row[(batch * channels,)](h, factor, norm.bias - mean * factor, normed, frames, BLOCK=block)
    return normed


class GlobalNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))


class Block(nn.Module):
    def __init__(self, channels, hidden, dilation, last):
        super().__init__()
        self.expand = nn.Conv1d(channels, hidden, 1)
        self.activation1 = nn.PReLU()
        self.norm1 = GlobalNorm(hidden)
        self.depthwise = nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden)
        self.activation2 = nn.PReLU()
        self.norm2 = GlobalNorm(hidden)
        self.skip = nn.Conv1d(hidden, channels, 1)
        self.residual = None if last else nn.Conv1d(hidden, channels, 1)

    def forward(self, h):
        hidden = rectify_and_normalise(self.expand(h), self.activation1.weight, self.norm1)
        hidden = rectify_and_normalise(self.depthwise(hidden), self.activation2.weight, self.norm2)
        return h if self.residual is None else h + self.residual(hidden), self.skip(hidden)


class ModelNew(nn.Module):
    def __init__(self, filters, channels, hidden, blocks):
        super().__init__()
        self.encoder = nn.Conv1d(1, filters, 16, stride=8, bias=False)
        self.norm = GlobalNorm(filters)
        self.bottleneck = nn.Conv1d(filters, channels, 1)
        self.blocks = nn.ModuleList([Block(channels, hidden, 2 ** (i % 8), i == blocks - 1) for i in range(blocks)])
        self.activation = nn.PReLU()
        self.mask = nn.Conv1d(channels, 2 * filters, 1)
        self.decoder = nn.ConvTranspose1d(filters, 1, 16, stride=8, bias=False)

    def forward(self, wave):
        encoding = self.encoder(wave.unsqueeze(1))
        # A PReLU of slope 0 is the ReLU of the encoder.
        h = self.bottleneck(rectify_and_normalise(encoding, wave.new_zeros(1), self.norm))
        total = torch.zeros_like(h)
        for block in self.blocks:
            h, skip = block(h)
            total = total + skip
        masks = torch.sigmoid(self.mask(self.activation(total)))
        masked = masks.unflatten(1, (2, -1)) * encoding.unsqueeze(1)
        return self.decoder(masked.flatten(0, 1)).view(len(wave), 2, -1)
