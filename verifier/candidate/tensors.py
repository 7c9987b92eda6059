"""Tensors that live on the device: this process holds their shapes, another holds their data."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from verifier.candidate.channel import Channel, Message
from verifier.candidate.client import Client
from verifier.candidate.transfer import DTYPES, from_bytes, to_bytes

DEVICE = torch.device("cuda", 0)
MATRIX_OPERATORS = (
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "convolution",
    "matmul",
    "linear",
    "einsum",
    "scaled_dot",
    "_scaled",
)


SUBSCRIPTS = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_unsafe_index", "aten::_unsafe_index_put")


# In-place operators that change how a tensor is read and nothing else: they take over a view of it.
RESHAPES = {
    "aten::t_": torch.ops.aten.t.default,
    "aten::transpose_": torch.ops.aten.transpose.int,
    "aten::squeeze_": torch.ops.aten.squeeze.default,
    "aten::squeeze_.dim": torch.ops.aten.squeeze.dim,
    "aten::squeeze_.dims": torch.ops.aten.squeeze.dims,
    "aten::unsqueeze_": torch.ops.aten.unsqueeze.default,
    "aten::as_strided_": torch.ops.aten.as_strided.default,
}


client: Client


def connect(channel: Channel) -> None:
    """Open the line to the device."""
    global client  # noqa: PLW0603 - one device a process, as with CUDA
    client = Client(channel)


class DeviceStorage:
    """What a storage of the device can tell: its address and size."""

    def __init__(self, pointer: int, length: int) -> None:
        self.pointer, self.length = pointer, length

    def data_ptr(self) -> int:
        return self.pointer

    @property
    def _cdata(self) -> int:
        return self.pointer

    def nbytes(self) -> int:
        return self.length

    size = nbytes


class DeviceTensor(torch.Tensor):
    """A CUDA tensor as far as Python can tell.

    To torch's own C++ it is a meta tensor, because a CUDA one would make it ask a driver that is not there.
    """

    device_handle: int
    device_pointer: int
    device_storage: DeviceStorage
    device_owner: weakref.finalize[Any, DeviceTensor] | None

    @staticmethod
    def __new__(cls: type[DeviceTensor], described: Message) -> DeviceTensor:  # noqa: PYI034 - torch makes the object
        tensor = torch.Tensor._make_wrapper_subclass(  # noqa: SLF001 - torch offers no public constructor for this
            cls,
            tuple(described["shape"]),
            strides=tuple(described["stride"]),
            storage_offset=described["offset"],
            dtype=DTYPES[described["dtype"]],
            device="meta",
        )
        tensor.device_owner = None
        tensor.device_handle = described["handle"]
        tensor.device_pointer = described["pointer"]
        tensor.device_storage = DeviceStorage(described["storage"], described["storage_bytes"])
        if described.get("owned", True):
            tensor.own()
        return tensor

    def __init__(self, described: Message) -> None:
        super().__init__()

    __torch_function__ = torch._C._disabled_torch_function_impl  # noqa: SLF001 - as torch's own wrapper tensors do

    def own(self) -> None:
        """Let the device forget the handle when this object goes."""
        self.device_owner = weakref.finalize(self, client.drop, self.device_handle)
        self.device_owner.atexit = False

    def become(self, alias: DeviceTensor) -> None:
        """Take over the handle of a tensor that nobody else holds, with its memory, shape, strides and dtype."""
        if self.device_owner is not None:
            self.device_owner()
        assert alias.device_owner is not None
        alias.device_owner.detach()
        torch._C.TensorBase.data.__set__(self, alias)  # noqa: SLF001 - torch.Tensor.data's own setter
        self.device_handle, self.device_pointer = alias.device_handle, alias.device_pointer
        self.device_storage = alias.device_storage
        self.own()

    def follow(self, described: Message) -> None:
        """Take on what an operator that writes into its result did to shape and memory, as one that grows it does."""
        layout = (list(self.shape), list(self.stride()), self.storage_offset(), self.device_pointer)
        if layout != (described["shape"], described["stride"], described["offset"], described["pointer"]):
            # The device knows another allocation by another handle only.
            self.become(run_on_device(torch.ops.aten.detach.default, (self,), {}))

    @property
    def device(self) -> torch.device:
        return DEVICE

    @property
    def data(self) -> DeviceTensor:
        return self.detach()

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        if not isinstance(value, DeviceTensor):
            raise TypeError("a CUDA tensor takes the data of another CUDA tensor only")
        self.become(value.detach())

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceTensor:
        if id(self) not in memo:
            copied = self.detach().clone()
            is_parameter = isinstance(self, torch.nn.Parameter)
            memo[id(self)] = torch.nn.Parameter(copied, self.requires_grad) if is_parameter else copied
        copy: DeviceTensor = memo[id(self)]
        return copy

    def __copy__(self) -> DeviceTensor:
        return self.detach()

    def __format__(self, specification: str) -> str:
        if self.dim() == 0 and not isinstance(self, torch.nn.Parameter):
            return format(self.item(), specification)
        return object.__format__(self, specification)

    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)

    def get_device(self) -> int:
        return 0

    def data_ptr(self) -> int:
        return self.device_pointer

    def untyped_storage(self) -> Any:
        return self.device_storage

    storage = untyped_storage

    def record_stream(self, stream: Any) -> None:
        """Work of all streams is done in the order in which it is asked for."""

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.cpu().numpy()
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def tolist(self) -> Any:
        return download(self).tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"tensor(..., device='cuda:0', size={tuple(self.shape)}, dtype={self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(function, args, kwargs or {})


def wrap(described: Message, known: dict[int, DeviceTensor]) -> DeviceTensor:
    """Return the tensor object of a description: the one that exists, or a new one."""
    existing = known.get(described["handle"])
    if existing is None:
        return DeviceTensor(described)
    existing.follow(described)
    return existing


SETTINGS = {
    torch.dtype: "dtype",
    torch.device: "device",
    torch.memory_format: "memory_format",
    torch.layout: "layout",
}


class Encoder:
    """Encodes one call's arguments and remembers the tensors in them."""

    def __init__(self) -> None:
        self.known: dict[int, DeviceTensor] = {}

    def encode(self, value: Any) -> Any:
        """Return the form of an argument that the device reads. Raises TypeError."""
        if isinstance(value, torch.Tensor):
            return self.encode_tensor(value)
        if isinstance(value, list | tuple):
            return [self.encode(item) for item in value]
        for kind, name in SETTINGS.items():
            if isinstance(value, kind):
                return {name: str(value).removeprefix("torch.")}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(f"an argument of type {type(value).__name__} cannot be sent to the device")

    def encode_tensor(self, value: torch.Tensor) -> Message:
        """Name a tensor of the device; a CPU scalar is uploaded, as CUDA operators do."""
        if not isinstance(value, DeviceTensor):
            if value.dim():
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
                )
            value = upload(value)
        self.known[value.device_handle] = value
        return {"tensor": value.device_handle}

    def decode(self, value: Any) -> Any:
        if isinstance(value, dict):
            return wrap(value["tensor"], self.known)
        if isinstance(value, list):
            return tuple(self.decode(item) for item in value)
        return value


def order_by_stride(tensor: torch.Tensor) -> list[int]:
    """Return a tensor's dimensions in the order in which its values lie in memory."""
    return sorted(range(tensor.dim()), key=lambda place: -tensor.stride(place))


def restore_order(tensor: torch.Tensor, order: list[int]) -> torch.Tensor:
    """Undo a permutation of dimensions."""
    return tensor.permute([order.index(place) for place in range(len(order))])


def upload(tensor: torch.Tensor) -> DeviceTensor:
    """Copy a CPU tensor to the device, with its order of dimensions."""
    order = order_by_stride(tensor)
    laid = tensor.permute(order)
    if laid.is_contiguous() and not tensor.is_contiguous():
        ordered: Any = restore_order(upload(laid), order)
        return ordered
    message = {"do": "upload", "shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
    answer, _ = client.ask(message, to_bytes(tensor))
    return DeviceTensor(answer["tensor"])


def download(tensor: DeviceTensor) -> torch.Tensor:
    """Copy a device tensor to the CPU, with its order of dimensions."""
    order = order_by_stride(tensor)
    if not tensor.is_contiguous() and (laid := tensor.permute(order)).is_contiguous():
        return restore_order(download(laid), order)
    _, data = client.ask({"do": "download", "handle": tensor.device_handle})
    return from_bytes(data, list(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def list_flags() -> list[str]:
    """Return the switches that permit reduced precision and are on."""
    switches = {
        "torch.backends.cuda.matmul.allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        "torch.backends.cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
        "torch.set_float32_matmul_precision": torch.get_float32_matmul_precision() != "highest",
        "torch.autocast": torch.is_autocast_enabled("cuda"),
    }
    return [name for name, on in switches.items() if on]


def is_matrix_operator(name: str) -> bool:
    return name.removeprefix("aten::").startswith(MATRIX_OPERATORS)


def is_on_device(target: Any) -> bool:
    """Return whether a device means this one. PyTorch's C++ takes the tensors here for meta tensors, and asks for more."""
    return target is not None and torch.device(target).type in ("cuda", "meta")


def place_indices(indices: Any) -> list[Any]:
    """Return the indices of a subscript, those of the host uploaded, as CUDA operators do."""
    return [
        upload(index) if isinstance(index, torch.Tensor) and not isinstance(index, DeviceTensor) else index
        for index in indices
    ]


def has_generator(kwargs: dict[str, Any]) -> bool:
    return isinstance(kwargs.get("generator"), torch._C.Generator)  # noqa: SLF001 - the base of every torch.Generator


def draw(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator with a generator, which lives in this process: what needs no values is drawn here and uploaded."""
    if is_on_device(kwargs.get("device")):
        return upload(function(*args, **{**kwargs, "device": "cpu", "pin_memory": False}))
    target, *settings = args
    if function.name().partition(".")[0].endswith("_") and not has_device_tensor(settings):
        drawn = function(torch.empty(target.shape, dtype=target.dtype, device="cpu"), *settings, **kwargs)
        return target.copy_(upload(drawn))
    return run_on_device(function, args, {**kwargs, "generator": None})


def convert(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run aten::_to_copy, which may cross between the CPU and the device."""
    source, target = args[0], kwargs.get("device")
    to_device = isinstance(source, DeviceTensor) if target is None else is_on_device(target)
    on_host = {key: value for key, value in kwargs.items() if key in ("dtype", "memory_format")}
    if not isinstance(source, DeviceTensor):
        return upload(function(source, **on_host)) if to_device else function(*args, **kwargs)
    if not to_device:
        return function(download(source), **on_host)
    # A device that the submission names is another one than "meta" to PyTorch's C++, and may be the only change asked for.
    named = target is not None and torch.device(target).type == DEVICE.type
    changes = (kwargs.get("dtype") or source.dtype) != source.dtype or not has_format(
        source, kwargs.get("memory_format")
    )
    return source if named and not changes else run_on_device(function, args, kwargs)


def has_format(tensor: torch.Tensor, memory_format: torch.memory_format | None) -> bool:
    return memory_format in (None, torch.preserve_format) or tensor.is_contiguous(memory_format=memory_format)


def call(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run one operator: here when it touches only CPU tensors, on the device otherwise."""
    name = function.name()
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):  # noqa: SLF001 - as FakeTensor does
        with DeviceMode():
            parts = function.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
    if not name.startswith("aten::"):
        return call_custom(function, args, kwargs)
    if name == "aten::_to_copy":
        return convert(function, args, kwargs)
    if name == "aten::copy_" and isinstance(args[0], DeviceTensor) != isinstance(args[1], DeviceTensor):
        source = upload(args[1]) if isinstance(args[0], DeviceTensor) else download(args[1])
        args = (args[0], source, *args[2:])
    if is_on_device(kwargs.get("device")) or has_device_tensor(args) or has_device_tensor(kwargs):
        return call_there(function, args, kwargs)
    return function(*args, **kwargs)


def call_there(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run one of PyTorch's operators on the device, or what stands for it there."""
    name = function.name()
    if has_generator(kwargs):
        return draw(function, args, kwargs)
    if name in RESHAPES:
        args[0].become(run_on_device(RESHAPES[name], args, kwargs))
        return args[0]
    if name.partition(".")[0] in SUBSCRIPTS:
        args = (args[0], place_indices(args[1]), *args[2:])
    return run_on_device(function, args, kwargs)


def call_custom(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator that Python code registered, by its kernel for CUDA or for every device."""
    for key in ("CUDA", "CompositeExplicitAutograd"):
        if torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), key):  # noqa: SLF001 - as FakeTensor does
            with DeviceMode():
                return function._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)  # noqa: SLF001
    return function(*args, **kwargs)


def run_on_device(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Send one operator to the device and return what it gave."""
    name, encoder = function.name(), Encoder()
    message = {
        "do": "library",
        "name": name,
        "args": encoder.encode(list(args)),
        "kwargs": {
            key: encoder.encode(value) for key, value in kwargs.items() if key not in ("pin_memory", "non_blocking")
        },
        "flags": list_flags() if is_matrix_operator(name) else [],
    }
    message["handles"] = list(encoder.known)
    answer, _ = client.ask(message)
    return encoder.decode(answer["result"])


def has_device_tensor(value: Any) -> bool:
    """Return whether nested arguments hold a device tensor."""
    if isinstance(value, list | tuple):
        return any(has_device_tensor(item) for item in value)
    if isinstance(value, dict):
        return any(has_device_tensor(item) for item in value.values())
    return isinstance(value, DeviceTensor)


class DeviceMode(TorchDispatchMode):
    """Sends factory calls with a CUDA device, and uploads, to the device."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(function, args, kwargs or {})
