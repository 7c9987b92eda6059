"""Clebsch-Gordan tensor product with a gate in Triton.

Strategy: the task moves 300 MB and computes little, so everything happens in registers between one read and one write.
A program takes some edges with all their channels. Of the 15 x 125 coefficients only 137 can differ from zero, by
selection rules that hold for every model; these are written out below, one function a path, and their values come from
the buffer. Nine features in a row do not make whole cache lines: they are read and written as rows of sixteen lanes, of
which seven are masked, and taken apart and put together in registers.
"""

import torch
import triton
import triton.language as tl
from torch import nn

PATHS = 15
EDGES_AT_ONCE = 8
# A coefficient stands at 25 m1 + 5 m2 + m3 of its path, a path at 125 times its number.
PATH_STRIDE = 125


@triton.jit
def couple_000(c, x0, y0):
    t0 = x0 * (tl.load(c + 0) * y0)
    return t0


@triton.jit
def couple_011(c, x0, y1, y2, y3):
    t1 = x0 * (tl.load(c + 0) * y1)
    t2 = x0 * (tl.load(c + 6) * y2)
    t3 = x0 * (tl.load(c + 12) * y3)
    return t1, t2, t3


@triton.jit
def couple_022(c, x0, y4, y5, y6, y7, y8):
    t4 = x0 * (tl.load(c + 0) * y4)
    t5 = x0 * (tl.load(c + 6) * y5)
    t6 = x0 * (tl.load(c + 12) * y6)
    t7 = x0 * (tl.load(c + 18) * y7)
    t8 = x0 * (tl.load(c + 24) * y8)
    return t4, t5, t6, t7, t8


@triton.jit
def couple_101(c, x1, x2, x3, y0):
    t1 = x1 * (tl.load(c + 0) * y0)
    t2 = x2 * (tl.load(c + 26) * y0)
    t3 = x3 * (tl.load(c + 52) * y0)
    return t1, t2, t3


@triton.jit
def couple_110(c, x1, x2, x3, y1, y2, y3):
    t0 = x1 * (tl.load(c + 0) * y1) + x2 * (tl.load(c + 30) * y2) + x3 * (tl.load(c + 60) * y3)
    return t0


@triton.jit
def couple_111(c, x1, x2, x3, y1, y2, y3):
    t1 = x2 * (tl.load(c + 35) * y3) + x3 * (tl.load(c + 55) * y2)
    t2 = x1 * (tl.load(c + 11) * y3) + x3 * (tl.load(c + 51) * y1)
    t3 = x1 * (tl.load(c + 7) * y2) + x2 * (tl.load(c + 27) * y1)
    return t1, t2, t3


@triton.jit
def couple_112(c, x1, x2, x3, y1, y2, y3):
    t4 = x1 * (tl.load(c + 10) * y3) + x3 * (tl.load(c + 50) * y1)
    t5 = x1 * (tl.load(c + 6) * y2) + x2 * (tl.load(c + 26) * y1)
    t6 = x1 * (tl.load(c + 2) * y1) + x2 * (tl.load(c + 32) * y2) + x3 * (tl.load(c + 62) * y3)
    t7 = x2 * (tl.load(c + 38) * y3) + x3 * (tl.load(c + 58) * y2)
    t8 = x1 * (tl.load(c + 4) * y1) + x3 * (tl.load(c + 64) * y3)
    return t4, t5, t6, t7, t8


@triton.jit
def couple_121(c, x1, x2, x3, y4, y5, y6, y7, y8):
    t1 = x1 * (tl.load(c + 10) * y6 + tl.load(c + 20) * y8) + x2 * (tl.load(c + 30) * y5) + x3 * (tl.load(c + 50) * y4)
    t2 = x1 * (tl.load(c + 6) * y5) + x2 * (tl.load(c + 36) * y6) + x3 * (tl.load(c + 66) * y7)
    t3 = x1 * (tl.load(c + 2) * y4) + x2 * (tl.load(c + 42) * y7) + x3 * (tl.load(c + 62) * y6 + tl.load(c + 72) * y8)
    return t1, t2, t3


@triton.jit
def couple_122(c, x1, x2, x3, y4, y5, y6, y7, y8):
    t4 = x1 * (tl.load(c + 5) * y5) + x2 * (tl.load(c + 45) * y8) + x3 * (tl.load(c + 65) * y7)
    t5 = x1 * (tl.load(c + 1) * y4) + x2 * (tl.load(c + 41) * y7) + x3 * (tl.load(c + 61) * y6 + tl.load(c + 71) * y8)
    t6 = x1 * (tl.load(c + 17) * y7) + x3 * (tl.load(c + 57) * y5)
    t7 = x1 * (tl.load(c + 13) * y6 + tl.load(c + 23) * y8) + x2 * (tl.load(c + 33) * y5) + x3 * (tl.load(c + 53) * y4)
    t8 = x1 * (tl.load(c + 19) * y7) + x2 * (tl.load(c + 29) * y4) + x3 * (tl.load(c + 59) * y5)
    return t4, t5, t6, t7, t8


@triton.jit
def couple_202(c, x4, x5, x6, x7, x8, y0):
    t4 = x4 * (tl.load(c + 0) * y0)
    t5 = x5 * (tl.load(c + 26) * y0)
    t6 = x6 * (tl.load(c + 52) * y0)
    t7 = x7 * (tl.load(c + 78) * y0)
    t8 = x8 * (tl.load(c + 104) * y0)
    return t4, t5, t6, t7, t8


@triton.jit
def couple_211(c, x4, x5, x6, x7, x8, y1, y2, y3):
    t1 = (
        x4 * (tl.load(c + 10) * y3)
        + x5 * (tl.load(c + 30) * y2)
        + x6 * (tl.load(c + 50) * y1)
        + x8 * (tl.load(c + 100) * y1)
    )
    t2 = x5 * (tl.load(c + 26) * y1) + x6 * (tl.load(c + 56) * y2) + x7 * (tl.load(c + 86) * y3)
    t3 = (
        x4 * (tl.load(c + 2) * y1)
        + x6 * (tl.load(c + 62) * y3)
        + x7 * (tl.load(c + 82) * y2)
        + x8 * (tl.load(c + 112) * y3)
    )
    return t1, t2, t3


@triton.jit
def couple_212(c, x4, x5, x6, x7, x8, y1, y2, y3):
    t4 = x5 * (tl.load(c + 25) * y1) + x7 * (tl.load(c + 85) * y3) + x8 * (tl.load(c + 105) * y2)
    t5 = (
        x4 * (tl.load(c + 1) * y1)
        + x6 * (tl.load(c + 61) * y3)
        + x7 * (tl.load(c + 81) * y2)
        + x8 * (tl.load(c + 111) * y3)
    )
    t6 = x5 * (tl.load(c + 37) * y3) + x7 * (tl.load(c + 77) * y1)
    t7 = (
        x4 * (tl.load(c + 13) * y3)
        + x5 * (tl.load(c + 33) * y2)
        + x6 * (tl.load(c + 53) * y1)
        + x8 * (tl.load(c + 103) * y1)
    )
    t8 = x4 * (tl.load(c + 9) * y2) + x5 * (tl.load(c + 39) * y3) + x7 * (tl.load(c + 79) * y1)
    return t4, t5, t6, t7, t8


@triton.jit
def couple_220(c, x4, x5, x6, x7, x8, y4, y5, y6, y7, y8):
    t0 = (
        x4 * (tl.load(c + 0) * y4)
        + x5 * (tl.load(c + 30) * y5)
        + x6 * (tl.load(c + 60) * y6)
        + x7 * (tl.load(c + 90) * y7)
        + x8 * (tl.load(c + 120) * y8)
    )
    return t0


@triton.jit
def couple_221(c, x4, x5, x6, x7, x8, y4, y5, y6, y7, y8):
    t1 = (
        x4 * (tl.load(c + 5) * y5)
        + x5 * (tl.load(c + 25) * y4)
        + x6 * (tl.load(c + 65) * y7)
        + x7 * (tl.load(c + 85) * y6 + tl.load(c + 95) * y8)
        + x8 * (tl.load(c + 115) * y7)
    )
    t2 = (
        x4 * (tl.load(c + 21) * y8)
        + x5 * (tl.load(c + 41) * y7)
        + x7 * (tl.load(c + 81) * y5)
        + x8 * (tl.load(c + 101) * y4)
    )
    t3 = (
        x4 * (tl.load(c + 17) * y7)
        + x5 * (tl.load(c + 37) * y6 + tl.load(c + 47) * y8)
        + x6 * (tl.load(c + 57) * y5)
        + x7 * (tl.load(c + 77) * y4)
        + x8 * (tl.load(c + 107) * y5)
    )
    return t1, t2, t3


@triton.jit
def couple_222(c, x4, x5, x6, x7, x8, y4, y5, y6, y7, y8):
    t4 = (
        x4 * (tl.load(c + 10) * y6)
        + x5 * (tl.load(c + 40) * y7)
        + x6 * (tl.load(c + 50) * y4)
        + x7 * (tl.load(c + 80) * y5)
    )
    t5 = (
        x4 * (tl.load(c + 16) * y7)
        + x5 * (tl.load(c + 36) * y6 + tl.load(c + 46) * y8)
        + x6 * (tl.load(c + 56) * y5)
        + x7 * (tl.load(c + 76) * y4)
        + x8 * (tl.load(c + 106) * y5)
    )
    t6 = (
        x4 * (tl.load(c + 2) * y4)
        + x5 * (tl.load(c + 32) * y5)
        + x6 * (tl.load(c + 62) * y6)
        + x7 * (tl.load(c + 92) * y7)
        + x8 * (tl.load(c + 122) * y8)
    )
    t7 = (
        x4 * (tl.load(c + 8) * y5)
        + x5 * (tl.load(c + 28) * y4)
        + x6 * (tl.load(c + 68) * y7)
        + x7 * (tl.load(c + 88) * y6 + tl.load(c + 98) * y8)
        + x8 * (tl.load(c + 118) * y7)
    )
    t8 = (
        x5 * (tl.load(c + 34) * y5)
        + x6 * (tl.load(c + 74) * y8)
        + x7 * (tl.load(c + 94) * y7)
        + x8 * (tl.load(c + 114) * y6)
    )
    return t4, t5, t6, t7, t8


@triton.jit
def take_first(pair):
    value, _ = tl.split(pair)
    return value


@triton.jit
def load_nine(pointer, edge, inside, U: tl.constexpr, EDGES: tl.constexpr):
    # Each split of the last axis parts the features by one more bit of their number.
    channel = tl.arange(0, U)[None, :, None]
    feature = tl.arange(0, 16)[None, None, :]
    place = (edge[:, None, None] * U + channel) * 9 + feature
    rows = tl.load(pointer + place, mask=inside[:, None, None] & (feature < 9), other=0.0)
    even, odd = tl.split(tl.reshape(rows, (EDGES, U, 8, 2)))
    even0, even2 = tl.split(tl.reshape(even, (EDGES, U, 4, 2)))
    odd1, odd3 = tl.split(tl.reshape(odd, (EDGES, U, 4, 2)))
    pair0, pair4 = tl.split(tl.reshape(even0, (EDGES, U, 2, 2)))
    pair2, pair6 = tl.split(tl.reshape(even2, (EDGES, U, 2, 2)))
    pair1, pair5 = tl.split(tl.reshape(odd1, (EDGES, U, 2, 2)))
    pair3, pair7 = tl.split(tl.reshape(odd3, (EDGES, U, 2, 2)))
    x0, x8 = tl.split(pair0)
    return (
        x0, take_first(pair1), take_first(pair2), take_first(pair3), take_first(pair4),
        take_first(pair5), take_first(pair6), take_first(pair7), x8,
    )  # fmt: skip


@triton.jit
def store_nine(pointer, edge, inside, t0, t1, t2, t3, t4, t5, t6, t7, t8, U: tl.constexpr, EDGES: tl.constexpr):
    channel = tl.arange(0, U)[None, :, None]
    feature = tl.arange(0, 16)[None, None, :]
    place = (edge[:, None, None] * U + channel) * 9 + feature
    # What stands in lanes 9 to 15 is never stored: any values do.
    even0, even2 = tl.join(tl.join(t0, t8), tl.join(t4, t4)), tl.join(tl.join(t2, t2), tl.join(t6, t6))
    odd1, odd3 = tl.join(tl.join(t1, t1), tl.join(t5, t5)), tl.join(tl.join(t3, t3), tl.join(t7, t7))
    rows = tl.reshape(tl.join(tl.join(even0, even2), tl.join(odd1, odd3)), (EDGES, U, 16))
    tl.store(pointer + place, rows, mask=inside[:, None, None] & (feature < 9))


@triton.jit
def load_harmonic(y_pointer, edge, inside, place: tl.constexpr):
    return tl.load(y_pointer + edge * 9 + place, mask=inside, other=0.0)[:, None]


@triton.jit
def couple(
    x_pointer, y_pointer, w_pointer, gate_pointer, coupling_pointer, out_pointer, edges,
    U: tl.constexpr, EDGES: tl.constexpr, PATHS: tl.constexpr, STRIDE: tl.constexpr,
):  # fmt: skip
    edge = tl.program_id(0) * EDGES + tl.arange(0, EDGES)
    inside = edge < edges
    both = inside[:, None]
    channel = tl.arange(0, U)[None, :]
    x0, x1, x2, x3, x4, x5, x6, x7, x8 = load_nine(x_pointer, edge, inside, U, EDGES)
    y0 = load_harmonic(y_pointer, edge, inside, 0)
    y1 = load_harmonic(y_pointer, edge, inside, 1)
    y2 = load_harmonic(y_pointer, edge, inside, 2)
    y3 = load_harmonic(y_pointer, edge, inside, 3)
    y4 = load_harmonic(y_pointer, edge, inside, 4)
    y5 = load_harmonic(y_pointer, edge, inside, 5)
    y6 = load_harmonic(y_pointer, edge, inside, 6)
    y7 = load_harmonic(y_pointer, edge, inside, 7)
    y8 = load_harmonic(y_pointer, edge, inside, 8)
    c = coupling_pointer
    weight = w_pointer + edge[:, None] * (PATHS * U) + channel
    gates = gate_pointer + (edge[:, None] * U + channel) * 2

    w = tl.load(weight, mask=both, other=0.0)
    s0 = couple_000(c, x0, y0)
    t0 = w * s0
    w = tl.load(weight + 4 * U, mask=both, other=0.0)
    s0 = couple_110(c + 4 * STRIDE, x1, x2, x3, y1, y2, y3)
    t0 += w * s0
    w = tl.load(weight + 12 * U, mask=both, other=0.0)
    s0 = couple_220(c + 12 * STRIDE, x4, x5, x6, x7, x8, y4, y5, y6, y7, y8)
    t0 += w * s0
    t0 = t0 * tl.sigmoid(t0)

    w = tl.load(weight + U, mask=both, other=0.0)
    s1, s2, s3 = couple_011(c + STRIDE, x0, y1, y2, y3)
    t1, t2, t3 = w * s1, w * s2, w * s3
    w = tl.load(weight + 3 * U, mask=both, other=0.0)
    s1, s2, s3 = couple_101(c + 3 * STRIDE, x1, x2, x3, y0)
    t1, t2, t3 = t1 + w * s1, t2 + w * s2, t3 + w * s3
    w = tl.load(weight + 5 * U, mask=both, other=0.0)
    s1, s2, s3 = couple_111(c + 5 * STRIDE, x1, x2, x3, y1, y2, y3)
    t1, t2, t3 = t1 + w * s1, t2 + w * s2, t3 + w * s3
    w = tl.load(weight + 7 * U, mask=both, other=0.0)
    s1, s2, s3 = couple_121(c + 7 * STRIDE, x1, x2, x3, y4, y5, y6, y7, y8)
    t1, t2, t3 = t1 + w * s1, t2 + w * s2, t3 + w * s3
    w = tl.load(weight + 10 * U, mask=both, other=0.0)
    s1, s2, s3 = couple_211(c + 10 * STRIDE, x4, x5, x6, x7, x8, y1, y2, y3)
    t1, t2, t3 = t1 + w * s1, t2 + w * s2, t3 + w * s3
    w = tl.load(weight + 13 * U, mask=both, other=0.0)
    s1, s2, s3 = couple_221(c + 13 * STRIDE, x4, x5, x6, x7, x8, y4, y5, y6, y7, y8)
    t1, t2, t3 = t1 + w * s1, t2 + w * s2, t3 + w * s3
    gate = tl.sigmoid(tl.load(gates, mask=both, other=0.0))
    t1, t2, t3 = t1 * gate, t2 * gate, t3 * gate

    w = tl.load(weight + 2 * U, mask=both, other=0.0)
    s4, s5, s6, s7, s8 = couple_022(c + 2 * STRIDE, x0, y4, y5, y6, y7, y8)
    t4, t5, t6, t7, t8 = w * s4, w * s5, w * s6, w * s7, w * s8
    w = tl.load(weight + 6 * U, mask=both, other=0.0)
    s4, s5, s6, s7, s8 = couple_112(c + 6 * STRIDE, x1, x2, x3, y1, y2, y3)
    t4, t5, t6, t7, t8 = t4 + w * s4, t5 + w * s5, t6 + w * s6, t7 + w * s7, t8 + w * s8
    w = tl.load(weight + 8 * U, mask=both, other=0.0)
    s4, s5, s6, s7, s8 = couple_122(c + 8 * STRIDE, x1, x2, x3, y4, y5, y6, y7, y8)
    t4, t5, t6, t7, t8 = t4 + w * s4, t5 + w * s5, t6 + w * s6, t7 + w * s7, t8 + w * s8
    w = tl.load(weight + 9 * U, mask=both, other=0.0)
    s4, s5, s6, s7, s8 = couple_202(c + 9 * STRIDE, x4, x5, x6, x7, x8, y0)
    t4, t5, t6, t7, t8 = t4 + w * s4, t5 + w * s5, t6 + w * s6, t7 + w * s7, t8 + w * s8
    w = tl.load(weight + 11 * U, mask=both, other=0.0)
    s4, s5, s6, s7, s8 = couple_212(c + 11 * STRIDE, x4, x5, x6, x7, x8, y1, y2, y3)
    t4, t5, t6, t7, t8 = t4 + w * s4, t5 + w * s5, t6 + w * s6, t7 + w * s7, t8 + w * s8
    w = tl.load(weight + 14 * U, mask=both, other=0.0)
    s4, s5, s6, s7, s8 = couple_222(c + 14 * STRIDE, x4, x5, x6, x7, x8, y4, y5, y6, y7, y8)
    t4, t5, t6, t7, t8 = t4 + w * s4, t5 + w * s5, t6 + w * s6, t7 + w * s7, t8 + w * s8
    gate = tl.sigmoid(tl.load(gates + 1, mask=both, other=0.0))
    t4, t5, t6, t7, t8 = t4 * gate, t5 * gate, t6 * gate, t7 * gate, t8 * gate

    store_nine(out_pointer, edge, inside, t0, t1, t2, t3, t4, t5, t6, t7, t8, U, EDGES)


class ModelNew(nn.Module):
    """t = sum over the paths of w * (x coupled with Y); scalars become silu(t), degree l becomes t * sigmoid(gate)."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("coupling", torch.zeros(PATHS, 5, 5, 5))

    def forward(self, x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        edges, channels, _ = x.shape
        out = torch.empty_like(x)
        couple[(triton.cdiv(edges, EDGES_AT_ONCE),)](
            x, y, w, gate, self.coupling, out, edges,
            U=channels, EDGES=EDGES_AT_ONCE, PATHS=PATHS, STRIDE=PATH_STRIDE, num_warps=2,
        )  # fmt: skip
        return out
