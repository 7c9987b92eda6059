# task: l4-90
# why: Attention is a kernel as well, online over blocks of keys, on strided views of the packed projections.
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional


@triton.jit
def normalise_rows(h_pointer, weight_pointer, bias_pointer, normed_pointer, epsilon, W: tl.constexpr):
    feature = tl.arange(0, W)
    place = tl.program_id(0) * W + feature
    h = tl.load(h_pointer + place)
    centred = h - tl.sum(h, axis=0) / W
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / W + epsilon)
    tl.store(
        normed_pointer + place, centred * scale * tl.load(weight_pointer + feature) + tl.load(bias_pointer + feature)
    )


@triton.jit
def add_rows(h_pointer, branch_pointer, bias_pointer, sum_pointer, W: tl.constexpr):
    feature = tl.arange(0, W)
    place = tl.program_id(0) * W + feature
    h = tl.load(h_pointer + place) + tl.load(branch_pointer + place)
    tl.store(sum_pointer + place, h + tl.load(bias_pointer + feature))


@triton.jit
def activate(hidden_pointer, bias_pointer, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < width
    hidden = tl.load(hidden_pointer + row * width + feature, mask=inside, other=0.0)
    hidden += tl.load(bias_pointer + feature, mask=inside, other=0.0)
    hidden = 0.5 * hidden * (1.0 + tl.erf(hidden * 0.7071067811865476))
    tl.store(hidden_pointer + row * width + feature, hidden, mask=inside)


@triton.jit
def mean_of_tokens(h_pointer, pooled_pointer, tokens, W: tl.constexpr):
    feature = tl.arange(0, W)
    sequence = tl.program_id(0)
    total = tl.zeros((W,), tl.float32)
    for token in range(tokens):
        total += tl.load(h_pointer + (sequence * tokens + token) * W + feature)
    tl.store(pooled_pointer + sequence * W + feature, total / tokens)


@triton.jit
def attend_rows(qkv_pointer, attended_pointer, tokens, scale, W: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    sequence, head = tl.program_id(1), tl.program_id(2)
    feature = head * SIZE + tl.arange(0, SIZE)
    query = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    qkv_pointer += sequence * tokens * 3 * W
    q = tl.load(qkv_pointer + query[:, None] * 3 * W + feature[None, :], mask=(query < tokens)[:, None], other=0.0)
    maximum = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    attended = tl.zeros((BLOCK, SIZE), tl.float32)
    for start in range(0, tokens, BLOCK):
        key = start + tl.arange(0, BLOCK)
        inside = (key < tokens)[:, None]
        place = key[:, None] * 3 * W + feature[None, :]
        k = tl.load(qkv_pointer + W + place, mask=inside, other=0.0)
        v = tl.load(qkv_pointer + 2 * W + place, mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where((key < tokens)[None, :], scores, -float("inf"))
        larger = tl.maximum(maximum, tl.max(scores, axis=1))
        shrink = tl.exp(maximum - larger)
        weights = tl.exp(scores - larger[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        attended = tl.dot(weights, v, attended * shrink[:, None], input_precision="ieee")
        maximum = larger
    place = (sequence * tokens + query[:, None]) * W + feature[None, :]
    tl.store(attended_pointer + place, attended / total[:, None], mask=(query < tokens)[:, None])


def normalise(h, norm):
    normed = torch.empty_like(h)
    normalise_rows[(len(h),)](h, norm.weight, norm.bias, normed, norm.eps, W=h.shape[1])
    return normed


def add(h, branch, bias):
    total = torch.empty_like(h)
    add_rows[(len(h),)](h, branch, bias, total, W=h.shape[1])
    return total


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def attend(self, h, tokens):
        rows, width = h.shape
        qkv = self.qkv(h)
        attended = torch.empty_like(h)
        size = width // 4
        attend_rows[(triton.cdiv(tokens, 16), rows // tokens, 4)](
            qkv, attended, tokens, size**-0.5, W=width, SIZE=size, BLOCK=16, num_stages=1
        )
        return torch.mm(attended, self.merge.weight.t())

    def forward(self, h, tokens):
        h = add(h, self.attend(normalise(h, self.norm1), tokens), self.merge.bias)
        hidden = torch.mm(normalise(h, self.norm2), self.expand.weight.t())
        activate[(len(h), triton.cdiv(hidden.shape[1], 256))](hidden, self.expand.bias, hidden.shape[1], BLOCK=256)
        return add(h, torch.mm(hidden, self.contract.weight.t()), self.contract.bias)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, tokens, width, classes):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(tokens, width))
        self.blocks = nn.ModuleList([Block(width), Block(width)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        batch, tokens = ids.shape
        h = (self.tokens(ids) + self.positions).flatten(0, 1)
        for block in self.blocks:
            h = block(h, tokens)
        h = normalise(h, self.norm)
        pooled = h.new_empty(batch, h.shape[1])
        mean_of_tokens[(batch,)](h, pooled, tokens, W=h.shape[1])
        return self.head(pooled)
