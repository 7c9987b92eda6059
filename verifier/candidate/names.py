"""What torch's functions are told before they run: which device a name means, and where Python values go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from verifier.candidate.tensors import DEVICE, DeviceTensor, has_device_tensor, run_on_device, upload

# The functions of torch that ours stand in for.
set_host_default, get_host_default = torch.set_default_device, torch.get_default_device


def name_device(value: Any) -> Any:
    """Return the device for any spelling of a CUDA device."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return DEVICE
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return DEVICE
    return value


# torch's own list of what autocast runs in lower precision; its C++ does that for real CUDA tensors only.
AUTOCAST_NARROWED = {
    "__matmul__", "__rmatmul__", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "einsum", "linear", "matmul", "mm", "multi_dot",
    "mv", "prelu", "scaled_dot_product_attention",
}  # fmt: skip


def call_narrowed(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run a function as autocast does: with its float32 tensors narrowed."""
    dtype = torch.get_autocast_dtype("cuda")

    def narrow(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(narrow(item) for item in value)
        return value.to(dtype) if isinstance(value, DeviceTensor) and value.dtype == torch.float32 else value

    with torch.autocast("cuda", enabled=False):
        return function(*narrow(args), **{key: narrow(value) for key, value in kwargs.items()})


class Defaults:
    """Where tensors are made when no device is named."""

    on_device = False


def set_default_device(device: Any) -> None:
    """torch.set_default_device: the host keeps none when it is the GPU."""
    Defaults.on_device = device is not None and torch.device(device).type == "cuda"
    set_host_default(None if Defaults.on_device else device)


def get_default_device() -> torch.device:
    """torch.get_default_device."""
    return DEVICE if Defaults.on_device else get_host_default()


def ask_as_a_whole(function: Any, args: Any, named: dict[str, Any]) -> Any:
    """Leave it to the device which of its kernels serves."""
    if has_device_tensor(args):
        return run_on_device(torch.ops.aten.scaled_dot_product_attention.default, args, named)
    return function(*args, **named)


def read_values(values: Any) -> Any:
    """Return nested Python values with the tensors of the device in them read back."""
    if isinstance(values, DeviceTensor):
        return values.tolist()
    return [read_values(value) for value in values] if isinstance(values, list | tuple) else values


def build_on_host(function: Any, args: Any, named: dict[str, Any]) -> Any:
    """Read Python values here, and then copy the tensor."""
    if args and isinstance(args[0], list | tuple):
        args = (read_values(args[0]), *args[1:])
    if named.get("device") != DEVICE:
        return function(*args, **named)
    del named["device"]
    return function(*args, **named).to(DEVICE)


def build_beside(function: Any, args: Any, named: dict[str, Any]) -> Any:
    """torch.Tensor.new_tensor: on the device of the tensor that it is asked of, unless another is named."""
    tensor, *values = args
    return build_on_host(torch.tensor, values, {"dtype": tensor.dtype, "device": tensor.device, **named})


def read_part(part: Any) -> Any:
    """Return one part of a subscript, a sequence of places as the tensor that PyTorch makes of it."""
    if not isinstance(part, list | tuple | range):
        return part
    return torch.tensor(read_values(list(part)), dtype=None if len(part) else torch.int64)


def read_subscript(place: Any) -> Any:
    """Return a subscript without Python's sequences: PyTorch's C++ would make tensors without values of them."""
    if isinstance(place, list | range) and all(isinstance(part, int) for part in place):
        return read_part(place)
    return tuple(map(read_part, place)) if isinstance(place, list | tuple) else place


def look_up(function: Any, args: Any, named: dict[str, Any]) -> Any:
    """Read part of a tensor."""
    target, place = args
    return function(target, read_subscript(place) if isinstance(target, DeviceTensor) else place)


def assign(function: Any, args: Any, named: dict[str, Any]) -> Any:
    """Write into part of a tensor; what is written is on its device first."""
    target, place, value = args
    if not isinstance(target, DeviceTensor):
        return function(*args)
    if not isinstance(value, DeviceTensor):
        dtype = None if isinstance(value, torch.Tensor) else target.dtype
        value = upload(torch.as_tensor(value, dtype=dtype))
    return function(target, read_subscript(place), value)


def move(function: Any, args: Any, named: dict[str, Any]) -> Any:
    """torch.Tensor.to: a copy is made even where nothing else is to do."""
    copies = named.pop("copy", False)
    moved = function(*map(name_device, args), **named)
    return moved.clone() if copies and moved is args[0] else moved


STAND_INS: dict[Any, Callable[[Any, Any, dict[str, Any]], Any]] = {
    torch.nn.functional.scaled_dot_product_attention: ask_as_a_whole,
    torch.tensor: build_on_host,
    torch.as_tensor: build_on_host,
    torch.asarray: build_on_host,
    torch.Tensor.new_tensor: build_beside,
    torch.Tensor.__getitem__: look_up,
    torch.Tensor.__setitem__: assign,
    torch.Tensor.cuda: lambda function, args, named: args[0].to(DEVICE),
    torch.Tensor.to: move,
}


def name_devices(function: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the named arguments of a call with the device that they mean."""
    named = {key: name_device(value) for key, value in kwargs.items()}
    device = named.get("device")
    is_number = isinstance(device, int) and not isinstance(device, bool)
    by_default = device is None and Defaults.on_device and function in _device_constructors()
    return {**named, "device": DEVICE} if is_number or by_default else named


class DeviceNames(TorchFunctionMode):
    """Gives every CUDA device its index, so that torch never asks a driver which device is current."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = name_devices(function, kwargs or {})
        if torch.is_autocast_enabled("cuda") and getattr(function, "__name__", "") in AUTOCAST_NARROWED:
            return call_narrowed(function, args, named)
        stand_in = STAND_INS.get(function)
        return function(*args, **named) if stand_in is None else stand_in(function, args, named)
