# task: l2-01
# why: Flash-decoding style, keys in splits with scratch of partial results, combined by a second kernel; exp2, swizzled ids, helper functions.
import math

import torch
import triton
import triton.language as tl
from torch import nn


LOG2E: tl.constexpr = 1.4426950408889634


@triton.jit
def _softplus(x):
    return tl.where(x > 20.0, x, tl.log(1.0 + tl.exp(x)))


@triton.jit
def _split(
    X,
    Part,
    M,
    L,
    stride_b,
    stride_s,
    S,
    scale,
    SPLITS: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    start_m = tl.program_id(0)
    pid = tl.program_id(1)
    b, split = pid // SPLITS, pid % SPLITS
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    base = X + b.to(tl.int64) * stride_b
    q = tl.load(base + offs_m[:, None] * stride_s + offs_d[None, :], mask=offs_m[:, None] < S, other=0.0)
    q = q * (scale * LOG2E)
    m_i = tl.full([BM], float("-inf"), dtype=tl.float32)
    l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    per = tl.cdiv(S, SPLITS)
    lo = split * per
    hi = tl.minimum(lo + per, S)
    for start_n in range(lo, hi, BN):
        start_n = tl.multiple_of(start_n, BN)
        offs_n = start_n + tl.arange(0, BN)
        k = tl.load(base + offs_n[:, None] * stride_s + offs_d[None, :], mask=(offs_n < hi)[:, None], other=0.0)
        qk = tl.dot(q, k.trans(1, 0), input_precision="ieee", out_dtype=tl.float32)
        qk = tl.where((offs_n < hi)[None, :], qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_new[:, None])
        alpha = tl.math.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc *= alpha[:, None]
        acc += tl.dot(p, k, input_precision="ieee")
        m_i = m_new
    at = (b * SPLITS + split) * S + offs_m
    tl.store(M + at, m_i, mask=offs_m < S)
    tl.store(L + at, l_i, mask=offs_m < S)
    tl.store(Part + at[:, None] * D + offs_d[None, :], acc, mask=offs_m[:, None] < S)


@triton.jit
def _combine(Part, M, L, Bias, Y, S, SPLITS: tl.constexpr, D: tl.constexpr):
    s, b = tl.program_id(0), tl.program_id(1)
    split = tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    at = (b * SPLITS + split) * S + s
    m = tl.load(M + at)
    w = tl.exp2(m - tl.max(m, 0))
    total = tl.sum(w * tl.load(L + at), 0)
    o = tl.sum(tl.load(Part + at[:, None] * D + d[None, :]) * w[:, None], 0) / total
    e = -(_softplus(o) + tl.load(Bias + d))
    tl.store(Y + (b * S + s) * D + d, tl.softmax(e))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.empty(features))
        nn.init.normal_(self.bias, std=0.1)

    def forward(self, x):
        B, S, D = x.shape
        splits = 2
        part = torch.empty((B, splits, S, D), device=x.device, dtype=torch.float32)
        m, l = torch.empty((2, B, splits, S), device=x.device, dtype=torch.float32).unbind(0)
        y = torch.empty_like(x)
        _split[(triton.cdiv(S, 16), B * splits)](
            x,
            part,
            m,
            l,
            x.stride(0),
            x.stride(1),
            S,
            1.0 / math.sqrt(D),
            SPLITS=splits,
            D=D,
            BM=16,
            BN=16,
            num_warps=4,
            num_stages=1,
        )
        _combine[(S, B)](part, m, l, self.bias, y, S, SPLITS=splits, D=D)
        return y.view(B, S, D)
