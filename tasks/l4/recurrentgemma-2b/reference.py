"""Three layers of RecurrentGemma-2B: two with a gated linear recurrence, one with attention."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian

EPSILON = 1e-6
CONVOLUTION = 4
DECAY_SCALE = 8.0
ROTARY_BASE = 10_000.0


class Norm(nn.Module):
    """x / sqrt(mean(x^2) + EPSILON) * (1 + weight) over the last dimension, in fp32, rounded to fp16."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.3 * torch.randn(width, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + EPSILON)
        return (wide * (1.0 + self.weight.float())).half()


class Projection(nn.Module):
    """A linear map without bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outputs, inputs) * inputs**-0.5).half())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight)


class Gate(nn.Module):
    """sigmoid of one linear map for each block of channels, in fp32 after the product."""

    def __init__(self, blocks: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.randn(blocks, width, width) * width**-0.5).half())
        self.bias = nn.Parameter(0.5 * torch.randn(blocks, width, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        blocks, width = self.bias.shape
        product = torch.einsum("bsnw,nwv->bsnv", x.unflatten(-1, (blocks, width)), self.weight)
        return torch.sigmoid(product.float() + self.bias.float()).flatten(-2)


def scan(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return h[t] = a[t] h[t - 1] + b[t] along dimension 1, with h[-1] = 0, in log2(S) doubling steps."""
    step = 1
    while step < a.shape[1]:
        earlier = functional.pad(b[:, :-step], (0, 0, step, 0))
        b = b + a * earlier
        a = a * functional.pad(a[:, :-step], (0, 0, step, 0), value=1.0)
        step *= 2
    return b


class RecurrentBlock(nn.Module):
    """out(gelu(gate(x)) * RG-LRU(convolution(input(x))))."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.input = Projection(width, width)
        self.gate = Projection(width, width)
        self.convolution = nn.Parameter((torch.randn(width, CONVOLUTION) * CONVOLUTION**-0.5).half())
        self.convolution_bias = nn.Parameter(0.1 * torch.randn(width, dtype=torch.float16))
        self.input_gate = Gate(blocks, width // blocks)
        self.recurrence_gate = Gate(blocks, width // blocks)
        # With half-open gates a channel forgets in between 2 and 500 steps.
        steps = 2.0 * 250.0 ** torch.rand(width)
        self.decay = nn.Parameter(torch.log(torch.expm1(2.0 / (DECAY_SCALE * steps))))
        self.output = Projection(width, width)

    def convolve(self, x: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x.mT, (CONVOLUTION - 1, 0))
        weight = self.convolution.unsqueeze(1)
        return functional.conv1d(padded, weight, self.convolution_bias, groups=len(weight)).mT

    def recur(self, x: torch.Tensor) -> torch.Tensor:
        log_a = -DECAY_SCALE * self.recurrence_gate(x) * functional.softplus(self.decay)
        multiplier = torch.sqrt(-torch.expm1(2.0 * log_a))
        # The first step has no earlier state to share its weight with.
        first = torch.arange(x.shape[1], device=x.device).view(-1, 1) == 0
        multiplier = multiplier.masked_fill(first, 1.0)
        return scan(log_a.exp(), multiplier * self.input_gate(x) * x.float()).half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = self.recur(self.convolve(self.input(x)))
        return self.output(functional.gelu(self.gate(x), approximate="tanh") * state)


def rotate(x: torch.Tensor) -> torch.Tensor:
    """Turn the first half of each head [batch, heads, tokens, size] by its position, in fp32, rounded to fp16."""
    turned, kept = x.chunk(2, dim=-1)
    quarter = turned.shape[-1] // 2
    exponent = torch.arange(quarter, device=x.device, dtype=torch.float32) / quarter
    position = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
    angle = position.unsqueeze(-1) * ROTARY_BASE**-exponent
    cosine, sine = angle.cos(), angle.sin()
    left, right = turned.float().chunk(2, dim=-1)
    parts = [(left * cosine - right * sine).half(), (right * cosine + left * sine).half(), kept]
    return torch.cat(parts, dim=-1)


class AttentionBlock(nn.Module):
    """Causal attention of all heads over one head of keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = Projection(width, width)
        self.key = Projection(width, width // heads)
        self.value = Projection(width, width // heads)
        self.output = Projection(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = rotate(self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2))
        k = rotate(self.key(x).unsqueeze(1)).expand_as(q)
        v = self.value(x).unsqueeze(1).expand_as(q)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(attended.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    """down(gelu(gate(x)) * up(x))."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = Projection(width, hidden)
        self.up = Projection(width, hidden)
        self.down = Projection(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.gelu(self.gate(x), approximate="tanh") * self.up(x))


class Layer(nn.Module):
    """A temporal block and a feed-forward block, each after a norm and added to what it read."""

    def __init__(self, temporal: nn.Module, width: int, hidden: int) -> None:
        super().__init__()
        self.temporal_norm = Norm(width)
        self.temporal = temporal
        self.channel_norm = Norm(width)
        self.feed_forward = FeedForward(width, hidden)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        h = h + self.temporal(self.temporal_norm(h))
        return h + self.feed_forward(self.channel_norm(h))


class Model(nn.Module):
    """Two recurrent layers, then one with attention."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        blocks = [RecurrentBlock(width, heads), RecurrentBlock(width, heads), AttentionBlock(width, heads)]
        self.layers = nn.ModuleList(Layer(block, width, hidden) for block in blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the width, the number of heads, and the width of the hidden layers."""
    return [dims["D"], dims["H"], dims["FF"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    return {"x": draw_gaussian((dims["B"], dims["S"], dims["D"]), generator).half()}
