"""Tensors that live on the simulated GPU: this process holds their shapes, another holds their data."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from verifier.candidate.channel import Channel, Message
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


class DeviceError(RuntimeError):
    """The simulated GPU refused a request."""


class KernelDidNotEnd(DeviceError):
    """A kernel took more steps than one call may."""


class KernelRefused(DeviceError):
    """The compiler or the GPU refused a kernel."""


ERRORS: dict[str, type[Exception]] = {
    "CannotCompile": KernelRefused,
    "IndexError": IndexError,
    "NotImplementedError": NotImplementedError,
    "KernelFault": KernelRefused,
    "OutOfDeviceMemory": torch.OutOfMemoryError,
    "OverBudget": KernelDidNotEnd,
    "TypeError": TypeError,
    "ValueError": ValueError,
}


def raise_device_error(answer: Message) -> None:
    """Raise what a real GPU's runtime would raise for a refused request."""
    kind, message = answer["error"], str(answer.get("message", ""))
    prefixes = {
        "OutOfDeviceMemory": "CUDA out of memory. ",
        "IllegalAccess": "CUDA error: an illegal memory access was encountered: ",
    }
    raise ERRORS.get(kind, DeviceError)(f"{prefixes.get(kind, '')}{message}")


class Client:
    """The line of this process to the device. One request at a time, whichever thread asks."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.lock = threading.RLock()
        self.dropped: list[int] = []

    def ask(self, message: Message, data: bytes | memoryview = b"") -> tuple[Message, bytes]:
        """Send a request and return the answer. Raises DeviceError and its kin."""
        with self.lock:
            message["free"], self.dropped = self.dropped, []
            answer, answer_data = self.channel.ask(message, data)
        if "error" in answer:
            raise_device_error(answer)
        return answer, answer_data

    def drop(self, handle: int) -> None:
        """Let the device forget a tensor with the next request."""
        self.dropped.append(handle)


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
        tensor.device_handle = described["handle"]
        tensor.device_pointer = described["pointer"]
        tensor.device_storage = DeviceStorage(described["storage"], described["storage_bytes"])
        if described.get("owned", True):
            weakref.finalize(tensor, client.drop, described["handle"]).atexit = False
        return tensor

    def __init__(self, described: Message) -> None:
        super().__init__()

    __torch_function__ = torch._C._disabled_torch_function_impl  # noqa: SLF001 - as torch's own wrapper tensors do

    @property
    def device(self) -> torch.device:
        return DEVICE

    @property
    def data(self) -> DeviceTensor:
        return self.detach()

    @data.setter
    def data(self, value: DeviceTensor) -> None:
        if (value.shape, value.dtype, value.stride()) != (self.shape, self.dtype, self.stride()):
            raise RuntimeError("the simulated GPU takes new data of the same shape, strides and dtype only")
        # The tensor that brought the data keeps it alive.
        self.device_source = value
        self.device_handle, self.device_pointer = value.device_handle, value.device_pointer
        self.device_storage = value.device_storage

    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)

    def get_device(self) -> int:
        return 0

    def data_ptr(self) -> int:
        return self.device_pointer

    def untyped_storage(self) -> Any:
        return self.device_storage

    storage = untyped_storage

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
    return DeviceTensor(described) if existing is None else existing


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


def upload(tensor: torch.Tensor) -> DeviceTensor:
    """Copy a CPU tensor to the device."""
    message = {"do": "upload", "shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
    answer, _ = client.ask(message, to_bytes(tensor))
    return DeviceTensor(answer["tensor"])


def download(tensor: DeviceTensor) -> torch.Tensor:
    """Copy a device tensor to the CPU."""
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


def convert(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run aten::_to_copy, which may cross between the CPU and the device."""
    source, target = args[0], kwargs.get("device")
    to_device = torch.device(target).type == "cuda" if target is not None else isinstance(source, DeviceTensor)
    on_host = {key: value for key, value in kwargs.items() if key in ("dtype", "memory_format")}
    if not isinstance(source, DeviceTensor):
        return upload(function(source, **on_host)) if to_device else function(*args, **kwargs)
    if not to_device:
        return function(download(source), **on_host)
    same = target is not None and kwargs.get("dtype", source.dtype) == source.dtype
    return source if same else run_on_device(function, args, kwargs)


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
    target = kwargs.get("device")
    made_there = target is not None and torch.device(target).type == "cuda"
    if made_there or has_device_tensor(args) or has_device_tensor(kwargs):
        return run_on_device(function, args, kwargs)
    return function(*args, **kwargs)


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


def name_device(value: Any) -> Any:
    """Return the simulated GPU for any spelling of a CUDA device."""
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


# Asked for as a whole: which of its kernels serves is for the device to choose.
WHOLE = {
    torch.nn.functional.scaled_dot_product_attention: torch.ops.aten.scaled_dot_product_attention.default,
}

# These read Python values on the host, and then copy the tensor.
HOST_BUILT = (torch.tensor, torch.as_tensor, torch.asarray)


def place_beside(target: DeviceTensor, value: Any) -> Any:
    """Return a value that is about to be written into `target` as a tensor of the device."""
    if isinstance(value, DeviceTensor):
        return value
    return upload(torch.as_tensor(value, dtype=None if isinstance(value, torch.Tensor) else target.dtype))


class DeviceNames(TorchFunctionMode):
    """Gives every CUDA device its index, so that torch never asks a driver which device is current."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = {key: name_device(value) for key, value in (kwargs or {}).items()}
        if isinstance(named.get("device"), int) and not isinstance(named["device"], bool):
            named["device"] = DEVICE
        if torch.is_autocast_enabled("cuda") and getattr(function, "__name__", "") in AUTOCAST_NARROWED:
            return call_narrowed(function, args, named)
        if function in WHOLE and has_device_tensor(args):
            return run_on_device(WHOLE[function], args, named)
        if function is torch.Tensor.cuda:
            return args[0].to(DEVICE)
        if function in HOST_BUILT and named.get("device") == DEVICE:
            del named["device"]
            return function(*args, **named).to(DEVICE)
        if function is torch.Tensor.__setitem__ and isinstance(args[0], DeviceTensor):
            return function(args[0], args[1], place_beside(args[0], args[2]))
        if function is torch.Tensor.to:
            args = tuple(name_device(value) for value in args)
        return function(*args, **named)


class DeviceMode(TorchDispatchMode):
    """Sends factory calls with a CUDA device, and uploads, to the simulated GPU."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(function, args, kwargs or {})
