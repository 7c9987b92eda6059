"""The parameters of a kernel: read from its Triton IR, filled with what a launch passes, as the driver takes them."""

from __future__ import annotations

import ctypes
import re
import struct
from dataclasses import dataclass
from typing import Any

from verifier.device.faults import IRError, KernelFault

_FUNCTION = re.compile(r"^\s*tt\.func public @(?P<name>\"[^\"]+\"|[\w$.]+)\((?P<rest>.*)$", re.MULTILINE)
_PARAMETER = re.compile(r"%[\w$.\-]+: ")
_POINTER = re.compile(r"^!tt\.ptr<(.+?)(?:, \d+)?>$")
_DESCRIPTOR = re.compile(r"^!tt\.tensordesc<tensor<([\dx]+)x(\w+)(?:, [^>]*)?>>$")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_INTEGERS = {
    "i1": ctypes.c_int8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
}


@dataclass(frozen=True)
class Parameter:
    """One parameter: `element` is a scalar's type, `pointee` what a pointer points to, `block` a descriptor's block."""

    element: str
    pointee: str = ""
    block: tuple[int, ...] = ()

    @property
    def is_pointer(self) -> bool:
        return bool(self.pointee) and not self.block

    @property
    def is_descriptor(self) -> bool:
        return bool(self.block)


def parse_parameter(text: str) -> Parameter:
    """Return a parameter from its type's text. Raises IRError."""
    if match := _POINTER.match(text):
        return Parameter("pointer", pointee=match[1])
    if match := _DESCRIPTOR.match(text):
        return Parameter("descriptor", match[2], tuple(int(size) for size in match[1].split("x")))
    if text in _INTEGERS or text in ("f16", "bf16", "f32", "f64"):
        return Parameter(text)
    raise IRError(f"a kernel parameter of type {text[:60]} is not known")


def parse_signature(text: str) -> list[Parameter]:
    """Return the parameters of the public function in canonical Triton IR. Raises IRError."""
    match = _FUNCTION.search(text)
    if match is None:
        raise IRError("the IR has no public function")
    rest, parameters = match["rest"], []
    position = 0
    while found := _PARAMETER.match(rest, position):
        start = position = found.end()
        depth = 0
        while position < len(rest) and (depth or rest[position] not in ",) "):
            depth += {"<": 1, ">": -1}.get(rest[position], 0)
            position += 1
        parameters.append(parse_parameter(rest[start:position]))
        position = skip_annotations(rest, position)
    return parameters


def skip_annotations(text: str, position: int) -> int:
    """Return where the next parameter starts: behind attributes, location and comma, or at the closing bracket."""
    depth = 0
    while position < len(text):
        sign = text[position]
        if sign == '"':
            position = skip_quoted(text, position)
            continue
        if not depth and sign == ")":
            return position
        if not depth and sign == ",":
            return position + 2
        depth += {"{": 1, "(": 1, "<": 1, "}": -1, ")": -1, ">": -1}.get(sign, 0)
        position += 1
    return position


def skip_quoted(text: str, position: int) -> int:
    """Return the place behind a quoted text that starts at `position`. Raises IRError when it does not end."""
    match = _QUOTED.match(text, position)
    if match is None:
        raise IRError("a quoted text does not end")
    return match.end()


def pack(parameter: Parameter, value: Any) -> Any:
    """Return a scalar or an address as the driver takes it. Raises KernelFault."""
    try:
        if parameter.is_pointer:
            return ctypes.c_uint64(int(value) & 0xFFFFFFFFFFFFFFFF)
        if parameter.element in _INTEGERS:
            return _INTEGERS[parameter.element](int(value))
        if parameter.element == "f64":
            return ctypes.c_double(float(value))
        if parameter.element == "f32":
            return ctypes.c_float(float(value))
        if parameter.element == "f16":
            return ctypes.c_uint16(struct.unpack("<H", struct.pack("<e", float(value)))[0])
        if parameter.element == "bf16":
            return ctypes.c_uint16(round_to_bfloat16(float(value)))
    except (TypeError, ValueError, OverflowError) as error:
        raise KernelFault(f"an argument does not fit {parameter.element}") from error
    raise KernelFault(f"an argument of type {parameter.element} cannot be passed")


def round_to_bfloat16(value: float) -> int:
    """Return the bits of the nearest bfloat16, ties to even."""
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    if value != value:  # noqa: PLR0124 - NaN
        return 0x7FC0
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF
