"""Steps of a lattice Boltzmann method on the D2Q9 lattice in Triton.

Strategy: one pass over the state a step, and one copy of the state, so that it stays in the L2 cache as far as it
fits. Even steps read the populations of a cell where they stand and put the relaxed ones back in the slots of the
opposite velocities. Odd steps then find each population that comes in from a neighbour in the slot that points from
there to here, and put the relaxed ones into the slots of the cells that they move to: the same nine places that this
cell has read and nobody else touches. After two steps every population is where it belongs. (Bailey and others,
"Accelerating lattice Boltzmann fluid flow simulations using graphics processors", 2009, call this the AA pattern.)
Solid cells turn populations round as they are read, in the last step as they are written, which is not in place.
"""

import torch
import triton
import triton.language as tl
from torch import nn

# Even steps move four aligned cells a thread at once. What is shifted by one cell is not aligned: one cell a thread.
EVEN_BLOCK = 512
ODD_BLOCK = 128


@triton.jit
def relax(f, weight, density, along, rest, omega):
    equilibrium = weight * density * (rest + along * (3.0 + 4.5 * along))
    return f + (equilibrium - f) * omega


@triton.jit
def collide(f0, f1, f2, f3, f4, f5, f6, f7, f8, omega):
    density = ((f1 + f3) + (f2 + f4)) + ((f5 + f7) + (f6 + f8)) + f0
    inverse = 1.0 / density
    x = ((f1 - f3) + (f5 - f7) - (f6 - f8)) * inverse
    y = ((f2 - f4) + (f5 - f7) + (f6 - f8)) * inverse
    rest = 1.0 - 1.5 * (x * x + y * y)
    return (
        relax(f0, 4.0 / 9.0, density, 0.0, rest, omega),
        relax(f1, 1.0 / 9.0, density, x, rest, omega),
        relax(f2, 1.0 / 9.0, density, y, rest, omega),
        relax(f3, 1.0 / 9.0, density, -x, rest, omega),
        relax(f4, 1.0 / 9.0, density, -y, rest, omega),
        relax(f5, 1.0 / 36.0, density, x + y, rest, omega),
        relax(f6, 1.0 / 36.0, density, y - x, rest, omega),
        relax(f7, 1.0 / 36.0, density, -x - y, rest, omega),
        relax(f8, 1.0 / 36.0, density, x - y, rest, omega),
    )


@triton.jit
def store_moved(pointer, solid_pointer, place, plane, velocity: tl.constexpr, opposite: tl.constexpr, value, inside):
    turned = tl.load(solid_pointer + place, mask=inside, other=0) != 0
    tl.store(pointer + tl.where(turned, opposite, velocity) * plane + place, value, mask=inside)


@triton.jit
def advance(
    source_pointer, target_pointer, solid_pointer, tau_pointer, height, width,
    FIRST: tl.constexpr, LAST: tl.constexpr, ODD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    y = tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    plane = height * width
    here = y * width + x
    # Cells to the east and west, and the rows to the north (y + 1) and south.
    east = tl.where(x == width - 1, 0, x + 1)
    west = tl.where(x == 0, width - 1, x - 1)
    north = tl.where(y == height - 1, 0, y + 1) * width
    south = tl.where(y == 0, height - 1, y - 1) * width
    row = y * width
    if ODD:
        # What comes in with a velocity stands one cell back, in the slot of the opposite velocity.
        f0 = tl.load(source_pointer + here, mask=inside, other=1.0)
        f1 = tl.load(source_pointer + 3 * plane + row + west, mask=inside, other=1.0)
        f2 = tl.load(source_pointer + 4 * plane + south + x, mask=inside, other=1.0)
        f3 = tl.load(source_pointer + 1 * plane + row + east, mask=inside, other=1.0)
        f4 = tl.load(source_pointer + 2 * plane + north + x, mask=inside, other=1.0)
        f5 = tl.load(source_pointer + 7 * plane + south + west, mask=inside, other=1.0)
        f6 = tl.load(source_pointer + 8 * plane + south + east, mask=inside, other=1.0)
        f7 = tl.load(source_pointer + 5 * plane + north + east, mask=inside, other=1.0)
        f8 = tl.load(source_pointer + 6 * plane + north + west, mask=inside, other=1.0)
    else:
        f0 = tl.load(source_pointer + here, mask=inside, other=1.0)
        f1 = tl.load(source_pointer + 1 * plane + here, mask=inside, other=1.0)
        f2 = tl.load(source_pointer + 2 * plane + here, mask=inside, other=1.0)
        f3 = tl.load(source_pointer + 3 * plane + here, mask=inside, other=1.0)
        f4 = tl.load(source_pointer + 4 * plane + here, mask=inside, other=1.0)
        f5 = tl.load(source_pointer + 5 * plane + here, mask=inside, other=1.0)
        f6 = tl.load(source_pointer + 6 * plane + here, mask=inside, other=1.0)
        f7 = tl.load(source_pointer + 7 * plane + here, mask=inside, other=1.0)
        f8 = tl.load(source_pointer + 8 * plane + here, mask=inside, other=1.0)
    if not FIRST:
        turned = tl.load(solid_pointer + here, mask=inside, other=0) != 0
        f1, f3 = tl.where(turned, f3, f1), tl.where(turned, f1, f3)
        f2, f4 = tl.where(turned, f4, f2), tl.where(turned, f2, f4)
        f5, f7 = tl.where(turned, f7, f5), tl.where(turned, f5, f7)
        f6, f8 = tl.where(turned, f8, f6), tl.where(turned, f6, f8)
    omega = 1.0 / tl.load(tau_pointer)
    f0, f1, f2, f3, f4, f5, f6, f7, f8 = collide(f0, f1, f2, f3, f4, f5, f6, f7, f8, omega)
    tl.store(target_pointer + here, f0, mask=inside)
    if LAST:
        store_moved(target_pointer, solid_pointer, row + east, plane, 1, 3, f1, inside)
        store_moved(target_pointer, solid_pointer, north + x, plane, 2, 4, f2, inside)
        store_moved(target_pointer, solid_pointer, row + west, plane, 3, 1, f3, inside)
        store_moved(target_pointer, solid_pointer, south + x, plane, 4, 2, f4, inside)
        store_moved(target_pointer, solid_pointer, north + east, plane, 5, 7, f5, inside)
        store_moved(target_pointer, solid_pointer, north + west, plane, 6, 8, f6, inside)
        store_moved(target_pointer, solid_pointer, south + west, plane, 7, 5, f7, inside)
        store_moved(target_pointer, solid_pointer, south + east, plane, 8, 6, f8, inside)
    elif ODD:
        tl.store(target_pointer + 1 * plane + row + east, f1, mask=inside)
        tl.store(target_pointer + 2 * plane + north + x, f2, mask=inside)
        tl.store(target_pointer + 3 * plane + row + west, f3, mask=inside)
        tl.store(target_pointer + 4 * plane + south + x, f4, mask=inside)
        tl.store(target_pointer + 5 * plane + north + east, f5, mask=inside)
        tl.store(target_pointer + 6 * plane + north + west, f6, mask=inside)
        tl.store(target_pointer + 7 * plane + south + west, f7, mask=inside)
        tl.store(target_pointer + 8 * plane + south + east, f8, mask=inside)
    else:
        tl.store(target_pointer + 1 * plane + here, f3, mask=inside)
        tl.store(target_pointer + 2 * plane + here, f4, mask=inside)
        tl.store(target_pointer + 3 * plane + here, f1, mask=inside)
        tl.store(target_pointer + 4 * plane + here, f2, mask=inside)
        tl.store(target_pointer + 5 * plane + here, f7, mask=inside)
        tl.store(target_pointer + 6 * plane + here, f8, mask=inside)
        tl.store(target_pointer + 7 * plane + here, f5, mask=inside)
        tl.store(target_pointer + 8 * plane + here, f6, mask=inside)


class ModelNew(nn.Module):
    """Each step: relax towards the equilibrium, move every population one cell on, turn them round in solid cells."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, f: torch.Tensor, solid: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        _, height, width = f.shape
        state = torch.empty_like(f)
        result = torch.empty_like(f)
        for step in range(self.steps):
            first, last, odd = step == 0, step == self.steps - 1, step % 2 == 1
            block = ODD_BLOCK if odd else EVEN_BLOCK
            advance[(triton.cdiv(width, block), height)](
                f if first else state, result if last else state, solid, tau, height, width,
                FIRST=first, LAST=last, ODD=odd, BLOCK=block, num_warps=4,
            )  # fmt: skip
        return result
