"""Layers of OLMoE-1B-7B: attention with normed queries and keys, and a mixture of many small experts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian

EPSILON = 1e-5
ROTARY_BASE = 10_000.0
ROUTER_GAIN = 2.0
EXPERT_GAIN = 3.0


class Norm(nn.Module):
    """x / sqrt(mean(x^2) + EPSILON) * weight over the last dimension, in fp32, rounded to fp16."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(width, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + EPSILON)
        return (wide * self.weight.float()).half()


class Projection(nn.Module):
    """A linear map without bias."""

    def __init__(self, inputs: int, outputs: int, gain: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outputs, inputs) * gain * inputs**-0.5).half())

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
    """Causal attention; queries and keys are normed over all heads together."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = Projection(width, width)
        self.key = Projection(width, width)
        self.value = Projection(width, width)
        self.output = Projection(width, width)
        self.query_norm = Norm(width)
        self.key_norm = Norm(width)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = rotate(self.split(self.query_norm(self.query(x))))
        k = rotate(self.split(self.key_norm(self.key(x))))
        attended = functional.scaled_dot_product_attention(q, k, self.split(self.value(x)), is_causal=True)
        return self.output(attended.transpose(1, 2).flatten(-2))


class Mixture(nn.Module):
    """The sum of each token's `chosen` likeliest experts, weighted by how far each is likelier than the next one."""

    def __init__(self, width: int, experts: int, chosen: int, hidden: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = Projection(width, experts, ROUTER_GAIN)
        self.gate_up = nn.Parameter((torch.randn(experts, 2 * hidden, width) * width**-0.5).half())
        self.down = nn.Parameter((torch.randn(experts, width, hidden) * EXPERT_GAIN * hidden**-0.5).half())

    def route(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return weights [tokens, chosen] in fp32 and experts [tokens, chosen]."""
        likelihood = torch.softmax(self.router(x).float(), dim=-1)
        largest, expert = likelihood.topk(self.chosen + 1, dim=-1)
        return largest[:, :-1] - largest[:, -1:], expert[:, :-1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, 1)
        weights, experts = self.route(tokens)
        total = torch.zeros_like(tokens)
        for number, (gate_up, down) in enumerate(zip(self.gate_up, self.down, strict=True)):
            token, rank = torch.where(experts == number)
            gate, up = functional.linear(tokens[token], gate_up).chunk(2, dim=-1)
            result = functional.linear(functional.silu(gate) * up, down)
            total.index_add_(0, token, (result * weights[token, rank].unsqueeze(-1)).half())
        return total.view_as(x)


class Layer(nn.Module):
    """Attention and a mixture of experts, each after a norm and added to what it read."""

    def __init__(self, width: int, heads: int, experts: int, chosen: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm = Norm(width)
        self.attention = Attention(width, heads)
        self.mixture_norm = Norm(width)
        self.mixture = Mixture(width, experts, chosen, hidden)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        h = h + self.attention(self.attention_norm(h))
        return h + self.mixture(self.mixture_norm(h))


class Model(nn.Module):
    """Several such layers."""

    def __init__(self, layers: int, width: int, heads: int, experts: int, chosen: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, experts, chosen, hidden) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: layers, width, heads, experts, experts a token, and hidden width."""
    return [dims["LAY"], dims["D"], dims["H"], dims["E"], dims["K"], dims["FF"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    return {"x": draw_gaussian((dims["B"], dims["S"], dims["D"]), generator).half()}
