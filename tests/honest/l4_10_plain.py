# task: l4-10
# why: A flash attention that masks every tile and skips none outside the window; the rest is what the reference does.
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional

EPSILON = 1e-6
ROTARY_BASE = 10_000.0
CHANNELS_PER_LOUD_ONE = 448


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(0.3 * torch.randn(width, dtype=torch.float16))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + EPSILON)
        return (wide * (1.0 + self.weight.float())).half()


class Projection(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outputs, inputs) * inputs**-0.5).half())

    def forward(self, x):
        return functional.linear(x, self.weight)


def rotate(x):
    half = x.shape[-1] // 2
    exponent = torch.arange(half, device=x.device, dtype=torch.float32) / half
    position = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
    angle = position.unsqueeze(-1) * ROTARY_BASE**-exponent
    cosine, sine = angle.cos(), angle.sin()
    left, right = x.float().chunk(2, dim=-1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1).half()


@triton.jit
def attend(
    q_pointer,
    k_pointer,
    v_pointer,
    attended_pointer,
    tokens,
    window,
    group,
    scale,
    SIZE: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    head = tl.program_id(1)
    token = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    channel = tl.arange(0, SIZE)
    place = (head * tokens + token[:, None]) * SIZE + channel[None, :]
    q = tl.load(q_pointer + place, mask=(token < tokens)[:, None], other=0.0)
    attended = tl.zeros((QUERIES, SIZE), tl.float32)
    largest = tl.full((QUERIES,), -1e30, tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * QUERIES, KEYS):
        key = start + tl.arange(0, KEYS)
        source = (head // group * tokens + key[:, None]) * SIZE + channel[None, :]
        k = tl.load(k_pointer + source, mask=(key < tokens)[:, None], other=0.0)
        v = tl.load(v_pointer + source, mask=(key < tokens)[:, None], other=0.0)
        logits = tl.dot(q, tl.trans(k)) * scale
        logits = 100.0 * tl.sigmoid(logits / 25.0) - 50.0
        distance = token[:, None] - key[None, :]
        logits = tl.where((distance >= 0) & (distance < window), logits, -1e30)
        raised = tl.maximum(largest, tl.max(logits, axis=1))
        weights = tl.exp(logits - raised[:, None])
        shrink = tl.exp(largest - raised)
        total = total * shrink + tl.sum(weights, axis=1)
        attended = attended * shrink[:, None] + tl.dot(weights.to(tl.float16), v)
        largest = raised
    tl.store(attended_pointer + place, (attended / total[:, None]).to(tl.float16), mask=(token < tokens)[:, None])


class Attention(nn.Module):
    def __init__(self, width, heads, key_heads, size, window):
        super().__init__()
        self.size, self.window = size, window
        self.query = Projection(width, heads * size)
        self.key = Projection(width, key_heads * size)
        self.value = Projection(width, key_heads * size)
        self.output = Projection(heads * size, width)

    def split(self, x):
        return x.unflatten(-1, (-1, self.size)).transpose(1, 2)

    def forward(self, x):
        q, k, v = rotate(self.split(self.query(x))), rotate(self.split(self.key(x))), self.split(self.value(x))
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        _, heads, tokens, size = q.shape
        attended = torch.empty_like(q)
        attend[(triton.cdiv(tokens, 32), heads)](
            q,
            k,
            v,
            attended,
            tokens,
            self.window or tokens,
            heads // k.shape[1],
            size**-0.5,
            SIZE=size,
            QUERIES=32,
            KEYS=32,
        )
        return self.output(attended.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = Projection(width, hidden)
        self.up = Projection(width, hidden)
        self.down = Projection(hidden, width)

    def forward(self, x):
        return self.down(functional.gelu(self.gate(x), approximate="tanh") * self.up(x))


class Layer(nn.Module):
    def __init__(self, attention, width, hidden):
        super().__init__()
        self.input_norm = Norm(width)
        self.attention = attention
        self.attention_norm = Norm(width)
        self.feed_forward_norm = Norm(width)
        self.feed_forward = FeedForward(width, hidden)
        self.output_norm = Norm(width)
        # As in trained models, attention hears a few channels much louder than the rest.
        self.input_norm.weight.data[: max(1, width // CHANNELS_PER_LOUD_ONE)] += 7.0

    def forward(self, h):
        h = h + self.attention_norm(self.attention(self.input_norm(h)))
        return h + self.output_norm(self.feed_forward(self.feed_forward_norm(h)))


class ModelNew(nn.Module):
    def __init__(self, width, heads, key_heads, size, hidden, window):
        super().__init__()
        kinds = [Attention(width, heads, key_heads, size, reach) for reach in (window, None)]
        self.layers = nn.ModuleList(Layer(attention, width, hidden) for attention in kinds)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
