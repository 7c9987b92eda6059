"""Self-attention with softplus, bias and softmin in Triton, IEEE fp32 on the FMA units only.

Strategy: two matrix products a batch, with the scores in scratch memory, because one kernel would need a
512-wide accumulator per query and spill.

The first product: q = k makes the scores symmetric, so only the upper triangle of tiles is computed. Both
operands come from a transposed copy of x, which leaves shared memory free of bank conflicts. Each tile is
stored twice, a row a key and a column a query for the same reason, exponentiated against the query's maximum
within the tile, with that maximum and the query's sum.

The second product covers every key of every query. It scales the weights of a tile, while they pass through
registers, by what relates the tile's maximum to the query's.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import nn

LOG2_E = math.log2(math.e)


class Tiling(NamedTuple):
    """Block sizes, warps, pipeline stages and registers of the two products."""

    score_block: int
    score_depth: int
    score_group: int
    score_warps: int
    score_stages: int
    score_registers: int
    value_rows: int
    value_columns: int
    value_depth: int
    value_warps: int
    value_stages: int
    value_registers: int


# The registers leave room for one program of the first product on a multiprocessor, and two of the second.
LARGE = Tiling(128, 32, 16, 8, 3, 255, 64, 256, 32, 8, 3, 128)
SMALL = Tiling(16, 32, 2, 4, 2, 128, 16, 64, 16, 4, 2, 168)


@triton.jit
def transpose(x_pointer, transposed_pointer, S, D: tl.constexpr, BLOCK: tl.constexpr):
    sequence = tl.program_id(2).to(tl.int64) * S * D
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + sequence + token[:, None] * D + feature[None, :])
    tl.store(transposed_pointer + sequence + feature[:, None] * S + token[None, :], tl.trans(x))


@triton.jit
def store_tile(weights_pointer, maximum_pointer, sum_pointer, scores, key, query, tile, S):
    maximum = tl.max(scores, axis=0)
    weights = tl.exp2(scores - maximum[None, :])
    tl.store(weights_pointer + key.to(tl.int64)[:, None] * S + query[None, :], weights)
    tl.store(maximum_pointer + tile * S + query, maximum)
    tl.store(sum_pointer + tile * S + query, tl.sum(weights, axis=0))


@triton.jit
def compute_scores(
    transposed_pointer, weights_pointer, maximum_pointer, sum_pointer, S, groups, scale,
    D: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    # Rows r and groups - 1 - r of the triangle of groups together fill one row of the grid.
    fold = tl.program_id(2)
    step = tl.program_id(1)
    upper = step < groups - fold
    member = tl.program_id(0)
    tile_row = tl.where(upper, fold, groups - 1 - fold) * GROUP + member // GROUP
    tile_column = tl.where(upper, fold + step, step - 1) * GROUP + member % GROUP
    if tile_row <= tile_column:
        row = tile_row * BLOCK + tl.arange(0, BLOCK)
        column = tile_column * BLOCK + tl.arange(0, BLOCK)
        depth = tl.arange(0, DEPTH)
        scores = tl.zeros((BLOCK, BLOCK), tl.float32)
        # Two sums of half the length lose less to rounding than one.
        for half in range(0, D, D // 2):
            part = tl.zeros((BLOCK, BLOCK), tl.float32)
            for start in range(half, half + D // 2, DEPTH):
                queries = tl.load(transposed_pointer + row[:, None] + (start + depth)[None, :] * S)
                keys = tl.load(transposed_pointer + column[None, :] + (start + depth)[:, None] * S)
                part = tl.dot(queries, keys, part, input_precision="ieee")
            scores += part
        scores = scores * scale
        store_tile(weights_pointer, maximum_pointer, sum_pointer, scores, row, column, tile_row, S)
        if tile_row < tile_column:
            store_tile(weights_pointer, maximum_pointer, sum_pointer, tl.trans(scores), column, row, tile_column, S)


@triton.jit
def compute_factors(
    maximum_pointer, sum_pointer, factor_pointer, S, tiles, ROWS: tl.constexpr, TILES: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tile = tl.arange(0, TILES)
    place = tile[:, None] * S + row[None, :]
    inside = (tile < tiles)[:, None]
    maximum = tl.load(maximum_pointer + place, mask=inside, other=-float("inf"))
    total = tl.load(sum_pointer + place, mask=inside, other=0.0)
    factor = tl.exp2(maximum - tl.max(maximum, axis=0)[None, :])
    factor = factor / tl.sum(factor * total, axis=0)[None, :]
    tl.store(factor_pointer + place, factor, mask=inside)


@triton.jit
def attend(
    weights_pointer, factor_pointer, x_pointer, result_pointer, S,
    D: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    result = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, S, DEPTH):
        factor = tl.load(factor_pointer + (start // BLOCK) * S + row)
        weights = tl.load(weights_pointer + (start + depth).to(tl.int64)[None, :] * S + row[:, None])
        values = tl.load(x_pointer + (start + depth)[:, None] * D + column[None, :])
        result = tl.dot(weights * factor[:, None], values, result, input_precision="ieee")
    tl.store(result_pointer + row[:, None] * D + column[None, :], result)


@triton.jit
def finish_rows(bias_pointer, result_pointer, D: tl.constexpr):
    feature = tl.arange(0, D)
    place = tl.program_id(0).to(tl.int64) * D + feature
    attended = tl.load(result_pointer + place)
    softplus = tl.maximum(attended, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(attended)))
    energy = -(softplus + tl.load(bias_pointer + feature))
    weights = tl.exp(energy - tl.max(energy, axis=0))
    tl.store(result_pointer + place, weights / tl.sum(weights, axis=0))


class ModelNew(nn.Module):
    """y = softmin(softplus(softmax(x x^T / sqrt(D)) x) + bias) over the features."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, features = x.shape
        tiling = LARGE if tokens % (LARGE.score_block * LARGE.score_group) == 0 else SMALL
        y = torch.empty_like(x)
        transposed = x.new_empty(batch, features, tokens)
        transpose[(tokens // 32, features // 32, batch)](x, transposed, tokens, D=features, BLOCK=32)
        weights = x.new_empty(tokens, tokens)
        statistics = x.new_empty(3, tokens // tiling.score_block, tokens)
        for item in range(batch):
            weigh_sequence(transposed[item], weights, statistics, tiling)
            attend[(features // tiling.value_columns, tokens // tiling.value_rows)](
                weights, statistics[2], x[item], y[item], tokens,
                D=features, BLOCK=tiling.score_block, ROWS=tiling.value_rows, COLUMNS=tiling.value_columns,
                DEPTH=tiling.value_depth, num_warps=tiling.value_warps, num_stages=tiling.value_stages,
                maxnreg=tiling.value_registers,
            )  # fmt: skip
        finish_rows[(batch * tokens,)](self.bias, y, features, num_warps=1)
        return y


def weigh_sequence(transposed: torch.Tensor, weights: torch.Tensor, statistics: torch.Tensor, tiling: Tiling) -> None:
    """Write the weights of a sequence, and the factor by which each tile's are scaled."""
    features, tokens = transposed.shape
    tiles = tokens // tiling.score_block
    groups = tiles // tiling.score_group
    maximum, total, factor = statistics
    compute_scores[(tiling.score_group**2, groups + 1, (groups + 1) // 2)](
        transposed, weights, maximum, total, tokens, groups, LOG2_E / math.sqrt(features),
        D=features, BLOCK=tiling.score_block, DEPTH=tiling.score_depth, GROUP=tiling.score_group,
        num_warps=tiling.score_warps, num_stages=tiling.score_stages, maxnreg=tiling.score_registers,
    )  # fmt: skip
    compute_factors[(tokens // 16,)](
        maximum, total, factor, tokens, tiles, ROWS=16, TILES=triton.next_power_of_2(tiles)
    )
