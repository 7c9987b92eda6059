"""Library operators on the device: which may run, what they give to the host, what they narrow."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch._ops import OpOverload

from verifier.device.costs import list_tensors

# Private operators that take storages, indices or formats on trust, or reach outside tensors.
PRIVATE_FORBIDDEN = re.compile(
    r"sparse|nested|jagged|quant|coalesc|cudnn|mkldnn|cuda|vulkan|resize|set_|version|backward|storage|file|pin|stream"
    r"|thread|debug|test|functional_|validate|make_|coo|csr|indices|values|has_same|print|nnpack|unsafe_[im]|index_put_impl|reshape_alias|trilinear|euclidean"
)
# What PyTorch's own operators choose for a device. Asked for by name they escape the formulas and the switches.
BACKEND_FORBIDDEN = re.compile(
    r"^_?(?:cudnn|mkldnn|mkl|miopen|mps|xnnpack|nnpack|fbgemm|quantized|slow_conv\w*|thnn_conv\w*|conv_depthwise\w*|efficient_attention"
    r"|flash_attention|cudnn_attention|fused_sdp)(?:_|$|\d)"
)
COMPOSITE = "CompositeImplicitAutograd"
FORBIDDEN = {
    "from_file",
    "set_",
    "set",
    "resize_",
    "resize",
    "resize_as_",
    "resize_as",
    "record_stream",
    "rename",
    "rename_",
}
# Run as a whole: which of its kernels serves depends on the device, and one formula tells its cost.
WHOLE = {"scaled_dot_product_attention"}
UNINITIALISED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
# Bits of the significand, the hidden one included.
SIGNIFICANDS = {
    torch.float64: 53,
    torch.float32: 24,
    torch.float16: 11,
    torch.bfloat16: 8,
    torch.float8_e4m3fn: 4,
    torch.float8_e4m3fnuz: 4,
    torch.float8_e5m2: 3,
    torch.float8_e5m2fnuz: 3,
    # Each of its two parts.
    torch.complex32: 11,
}


EIGHT_BIT_PRODUCT = re.compile(r"int_mm|scaled_mm|scaled_grouped_mm|int[48]pack_mm|mixed_dtypes_linear")


class NotPermitted(Exception):
    """The operator does not exist on this device."""


def find_operator(name: str) -> OpOverload:
    """Return the operator ``aten::<name>.<overload>``. Raises NotPermitted."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    permitted = namespace == "aten" and base.isidentifier() and base not in FORBIDDEN
    if BACKEND_FORBIDDEN.search(base):
        permitted = False
    if base.startswith("_") and not base.startswith("__") and PRIVATE_FORBIDDEN.search(base):
        permitted = False
    packet = getattr(torch.ops.aten, base, None) if permitted else None
    found = getattr(packet, overload or "default", None) if packet is not None else None
    # A composite would run its parts uncounted; the submission's process takes it apart before it asks.
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001 - as FakeTensor does
    if base not in WHOLE and isinstance(found, OpOverload) and is_composite(name, COMPOSITE):
        found = None
    if not isinstance(found, OpOverload):
        raise NotPermitted(f"operator {name[:100]} is not available on this device")
    return found


def check_arguments(function: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Raise NotPermitted when a tensor stands for a number: its value would reach the host uncounted."""
    expected = function._schema.arguments  # noqa: SLF001 - torch offers no public way to a schema
    given = [
        *zip(expected, args, strict=False),
        *((item, kwargs[item.name]) for item in expected if item.name in kwargs),
    ]
    for argument, value in given:
        if argument.name == "allow_tf32" and value:
            raise NotPermitted("allow_tf32 is off for a task in fp32, and makes no difference to one in fp16")
        if "Tensor" not in str(argument.type) and any(True for _ in list_tensors(value)):
            raise NotPermitted(f"{argument.name} is a number; read the tensor's value first")


def check_extent(tensor: torch.Tensor) -> None:
    """Raise NotPermitted when a view reaches beyond its storage."""
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    end = (tensor.storage_offset() + steps + 1) * tensor.element_size()
    if tensor.numel() and (min(tensor.stride(), default=0) < 0 or end > tensor.untyped_storage().nbytes()):
        raise NotPermitted("a view reaches beyond its storage")


def count_readback(value: Any) -> int:
    """Return how many values an operator gave to the host: everything that is no tensor."""
    if isinstance(value, torch.Tensor) or value is None:
        return 0
    return sum(map(count_readback, value)) if isinstance(value, list | tuple) else 1


def find_narrowing(name: str, args: Any, kwargs: Any, result: Any) -> str:
    """Return ``float32 -> float16`` when an operator made narrow floats from wider ones, else an empty text."""
    if EIGHT_BIT_PRODUCT.search(name):
        return "8-bit product"
    given = [tensor.dtype for tensor in list_tensors([args, kwargs]) if tensor.numel() > 1]
    made = [tensor.dtype for tensor in list_tensors(result) if tensor.numel() > 1]
    pairs = [
        (wide, narrow)
        for wide in given
        for narrow in made
        if SIGNIFICANDS.get(narrow, 64) < min(SIGNIFICANDS.get(wide, 0), SIGNIFICANDS[torch.float32])
    ]
    if pairs:
        return " -> ".join(str(dtype).removeprefix("torch.") for dtype in pairs[0])
    # However a tensor came by its dtype, for one from integers with the same bits.
    narrow = sorted(
        {str(dtype) for dtype in (*given, *made) if SIGNIFICANDS.get(dtype, 64) < SIGNIFICANDS[torch.float32]}
    )
    return f"works in {narrow[0].removeprefix('torch.')}" if narrow else ""
