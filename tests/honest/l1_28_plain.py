# task: l1-28
# why: One launch a level, one corner at a time, with unsigned hashes.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def encode_block(
    points_pointer, table_pointer, encoding_pointer, points, entries, levels, level, resolution, BLOCK: tl.constexpr
):
    point = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = point < points
    table_pointer += level * entries * 2
    first = tl.zeros((BLOCK,), tl.float32)
    second = tl.zeros((BLOCK,), tl.float32)
    for corner in range(16):
        share = tl.full((BLOCK,), 1.0, tl.float32)
        entry = tl.zeros((BLOCK,), tl.uint32)
        for axis in tl.static_range(4):
            position = tl.load(points_pointer + point * 4 + axis, mask=inside, other=0.0) * resolution
            cell = tl.floor(position)
            fraction = position - cell
            weight = fraction * fraction * (3.0 - 2.0 * fraction)
            upper = (corner >> axis) & 1
            share *= tl.where(upper == 1, weight, 1.0 - weight)
            prime = 1 if axis == 0 else 2654435761 if axis == 1 else 805459861 if axis == 2 else 3674653429
            entry ^= ((cell.to(tl.int64) + upper) * prime).to(tl.uint32)
        entry = entry.to(tl.int64) % entries
        first += share * tl.load(table_pointer + entry * 2)
        second += share * tl.load(table_pointer + entry * 2 + 1)
    tl.store(encoding_pointer + (point * levels + level) * 2, first, mask=inside)
    tl.store(encoding_pointer + (point * levels + level) * 2 + 1, second, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, levels, entries):
        super().__init__()
        self.table = nn.Parameter(torch.randn(levels, entries, 2))

    def forward(self, points):
        count, (levels, entries, _) = len(points), self.table.shape
        encoding = points.new_empty(count, 2 * levels)
        for level in range(levels):
            resolution = float(int(16 * 1.45**level))
            encode_block[(triton.cdiv(count, 128),)](
                points, self.table, encoding, count, entries, levels, level, resolution, BLOCK=128
            )
        return encoding
