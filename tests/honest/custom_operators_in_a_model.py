# task: l4-90
# why: Norm and activation are torch.library operators, the first with a fresh result and the second in place, used by plain modules.
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


@torch.library.custom_op("mine::normalise", mutates_args=())
def normalise(h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, epsilon: float) -> torch.Tensor:
    normed = torch.empty_like(h)
    normalise_rows[(h.numel() // h.shape[-1],)](h, weight, bias, normed, epsilon, W=h.shape[-1])
    return normed


@normalise.register_fake
def _(h, weight, bias, epsilon):
    return torch.empty_like(h)


@torch.library.custom_op("mine::activate_", mutates_args=("hidden",))
def activate_(hidden: torch.Tensor, bias: torch.Tensor) -> None:
    width = hidden.shape[-1]
    activate[(hidden.numel() // width, triton.cdiv(width, 128))](hidden, bias, width, BLOCK=128)


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, h):
        return torch.ops.mine.normalise(h, self.weight, self.bias, 1e-5)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def attend(self, h, tokens):
        rows, width = h.shape
        qkv = self.qkv(h).view(-1, tokens, 3, 4, width // 4).permute(2, 0, 3, 1, 4).contiguous()
        attended = functional.scaled_dot_product_attention(*qkv)
        return attended.transpose(1, 2).reshape(rows, width)

    def forward(self, h, tokens):
        h = torch.addmm(h + self.merge.bias, self.attend(self.norm1(h), tokens), self.merge.weight.t())
        hidden = torch.mm(self.norm2(h), self.expand.weight.t())
        torch.ops.mine.activate_(hidden, self.expand.bias)
        return torch.addmm(h + self.contract.bias, hidden, self.contract.weight.t())


class ModelNew(nn.Module):
    def __init__(self, vocabulary, tokens, width, classes):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(tokens, width))
        self.blocks = nn.ModuleList([Block(width), Block(width)])
        self.norm = Norm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        batch, tokens = ids.shape
        h = (self.tokens(ids) + self.positions).flatten(0, 1)
        for block in self.blocks:
            h = block(h, tokens)
        h = self.norm(h)
        pooled = h.new_empty(batch, h.shape[1])
        mean_of_tokens[(batch,)](h, pooled, tokens, W=h.shape[1])
        return self.head(pooled)
