"""DGCNN in PyTorch's products and Triton's everything else, IEEE fp32 throughout.

Strategy: linear(x[j] - x[i], x[i]) is A x[j] + (B - A) x[i], so two products over points take the place of one over
edges; the norm goes into their weights. Products of all pairs come from the library, a few clouds at a time, so that
they stay in the L2 cache until one warp a row has searched them: it bisects the bit patterns of the distances until
exactly K lie below, which is exact, and writes the neighbours with their weights as a short list. A second kernel
gathers along the list. No tensor over edges exists. The embedding is pooled while it is in the cache as well.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import nn

SLOPE = 0.2
EPSILON = 1e-5
SMALLEST_RADIUS = 1e-12
# Products of all pairs, or embeddings, of so many bytes are alive at a time.
CACHED_BYTES = 32 * 1024 * 1024


@triton.jit
def transpose_points(x_pointer, point_pointer, points, BLOCK: tl.constexpr, PADDED: tl.constexpr):
    cloud = tl.program_id(0)
    point = tl.arange(0, BLOCK)[:, None]
    axis = tl.arange(0, PADDED)[None, :]
    value = tl.load(x_pointer + (cloud * 3 + axis) * points + point, mask=(point < points) & (axis < 3), other=0.0)
    tl.store(point_pointer + (cloud * points + point) * PADDED + axis, value, mask=point < points)


@triton.jit
def centre(
    h_pointer, centred_pointer, norm_pointer, points, stride, C: tl.constexpr, BLOCK: tl.constexpr, SLICE: tl.constexpr
):
    cloud = tl.program_id(0)
    point = tl.arange(0, BLOCK)
    inside = (point < points)[:, None]
    row = (cloud * points + point)[:, None]
    norm = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, SLICE):
        channel = start + tl.arange(0, SLICE)[None, :]
        value = tl.load(h_pointer + row * stride + channel, mask=inside, other=0.0)
        mean = tl.sum(value, axis=0) / points
        value = tl.where(inside, value - mean[None, :], 0.0)
        tl.store(centred_pointer + row * C + channel, value, mask=inside)
        norm += tl.sum(value * value, axis=1)
    tl.store(norm_pointer + cloud * points + point, norm, mask=point < points)


@triton.jit
def list_neighbours(
    product_pointer, norm_pointer, neighbour_pointer, weight_pointer, points, neighbours, start, smallest,
    BLOCK: tl.constexpr, GROUPS: tl.constexpr, LISTED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    point = tl.arange(0, BLOCK)
    inside = point < points
    first = row // points * points
    product = tl.load(product_pointer + row * points + point, mask=inside, other=0.0)
    norm = tl.load(norm_pointer + first + point, mask=inside, other=0.0)
    distance = tl.maximum(tl.load(norm_pointer + row) + norm - 2.0 * product, 0.0)
    distance = tl.where(inside, distance, float("inf"))
    # Bit patterns of numbers that are not negative are in their order.
    bits = distance.to(tl.int32, bitcast=True)
    # Each group holds at least one distance up to the largest of their minima, so that at least GROUPS >= K do.
    minima = tl.min(tl.reshape(bits, (GROUPS, BLOCK // GROUPS)), axis=1)
    high = tl.max(minima, axis=0)
    low = -1
    count = tl.sum((bits <= high).to(tl.int32), axis=0)
    # At most `low` lie fewer than K, up to `high` at least K.
    while (count != neighbours) & (high - low > 1):
        middle = low + (high - low) // 2
        below = tl.sum((bits <= middle).to(tl.int32), axis=0)
        enough = below >= neighbours
        high = tl.where(enough, middle, high)
        low = tl.where(enough, low, middle)
        count = tl.where(enough, below, count)
    radius = tl.max(tl.where(bits <= high, distance, 0.0), axis=0)
    radius = tl.maximum(radius, smallest)
    near = distance < radius
    place = tl.cumsum(near.to(tl.int32), axis=0) - 1
    # More than that are near only when they are all the same point.
    near = near & (place < neighbours - 1)
    tl.store(neighbour_pointer + row * LISTED + place, start + first + point, mask=near)
    tl.store(weight_pointer + row * LISTED + place, 1.0 - distance / radius, mask=near)
    # The rest of the list repeats the row itself with weight 0.
    listed = tl.arange(0, LISTED)
    rest = listed >= tl.sum(near.to(tl.int32), axis=0)
    tl.store(neighbour_pointer + row * LISTED + listed, start + row + tl.zeros((LISTED,), tl.int32), mask=rest)
    tl.store(weight_pointer + row * LISTED + listed, tl.zeros((LISTED,), tl.float32), mask=rest)


@triton.jit
def convolve_edges(
    product_pointer, shift_pointer, neighbour_pointer, weight_pointer, feature_pointer, rows, stride,
    FILTERS: tl.constexpr, ROWS: tl.constexpr, NEIGHBOURS: tl.constexpr, LISTED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    channel = tl.arange(0, FILTERS)[None, :]
    place = row[:, None] * (2 * FILTERS) + FILTERS + channel
    centre = tl.load(product_pointer + place, mask=inside[:, None], other=0.0) + tl.load(shift_pointer + channel)
    largest = tl.zeros((ROWS, FILTERS), tl.float32)
    for place in tl.static_range(NEIGHBOURS - 1):
        neighbour = tl.load(neighbour_pointer + row * LISTED + place, mask=inside, other=0)
        weight = tl.load(weight_pointer + row * LISTED + place, mask=inside, other=0.0)
        edge = tl.load(product_pointer + neighbour[:, None] * (2 * FILTERS) + channel) + centre
        largest = tl.maximum(largest, weight[:, None] * edge)
    tl.store(feature_pointer + row[:, None] * stride + channel, largest, mask=inside[:, None])


@triton.jit
def rectify(value, slope):
    return tl.maximum(value, slope * value)


@triton.jit
def pool_points(
    embedded_pointer, shift_pointer, pooled_pointer, points, slope,
    C: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    cloud = tl.program_id(1)
    channel = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    shift = tl.load(shift_pointer + channel)[None, :]
    largest = tl.full((ROWS, COLUMNS), -float("inf"), tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, points, ROWS):
        point = start + tl.arange(0, ROWS)
        inside = (point < points)[:, None]
        place = (cloud * points + point)[:, None] * C + channel[None, :]
        value = rectify(tl.load(embedded_pointer + place, mask=inside, other=0.0) + shift, slope)
        largest = tl.maximum(largest, tl.where(inside, value, -float("inf")))
        total += tl.where(inside, value, 0.0)
    tl.store(pooled_pointer + cloud * 2 * C + channel, tl.max(largest, axis=0))
    tl.store(pooled_pointer + cloud * 2 * C + C + channel, tl.sum(total, axis=0) / points)


@triton.jit
def activate(hidden_pointer, slope, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(hidden_pointer + place, mask=place < count, other=0.0)
    tl.store(hidden_pointer + place, rectify(value, slope), mask=place < count)


class StoredNorm(nn.Module):
    """The parameters and statistics of a batch norm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))


class Layer(nn.Module):
    """The parameters of a product with a norm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.norm = StoredNorm(outputs)


class FoldedLayer(NamedTuple):
    """A layer with its norm inside: h @ weight + shift."""

    weight: torch.Tensor
    shift: torch.Tensor


def fold(layer: Layer) -> FoldedLayer:
    """Return a layer whose weight carries the norm's scale."""
    scale = layer.norm.weight / torch.sqrt(layer.norm.variance + EPSILON)
    return FoldedLayer((layer.linear.weight * scale[:, None]).t(), layer.norm.bias - layer.norm.mean * scale)


def split_edges(folded: FoldedLayer) -> FoldedLayer:
    """Return the layer over points: columns for the neighbour, then those for the centre; at least four rows."""
    difference, centre = folded.weight.chunk(2)
    weight = torch.cat([difference, centre - difference], dim=1)
    padding = weight.new_zeros(max(0, 4 - len(weight)), weight.shape[1])
    return FoldedLayer(torch.cat([weight, padding]), folded.shift)


class ModelNew(nn.Module):
    """logits = head(maximum and mean over the points of embed(all edge convolutions side by side))."""

    def __init__(self, width: int, neighbours: int, classes: int) -> None:
        super().__init__()
        self.neighbours = neighbours
        widths = [3, width, width, 2 * width, 4 * width]
        self.edges = nn.ModuleList(
            Layer(2 * channels, filters) for channels, filters in zip(widths[:-1], widths[1:], strict=True)
        )
        self.embed = Layer(8 * width, 16 * width)
        self.hidden1 = Layer(32 * width, 8 * width)
        self.hidden2 = Layer(8 * width, 4 * width)
        self.classify = nn.Linear(4 * width, classes)
        self.folded = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.folded is None:
            self.folded = [split_edges(fold(edge)) for edge in self.edges]
            self.folded += [fold(layer) for layer in (self.embed, self.hidden1, self.hidden2)]
        batch, _, points = x.shape
        block = triton.next_power_of_2(points)
        h = x.new_empty(batch * points, 4)
        transpose_points[(batch,)](x, h, points, BLOCK=block, PADDED=4)
        features = x.new_empty(batch * points, self.embed.linear.in_features)
        column = 0
        for layer in self.folded[:4]:
            filters = len(layer.shift)
            slot = features[:, column : column + filters]
            self.convolve(h, layer, slot, batch)
            h, column = slot, column + filters
        pooled = pool(features, self.folded[4], batch)
        for layer in self.folded[5:]:
            pooled = torch.addmm(layer.shift, pooled, layer.weight)
            activate[(triton.cdiv(pooled.numel(), 1024),)](pooled, SLOPE, pooled.numel(), BLOCK=1024)
        return torch.addmm(self.classify.bias, pooled, self.classify.weight.t())

    def convolve(self, h: torch.Tensor, layer: FoldedLayer, result: torch.Tensor, batch: int) -> None:
        """Write the edge convolution of `h` to `result`, both of one row a point."""
        rows, channels = h.shape
        filters = len(layer.shift)
        listed = triton.next_power_of_2(self.neighbours)
        neighbour = torch.empty(rows, listed, dtype=torch.int32, device=h.device)
        weight = h.new_empty(rows, listed)
        find_neighbours(h, neighbour, weight, batch, self.neighbours)
        at_once = max(1, 1024 // filters)
        convolve_edges[(triton.cdiv(rows, at_once),)](
            torch.mm(h, layer.weight), layer.shift, neighbour, weight, result, rows, result.stride(0),
            FILTERS=filters, ROWS=at_once, NEIGHBOURS=self.neighbours, LISTED=listed, num_warps=4,
        )  # fmt: skip


def find_neighbours(
    h: torch.Tensor, neighbour: torch.Tensor, weight: torch.Tensor, batch: int, neighbours: int
) -> None:
    """Write the list of each row's neighbours, as rows of all clouds, and their weights."""
    rows, channels = h.shape
    points = rows // batch
    block = triton.next_power_of_2(points)
    centred = h.new_empty(batch, points, channels)
    norm = h.new_empty(batch, points)
    centre[(batch,)](
        h, centred, norm, points, h.stride(0), C=channels, BLOCK=block, SLICE=min(16, channels), num_warps=16
    )
    clouds = max(1, CACHED_BYTES // (4 * points * points))
    for first in range(0, batch, clouds):
        part = slice(first, first + clouds)
        product = torch.bmm(centred[part], centred[part].transpose(1, 2))
        list_neighbours[(len(product) * points,)](
            product, norm[part], neighbour[first * points :], weight[first * points :], points, neighbours,
            first * points, SMALLEST_RADIUS,
            BLOCK=block, GROUPS=32, LISTED=neighbour.shape[1], num_warps=1,
        )  # fmt: skip


def pool(features: torch.Tensor, layer: FoldedLayer, batch: int) -> torch.Tensor:
    """Return maximum and mean over the points of each cloud, B x 2 C."""
    channels = len(layer.shift)
    points = len(features) // batch
    pooled = features.new_empty(batch, 2 * channels)
    clouds = max(1, CACHED_BYTES // (4 * points * channels))
    for first in range(0, batch, clouds):
        embedded = torch.mm(features[first * points : (first + clouds) * points], layer.weight)
        pool_points[(channels // 32, len(embedded) // points)](
            embedded, layer.shift, pooled[first:], points, SLOPE, C=channels, COLUMNS=32, ROWS=64, num_warps=8
        )
    return pooled
