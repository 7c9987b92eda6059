"""A pair of layers of Gemma-2-9B: one with a sliding window, one without, both with soft-capped attention logits."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian

EPSILON = 1e-6
SOFT_CAP = 50.0
ROTARY_BASE = 10_000.0
CHANNELS_PER_LOUD_ONE = 448


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


def rotate(x: torch.Tensor) -> torch.Tensor:
    """Turn each head [batch, heads, tokens, size] by its position, in fp32, rounded to fp16."""
    half = x.shape[-1] // 2
    exponent = torch.arange(half, device=x.device, dtype=torch.float32) / half
    position = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
    angle = position.unsqueeze(-1) * ROTARY_BASE**-exponent
    cosine, sine = angle.cos(), angle.sin()
    left, right = x.float().chunk(2, dim=-1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1).half()


class Attention(nn.Module):
    """Causal attention with logits capped by tanh; with a window, a token sees only itself and window - 1 before it."""

    def __init__(self, width: int, heads: int, key_heads: int, size: int, window: int | None) -> None:
        super().__init__()
        self.size, self.window = size, window
        self.query = Projection(width, heads * size)
        self.key = Projection(width, key_heads * size)
        self.value = Projection(width, key_heads * size)
        self.output = Projection(heads * size, width)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (-1, self.size)).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = rotate(self.split(self.query(x))), rotate(self.split(self.key(x))), self.split(self.value(x))
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        logits = (q @ k.mT).float() * self.size**-0.5
        logits = SOFT_CAP * torch.tanh(logits / SOFT_CAP)
        position = torch.arange(x.shape[1], device=x.device)
        distance = position.unsqueeze(-1) - position
        hidden = distance < 0
        if self.window is not None:
            hidden = hidden | (distance >= self.window)
        weights = torch.softmax(logits.masked_fill(hidden, -torch.inf), dim=-1).half()
        return self.output((weights @ v).transpose(1, 2).flatten(-2))


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
    """Attention and a feed-forward block, each between two norms and added to what it read."""

    def __init__(self, attention: Attention, width: int, hidden: int) -> None:
        super().__init__()
        self.input_norm = Norm(width)
        self.attention = attention
        self.attention_norm = Norm(width)
        self.feed_forward_norm = Norm(width)
        self.feed_forward = FeedForward(width, hidden)
        self.output_norm = Norm(width)
        # As in trained models, attention hears a few channels much louder than the rest.
        self.input_norm.weight.data[: max(2, width // CHANNELS_PER_LOUD_ONE)] += 7.0

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        h = h + self.attention_norm(self.attention(self.input_norm(h)))
        return h + self.output_norm(self.feed_forward(self.feed_forward_norm(h)))


class Model(nn.Module):
    """A layer with a window and a layer without."""

    def __init__(self, width: int, heads: int, key_heads: int, size: int, hidden: int, window: int) -> None:
        super().__init__()
        kinds = [Attention(width, heads, key_heads, size, reach) for reach in (window, None)]
        self.layers = nn.ModuleList(Layer(attention, width, hidden) for attention in kinds)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: width, heads, heads of keys, size of a head, hidden width, and window."""
    return [dims["D"], dims["H"], dims["HK"], dims["DH"], dims["FF"], dims["WIN"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    return {"x": draw_gaussian((1, dims["S"], dims["D"]), generator).half()}
