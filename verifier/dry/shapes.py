"""The judge's passage for tensors to a device that holds no values: only shapes and dtypes cross it."""

from __future__ import annotations

import torch

from verifier.candidate.slab import Place, Slab
from verifier.candidate.transfer import DTYPES


class ShapeSlab(Slab):
    """Either end of the passage. There is no memory behind it."""

    def __init__(self) -> None:
        self.size, self.pinned = 0, False

    def write(self, tensors: dict[str, torch.Tensor]) -> list[Place]:
        """Return what the other end needs to know of tensors."""
        return [
            {"name": name, "shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
            for name, value in tensors.items()
        ]

    def find(self, place: Place) -> torch.Tensor:
        """Return a meta tensor of a described shape and dtype."""
        return torch.empty(place["shape"], dtype=DTYPES[place["dtype"]], device="meta")

    def read(self, places: list[Place], where: torch.device) -> dict[str, torch.Tensor]:
        """Return meta tensors by name."""
        return {place["name"]: self.find(place) for place in places}
