# task: l1-01
# why: A kernel writes where each row begins and how long it is, in tables that only make sense together: values of one
# why: row beside those of another lead out of the list of edges. Its integers are no noise that a call survives.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def measure_rows(rowptr_pointer, begin_pointer, length_pointer, nodes, BLOCK: tl.constexpr):
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = node < nodes
    begin = tl.load(rowptr_pointer + node, mask=inside, other=0)
    end = tl.load(rowptr_pointer + node + 1, mask=inside, other=0)
    # A stride keeps a mistaken row far outside of the list.
    tl.store(begin_pointer + node, (begin - end) * 1000000 + begin, mask=inside)
    tl.store(length_pointer + node, end - begin, mask=inside)


@triton.jit
def pull_rows(x_pointer, begin_pointer, length_pointer, col_pointer, y_pointer, D: tl.constexpr):
    node = tl.program_id(0)
    feature = tl.arange(0, D)
    length = tl.load(length_pointer + node)
    begin = tl.load(begin_pointer + node) + length * 1000000
    largest = tl.full((D,), -float("inf"), tl.float32)
    for edge in range(begin, begin + length):
        source = tl.load(col_pointer + edge)
        largest = tl.maximum(largest, tl.load(x_pointer + source * D + feature))
    tl.store(y_pointer + node * D + feature, tl.where(length > 0, largest, 0.0))


class ModelNew(nn.Module):
    def forward(self, x, rowptr, col):
        nodes = x.shape[0]
        begin, length = torch.empty(2, nodes, dtype=torch.int64, device=x.device)
        y = torch.empty_like(x)
        measure_rows[(triton.cdiv(nodes, 256),)](rowptr, begin, length, nodes, BLOCK=256)
        pull_rows[(nodes,)](x, begin, length, col, y, D=x.shape[1])
        return y
