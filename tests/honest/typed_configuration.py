# task: l1-09
# why: A frozen dataclass, constexpr globals, device_assert, maxnreg, autotune with pruning and a reset hook, and a kernel made in a function.
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import nn

LOWEST: tl.constexpr = tl.constexpr(-1.0)
ROUNDS = tl.constexpr(16)


@dataclass(frozen=True)
class Shape:
    rows: int
    columns: int

    @property
    def block(self) -> int:
        return triton.next_power_of_2(self.columns)


def prune(configs: list[triton.Config], named: dict[str, Any], **kwargs: Any) -> list[triton.Config]:
    return [config for config in configs if config.num_warps <= 8 and named["columns"] > 0]


def make_kernel():
    @triton.autotune(
        configs=[triton.Config({}, num_warps=w, num_stages=s) for w in (16, 4, 8) for s in (1, 2)],
        key=["columns"],
        prune_configs_by={"early_config_prune": prune},
        reset_to_zero=["p_pointer"],
    )
    @triton.heuristics({"EVEN": lambda named: named["columns"] == named["BLOCK"]})
    @triton.jit
    def project_row(z_pointer, p_pointer, columns, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        tl.static_assert(BLOCK >= 16)
        tl.device_assert(columns > 0)
        row = tl.program_id(0)
        column = tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK), BLOCK), BLOCK)
        if EVEN:
            z = tl.load(z_pointer + row * columns + column)
        else:
            z = tl.load(z_pointer + row * columns + column, mask=column < columns, other=-float("inf"))
        z = z - tl.max(z, axis=0)
        tau = LOWEST
        for _ in range(ROUNDS):
            support = z > tau
            count = tl.sum(support.to(tl.float32), axis=0)
            tau = tl.fdiv(tl.sum(tl.where(support, z, 0.0), axis=0) - 1.0, count)
        tl.store(p_pointer + row * columns + column, tl.clamp(z - tau, 0.0, 1.0), mask=column < columns)

    return project_row


KERNEL = make_kernel()


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, z: torch.Tensor) -> torch.Tensor:
        assert z.is_cuda and z.is_contiguous()
        shape = Shape(*z.shape)
        p = torch.empty((shape.rows, shape.columns), device=z.device, dtype=torch.float32)
        KERNEL[lambda meta: (shape.rows,)](z, p, shape.columns, BLOCK=shape.block)
        return p
