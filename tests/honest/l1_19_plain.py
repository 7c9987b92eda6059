# task: l1-19
# why: One word of each row and column at a time, and bits counted in fields of 2, 4 and 8.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def count_bits(words):
    words = words - ((words >> 1) & 0x55555555)
    words = (words & 0x33333333) + ((words >> 2) & 0x33333333)
    words = (words + (words >> 4)) & 0x0F0F0F0F
    return (words * 0x01010101) >> 24


@triton.jit
def compare(codes_pointer, queries_pointer, distance_pointer, N, M, W, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    count = tl.zeros((BLOCK, BLOCK), tl.int32)
    for word in range(W):
        code = tl.load(codes_pointer + row * W + word, mask=row < N, other=0)
        query = tl.load(queries_pointer + column * W + word, mask=column < M, other=0)
        count += count_bits(code[:, None] ^ query[None, :])
    inside = (row < N)[:, None] & (column < M)[None, :]
    tl.store(distance_pointer + row[:, None] * M + column[None, :], count.to(tl.float32), mask=inside)


class ModelNew(nn.Module):
    def forward(self, codes, queries):
        rows, words = codes.shape
        columns = len(queries)
        distance = torch.empty(rows, columns, device=codes.device)
        grid = (triton.cdiv(rows, 32), triton.cdiv(columns, 32))
        compare[grid](codes, queries, distance, rows, columns, words, BLOCK=32)
        return distance
