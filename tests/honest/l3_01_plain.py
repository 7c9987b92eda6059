# task: l3-01
# why: Products, norms and activations by the library; one program a node and head, one edge at a time.
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional


@triton.jit
def attend(
    source_pointer, target_pointer, rowptr_pointer, col_pointer, att_pointer, y_pointer,
    H: tl.constexpr, F: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    feature = tl.arange(0, BLOCK)
    inside = feature < F
    place = head * F + feature
    att = tl.load(att_pointer + place, mask=inside, other=0.0)
    target = tl.load(target_pointer + node * H * F + place, mask=inside, other=0.0)
    largest = -float("inf")
    total = 0.0
    y = tl.zeros((BLOCK,), tl.float32)
    for edge in range(tl.load(rowptr_pointer + node), tl.load(rowptr_pointer + node + 1)):
        neighbour = tl.load(col_pointer + edge)
        value = tl.load(source_pointer + neighbour * H * F + place, mask=inside, other=0.0)
        summed = value + target
        logit = tl.sum(att * tl.where(summed > 0.0, summed, 0.2 * summed), axis=0)
        larger = tl.maximum(largest, logit)
        weight = tl.exp(logit - larger)
        shrink = tl.exp(largest - larger)
        total = total * shrink + weight
        y = y * shrink + weight * value
        largest = larger
    tl.store(y_pointer + node * H * F + place, y / total, mask=inside)


class StoredNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, h):
        return (h - self.mean) * torch.rsqrt(self.variance + 1e-5) * self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, inputs, heads, features):
        super().__init__()
        self.source = nn.Linear(inputs, heads * features)
        self.target = nn.Linear(inputs, heads * features)
        self.att = nn.Parameter(torch.zeros(heads, features))
        self.bias = nn.Parameter(torch.zeros(heads * features))

    def forward(self, h, rowptr, col):
        heads, features = self.att.shape
        source = self.source(h)
        y = torch.empty_like(source)
        attend[(len(h), heads)](
            source, self.target(h), rowptr, col, self.att, y,
            H=heads, F=features, BLOCK=triton.next_power_of_2(features), num_warps=1,
        )  # fmt: skip
        return y + self.bias


class ModelNew(nn.Module):
    def __init__(self, features, width, classes):
        super().__init__()
        self.attention1 = Attention(features, 8, width // 8)
        self.norm1 = StoredNorm(width)
        self.attention2 = Attention(width, 8, width // 8)
        self.norm2 = StoredNorm(width)
        self.attention3 = Attention(width, 1, classes)

    def forward(self, x, rowptr, col, row):
        h = functional.elu(self.norm1(self.attention1(x, rowptr, col)))
        h = functional.elu(self.norm2(self.attention2(h, rowptr, col)))
        return self.attention3(h, rowptr, col)
