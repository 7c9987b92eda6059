# task: l1-90
# why: Both weights are packed side by side in every call, and one product in block pointers serves both.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def multiply(
    x_pointer, w_pointer, product_pointer, T, D, F, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr
):
    top, left = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    x_block = tl.make_block_ptr(x_pointer, (T, D), (D, 1), (top, 0), (ROWS, DEPTH), (1, 0))
    w_block = tl.make_block_ptr(w_pointer, (D, F), (F, 1), (0, left), (DEPTH, COLUMNS), (1, 0))
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(0, D, DEPTH):
        x = tl.load(x_block, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(x, tl.load(w_block, boundary_check=(0, 1), padding_option="zero"), total)
        x_block = tl.advance(x_block, (0, DEPTH))
        w_block = tl.advance(w_block, (DEPTH, 0))
    product = tl.make_block_ptr(product_pointer, (T, F), (F, 1), (top, left), (ROWS, COLUMNS), (1, 0))
    tl.store(product, total, boundary_check=(0, 1))


@triton.jit
def apply_gate(product_pointer, y_pointer, F, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < F
    gate = tl.load(product_pointer + row * 2 * F + column, mask=inside)
    up = tl.load(product_pointer + row * 2 * F + F + column, mask=inside)
    tl.store(y_pointer + row * F + column, (gate * tl.sigmoid(gate) * up).to(tl.float16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, w_gate, w_up):
        tokens, features = x.shape
        columns = w_up.shape[1]
        packed = torch.cat([w_gate, w_up], dim=1)
        product = torch.empty(tokens, 2 * columns, dtype=torch.float32, device=x.device)
        grid = (triton.cdiv(tokens, 16), triton.cdiv(2 * columns, 64))
        multiply[grid](x, packed, product, tokens, features, 2 * columns, ROWS=16, COLUMNS=64, DEPTH=32)
        y = x.new_empty(tokens, columns)
        apply_gate[(tokens,)](product, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y
