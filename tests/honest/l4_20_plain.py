# task: l4-20
# why: One kernel for the bounds, the choice of the library, and one kernel that walks the pages, a program a head.
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional

EPSILON = 1e-5
ROTARY_BASE = 10_000.0
OUTPUT_GAIN = 2.0


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(width, dtype=torch.float16))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + EPSILON)
        return (wide * self.weight.float()).half()


class Projection(nn.Module):
    def __init__(self, inputs, outputs, gain=1.0):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outputs, inputs) * gain * inputs**-0.5).half())

    def forward(self, x):
        return functional.linear(x, self.weight)


def rotate(x, position):
    half = x.shape[-1] // 2
    exponent = torch.arange(half, device=x.device, dtype=torch.float32) / half
    angle = position * ROTARY_BASE**-exponent
    cosine, sine = angle.cos(), angle.sin()
    left, right = x.float().chunk(2, dim=-1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1).half()


@triton.jit
def bound_pages(q_pointer, kmin_pointer, kmax_pointer, bound_pointer, pages, SIZE: tl.constexpr):
    page = tl.program_id(0)
    head = tl.program_id(1)
    channel = tl.arange(0, SIZE)
    q = tl.load(q_pointer + head * SIZE + channel).to(tl.float32)
    place = (head * pages + page) * SIZE + channel
    bound = tl.maximum(q * tl.load(kmin_pointer + place), q * tl.load(kmax_pointer + place))
    tl.store(bound_pointer + head * pages + page, tl.sum(bound, axis=0))


@triton.jit
def attend_pages(
    q_pointer,
    k_pointer,
    v_pointer,
    page_pointer,
    new_k_pointer,
    new_v_pointer,
    attended_pointer,
    tokens,
    kept,
    scale,
    PAGE: tl.constexpr,
    SIZE: tl.constexpr,
):
    head = tl.program_id(0)
    channel = tl.arange(0, SIZE)
    own = head * SIZE + channel
    q = tl.load(q_pointer + own).to(tl.float32) * scale
    largest = tl.sum(q * tl.load(new_k_pointer + own), axis=0)
    total = 1.0
    attended = tl.load(new_v_pointer + own).to(tl.float32)
    for number in range(kept):
        page = tl.load(page_pointer + head * kept + number)
        token = page * PAGE + tl.arange(0, PAGE)
        place = (head.to(tl.int64) * tokens + token[:, None]) * SIZE + channel[None, :]
        k = tl.load(k_pointer + place)
        v = tl.load(v_pointer + place)
        logits = tl.sum(q[None, :] * k, axis=1)
        raised = tl.maximum(largest, tl.max(logits, axis=0))
        weights = tl.exp(logits - raised)
        shrink = tl.exp(largest - raised)
        attended = attended * shrink + tl.sum(weights[:, None] * v, axis=0)
        total = total * shrink + tl.sum(weights, axis=0)
        largest = raised
    tl.store(attended_pointer + own, (attended / total).to(tl.float16))


class PagedAttention(nn.Module):
    def __init__(self, width, heads, kept):
        super().__init__()
        self.heads, self.kept = heads, kept
        self.query = Projection(width, width)
        self.key = Projection(width, width)
        self.value = Projection(width, width)
        self.output = Projection(width, width, OUTPUT_GAIN)

    def choose(self, q, kmin, kmax):
        """Return the kept pages [batch, heads, kept] of a query [batch, heads, 1, size]."""
        batch, heads, pages, size = kmin.shape
        bound = torch.empty(batch, heads, pages, device=q.device)
        bound_pages[(pages, batch * heads)](q, kmin, kmax, bound, pages, SIZE=size, num_warps=1)
        # The last page is kept whatever its bound.
        bound[..., -1] = torch.inf
        return bound.topk(self.kept, dim=-1).indices

    def forward(self, x, k, v, kmin, kmax: torch.Tensor):
        tokens, pages = k.shape[2], kmin.shape[2]
        q, new_k, new_v = (
            projection(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        q, new_k, new_v = rotate(q, tokens).contiguous(), rotate(new_k, tokens).contiguous(), new_v.contiguous()
        page = self.choose(q, kmin, kmax)
        batch, heads, kept = page.shape
        attended = torch.empty_like(q)
        attend_pages[(batch * heads,)](
            q,
            k,
            v,
            page,
            new_k,
            new_v,
            attended,
            tokens,
            kept,
            q.shape[-1] ** -0.5,
            PAGE=tokens // pages,
            SIZE=q.shape[-1],
        )
        return self.output(attended.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = Projection(width, hidden)
        self.up = Projection(width, hidden)
        self.down = Projection(hidden, width)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, width, heads, kept, hidden):
        super().__init__()
        self.attention_norm = Norm(width)
        self.attention = PagedAttention(width, heads, kept)
        self.feed_forward_norm = Norm(width)
        self.feed_forward = FeedForward(width, hidden)

    def forward(self, h, k, v, kmin, kmax: torch.Tensor):
        h = h + self.attention(self.attention_norm(h), k, v, kmin, kmax)
        return h + self.feed_forward(self.feed_forward_norm(h))


class ModelNew(nn.Module):
    def __init__(self, layers, width, heads, kept, hidden):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, kept, hidden) for _ in range(layers))

    def forward(self, x, k, v, kmin, kmax: torch.Tensor):
        for layer, *cache in zip(self.layers, k, v, kmin, kmax, strict=True):
            x = layer(x, *cache)
        return x
