"""Tensor descriptors for the bulk copy engine (TMA): what the compiler wants, encoded by the driver."""

from __future__ import annotations

from ctypes import Array, addressof, byref, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

from verifier.candidate.channel import Message
from verifier.device.faults import KernelFault
from verifier.gpu import driver
from verifier.gpu.signature import Parameter

BYTES = 128
ALIGNMENT = 64
MAXIMUM_RANK = 5
# The compiler's numbers of element types are the driver's, but for three.
ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}
_NO_INTERLEAVE, _PROMOTE_128_BYTES = 0, 2


def allocate_aligned() -> Array[c_uint8]:
    """Return the room of one descriptor at the alignment that the driver asks for."""
    room = (c_uint8 * (BYTES + ALIGNMENT))()
    offset = -addressof(room) % ALIGNMENT
    return (c_uint8 * BYTES).from_buffer(room, offset)


def encode_descriptor(parameter: Parameter, value: Any, compiled: Message) -> list[Any]:
    """Return the descriptor of a tensor: `value` has base, shape, strides and padding. Raises KernelFault or CudaError."""
    try:
        base, padding = int(value["base"]), value["padding"] == "nan"
        shape, strides = [int(size) for size in value["shape"]], [int(step) for step in value["strides"]]
    except (KeyError, TypeError, ValueError) as error:
        raise KernelFault("an argument is no tensor descriptor") from error
    rank = len(parameter.block)
    if not (len(shape) == len(strides) == rank <= MAXIMUM_RANK):
        raise KernelFault(f"a tensor descriptor of rank {len(shape)} where the kernel takes {rank}")
    if compiled["fp4_padded"]:
        shape[-1] *= 2
    element = compiled["elem_size"]
    descriptor = allocate_aligned()
    sizes = (c_uint64 * rank)(*reversed(shape))
    # The innermost dimension is dense, so its stride is not passed.
    steps = (c_uint64 * rank)(*(element * step for step in reversed(strides[:-1])), 0)
    box = (c_uint32 * rank)(*reversed(compiled["block_size"]))
    ones = (c_uint32 * rank)(*[1] * rank)
    driver.check(
        driver.library().cuTensorMapEncodeTiled(
            byref(descriptor),
            ELEMENT_TYPES.get(compiled["elem_type"], compiled["elem_type"]),
            c_uint32(rank),
            c_void_p(base),
            sizes,
            steps,
            box,
            ones,
            _NO_INTERLEAVE,
            compiled["swizzle"],
            _PROMOTE_128_BYTES,
            int(padding),
        )
    )
    return [descriptor]
