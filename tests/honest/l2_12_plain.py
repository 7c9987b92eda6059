# task: l2-12
# why: One program an edge runs over all coefficients, zeros too.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_path(x_pointer, y_pointer, coupling_pointer, weight, m3, L1: tl.constexpr, L2: tl.constexpr):
    total = tl.zeros_like(weight)
    for m1 in range(2 * L1 + 1):
        inner = 0.0
        for m2 in range(2 * L2 + 1):
            inner += tl.load(coupling_pointer + (m1 * 5 + m2) * 5 + m3) * tl.load(y_pointer + L2 * L2 + m2)
        total += inner * tl.load(x_pointer + L1 * L1 + m1)
    return weight * total


@triton.jit
def couple(x_pointer, y_pointer, w_pointer, gate_pointer, coupling_pointer, out_pointer, U: tl.constexpr):
    edge = tl.program_id(0)
    channel = tl.arange(0, U)
    x = x_pointer + (edge * U + channel) * 9
    y = y_pointer + edge * 9
    for l3 in tl.static_range(3):
        for m3 in range(2 * l3 + 1):
            total = tl.zeros((U,), tl.float32)
            path = 0
            for l1 in tl.static_range(3):
                for l2 in tl.static_range(3):
                    for degree in tl.static_range(3):
                        if (degree <= l1 + l2) & (degree >= l1 - l2) & (degree >= l2 - l1):
                            if degree == l3:
                                weight = tl.load(w_pointer + (edge * 15 + path) * U + channel)
                                total += add_path(x, y, coupling_pointer + path * 125, weight, m3, l1, l2)
                            path += 1
            if l3 == 0:
                total = total * tl.sigmoid(total)
            else:
                total = total * tl.sigmoid(tl.load(gate_pointer + (edge * U + channel) * 2 + l3 - 1))
            tl.store(out_pointer + (edge * U + channel) * 9 + l3 * l3 + m3, total)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("coupling", torch.zeros(15, 5, 5, 5))

    def forward(self, x, y, w, gate):
        out = torch.empty_like(x)
        couple[(len(x),)](x, y, w, gate, self.coupling, out, U=x.shape[1])
        return out
