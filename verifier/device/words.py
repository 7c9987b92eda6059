"""Which parameters of a kernel point to words of the submission's own that may hold packed numbers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

# Integers below this are places, counts or keys: fp32 holds each of them, and a part of one is no number of the task's.
LARGEST_PLACE = 1 << 24
# Up to this width an integer is too narrow for most places, and truth values and signs are what is left.
NARROW = 16

_POINTEE = re.compile(r"([su]?i|b?f)(\d+)$")
_DTYPES = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}

Tensors = dict[int, tuple[torch.Tensor, int]]


class Words:
    """Keeps, for each kernel, the places of parameters that reached memory which the judge did not fill.

    Integers that turn out to be truth values, signs or places are left out: their content is looked at after the call.
    """

    def __init__(self, tensors: Tensors, filled: set[int]) -> None:
        """Watch a device's tensors by handle, each with its storage's address, and the handles that the judge filled."""
        self.tensors, self.filled = tensors, filled
        self.own: dict[str, set[int]] = defaultdict(set)
        self.watched: dict[tuple[str, int, int], tuple[torch.Tensor, int]] = {}
        self.ranges: list[tuple[int, int]] = []

    def begin(self) -> None:
        """Settle the call before, and learn what the judge filled for the next one."""
        self.settle()
        held = (self.tensors[handle] for handle in self.filled if handle in self.tensors)
        self.ranges = sorted((base, base + tensor.untyped_storage().nbytes()) for tensor, base in held)

    def note(self, digest: str, parameters: Sequence[Any], values: Sequence[Any]) -> None:
        """Note one launch."""
        own = self.own[digest]
        for place, (parameter, value) in enumerate(zip(parameters, values, strict=False)):
            found = _POINTEE.match(parameter.pointee)
            if not found or found[2] == "1" or place in own:
                continue
            address = value.get("base") if isinstance(value, dict) else value
            # Each memory counts: a first launch may be on harmless values.
            if not isinstance(address, int) or (digest, place, address) in self.watched or self.is_filled(address):
                continue
            storage = self.find_storage(address) if "i" in found[1] else None
            if storage is None:
                own.add(place)
            else:
                self.watched[digest, place, address] = storage, int(found[2])

    def is_filled(self, address: int) -> bool:
        """Return whether an address lies in a tensor that the judge filled."""
        index = bisect_right(self.ranges, (address, 1 << 80)) - 1
        return index >= 0 and address < self.ranges[index][1]

    def find_storage(self, address: int) -> torch.Tensor | None:
        """Return a tensor over the whole allocation that holds an address, as bytes."""
        for tensor, base in self.tensors.values():
            storage = tensor.untyped_storage()
            if base and base <= address < base + storage.nbytes():
                return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        return None

    def settle(self) -> None:
        """Look at the integers that were watched: what is no place counts as a word of the submission's own."""
        watched, self.watched = self.watched, {}
        for (digest, place, _), (content, width) in watched.items():
            if not holds_places(content, width):
                self.own[digest].add(place)


def holds_places(content: torch.Tensor, width: int) -> bool:
    """Return whether the integers of a width in some bytes are truth values or signs, or places where they are wide enough."""
    whole = content.numel() // (width // 8) * (width // 8)
    # A dry run has no values.
    if not whole or content.is_meta:
        return True
    lowest, highest = torch.aminmax(content[:whole].view(_DTYPES[width]))
    if width <= NARROW:
        return int(lowest) >= -1 and int(highest) <= 1
    # -1 stands for no place.
    return int(lowest) >= -1 and int(highest) < LARGEST_PLACE
