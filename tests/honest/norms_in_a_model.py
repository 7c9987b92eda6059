# task: l4-90
# why: Only the norms are kernels; everything else is what the reference does.
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


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, h):
        normed = torch.empty_like(h)
        normalise_rows[(h.numel() // h.shape[-1],)](h, self.weight, self.bias, normed, 1e-5, W=h.shape[-1])
        return normed


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = Norm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.norm2 = Norm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def attend(self, h):
        batch, tokens, width = h.shape
        q, k, v = self.qkv(h).view(batch, tokens, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v)
        return self.merge(attended.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, h):
        h = h + self.attend(self.norm1(h))
        return h + self.contract(functional.gelu(self.expand(self.norm2(h))))


class ModelNew(nn.Module):
    def __init__(self, vocabulary, tokens, width, classes):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(tokens, width))
        self.blocks = nn.ModuleList([Block(width), Block(width)])
        self.norm = Norm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        h = self.tokens(ids) + self.positions
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h).mean(dim=1))
