"""torch.cuda for the device: queries answered, streams and events accepted, forbidden things reported."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any, Self

import torch
import torch.utils.cpp_extension as extension
from torch import _streambase

from verifier.candidate import names, tensors

FOREIGN_MODULES = {
    "cupy", "numba", "pycuda", "cuda", "jax", "jaxlib", "tensorflow", "tilelang", "cutlass", "cutlass_library", "tvm", "taichi",
    "warp", "pyopencl", "mlx", "thunderkittens", "flash_attn", "xformers", "apex", "flashinfer", "liger_kernel", "fla",
}  # fmt: skip


# Older versions of PyTorch insist on these as bases; in newer ones they are real events and streams.
EventBase: Any = object if issubclass(_streambase._EventBase, torch.Event) else _streambase._EventBase  # noqa: SLF001
StreamBase: Any = object if issubclass(_streambase._StreamBase, torch.Stream) else _streambase._StreamBase  # noqa: SLF001


def report(kind: str) -> None:
    """Tell the device that the submission used something that a policy names."""
    tensors.client.ask({"do": "event", "kind": kind})


def synchronise(device: Any = None) -> None:
    """Wait until the device has done what it was asked."""
    tensors.client.ask({"do": "synchronise"})


class Event(EventBase):
    """A CUDA event, recorded by the device."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.mark: int | None = None

    def record(self, stream: Any = None) -> None:
        answer, _ = tensors.client.ask({"do": "mark"})
        self.mark = answer["mark"]

    def elapsed_time(self, end: Event) -> float:
        answer, _ = tensors.client.ask({"do": "measure", "first": self.mark, "second": end.mark})
        return float(answer["milliseconds"])

    def synchronize(self) -> None:
        synchronise()

    def wait(self, stream: Any = None) -> None:
        return None

    def query(self) -> bool:
        return True


class Stream(StreamBase):
    """A CUDA stream; work on this device is done when the request returns."""

    cuda_stream = 0
    device = tensors.DEVICE
    device_index = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        return None

    def synchronize(self) -> None:
        synchronise()

    def wait_stream(self, stream: Any) -> None:
        return None

    def wait_event(self, event: Any) -> None:
        return None

    def record_event(self, event: Any = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        return None


class Generator(torch.Generator):
    """A generator of random numbers for either device. Its state lives in this process."""

    kind: torch.device

    def __new__(cls, device: Any = "cpu") -> Self:
        generator = super().__new__(cls)
        generator.kind = names.name_device(torch.device(device))
        return generator

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()

    @property
    def device(self) -> torch.device:
        return self.kind


class Graph:
    """A CUDA graph: recorded and replayed by the device, which reports it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.number: int | None = None

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        tensors.client.ask({"do": "graph", "action": "begin"})

    def capture_end(self) -> None:
        answer, _ = tensors.client.ask({"do": "graph", "action": "end"})
        self.number = answer["graph"]

    def replay(self) -> None:
        tensors.client.ask({"do": "graph", "action": "replay", "graph": self.number})

    def pool(self) -> tuple[int, int]:
        return 0, 0

    def reset(self) -> None:
        return None


@contextlib.contextmanager
def capture_graph(graph: Graph, *args: Any, **kwargs: Any) -> Iterator[None]:
    """torch.cuda.graph: record the body."""
    graph.capture_begin()
    try:
        yield
    finally:
        graph.capture_end()


def make_graphed_callables(callables: Any, *args: Any, **kwargs: Any) -> Any:
    """torch.cuda.make_graphed_callables: reported, and left uncaptured."""
    tensors.client.ask({"do": "graph", "action": "begin"})
    tensors.client.ask({"do": "graph", "action": "end"})
    return callables


class NullContext(contextlib.nullcontext[Any]):
    """A context manager that accepts any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()


def compile_reported(model: Any = None, *args: Any, **kwargs: Any) -> Any:
    """torch.compile: reported, and the function left as it is."""
    report("compile")
    if model is None:
        return lambda function: function
    return model


def refuse(kind: str, what: str) -> Callable[..., Any]:
    """Return a function that reports `kind` and raises."""

    def call(*args: Any, **kwargs: Any) -> Any:
        report(kind)
        raise RuntimeError(f"{what} is not available to a submission")

    return call


PACKAGES_FOLDER = "/kq/packages/"
FOREIGN_LIBRARIES = ("cuda", "nvrtc", "cublas", "cudnn", "cufft", "cusparse", "nvjit", "nvvm", "opencl", "hip")


def watch_libraries(event: str, arguments: Any) -> None:
    """Report the loading of a GPU library by hand, or of this harness. An audit hook, which Python code cannot take back."""
    if event == "import" and str(arguments[0]).startswith("verifier."):
        report("harness")
    if event == "ctypes.dlopen" and any(name in str(arguments[0]).lower() for name in FOREIGN_LIBRARIES):
        report("foreign library")


def find_importer() -> str:
    """Return the file whose import statement runs."""
    frame = sys._getframe(2)  # noqa: SLF001 - the only way to the importing frame
    while frame.f_back is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame.f_code.co_filename


class ForeignImports:
    """Reports the import of another GPU backend before it fails. Packages of ours may look for one."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        foreign = name.partition(".")[0]
        if foreign in FOREIGN_MODULES and PACKAGES_FOLDER not in find_importer():
            report(f"foreign import {foreign}")
        return None


def install(name: str, capability: int, properties: dict[str, int]) -> None:
    """Answer torch.cuda as a machine with this one GPU would."""
    cuda: Any = torch.cuda
    described = SimpleNamespace(
        name=name,
        major=capability // 10,
        minor=capability % 10,
        total_memory=properties["total_memory"],
        multi_processor_count=properties["multiprocessor_count"],
        warp_size=32,
        max_threads_per_multi_processor=1536,
        regs_per_multiprocessor=properties["max_num_regs"],
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=properties["max_shared_mem"],
        shared_memory_per_multiprocessor=properties["max_shared_mem"] + 1024,
        L2_cache_size=properties["l2_bytes"],
        is_multi_gpu_board=0,
        is_integrated=0,
        gcnArchName="",
    )
    replacements: dict[str, Any] = {
        "_lazy_init": lambda: None,
        "init": lambda: None,
        "is_initialized": lambda: True,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": synchronise,
        "get_device_name": lambda device=None: name,
        "get_device_capability": lambda device=None: (described.major, described.minor),
        "get_device_properties": lambda device=None: described,
        "is_bf16_supported": lambda including_emulation=True: True,
        "empty_cache": lambda: None,
        "memory_allocated": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
        "reset_peak_memory_stats": lambda device=None: None,
        "reset_max_memory_allocated": lambda device=None: None,
        "mem_get_info": lambda device=None: (described.total_memory, described.total_memory),
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "set_stream": lambda stream: None,
        "is_current_stream_capturing": lambda: False,
        "device": NullContext,
        "device_of": NullContext,
        "stream": NullContext,
        "StreamContext": NullContext,
        "Stream": Stream,
        "Event": Event,
        "CUDAGraph": Graph,
        "graph": capture_graph,
        "make_graphed_callables": make_graphed_callables,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "seed": lambda: None,
        "seed_all": lambda: None,
        "initial_seed": lambda: 0,
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda state, device=None: None,
        "_compile_kernel": refuse("foreign nvrtc", "torch.cuda._compile_kernel"),
    }
    for key, value in replacements.items():
        setattr(cuda, key, value)
    cuda.graphs.CUDAGraph, cuda.graphs.graph = Graph, capture_graph
    cuda.graphs.make_graphed_callables = make_graphed_callables
    torch.Tensor.pin_memory = lambda self, *args: self
    torch.Generator = Generator
    torch.set_default_device, torch.get_default_device = names.set_default_device, names.get_default_device
    # It asks cuDNN to lay the weights of a recurrent layer one after another.
    torch.nn.RNNBase.flatten_parameters = lambda self: None
    torch.compile = compile_reported
    torch._dynamo_optimize = compile_reported  # noqa: SLF001
    sys.addaudithook(watch_libraries)
    sys.meta_path.insert(0, ForeignImports())


def guard_extensions() -> None:
    """Make torch's C++ extension loader report and refuse."""
    for name in ("load", "load_inline"):
        setattr(extension, name, refuse("foreign cpp_extension", f"torch.utils.cpp_extension.{name}"))
