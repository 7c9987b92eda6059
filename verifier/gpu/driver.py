"""The few calls of the CUDA driver that PyTorch does not offer: load machine code, launch it, hold a stream back."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

OUT_OF_MEMORY = 2
INVALID_IMAGE = (200, 218, 209)
_MAXIMUM_THREADS, _LOCAL_BYTES, _REGISTERS, _DYNAMIC_SHARED_BYTES, _NON_PORTABLE_CLUSTER = 0, 3, 4, 8, 14
_COOPERATIVE, _CLUSTER_DIMENSION, _CLUSTER_SCHEDULING, _PROGRAMMATIC_SERIALISATION = 2, 4, 5, 6
_SPREAD = 1
_WAIT_UNTIL_AT_LEAST = 0
STATIC_SHARED_BYTES = 49_152
LARGEST_PORTABLE_CLUSTER = 8


class CudaError(RuntimeError):
    """The driver refused a call. `code` is its number."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"CUDA error {code}: {text}")
        self.code = code


class _Attribute(Structure):
    _fields_ = [("id", c_int), ("padding", c_char * 4), ("value", c_uint32 * 16)]


class _Configuration(Structure):
    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(_Attribute)),
        ("attribute_count", c_uint),
    ]


@functools.cache
def library() -> Any:
    """Return the driver's library. Raises OSError when there is none."""
    return ctypes.CDLL("libcuda.so.1")


def check(code: int) -> None:
    """Raise CudaError when a call failed."""
    if code:
        text = c_char_p()
        library().cuGetErrorString(code, byref(text))
        raise CudaError(code, (text.value or b"unknown").decode())


def load_function(image: bytes, name: str) -> c_void_p:
    """Return a function of a compiled kernel, loaded into the current context. Raises CudaError."""
    module, function = c_void_p(), c_void_p()
    check(library().cuModuleLoadData(byref(module), image))
    check(library().cuModuleGetFunction(byref(function), module, name.encode()))
    return function


def _read_attribute(function: c_void_p, attribute: int) -> int:
    value = c_int()
    check(library().cuFuncGetAttribute(byref(value), attribute, function))
    return value.value


def read_resources(function: c_void_p) -> tuple[int, int, int]:
    """Return registers a thread, bytes of local memory a thread (spills lie there) and the most threads of a block."""
    return (
        _read_attribute(function, _REGISTERS),
        _read_attribute(function, _LOCAL_BYTES),
        _read_attribute(function, _MAXIMUM_THREADS),
    )


def allow_shared_memory(function: c_void_p, dynamic_bytes: int) -> None:
    """Let a function use more shared memory than every GPU has. Raises CudaError."""
    if dynamic_bytes > STATIC_SHARED_BYTES:
        check(library().cuFuncSetAttribute(function, _DYNAMIC_SHARED_BYTES, dynamic_bytes))


def make_attributes(*, clusters: int, cooperative: bool, programmatic: bool) -> list[tuple[int, tuple[int, ...]]]:
    """Return the launch attributes, as Triton's own launcher sets them."""
    attributes: list[tuple[int, tuple[int, ...]]] = []
    if programmatic:
        attributes.append((_PROGRAMMATIC_SERIALISATION, (1,)))
    if cooperative:
        attributes.append((_COOPERATIVE, (1,)))
    if clusters > 1:
        attributes += [(_CLUSTER_DIMENSION, (clusters, 1, 1)), (_CLUSTER_SCHEDULING, (_SPREAD,))]
    return attributes


def allow_large_clusters(function: c_void_p, clusters: int) -> None:
    """Permit a cluster size that not every GPU has."""
    if clusters > LARGEST_PORTABLE_CLUSTER:
        check(library().cuFuncSetAttribute(function, _NON_PORTABLE_CLUSTER, 1))


def launch(  # noqa: PLR0913, PLR0917 - what a launch consists of
    function: c_void_p,
    grid: Sequence[int],
    threads: int,
    shared_bytes: int,
    stream: int,
    arguments: Sequence[Any],
    attributes: Sequence[tuple[int, tuple[int, ...]]],
) -> None:
    """Launch a function; `arguments` are ctypes values, one a parameter. Raises CudaError."""
    parameters = (c_void_p * len(arguments))(*(ctypes.addressof(value) for value in arguments))
    listed = (_Attribute * max(1, len(attributes)))()
    for entry, (identifier, values) in zip(listed, attributes, strict=False):
        entry.id = identifier
        entry.value[: len(values)] = values
    configuration = _Configuration(
        (c_uint * 3)(*grid), (c_uint * 3)(threads, 1, 1), shared_bytes, stream, listed, len(attributes)
    )
    check(library().cuLaunchKernelEx(byref(configuration), function, parameters, None))


def hold_stream(stream: int, address: int, ticket: int) -> None:
    """Let a stream go on only when the 32-bit word at `address` has reached `ticket`. Raises CudaError."""
    call = getattr(library(), "cuStreamWaitValue32_v2", None) or library().cuStreamWaitValue32
    check(call(c_void_p(stream), c_uint64(address), c_uint32(ticket), c_uint(_WAIT_UNTIL_AT_LEAST)))


def reset_persisting_cache() -> None:
    """Make every persisting line of the L2 an ordinary one. Raises CudaError."""
    check(library().cuCtxResetPersistingL2Cache())


def read_memory() -> tuple[int, int]:
    """Return the free and all bytes of the GPU's memory. Raises CudaError."""
    free, total = c_size_t(), c_size_t()
    check(library().cuMemGetInfo_v2(byref(free), byref(total)))
    return free.value, total.value
