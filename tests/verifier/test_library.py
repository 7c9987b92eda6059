"""Which library operators a device runs, and what it refuses."""

from __future__ import annotations

import warnings

import pytest
import torch

from verifier.device.library import (
    NotPermitted,
    check_arguments,
    check_extent,
    count_readback,
    find_narrowing,
    find_operator,
)


@pytest.mark.parametrize(
    "name",
    [
        "aten::add.Tensor",
        "aten::mm",
        "aten::convolution",
        "aten::_softmax",
        "aten::scaled_dot_product_attention",
        "aten::sort",
    ],
)
def test_ordinary_operators_run(name: str) -> None:
    assert str(find_operator(name)).startswith(name.replace("::", "."))


@pytest.mark.parametrize(
    "name",
    [
        # A backend's own operators have switches and layouts of their own.
        "aten::cudnn_convolution",
        "aten::mkldnn_convolution",
        "aten::miopen_convolution",
        "aten::_slow_conv2d_forward",
        "aten::slow_conv3d_forward",
        "aten::_efficient_attention_forward",
        "aten::_flash_attention_forward",
        "aten::fbgemm_linear_fp16_weight",
        "aten::_cudnn_rnn",
        # Composites run their parts uncounted.
        "aten::linear",
        "aten::einsum",
        # Storages, files and names.
        "aten::set_",
        "aten::resize_",
        "aten::from_file",
        "aten::record_stream",
        "prim::device",
        "aten::nothing_of_the_kind",
        "aten::add.Nothing",
        "aten::__class__",
    ],
)
def test_what_is_refused(name: str) -> None:
    with pytest.raises(NotPermitted, match="not available"):
        find_operator(name)


def test_tf32_cannot_be_asked_for_by_an_argument() -> None:
    function = torch.ops.aten._convolution.default
    x, weight = torch.zeros(1, 2, 4, 4), torch.zeros(2, 2, 1, 1)
    shape = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    check_arguments(function, [x, weight, None, *shape, False, False, True, False], {})
    with pytest.raises(NotPermitted, match="allow_tf32"):
        check_arguments(function, [x, weight, None, *shape, False, False, True, True], {})


def test_a_tensor_is_no_number() -> None:
    with pytest.raises(NotPermitted, match="alpha is a number"):
        check_arguments(torch.ops.aten.add.Tensor, [torch.ones(1), torch.ones(1)], {"alpha": torch.tensor(2)})


def test_a_view_stays_in_its_storage() -> None:
    check_extent(torch.zeros(4, 4)[1:, 2])
    beyond = torch.zeros(8)[2:6]
    beyond.untyped_storage().resize_(20)
    with pytest.raises(NotPermitted, match="beyond its storage"):
        check_extent(beyond)


def test_everything_that_is_no_tensor_was_read_back() -> None:
    assert count_readback([torch.ones(3), 1, (2.0, True, None)]) == 3


def test_narrow_floats_are_named() -> None:
    half = torch.ones(2, dtype=torch.float16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = torch.ones(2, dtype=torch.complex64).to(torch.complex32)
    assert find_narrowing("_to_copy", [torch.ones(2)], {}, half) == "float32 -> float16"
    assert find_narrowing("add", [half, half], {}, half) == "works in float16"
    assert find_narrowing("_to_copy", [torch.ones(2, dtype=torch.complex64)], {}, pairs) == "works in complex32"
    assert find_narrowing("add", [torch.ones(2)], {}, torch.ones(2)) == ""
    assert find_narrowing("_int_mm", [], {}, torch.ones(2)) == "8-bit product"
