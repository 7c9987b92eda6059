"""One decoding step of LongChat-7B layers that attend to the pages of the cache whose bounds promise most (Quest)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

EPSILON = 1e-5
ROTARY_BASE = 10_000.0
OUTPUT_GAIN = 2.0


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


def rotate(x: torch.Tensor, position: int) -> torch.Tensor:
    """Turn each head [..., size] by one position, in fp32, rounded to fp16."""
    half = x.shape[-1] // 2
    exponent = torch.arange(half, device=x.device, dtype=torch.float32) / half
    angle = position * ROTARY_BASE**-exponent
    cosine, sine = angle.cos(), angle.sin()
    left, right = x.float().chunk(2, dim=-1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1).half()


class PagedAttention(nn.Module):
    """Attention of a new token to itself, the last page, and the other pages with the largest bounds on q . k."""

    def __init__(self, width: int, heads: int, kept: int) -> None:
        super().__init__()
        self.heads, self.kept = heads, kept
        self.query = Projection(width, width)
        self.key = Projection(width, width)
        self.value = Projection(width, width)
        self.output = Projection(width, width, OUTPUT_GAIN)

    def choose(self, q: torch.Tensor, kmin: torch.Tensor, kmax: torch.Tensor) -> torch.Tensor:
        """Return the kept pages [batch, heads, kept] of a query [batch, heads, 1, size]."""
        bound = torch.maximum(q.float() * kmin, q.float() * kmax).sum(dim=-1)
        # The last page is kept whatever its bound.
        bound[..., -1] = torch.inf
        return bound.topk(self.kept, dim=-1).indices

    def forward(
        self, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kmin: torch.Tensor, kmax: torch.Tensor
    ) -> torch.Tensor:
        tokens, pages = k.shape[2], kmin.shape[2]
        q, new_k, new_v = (
            projection(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        q, new_k = rotate(q, tokens), rotate(new_k, tokens)
        page = self.choose(q, kmin, kmax)[..., None, None]
        kept_k = k.unflatten(2, (pages, -1)).take_along_dim(page, dim=2).flatten(2, 3)
        kept_v = v.unflatten(2, (pages, -1)).take_along_dim(page, dim=2).flatten(2, 3)
        keys, values = torch.cat([kept_k, new_k], dim=2), torch.cat([kept_v, new_v], dim=2)
        attended = functional.scaled_dot_product_attention(q, keys, values)
        return self.output(attended.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = Projection(width, hidden)
        self.up = Projection(width, hidden)
        self.down = Projection(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """Attention and a feed-forward block, each after a norm and added to what it read."""

    def __init__(self, width: int, heads: int, kept: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm = Norm(width)
        self.attention = PagedAttention(width, heads, kept)
        self.feed_forward_norm = Norm(width)
        self.feed_forward = FeedForward(width, hidden)

    def forward(
        self, h: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kmin: torch.Tensor, kmax: torch.Tensor
    ) -> torch.Tensor:
        h = h + self.attention(self.attention_norm(h), k, v, kmin, kmax)
        return h + self.feed_forward(self.feed_forward_norm(h))


class Model(nn.Module):
    """Several layers, each with its part of the cache."""

    def __init__(self, layers: int, width: int, heads: int, kept: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, kept, hidden) for _ in range(layers))

    def forward(
        self, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kmin: torch.Tensor, kmax: torch.Tensor
    ) -> torch.Tensor:
        for layer, *cache in zip(self.layers, k, v, kmin, kmax, strict=True):
            x = layer(x, *cache)
        return x


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: layers, width, heads, kept pages, and hidden width."""
    return [dims["LAY"], dims["D"], dims["H"], dims["KP"], dims["FF"]]


def draw_cache(
    dims: Mapping[str, int],
    generator: torch.Generator,
    pairs: int,
    *,
    copies: int = 1,
    wide_pages: int,
    wide: float = 2.0,
    centre: float = 1.0,
    loud: float = 1.0,
    last: float = 0.0,
) -> dict[str, torch.Tensor]:
    """Return a cache in fp16: keys, values, and the least and largest key of each page.

    Of each pair of pages one has keys around m and the other around -m, with m from N(0, centre^2), times `loud` in the
    first pair: the query decides which of the two has the larger bound. Their keys reach equally far, and their values
    are the same, so where both bounds are equal it makes no difference which page is kept. There may be several `copies`
    of each pair. `wide_pages` pages have keys spread by `wide`, and so larger bounds than the lesser of each pair. All
    other pages are narrow, also the last one, which lies around N(0, last^2). Each head has an order of its own.
    """
    heads = dims["LAY"], dims["B"], dims["H"]
    pages, page = dims["T"] // dims["PG"], (dims["PG"], dims["D"] // dims["H"])
    paired = 2 * copies * pairs
    place = {"device": generator.device, "generator": generator, "dtype": torch.float16}
    spread = torch.randn(*heads, pairs, *page, **place).sign()
    spread[..., 1, :] = -spread[..., 0, :]
    m = centre * torch.randn(*heads, pairs, 1, page[1], **place)
    m[..., :1, :, :] *= loud
    keys = torch.randn(*heads, pages - paired, *page, **place)
    keys[..., :wide_pages, :, :] *= wide
    keys[..., wide_pages:, :, :] *= 0.3
    keys[..., -1, :, :] += last * torch.randn(*heads, 1, page[1], **place)
    keys = torch.cat([spread + m, spread - m] * copies + [keys], dim=-3)
    values = 2.0 * torch.randn(*heads, pages - paired + pairs, *page, **place)
    values = torch.cat([values[..., :pairs, :, :]] * (2 * copies - 1) + [values], dim=-3)
    order = torch.rand(*heads, pages - 1, device=generator.device, generator=generator).argsort(dim=-1)
    order = functional.pad(order, (0, 1), value=pages - 1)[..., None, None]
    k, v = keys.take_along_dim(order, dim=-3), values.take_along_dim(order, dim=-3)
    kmin, kmax = torch.aminmax(k, dim=-2)
    return {"k": k.flatten(3, 4), "v": v.flatten(3, 4), "kmin": kmin, "kmax": kmax}


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than mirrored."""
    if distribution != "mirrored":
        raise ValueError(f"unknown distribution {distribution!r}; known: mirrored")
    x = torch.randn(dims["B"], 1, dims["D"], generator=generator, device=generator.device)
    wide_pages = (dims["KP"] - 1) // 2
    cache = draw_cache(dims, generator, dims["KP"] - 1 - wide_pages, wide_pages=wide_pages)
    return {"x": x.half(), **cache}
