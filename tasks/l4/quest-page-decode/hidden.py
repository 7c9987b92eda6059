"""One decoding step over chosen pages of the cache: hidden inputs and the float64 oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

State = Mapping[str, torch.Tensor]


def _draw_cache(
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
    order = torch.nn.functional.pad(order, (0, 1), value=pages - 1)[..., None, None]
    k, v = keys.take_along_dim(order, dim=-3), values.take_along_dim(order, dim=-3)
    kmin, kmax = torch.aminmax(k, dim=-2)
    return {"k": k.flatten(3, 4), "v": v.flatten(3, 4), "kmin": kmin, "kmax": kmax}


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    others = dims["KP"] - 1
    wide_pages = others // 2
    pairs = others - wide_pages
    match distribution:
        case "needle":
            cache = _draw_cache(dims, generator, pairs, wide_pages=wide_pages, loud=6.0)
        case "recent":
            cache = _draw_cache(dims, generator, pairs, wide_pages=wide_pages, last=2.0)
        case "loose-bounds":
            cache = _draw_cache(dims, generator, pairs, wide_pages=others, wide=4.0, centre=2.0)
        case "repeated-pages":
            cache = _draw_cache(dims, generator, pairs // 2, copies=2, wide_pages=others - pairs // 2 * 2)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    x = torch.randn(dims["B"], 1, dims["D"], generator=generator, device=generator.device)
    return {"x": x.half(), **cache}


def _project(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    return x @ state[f"{name}.weight"].double().T


def _normalise(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    size = h.square().mean(dim=-1, keepdim=True)
    return h * state[f"{name}.weight"].double() / torch.sqrt(size + 1e-5)


def _rotate(x: torch.Tensor, position: int) -> torch.Tensor:
    """Turn channels c and c + size/2 of [heads, size] together, as one complex number."""
    half = x.shape[-1] // 2
    angle = position * 10_000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    number = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([number.real, number.imag], dim=-1)


def _choose_pages(q: torch.Tensor, kmin: torch.Tensor, kmax: torch.Tensor, kept: int) -> torch.Tensor:
    """Return whether a head [heads, size] keeps a page [heads, pages]."""
    middle, reach = (kmax.double() + kmin.double()) / 2.0, (kmax.double() - kmin.double()) / 2.0
    bound = (middle @ q.unsqueeze(-1) + reach.abs() @ q.abs().unsqueeze(-1)).squeeze(-1)
    bound[:, -1] = math.inf
    place = bound.argsort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(bound, dtype=torch.bool).scatter_(1, place[:, :kept], True)


def _attend(
    x: torch.Tensor, cache: list[torch.Tensor], state: State, name: str, dims: Mapping[str, int]
) -> torch.Tensor:
    """Return the attended values of one token [width]: all scores, of which those of the other pages do not count."""
    k, v, kmin, kmax = cache
    q, new_k, new_v = (_project(x, state, f"{name}.{part}").view(dims["H"], -1) for part in ("query", "key", "value"))
    q, new_k = _rotate(q, dims["T"]), _rotate(new_k, dims["T"])
    kept = _choose_pages(q, kmin, kmax, dims["KP"]).repeat_interleave(dims["PG"], dim=-1)
    scores = (k.double() @ q.unsqueeze(-1)).squeeze(-1).masked_fill_(~kept, -math.inf)
    scores = torch.cat([scores, (q * new_k).sum(dim=-1, keepdim=True)], dim=-1) / math.sqrt(q.shape[-1])
    weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
    attended = (weights[:, None, :-1] @ v.double()).squeeze(1) + weights[:, -1:] * new_v
    return attended.flatten()


def _feed_forward(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    gate = _project(x, state, f"{name}.gate")
    return _project(gate * torch.sigmoid(gate) * _project(x, state, f"{name}.up"), state, f"{name}.down")


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64, a token at a time."""
    h = inputs["x"][:, 0].double()
    for number in range(dims["LAY"]):
        layer = f"layers.{number}"
        normed = _normalise(h, state, f"{layer}.attention_norm")
        attended = [
            _attend(
                row,
                [inputs[part][number, index] for part in ("k", "v", "kmin", "kmax")],
                state,
                f"{layer}.attention",
                dims,
            )
            for index, row in enumerate(normed)
        ]
        h = h + _project(torch.stack(attended), state, f"{layer}.attention.output")
        h = h + _feed_forward(_normalise(h, state, f"{layer}.feed_forward_norm"), state, f"{layer}.feed_forward")
    return (h.unsqueeze(1),)
