# task: l1-01
# why: The plain way: one program a node, one edge after another.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def reduce_node(x_pointer, rowptr_pointer, col_pointer, y_pointer, features, BLOCK: tl.constexpr):
    node = tl.program_id(0)
    feature = tl.arange(0, BLOCK)
    inside = feature < features
    first = tl.load(rowptr_pointer + node)
    last = tl.load(rowptr_pointer + node + 1)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    for edge in range(first, last):
        source = tl.load(col_pointer + edge)
        largest = tl.maximum(largest, tl.load(x_pointer + source * features + feature, mask=inside))
    largest = tl.where(last > first, largest, 0.0)
    tl.store(y_pointer + node * features + feature, largest, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, rowptr, col):
        nodes, features = x.shape
        y = torch.empty_like(x)
        reduce_node[(nodes,)](x, rowptr, col, y, features, BLOCK=triton.next_power_of_2(features))
        return y
