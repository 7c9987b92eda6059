"""All-pairs Hamming distance of bit-packed codes in Triton.

Strategy: the hardware counts the bits of 16 words a cycle, which is the bottleneck, so three words are first added
bit by bit: a full adder of two logic operations turns them into a word of ones and a word of twos, and two counts do
for three words. A program is one warp with a tile of outputs in registers. Its lanes lie along the queries, which a
first kernel turns around so that neighbouring lanes read neighbouring words; words of the codes are the same for all
lanes. Sums stay integers until they are stored.
"""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice

ROWS = 16
COLUMNS = 128


@triton.jit
def turn_words(queries_pointer, turned_pointer, M, W, stride, ROWS: tl.constexpr, WORDS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    inside = (row < M)[:, None] & (word < W)[None, :]
    tile = tl.load(queries_pointer + row[:, None] * W + word[None, :], mask=inside, other=0)
    tl.store(turned_pointer + word[:, None] * stride + row[None, :], tl.trans(tile), mask=(word < W)[:, None])


@triton.jit
def compare_word(codes_pointer, turned_pointer, word, stride):
    return tl.load(codes_pointer + word)[:, None] ^ tl.load(turned_pointer + word * stride)[None, :]


@triton.jit
def count_differences(
    codes_pointer, turned_pointer, distance_pointer, N, M, W, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    # Rows past the end read the last one, and columns past it lie in the padding: no load needs a mask.
    codes_pointer += tl.minimum(row, N - 1) * W
    turned_pointer += column
    count = tl.zeros((ROWS, COLUMNS), tl.int32)
    for word in range(0, W - 2, 3):
        a = compare_word(codes_pointer, turned_pointer, word, stride)
        b = compare_word(codes_pointer, turned_pointer, word + 1, stride)
        c = compare_word(codes_pointer, turned_pointer, word + 2, stride)
        ones = a ^ b ^ c
        twos = ((a ^ b) & c) | (a & b)
        count += libdevice.popc(ones) + 2 * libdevice.popc(twos)
    for word in range(W // 3 * 3, W):
        count += libdevice.popc(compare_word(codes_pointer, turned_pointer, word, stride))
    inside = (row < N)[:, None] & (column < M)[None, :]
    tl.store(distance_pointer + row[:, None] * M + column[None, :], count.to(tl.float32), mask=inside)


class ModelNew(nn.Module):
    """distance[i, j] = the number of bits in which codes[i] and queries[j] differ."""

    def forward(self, codes: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
        rows, words = codes.shape
        columns = len(queries)
        stride = triton.cdiv(columns, COLUMNS) * COLUMNS
        turned = queries.new_empty(words, stride)
        distance = torch.empty(rows, columns, device=codes.device)
        turn_words[(stride // 32, triton.cdiv(words, 32))](queries, turned, columns, words, stride, ROWS=32, WORDS=32)
        count_differences[(stride // COLUMNS, triton.cdiv(rows, ROWS))](
            codes, turned, distance, rows, columns, words, stride, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=1
        )
        return distance
