# task: l1-09
# why: Habits of careful authors: data classes, cached plans, pruned autotuning, hints to the compiler, asserts on inputs.
from __future__ import annotations

import functools
import logging
import math
import os
from dataclasses import dataclass
from typing import Any, Callable

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

os.environ.setdefault("TRITON_PRINT_AUTOTUNING", "0")
log = logging.getLogger(__name__)
ROUNDS: tl.constexpr = tl.constexpr(24)


@dataclass(frozen=True)
class Plan:
    block: int
    rows: int

    def grid(self, meta: dict[str, Any]) -> tuple[int, ...]:
        return (triton.cdiv(self.rows, meta["ROWS"]),)


@functools.lru_cache(maxsize=None)
def make_plan(rows: int, columns: int, device: torch.device) -> Plan:
    properties = torch.cuda.get_device_properties(device)
    log.debug(f"{properties.name}: {properties.multi_processor_count} multiprocessors, {rows=} {columns=}")
    return Plan(block=1 << math.ceil(math.log2(columns)), rows=rows)


def prune(configurations: list[triton.Config], named: dict[str, Any], **others: Any) -> list[triton.Config]:
    return [item for item in configurations if item.kwargs["ROWS"] * named["columns"] <= 1 << 14]


def estimate(ROWS: int, num_warps: int, **others: Any) -> float:
    return 1.0 / (ROWS * num_warps)


@triton.jit
def newton_step(z, tau):
    active = z > tau[:, None]
    count = tl.sum(active.to(tl.float32), axis=1)
    total = tl.sum(tl.where(active, z, 0.0), axis=1)
    return (total - 1.0) / count, count


@triton.autotune(
    configs=[triton.Config({"ROWS": r}, num_warps=w, num_stages=2) for r in (1, 2, 4) for w in (2, 4)],
    key=["columns"],
    prune_configs_by={"early_config_prune": prune, "perf_model": estimate, "top_k": 2},
)
@triton.heuristics({"EVEN": lambda args: args["columns"] % args["BLOCK"] == 0})
@triton.jit(do_not_specialize=["rows"])
def project_rows(
    z_pointer, p_pointer, rows, columns, stride, BLOCK: tl.constexpr, ROWS: tl.constexpr, EVEN: tl.constexpr
):
    tl.static_assert(BLOCK >= 16, "rows are long")
    row = tl.program_id(axis=0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK), BLOCK), BLOCK)
    there = row < rows
    place = row[:, None] * stride + column[None, :]
    if EVEN:
        z = tl.load(z_pointer + place, mask=there[:, None], other=0.0, cache_modifier=".ca")
    else:
        z = tl.load(z_pointer + place, mask=there[:, None] & (column < columns)[None, :], other=float("-inf"))
    tl.device_assert(columns > 0, "there are columns")
    z -= tl.max(z, axis=1)[:, None]
    tau = tl.full((ROWS,), -1.0, dtype=tl.float32)
    count = tl.zeros_like(tau)
    for _ in tl.range(0, ROUNDS, num_stages=1):
        tau, count = newton_step(z, tau)
    p = tl.maximum(z - tau[:, None], 0.0)
    tl.debug_barrier()
    tl.store(p_pointer + place, p, mask=there[:, None] & (column < columns)[None, :], eviction_policy="evict_first")


class Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        assert z.is_cuda and z.dtype is torch.float32, f"got {z.dtype} on {z.device}"
        z = z.contiguous()
        rows, columns = z.shape
        plan = make_plan(rows, columns, z.device)
        p = torch.empty_like(z, memory_format=torch.contiguous_format)
        with torch.cuda.device(z.device):
            project_rows[plan.grid](z, p, rows, columns, z.stride(0), BLOCK=plan.block)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (p,) = ctx.saved_tensors
        active = p > 0
        mean = (gradient * active).sum(-1, keepdim=True) / active.sum(-1, keepdim=True)
        return (gradient - mean) * active


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scratch", torch.empty(0), persistent=False)
        self.apply_rows: Callable[[Tensor], Tensor] = Project.apply

    @torch.no_grad()
    def forward(self, z: Tensor) -> Tensor:
        shape = z.shape
        p = self.apply_rows(z.view(-1, shape[-1]))
        torch.cuda.current_stream(z.device).synchronize()
        return p.view(shape)
