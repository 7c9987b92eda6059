"""The simulated GPU as a device: library operators on the CPU, kernels interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from verifier.device.device import Device, Grid, Loaded, Usage
from verifier.device.faults import IllegalAccess, KernelFault, NotInterpretable
from verifier.device.poison import make_poison
from verifier.interpreter.kernels import Kernel, OverBudget, Touched
from verifier.interpreter.memory import Memory
from verifier.interpreter.numbers import FLOATS, STORED_DTYPES, convert, decode, encode

MAXIMUM_PROGRAMS = 1 << 22
STEP_BUDGET = 5_000_000


class SimulatedDevice(Device):
    """A GPU of `capacity` bytes that is none."""

    where = torch.device("cpu")

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.memory = Memory(capacity)
        self.noise = np.random.default_rng(0)

    def retain(self, tensor: torch.Tensor) -> int:
        return self.memory.retain(tensor)

    def release(self, base: int) -> None:
        self.memory.release(base)

    def reseed(self, seed: int) -> None:
        self.noise = np.random.default_rng(seed)

    def fill_with_poison(self, tensor: torch.Tensor) -> None:
        storage = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        if storage.numel():
            pattern = make_poison(tensor.dtype, self.poison or 0)
            flat = storage.numpy()
            whole = flat.nbytes // pattern.itemsize * pattern.itemsize
            flat[:whole].view(pattern.dtype)[:] = pattern
            flat[whole:] = 0xFF

    def prepare(self, name: str, text: str, options: dict[str, Any]) -> Kernel:
        try:
            return Kernel(text, self.memory)
        except KernelFault:
            raise
        except Exception as error:
            raise NotInterpretable(f"{type(error).__name__}: {error}"[:300]) from error

    def run(self, loaded: Loaded, grid: Grid, arguments: Sequence[Any], usage: Usage) -> None:
        if (programs := grid[0] * grid[1] * grid[2]) > MAXIMUM_PROGRAMS:
            raise OverBudget(f"a grid of {programs} programs is too large for this environment")
        try:
            touched = loaded.kernel.run(grid, arguments, STEP_BUDGET)
        except (IllegalAccess, KernelFault, OverBudget, MemoryError):
            raise
        except Exception as error:
            # A gap of this interpreter's must not become the submitter's failure.
            reason = f"{loaded.name}: {type(error).__name__}: {error}"[:300]
            self.uninterpretable.append(reason)
            raise NotInterpretable(reason) from error
        usage.operations += touched.operations
        if loaded.digest in self.ablated:
            self.replace_with_noise(touched)

    def replace_with_noise(self, touched: Touched) -> None:
        """Put finite noise where a launch wrote; integers are shuffled, so that each stays a valid index."""
        for base, parts in touched.writes.items():
            for element, indices in parts:
                stored: np.dtype[Any] = np.dtype(STORED_DTYPES[element])
                flat = self.memory.flat(base)
                view = flat[: flat.nbytes // stored.itemsize * stored.itemsize].view(stored)
                places = np.unique(indices)
                if element not in FLOATS and not self.ablate_integers:
                    continue
                self.record.replaced += places.size
                if element not in FLOATS:
                    view[places] = self.noise.permutation(view[places])
                    continue
                values = decode(view[places], element).astype(np.float64)
                spread = float(np.std(values[np.isfinite(values)])) if np.isfinite(values).any() else 1.0
                noise = self.noise.standard_normal(places.size) * max(1.0, spread) + self.noise.uniform(1.0, 2.0)
                view[places] = encode(convert(noise, element), element)
