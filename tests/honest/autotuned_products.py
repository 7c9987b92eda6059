# task: l1-90
# why: An autotuned fp16 product with fp32 sums and programs in groups; the tuner picks tiles, warps and stages.
import torch
import triton
import triton.language as tl
from torch import nn


CONFIGURATIONS = [
    triton.Config({"ROWS": rows, "COLUMNS": columns, "DEPTH": depth, "GROUP": 8}, num_warps=warps, num_stages=stages)
    for rows, columns, depth, warps, stages in (
        (128, 128, 32, 8, 3),
        (64, 128, 32, 4, 4),
        (64, 64, 64, 4, 3),
        (32, 64, 32, 2, 4),
    )
]


@triton.autotune(configs=CONFIGURATIONS, key=["T", "D", "F"])
@triton.jit
def gate_tile(
    x_pointer, gate_pointer, up_pointer, y_pointer, T, D, F,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tile_row, tile_column = tl.swizzle2d(
        tl.program_id(0) // tl.cdiv(F, COLUMNS),
        tl.program_id(0) % tl.cdiv(F, COLUMNS),
        tl.cdiv(T, ROWS),
        tl.cdiv(F, COLUMNS),
        GROUP,
    )
    row = tile_row * ROWS + tl.arange(0, ROWS)
    column = tile_column * COLUMNS + tl.arange(0, COLUMNS)
    # Rows and columns beyond the end read some other ones, whose results are not stored.
    near_row, near_column = row % T, column % F
    gate = tl.zeros((ROWS, COLUMNS), tl.float32)
    up = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in range(tl.cdiv(D, DEPTH)):
        term = step * DEPTH + tl.arange(0, DEPTH)
        x = tl.load(x_pointer + near_row[:, None] * D + term[None, :], mask=(term < D)[None, :], other=0.0)
        place = term[:, None] * F + near_column[None, :]
        gate += tl.dot(x, tl.load(gate_pointer + place, mask=(term < D)[:, None], other=0.0))
        up += tl.dot(x, tl.load(up_pointer + place, mask=(term < D)[:, None], other=0.0))
    y = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(
        y_pointer + row[:, None] * F + column[None, :],
        y.to(tl.float16),
        mask=(row < T)[:, None] & (column < F)[None, :],
    )


class ModelNew(nn.Module):
    def forward(self, x, w_gate, w_up):
        tokens, features = x.shape
        columns = w_up.shape[1]
        y = torch.empty((tokens, columns), dtype=x.dtype, device=x.device)

        def grid(meta):
            return (triton.cdiv(tokens, meta["ROWS"]) * triton.cdiv(columns, meta["COLUMNS"]),)

        gate_tile[grid](x, w_gate, w_up, y, tokens, features, columns)
        return y
