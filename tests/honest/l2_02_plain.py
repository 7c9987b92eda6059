# task: l2-02
# why: One program a node and head, one edge at a time.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pull_nodes(
    xl_pointer, xr_pointer, rowptr_pointer, col_pointer, att_pointer, bias_pointer, y_pointer,
    H: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    head = tl.program_id(1)
    place = head * F + tl.arange(0, F)
    begin = tl.load(rowptr_pointer + node)
    end = tl.load(rowptr_pointer + node + 1)
    att = tl.load(att_pointer + place)
    target = tl.load(xr_pointer + node * H * F + place)
    largest = -float("inf")
    total = 0.0
    aggregated = tl.zeros((F,), tl.float32)
    for edge in range(begin, end):
        source = tl.load(col_pointer + edge)
        values = tl.load(xl_pointer + source * H * F + place)
        summed = values + target
        logit = tl.sum(att * tl.where(summed > 0, summed, 0.2 * summed), axis=0)
        larger = tl.maximum(largest, logit)
        shrink = tl.exp(largest - larger)
        weight = tl.exp(logit - larger)
        total = total * shrink + weight
        aggregated = aggregated * shrink + weight * values
        largest = larger
    shifted = aggregated / total + tl.load(bias_pointer + place)
    y = tl.where(shifted > 0, shifted, tl.exp(shifted) - 1.0)
    tl.store(y_pointer + node * H * F + place, y)


class ModelNew(nn.Module):
    def __init__(self, heads, features):
        super().__init__()
        self.att = nn.Parameter(torch.zeros(heads, features))
        self.bias = nn.Parameter(torch.zeros(heads * features))

    def forward(self, xl, xr, rowptr, col, row):
        nodes, heads, features = xl.shape
        y = xl.new_empty(nodes, heads * features)
        pull_nodes[(nodes, heads)](xl, xr, rowptr, col, self.att, self.bias, y, H=heads, F=features)
        return y
