# task: l1-19
# why: Words are split over programs that leave their counts of bits as 16-bit integers, which hold each of them; a second kernel adds them up.
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
def compare(codes_pointer, queries_pointer, part_pointer, N, M, W, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    word = tl.program_id(2)
    code = tl.load(codes_pointer + row * W + word, mask=row < N, other=0)
    query = tl.load(queries_pointer + column * W + word, mask=column < M, other=0)
    count = count_bits(code[:, None] ^ query[None, :])
    inside = (row < N)[:, None] & (column < M)[None, :]
    tl.store(part_pointer + (word * N + row[:, None]) * M + column[None, :], count.to(tl.int16), mask=inside)


@triton.jit
def add(part_pointer, distance_pointer, count, W, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.int32)
    for word in range(W):
        total += tl.load(part_pointer + word * count + place, mask=place < count, other=0)
    tl.store(distance_pointer + place, total.to(tl.float32), mask=place < count)


class ModelNew(nn.Module):
    def forward(self, codes, queries):
        rows, words = codes.shape
        columns = len(queries)
        parts = torch.empty(words, rows, columns, dtype=torch.int16, device=codes.device)
        compare[(triton.cdiv(rows, 16), triton.cdiv(columns, 16), words)](
            codes, queries, parts, rows, columns, words, BLOCK=16
        )
        distance = torch.empty(rows, columns, device=codes.device)
        add[(triton.cdiv(rows * columns, 256),)](parts, distance, rows * columns, words, BLOCK=256)
        return distance
