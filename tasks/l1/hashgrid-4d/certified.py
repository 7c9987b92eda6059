"""Hash-grid encoding of points in Triton.

Strategy: a program encodes one block of points at one level, and the levels are the slow axis of the grid, so that
one table at a time is in the cache. What costs is the number of memory sectors that gathers touch. The prime of the
first axis is 1, so two corners that differ only there have hashes that differ in the low bits alone: for an even
cell they are the two halves of an aligned 16-byte pair of entries, which one load fetches. Eight such loads serve
all sixteen corners of these points; for an odd cell eight more fetch the pairs of the far corners. The hash is taken
in 32-bit integers, whose products wrap around as the hash wants; the table size is a power of two.
"""

import torch
import triton
import triton.language as tl
from torch import nn

COARSEST = 16
GROWTH = 1.45
BLOCK = 128


@triton.jit
def locate(points_pointer, point, inside, resolution, AXIS: tl.constexpr):
    """Return the cell along an axis, and the weight of its upper end."""
    position = tl.load(points_pointer + point * 4 + AXIS, mask=inside, other=0.0) * resolution
    cell = tl.floor(position)
    fraction = position - cell
    return cell.to(tl.int32), fraction * fraction * (3.0 - 2.0 * fraction)


@triton.jit
def encode_block(
    points_pointer, table_pointer, resolutions_pointer, encoding_pointer, points, entries, levels, BLOCK: tl.constexpr
):
    level = tl.program_id(1)
    resolution = tl.load(resolutions_pointer + level)
    table_pointer += level.to(tl.int64) * entries * 2
    point = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    inside = point < points
    x, x_weight = locate(points_pointer, point, inside, resolution, 0)
    y, y_weight = locate(points_pointer, point, inside, resolution, 1)
    z, z_weight = locate(points_pointer, point, inside, resolution, 2)
    t, t_weight = locate(points_pointer, point, inside, resolution, 3)
    # The low words of the primes, as signed numbers: 2654435761, 805459861 and 3674653429.
    y_hash = y * -1640531535
    z_hash = z * 805459861
    t_hash = t * -620313867

    odd = (x & 1) == 1
    place = tl.arange(0, 4)[None, :]
    half = place // 2
    sums = tl.zeros((BLOCK, 4), tl.float32)
    for corner in tl.static_range(8):
        share = tl.where(inside, 1.0, 0.0)
        share *= y_weight if corner & 1 else 1.0 - y_weight
        share *= z_weight if corner & 2 else 1.0 - z_weight
        share *= t_weight if corner & 4 else 1.0 - t_weight
        rest = y_hash + (-1640531535 if corner & 1 else 0)
        rest ^= z_hash + (805459861 if corner & 2 else 0)
        rest ^= t_hash + (-620313867 if corner & 4 else 0)
        near = (rest ^ x) & (entries - 1)
        far = (rest ^ (x + 1)) & (entries - 1)

        pair = tl.load(table_pointer + (near >> 1) * 4 + place)
        is_near = half == (near & 1)
        partner = tl.where(odd, 0.0, x_weight)
        sums += pair * tl.where(is_near, share * (1.0 - x_weight), share * partner)

        pair = tl.load(table_pointer + (far >> 1) * 4 + place, mask=odd, other=0.0)
        is_far = half == (far & 1)
        sums += pair * tl.where(is_far, share * x_weight, 0.0)
    encoding = tl.sum(tl.reshape(sums, (BLOCK, 2, 2)), axis=1)
    feature = tl.arange(0, 2)[None, :]
    target = encoding_pointer + (point.to(tl.int64) * levels + level) * 2 + feature
    tl.store(target, encoding, mask=inside)


class ModelNew(nn.Module):
    """Smoothstep interpolation between hashed table entries, at each resolution floor(16 * 1.45^level)."""

    def __init__(self, levels: int, entries: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(levels, entries, 2))
        resolutions = torch.tensor([float(int(COARSEST * GROWTH**level)) for level in range(levels)])
        self.register_buffer("resolutions", resolutions, persistent=False)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        count, (levels, entries, _) = len(points), self.table.shape
        encoding = points.new_empty(count, 2 * levels)
        encode_block[(triton.cdiv(count, BLOCK), levels)](
            points, self.table, self.resolutions, encoding, count, entries, levels, BLOCK=BLOCK, num_warps=4
        )
        return encoding
