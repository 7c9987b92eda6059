"""What a library operator costs: arithmetic operations plus elements read and written.

Allocations, fills and views cost nothing. Operators that are known to touch each element a few times cost what they
read and write; products have a formula. Whatever is known as neither is taken for a product, so that no product is
cheap under another name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

FREE = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "zeros", "zeros_like", "new_zeros",
    "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "fill", "fill_", "zero_", "zero", "arange", "detach",
    "_unsafe_view", "detach_", "lift_fresh", "lift", "alias", "_local_scalar_dense", "eye", "scalar_tensor", "is_same_size", "_reshape_alias",
}  # fmt: skip
COPIES = {"clone", "copy", "_to_copy", "contiguous", "constant_pad_nd"}
# Operators that go over their elements a fixed number of times; pointwise ones carry PyTorch's own mark.
ELEMENTWISE = re.compile(
    r"""_?(?:
    sum|nansum|mean|nanmean|prod|amax|amin|aminmax|max|min|argmax|argmin|any|all|std|var|var_mean|std_mean|norm|linalg_vector_norm
    |count_nonzero|logsumexp|cum(?:sum|prod|max|min)(?:_helper)?|logcumsumexp|(?:log_|safe_)?softmax
    |native_(?:layer|group|batch)_norm|native_batch_norm_legit(?:_no_training|_functional)?|batch_norm_impl_index|cudnn_batch_norm
    |fused_rms_norm|native_dropout|fused_dropout|bernoulli|rand|randn|randint|rand_like|randn_like|randint_like|randperm|normal|uniform
    |exponential|random|multinomial|cauchy|geometric|log_normal
    |index|index_(?:select|put|add|copy|fill|reduce)|index_put_impl|unsafe_index(?:_put)?|gather|scatter(?:_add|_reduce)?|masked_(?:select|fill|scatter)
    |take|put|where|embedding(?:_bag(?:_forward_only)?)?|segment_reduce|nonzero(?:_static)?|bincount|histc|bucketize|searchsorted
    |cat|stack|repeat|repeat_interleave|flip|roll|tril|triu|tril_indices|triu_indices|diag|diag_embed|diagonal_copy|trace|cross|linalg_cross
    |one_hot|equal|isin|unfold|im2col|col2im|pixel_(?:un)?shuffle|channel_shuffle
    |(?:reflection|replication)_pad[123]d|upsample_\w+|avg_pool[23]d|max_pool[23]d_with_indices|adaptive_(?:avg|max)_pool[23]d|max_unpool[23]d
    |prelu(?:_kernel)?|glu|rrelu_with_noise|foreach_\w+|linspace|logspace|polar|complex|view_as_\w+|resolve_(?:conj|neg)|conj_physical
    |split_with_sizes_copy|as_strided_copy|expand_copy|nll_loss(?:2d)?_forward|smooth_l1_loss|huber_loss|mse_loss|l1_loss|binary_cross_entropy
    |is_nonzero|item|assert_async|chunk_cat|softplus|elu|celu|selu|leaky_relu|hardtanh|hardswish|hardsigmoid|mish|threshold|gelu|silu
    |softshrink|hardshrink|log_sigmoid_forward|floor_divide|logaddexp2?|(?:slice|select|diagonal|as_strided)_scatter
    |t|transpose|squeeze|unsqueeze|swapaxes|as_strided|resolve_\w+
    )_?""",
    re.VERBOSE,
)
SORTS = re.compile(r"_?(?:sort|argsort|msort|topk|kthvalue|median|nanmedian|mode|unique\w*)_?")
# Contractions that torch's own table of formulas leaves out: multiply-adds from the arguments and the result.
CONTRACTIONS: dict[str, Callable[[Any, torch.Tensor], int]] = {
    "addbmm": lambda args, result: args[1].numel() * args[2].shape[-1],
    "addmv": lambda args, result: args[1].numel(),
    "addr": lambda args, result: result.numel(),
    "dot": lambda args, result: args[0].numel(),
    "vdot": lambda args, result: args[0].numel(),
    "mv": lambda args, result: args[0].numel(),
    "_cdist_forward": lambda args, result: 2 * result.numel() * args[0].shape[-1],
}
# A complex number is two real ones, and a complex product four real ones.
COMPLEX_PRODUCT = 4


def list_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield every tensor in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from list_tensors(item)
    elif isinstance(value, dict):
        yield from list_tensors(list(value.values()))


def find_base_name(function: OpOverload) -> str:
    """Return the operator's name without namespace and overload."""
    return str(function.overloadpacket.__name__)


def count_elements(value: Any) -> int:
    """Return how many real numbers nested tensors hold."""
    return sum(tensor.numel() * (1 + tensor.is_complex()) for tensor in list_tensors(value))


def is_pointwise(function: OpOverload, plain: str) -> bool:
    """Return whether PyTorch marks an operator, or the one that it is the in-place form of, as pointwise."""
    packet = getattr(torch.ops.aten, plain, None)
    forms = [function, *(getattr(packet, name) for name in (packet.overloads() if packet is not None else ()))]
    return any(torch.Tag.pointwise in form.tags for form in forms)


def count_operations(function: OpOverload, args: Any, kwargs: Any, result: Any) -> int:
    """Return arithmetic operations plus elements read and written."""
    name = find_base_name(function)
    plain = name if name.endswith("__") else name.removesuffix("_")
    if name in FREE or function.is_view:
        return 0
    written, read = count_elements(result), count_elements([args, kwargs])
    if plain in COPIES:
        return written
    factor = COMPLEX_PRODUCT if any(tensor.is_complex() for tensor in list_tensors([args, result])) else 1
    try:
        arithmetic = count_arithmetic(function, plain, args, kwargs, result)
    except Exception:  # noqa: BLE001 - a hostile call may pass its arguments where no formula looks for them
        arithmetic = assume_product(args, kwargs, result)
    return read + written + factor * arithmetic


def count_arithmetic(function: OpOverload, plain: str, args: Any, kwargs: Any, result: Any) -> int:
    """Return the operations beside reading and writing: of products, of sorts, and of what is not known."""
    if plain.startswith(("_scaled_dot_product", "scaled_dot_product")):
        # torch has no formula for the CPU's variant.
        return int(sdpa_flop_count(*(tensor.shape for tensor in args[:3])))
    if plain in CONTRACTIONS:
        return 2 * CONTRACTIONS[plain](args, result)
    packet = getattr(torch.ops.aten, plain, None)
    formula = flop_registry.get(function.overloadpacket) or flop_registry.get(packet)
    if formula is not None:
        given = {key: value for key, value in kwargs.items() if key != "out"}
        return int(formula(*args, **given, out_val=result))
    if SORTS.fullmatch(plain):
        read = count_elements([args, kwargs])
        return read * max(1, math.ceil(math.log2(max(2, read))))
    if is_pointwise(function, plain) or ELEMENTWISE.fullmatch(plain):
        return 0
    return assume_product(args, kwargs, result)


def assume_product(args: Any, kwargs: Any, result: Any) -> int:
    """Return the cost of a product over the longest dimension that is there, or of all tensors as its factors.

    Where each index of a product stands in two tensors at least, the root of all sizes multiplied is no less than
    the number of its terms.
    """
    longest = max((max(tensor.shape, default=1) for tensor in list_tensors([args, kwargs])), default=1)
    terms = math.isqrt(math.prod(max(1, tensor.numel()) for tensor in list_tensors([args, kwargs, result])))
    return 2 * max(count_elements(result) * longest, count_elements([args, kwargs]) * longest, terms)
