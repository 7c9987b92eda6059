# task: l4-24
# why: The recurrence goes token by token in one kernel, the norms are another; the rest is what the reference does.
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional

EPSILON = 1e-6
CONVOLUTION = 4
ROTARY_BASE = 10_000.0


@triton.jit
def normalise_rows(h_pointer, weight_pointer, normed_pointer, epsilon, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    channel = tl.arange(0, BLOCK)
    inside = channel < WIDTH
    place = tl.program_id(0) * WIDTH + channel
    h = tl.load(h_pointer + place, mask=inside, other=0.0).to(tl.float32)
    h = h / tl.sqrt(tl.sum(h * h, axis=0) / WIDTH + epsilon)
    weight = tl.load(weight_pointer + channel, mask=inside, other=0.0).to(tl.float32)
    tl.store(normed_pointer + place, (h * (1.0 + weight)).to(tl.float16), mask=inside)


@triton.jit
def recur(x_pointer, open_pointer, reset_pointer, rate_pointer, state_pointer, tokens, width, BLOCK: tl.constexpr):
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < width
    rate = 8.0 * tl.log(1.0 + tl.exp(tl.load(rate_pointer + channel, mask=inside, other=0.0)))
    state = tl.zeros((BLOCK,), tl.float32)
    for token in range(tokens):
        place = (tl.program_id(0) * tokens + token) * width + channel
        x = tl.load(x_pointer + place, mask=inside, other=0.0).to(tl.float32)
        opened = tl.sigmoid(tl.load(open_pointer + place, mask=inside, other=0.0).to(tl.float32))
        reset = tl.sigmoid(tl.load(reset_pointer + place, mask=inside, other=0.0).to(tl.float32))
        decay = tl.exp(-rate * reset)
        factor = tl.sqrt(1.0 - decay * decay)
        factor = tl.where(token == 0, 1.0, factor)
        state = decay * state + factor * opened * x
        tl.store(state_pointer + place, state.to(tl.float16), mask=inside)


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, dtype=torch.float16))

    def forward(self, x):
        normed = torch.empty_like(x)
        width = x.shape[-1]
        normalise_rows[(x.numel() // width,)](
            x, self.weight, normed, EPSILON, WIDTH=width, BLOCK=triton.next_power_of_2(width)
        )
        return normed


class Projection(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outputs, inputs) * inputs**-0.5).half())

    def forward(self, x):
        return functional.linear(x, self.weight)


class Gate(nn.Module):
    def __init__(self, blocks, width):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(blocks, width, width) * width**-0.5).half())
        self.bias = nn.Parameter(0.5 * torch.randn(blocks, width, dtype=torch.float16))

    def forward(self, x):
        blocks, width = self.bias.shape
        product = torch.einsum("bsnw,nwv->bsnv", x.unflatten(-1, (blocks, width)), self.weight)
        return (product + self.bias).flatten(-2)


class RecurrentBlock(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.input = Projection(width, width)
        self.gate = Projection(width, width)
        self.convolution = nn.Parameter((torch.randn(width, CONVOLUTION) * CONVOLUTION**-0.5).half())
        self.convolution_bias = nn.Parameter(0.1 * torch.randn(width, dtype=torch.float16))
        self.input_gate = Gate(blocks, width // blocks)
        self.recurrence_gate = Gate(blocks, width // blocks)
        self.decay = nn.Parameter(torch.zeros(width))
        self.output = Projection(width, width)

    def convolve(self, x):
        padded = functional.pad(x.mT, (CONVOLUTION - 1, 0))
        weight = self.convolution.unsqueeze(1)
        return functional.conv1d(padded, weight, self.convolution_bias, groups=len(weight)).mT

    def recur(self, x):
        batch, tokens, width = x.shape
        state = torch.empty_like(x, memory_format=torch.contiguous_format)
        opened, reset = self.input_gate(x).contiguous(), self.recurrence_gate(x).contiguous()
        recur[(batch, triton.cdiv(width, 64))](
            x.contiguous(), opened, reset, self.decay, state, tokens, width, BLOCK=64, num_warps=2
        )
        return state

    def forward(self, x):
        state = self.recur(self.convolve(self.input(x)))
        return self.output(functional.gelu(self.gate(x), approximate="tanh") * state)


def rotate(x):
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
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = Projection(width, width)
        self.key = Projection(width, width // heads)
        self.value = Projection(width, width // heads)
        self.output = Projection(width, width)

    def forward(self, x):
        q = rotate(self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2))
        k = rotate(self.key(x).unsqueeze(1)).expand_as(q)
        v = self.value(x).unsqueeze(1).expand_as(q)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
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
    def __init__(self, temporal, width, hidden):
        super().__init__()
        self.temporal_norm = Norm(width)
        self.temporal = temporal
        self.channel_norm = Norm(width)
        self.feed_forward = FeedForward(width, hidden)

    def forward(self, h):
        h = h + self.temporal(self.temporal_norm(h))
        return h + self.feed_forward(self.channel_norm(h))


class ModelNew(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        blocks = [RecurrentBlock(width, heads), RecurrentBlock(width, heads), AttentionBlock(width, heads)]
        self.layers = nn.ModuleList(Layer(block, width, hidden) for block in blocks)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
