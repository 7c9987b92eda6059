"""Conv-TasNet in PyTorch's products and Triton's everything else, IEEE fp32 throughout.

Strategy: frames come before channels, so that all products are plain matrix products, which stay with the library.
A global norm is linear once its two statistics are known. Each kernel therefore leaves the statistics of what it makes,
a mean and a sum of squares for each tile, and the norm itself is applied by whoever reads next: inside the loads of the
depthwise convolution, and, for the norms before a product, by scaling the weights and correcting the product with a
vector for each of the two statistics. The residual and the skip path lie side by side, so that one product and one
update serve both. That makes two products and three kernels a block, and no normalised tensor ever exists.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import nn

WINDOW = 16
STRIDE = 8
TAPS = 3
BLOCKS_PER_REPEAT = 8
SPEAKERS = 2
EPSILON = 1e-8
ROWS = 32
COLUMNS = 128


@triton.jit
def store_statistics(pointer, values, inside, count, tile, tiles):
    mean = tl.sum(tl.where(inside, values, 0.0)) / count
    centred = tl.where(inside, values - mean, 0.0)
    tl.store(pointer + 2 * tile, mean)
    tl.store(pointer + 2 * tile + 1, tl.sum(centred * centred))


@triton.jit
def merge_statistics(
    pointer, sample, frames, epsilon, C: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TILES: tl.constexpr
):
    # Tiles of the last frames are shorter than the others.
    strips: tl.constexpr = C // COLUMNS
    tiles = (frames + ROWS - 1) // ROWS * strips
    tile = tl.arange(0, TILES)
    known = tile < tiles
    count = tl.minimum(frames - tile // strips * ROWS, ROWS).to(tl.float32) * COLUMNS
    count = tl.where(known, count, 0.0)
    place = pointer + 2 * (sample * tiles + tile)
    mean_of_tile = tl.load(place, mask=known, other=0.0)
    squares = tl.load(place + 1, mask=known, other=0.0)
    total = frames.to(tl.float32) * C
    mean = tl.sum(count * mean_of_tile, axis=0) / total
    off = mean_of_tile - mean
    variance = tl.sum(squares + count * off * off, axis=0) / total
    return mean, 1.0 / tl.sqrt(variance + epsilon)


@triton.jit
def rectify(value, slope):
    return tl.where(value >= 0.0, value, slope * value)


@triton.jit
def encode(
    wave_pointer, filter_pointer, encoding_pointer, statistics_pointer, samples, frames,
    C: tl.constexpr, WINDOW: tl.constexpr, STRIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(1)
    strips: tl.constexpr = C // COLUMNS
    strip = tl.program_id(0) % strips
    frame = tl.program_id(0) // strips * ROWS + tl.arange(0, ROWS)
    channel = strip * COLUMNS + tl.arange(0, COLUMNS)
    inside = frame < frames
    value = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tap in range(WINDOW):
        signal = tl.load(wave_pointer + sample * samples + frame * STRIDE + tap, mask=inside, other=0.0)
        value += signal[:, None] * tl.load(filter_pointer + tap * C + channel)[None, :]
    value = tl.maximum(value, 0.0)
    place = (sample * frames + frame)[:, None] * C + channel[None, :]
    tl.store(encoding_pointer + place, value, mask=inside[:, None])
    tiles = tl.num_programs(0)
    count = tl.minimum(frames - tl.program_id(0) // strips * ROWS, ROWS).to(tl.float32) * COLUMNS
    store_statistics(statistics_pointer, value, inside[:, None], count, sample * tiles + tl.program_id(0), tiles)


@triton.jit
def measure(
    hidden_pointer, bias_pointer, slope_pointer, statistics_pointer, frames,
    C: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(1)
    strips: tl.constexpr = C // COLUMNS
    frame = tl.program_id(0) // strips * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(0) % strips * COLUMNS + tl.arange(0, COLUMNS)
    inside = (frame < frames)[:, None]
    place = (sample * frames + frame)[:, None] * C + channel[None, :]
    value = tl.load(hidden_pointer + place, mask=inside, other=0.0) + tl.load(bias_pointer + channel)[None, :]
    value = rectify(value, tl.load(slope_pointer))
    tiles = tl.num_programs(0)
    count = tl.minimum(frames - tl.program_id(0) // strips * ROWS, ROWS).to(tl.float32) * COLUMNS
    store_statistics(statistics_pointer, value, inside, count, sample * tiles + tl.program_id(0), tiles)


@triton.jit
def convolve(
    hidden_pointer, bias_pointer, slope_pointer, norm_pointer, shift_pointer, tap_pointer, tap_bias_pointer,
    next_slope_pointer, statistics_pointer, result_pointer, next_statistics_pointer, frames, dilation, epsilon,
    C: tl.constexpr, TAPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(1)
    strips: tl.constexpr = C // COLUMNS
    frame = tl.program_id(0) // strips * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(0) % strips * COLUMNS + tl.arange(0, COLUMNS)
    mean, scale = merge_statistics(statistics_pointer, sample, frames, epsilon, C, ROWS, COLUMNS, TILES)
    slope = tl.load(slope_pointer)
    bias = tl.load(bias_pointer + channel)[None, :]
    factor = tl.load(norm_pointer + channel) * scale
    offset = tl.load(shift_pointer + channel) - mean * factor
    value = tl.zeros((ROWS, COLUMNS), tl.float32) + tl.load(tap_bias_pointer + channel)[None, :]
    for tap in tl.static_range(TAPS):
        source = frame + (tap - TAPS // 2) * dilation
        inside = ((source >= 0) & (source < frames))[:, None]
        place = (sample * frames + source)[:, None] * C + channel[None, :]
        hidden = rectify(tl.load(hidden_pointer + place, mask=inside, other=0.0) + bias, slope)
        normed = hidden * factor[None, :] + offset[None, :]
        value += tl.where(inside, normed, 0.0) * tl.load(tap_pointer + tap * C + channel)[None, :]
    value = rectify(value, tl.load(next_slope_pointer))
    inside = (frame < frames)[:, None]
    tl.store(result_pointer + (sample * frames + frame)[:, None] * C + channel[None, :], value, mask=inside)
    tiles = tl.num_programs(0)
    count = tl.minimum(frames - tl.program_id(0) // strips * ROWS, ROWS).to(tl.float32) * COLUMNS
    store_statistics(next_statistics_pointer, value, inside, count, sample * tiles + tl.program_id(0), tiles)


@triton.jit
def accumulate(
    product_pointer, statistics_pointer, mean_effect_pointer, shift_pointer, slope_pointer, target_pointer,
    frames, stride, epsilon,
    WIDTH: tl.constexpr, C: tl.constexpr, ACTIVATE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, TILES: tl.constexpr, FRAMES: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(1)
    frame = tl.program_id(0) * FRAMES + tl.arange(0, FRAMES)
    column = tl.arange(0, WIDTH)
    mean, scale = merge_statistics(statistics_pointer, sample, frames, epsilon, C, ROWS, COLUMNS, TILES)
    constant = tl.load(shift_pointer + column) - mean * scale * tl.load(mean_effect_pointer + column)
    inside = (frame < frames)[:, None]
    row = (sample * frames + frame)[:, None]
    target = target_pointer + row * stride + column[None, :]
    value = tl.load(target, mask=inside, other=0.0) + constant[None, :]
    value += scale * tl.load(product_pointer + row * WIDTH + column[None, :], mask=inside, other=0.0)
    if ACTIVATE:
        value = rectify(value, tl.load(slope_pointer))
    tl.store(target, value, mask=inside)


@triton.jit
def decode(
    mask_pointer, mask_bias_pointer, encoding_pointer, filter_pointer, window_pointer, frames,
    C: tl.constexpr, WINDOW: tl.constexpr, SPEAKERS: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    speaker = tl.program_id(1)
    sample = tl.program_id(2)
    frame = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = (frame < frames)[:, None]
    row = (sample * frames + frame)[:, None]
    tap = tl.arange(0, WINDOW)
    windows = tl.zeros((ROWS, WINDOW), tl.float32)
    for start in range(0, C, DEPTH):
        channel = start + tl.arange(0, DEPTH)
        mask = tl.load(mask_pointer + (row * SPEAKERS + speaker) * C + channel[None, :], mask=inside, other=0.0)
        mask = tl.sigmoid(mask + tl.load(mask_bias_pointer + speaker * C + channel)[None, :])
        masked = mask * tl.load(encoding_pointer + row * C + channel[None, :], mask=inside, other=0.0)
        filters = tl.load(filter_pointer + channel[:, None] * WINDOW + tap[None, :])
        windows = tl.dot(masked, filters, windows, input_precision="ieee")
    place = ((sample * SPEAKERS + speaker) * frames + frame)[:, None] * WINDOW + tap[None, :]
    tl.store(window_pointer + place, windows, mask=inside)


@triton.jit
def add_overlaps(
    window_pointer, estimate_pointer, samples, frames, WINDOW: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr
):
    # With a stride of half a window, a sample lies in its own window's first half and in the previous one's second.
    sequence = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    frame = place // STRIDE
    tap = place % STRIDE
    first = window_pointer + (sequence * frames + frame) * WINDOW + tap
    value = tl.load(first, mask=frame < frames, other=0.0)
    value += tl.load(first - WINDOW + STRIDE, mask=(frame > 0) & (frame <= frames), other=0.0)
    tl.store(estimate_pointer + sequence * samples + place, value, mask=place < samples)


class GlobalNorm(nn.Module):
    """The parameters of a norm over channels and frames."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))


class Block(nn.Module):
    """The parameters of one block."""

    def __init__(self, channels: int, hidden: int, dilation: int, *, last: bool) -> None:
        super().__init__()
        self.expand = nn.Conv1d(channels, hidden, 1)
        self.activation1 = nn.PReLU()
        self.norm1 = GlobalNorm(hidden)
        self.depthwise = nn.Conv1d(hidden, hidden, TAPS, padding=dilation, dilation=dilation, groups=hidden)
        self.activation2 = nn.PReLU()
        self.norm2 = GlobalNorm(hidden)
        self.skip = nn.Conv1d(hidden, channels, 1)
        self.residual = None if last else nn.Conv1d(hidden, channels, 1)


class FoldedProduct(NamedTuple):
    """A norm and the product after it: product = scale * (x @ weight) + shift - mean * scale * mean_effect."""

    weight: torch.Tensor
    mean_effect: torch.Tensor
    shift: torch.Tensor


def fold_norm(norm: GlobalNorm, convolutions: list[nn.Conv1d]) -> FoldedProduct:
    """Return the convolutions of width 1 side by side, with the norm's scale and shift inside."""
    weight = torch.cat([convolution.weight.squeeze(-1) for convolution in convolutions])
    bias = torch.cat([convolution.bias for convolution in convolutions])
    scaled = weight * norm.weight
    return FoldedProduct(scaled.t(), scaled.sum(dim=1), weight @ norm.bias + bias)


class Shape(NamedTuple):
    """Sizes of one call."""

    batch: int
    samples: int
    frames: int

    def count_tiles(self, channels: int) -> int:
        return triton.cdiv(self.frames, ROWS) * (channels // min(COLUMNS, channels))


class ModelNew(nn.Module):
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
        self.activation = nn.PReLU()
        self.mask = nn.Conv1d(channels, SPEAKERS * filters, 1)
        self.decoder = nn.ConvTranspose1d(filters, 1, WINDOW, stride=STRIDE, bias=False)
        self.folded = None

    def fold(self) -> None:
        """Lay the parameters out for the kernels, once for each model."""
        self.filters = self.encoder.weight.squeeze(1).t().contiguous()
        self.taps = [block.depthwise.weight.squeeze(1).t().contiguous() for block in self.blocks]
        self.folded_bottleneck = fold_norm(self.norm, [self.bottleneck])
        self.folded = [
            fold_norm(block.norm2, [block.skip] if block.residual is None else [block.residual, block.skip])
            for block in self.blocks
        ]

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        if self.folded is None:
            self.fold()
        batch, samples = wave.shape
        shape = Shape(batch, samples, (samples - WINDOW) // STRIDE + 1)
        filters, channels = self.encoder.out_channels, self.bottleneck.out_channels
        encoding, statistics = self.encode(wave, shape)
        # The residual path in the left half of every row, the sum of the skip path in the right.
        paths = wave.new_zeros(batch * shape.frames, 2 * channels)
        add_product(encoding, statistics, self.folded_bottleneck, paths[:, :channels], shape)
        for index in range(len(self.blocks)):
            hidden, statistics = self.convolve(paths[:, :channels], index, shape)
            if index < len(self.blocks) - 1:
                add_product(hidden, statistics, self.folded[index], paths, shape)
            else:
                add_product(hidden, statistics, self.folded[index], paths[:, channels:], shape, self.activation.weight)
        masks = torch.mm(paths[:, channels:], self.mask.weight.squeeze(-1).t())
        return self.decode(masks, encoding, shape)

    def encode(self, wave: torch.Tensor, shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
        filters = self.encoder.out_channels
        tiles = shape.count_tiles(filters)
        encoding = wave.new_empty(shape.batch * shape.frames, filters)
        statistics = wave.new_empty(shape.batch, tiles, 2)
        encode[(tiles, shape.batch)](
            wave, self.filters, encoding, statistics, shape.samples, shape.frames,
            C=filters, WINDOW=WINDOW, STRIDE=STRIDE, ROWS=ROWS, COLUMNS=min(COLUMNS, filters), num_warps=8,
        )  # fmt: skip
        return encoding, statistics

    def convolve(self, residual: torch.Tensor, index: int, shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
        block = self.blocks[index]
        channels = block.expand.out_channels
        tiles = shape.count_tiles(channels)
        expanded = torch.mm(residual, block.expand.weight.squeeze(-1).t())
        statistics = residual.new_empty(2, shape.batch, tiles, 2)
        sizes = {"C": channels, "ROWS": ROWS, "COLUMNS": min(COLUMNS, channels), "num_warps": 8}
        measure[(tiles, shape.batch)](
            expanded, block.expand.bias, block.activation1.weight, statistics[0], shape.frames, **sizes
        )
        result = torch.empty_like(expanded)
        convolve[(tiles, shape.batch)](
            expanded, block.expand.bias, block.activation1.weight, block.norm1.weight, block.norm1.bias,
            self.taps[index], block.depthwise.bias, block.activation2.weight, statistics[0], result, statistics[1],
            shape.frames, block.depthwise.dilation[0], EPSILON,
            TAPS=TAPS, TILES=triton.next_power_of_2(tiles), **sizes,
        )  # fmt: skip
        return result, statistics[1]

    def decode(self, masks: torch.Tensor, encoding: torch.Tensor, shape: Shape) -> torch.Tensor:
        filters = encoding.shape[1]
        windows = encoding.new_empty(shape.batch * SPEAKERS, shape.frames, WINDOW)
        decode[(triton.cdiv(shape.frames, ROWS), SPEAKERS, shape.batch)](
            masks, self.mask.bias, encoding, self.decoder.weight, windows, shape.frames,
            C=filters, WINDOW=WINDOW, SPEAKERS=SPEAKERS, ROWS=ROWS, DEPTH=32, num_warps=4,
        )  # fmt: skip
        estimate = encoding.new_empty(shape.batch, SPEAKERS, shape.samples)
        block = 1024
        add_overlaps[(triton.cdiv(shape.samples, block), shape.batch * SPEAKERS)](
            windows, estimate, shape.samples, shape.frames, WINDOW=WINDOW, STRIDE=STRIDE, BLOCK=block
        )
        return estimate


def add_product(
    values: torch.Tensor,
    statistics: torch.Tensor,
    folded: FoldedProduct,
    target: torch.Tensor,
    shape: Shape,
    slope: torch.Tensor | None = None,
) -> None:
    """Add the product of normalised `values` to `target`, and apply a PReLU of that `slope` to the sum."""
    channels, width = folded.weight.shape
    frames = max(1, 4096 // width)
    accumulate[(triton.cdiv(shape.frames, frames), shape.batch)](
        torch.mm(values, folded.weight), statistics, folded.mean_effect, folded.shift,
        folded.shift if slope is None else slope, target, shape.frames, target.stride(0), EPSILON,
        WIDTH=width, C=channels, ACTIVATE=slope is not None, ROWS=ROWS, COLUMNS=min(COLUMNS, channels),
        TILES=triton.next_power_of_2(shape.count_tiles(channels)), FRAMES=frames, num_warps=4,
    )  # fmt: skip
