"""Replaces what a launch wrote by finite noise."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from verifier.gpu.signature import Parameter

FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
# Descriptors name the sign of their integers.
_SIGN = re.compile(r"^[su]i")
# Elements that become noise at a time.
SLICE = 1 << 26
# Pointers of a grouped kernel; what is longer is data.
LONGEST_TABLE = 4_096
INTEGERS = {"i1": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}


class Storage(NamedTuple):
    """An allocation: its bytes, and the type of a tensor that lies there."""

    content: torch.Tensor
    dtype: torch.dtype


def find_targets(
    parameters: Sequence[Parameter], values: Sequence[Any], find_storage: Callable[[int], Storage | None]
) -> list[torch.Tensor]:
    """Return the memory that a launch may write, typed by what is pointed to.

    That is what its pointers and descriptors reach, and what the addresses in small tables of integers reach.
    """
    found: dict[int, torch.Tensor] = {}
    for parameter, value in zip(parameters, values, strict=True):
        if not parameter.pointee:
            continue
        storage = find_storage(int(value["base"]) if parameter.is_descriptor else int(value))
        dtype = {**FLOATS, **INTEGERS}.get(_SIGN.sub("i", parameter.pointee), torch.uint8)
        if storage is not None and storage.content.data_ptr() not in found:
            found[storage.content.data_ptr()] = view_as(storage.content, dtype)
    tables = [item for item in found.values() if item.dtype == torch.int64 and item.numel() <= LONGEST_TABLE]
    for address in {address for table in tables for address in table.tolist() if address}:
        storage = find_storage(address)
        if storage is not None and storage.content.data_ptr() not in found:
            found[storage.content.data_ptr()] = view_as(storage.content, storage.dtype)
    return list(found.values())


def view_as(content: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return an allocation's bytes as a type; of a type that noise has no form for, as bytes. An odd rest is left out."""
    known = dtype if dtype in (*FLOATS.values(), *INTEGERS.values()) else torch.uint8
    whole = content.numel() // known.itemsize * known.itemsize
    return content[:whole].view(known)


def replace_changes(target: torch.Tensor, before: torch.Tensor, generator: torch.Generator) -> int:
    """Put noise wherever `target` no longer holds the bits of `before`, and return into how many elements.

    Integers are shuffled, so that each stays valid.
    """
    slices = zip(target.split(SLICE), before.split(SLICE), strict=True)
    return sum(replace_part(part, old, generator) for part, old in slices)


def replace_part(target: torch.Tensor, before: torch.Tensor, generator: torch.Generator) -> int:
    """Put noise into one slice: its temporaries take several times its memory."""
    plain = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[target.element_size()]
    places = (target.view(plain) != before.view(plain)).nonzero().reshape(-1)
    if not places.numel():
        return 0
    values = target[places]
    if not target.is_floating_point():
        target[places] = values[torch.randperm(places.numel(), generator=generator, device=target.device)]
        return places.numel()
    finite = values[torch.isfinite(values)].double()
    spread = max(1.0, float(finite.std(correction=0))) if finite.numel() else 1.0
    noise = torch.randn(places.numel(), generator=generator, device=target.device).double() * spread
    noise += 1.0 + float(torch.rand((), generator=generator, device=target.device))
    largest = torch.finfo(target.dtype).max / 2
    target[places] = noise.clamp(-largest, largest).to(target.dtype)
    return places.numel()
