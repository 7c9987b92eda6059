# task: l4-01
# why: Pairs are sorted by the library, and one kernel multiplies the rows of each expert; the rest is what the reference does.
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional

EPSILON = 1e-5
ROTARY_BASE = 10_000.0
ROUTER_GAIN = 2.0
EXPERT_GAIN = 3.0


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


def rotate(x):
    half = x.shape[-1] // 2
    exponent = torch.arange(half, device=x.device, dtype=torch.float32) / half
    position = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
    angle = position.unsqueeze(-1) * ROTARY_BASE**-exponent
    cosine, sine = angle.cos(), angle.sin()
    left, right = x.float().chunk(2, dim=-1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1).half()


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = Projection(width, width)
        self.key = Projection(width, width)
        self.value = Projection(width, width)
        self.output = Projection(width, width)
        self.query_norm = Norm(width)
        self.key_norm = Norm(width)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        q = rotate(self.split(self.query_norm(self.query(x))))
        k = rotate(self.split(self.key_norm(self.key(x))))
        attended = functional.scaled_dot_product_attention(q, k, self.split(self.value(x)), is_causal=True)
        return self.output(attended.transpose(1, 2).flatten(-2))


@triton.jit
def multiply_rows(
    x_pointer,
    weight_pointer,
    first_pointer,
    y_pointer,
    inputs,
    outputs,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    expert = tl.program_id(0)
    start = tl.load(first_pointer + expert) + tl.program_id(1) * ROWS
    stop = tl.load(first_pointer + expert + 1)
    if start < stop:
        row = start + tl.arange(0, ROWS)
        column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
        inside = (row < stop)[:, None]
        y = tl.zeros((ROWS, COLUMNS), tl.float32)
        for term in range(0, inputs, DEPTH):
            depth = term + tl.arange(0, DEPTH)
            x = tl.load(x_pointer + row[:, None] * inputs + depth[None, :], mask=inside, other=0.0)
            place = (expert * outputs + column[None, :]) * inputs + depth[:, None]
            y += tl.dot(x, tl.load(weight_pointer + place))
        tl.store(y_pointer + row[:, None] * outputs + column[None, :], y.to(tl.float16), mask=inside)


def multiply(x, weight, first, tokens):
    experts, outputs, inputs = weight.shape
    y = x.new_empty(len(x), outputs)
    multiply_rows[(experts, triton.cdiv(tokens, 32), outputs // 32)](
        x, weight, first, y, inputs, outputs, ROWS=32, COLUMNS=32, DEPTH=32
    )
    return y


class Mixture(nn.Module):
    def __init__(self, width, experts, chosen, hidden):
        super().__init__()
        self.chosen = chosen
        self.router = Projection(width, experts, ROUTER_GAIN)
        self.gate_up = nn.Parameter((torch.randn(experts, 2 * hidden, width) * width**-0.5).half())
        self.down = nn.Parameter((torch.randn(experts, width, hidden) * EXPERT_GAIN * hidden**-0.5).half())

    def route(self, x):
        """Return weights [tokens, chosen] in fp32 and experts [tokens, chosen]."""
        likelihood = torch.softmax(self.router(x).float(), dim=-1)
        largest, expert = likelihood.topk(self.chosen + 1, dim=-1)
        return largest[:, :-1] - largest[:, -1:], expert[:, :-1]

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weights, experts = self.route(tokens)
        order = experts.flatten().argsort(stable=True)
        # The first place of each expert in the sorted list, and the end of the list.
        numbers = torch.arange(len(self.down) + 1, device=x.device)
        first = torch.searchsorted(experts.flatten()[order], numbers)
        gathered = tokens[order // self.chosen]
        gate, up = multiply(gathered, self.gate_up, first, len(tokens)).chunk(2, dim=-1)
        results = multiply(functional.silu(gate) * up, self.down, first, len(tokens))
        sorted_back = torch.empty_like(results)
        sorted_back[order] = results
        total = (sorted_back.view(-1, self.chosen, x.shape[-1]).float() * weights.unsqueeze(-1)).sum(dim=1)
        return total.half().view_as(x)


class Layer(nn.Module):
    def __init__(self, width, heads, experts, chosen, hidden):
        super().__init__()
        self.attention_norm = Norm(width)
        self.attention = Attention(width, heads)
        self.mixture_norm = Norm(width)
        self.mixture = Mixture(width, experts, chosen, hidden)

    def forward(self, h):
        h = h + self.attention(self.attention_norm(h))
        return h + self.mixture(self.mixture_norm(h))


class ModelNew(nn.Module):
    def __init__(self, layers, width, heads, experts, chosen, hidden):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, experts, chosen, hidden) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
