"""Builders of the plain operations of Triton IR: arithmetic, shapes, memory, matrix products."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from verifier.device.faults import NotInterpretable
from verifier.interpreter.integers import multiply_high
from verifier.interpreter.ir import Operation, Type
from verifier.interpreter.libdevice import find_model
from verifier.interpreter.numbers import (
    FLOATS,
    STORED_DTYPES,
    UNSIGNED,
    Array,
    as_unsigned,
    convert,
    decode,
    encode,
    find_size,
    round_to_tf32,
)

if TYPE_CHECKING:
    from verifier.interpreter.kernels import Machine

Evaluation = Callable[..., Any]
Builder = Callable[[Operation, list[Type], Type | None, "Machine"], Evaluation]


def count(machine: Machine, result: Type | None) -> int:
    """Return the arithmetic operations of an elementwise float operation."""
    return math.prod(result.shape) if result is not None and result.element in FLOATS else 0


def elementwise(function: Callable[..., Any]) -> Builder:
    """Build an operation that NumPy computes in the type of its result."""

    def build(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
        assert result is not None
        element, work = result.element, count(machine, result)

        def evaluate(*values: Array) -> Array:
            machine.touched.operations += work
            return convert(function(*values), element)

        return evaluate

    return build


def boolean_or(logical: Callable[..., Any], bitwise: Callable[..., Any]) -> Callable[..., Any]:
    return lambda left, right: logical(left, right) if left.dtype == np.bool_ else bitwise(left, right)


def divide_signed(left: Array, right: Array) -> Array:
    """Divide integers and round towards zero, as the hardware does."""
    return (left - np.fmod(left, right)) // right


def unsigned(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda left, right: function(as_unsigned(left), as_unsigned(right)).view(left.dtype)


_COMPARE_INTEGERS = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le, "sgt": operator.gt, "sge": operator.ge,
}  # fmt: skip
_COMPARE_FLOATS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def build_compare_integers(
    operation: Operation, kinds: list[Type], result: Type | None, machine: Machine
) -> Evaluation:
    predicate = operation.attributes.split(",")[0].strip()
    if predicate in _COMPARE_INTEGERS:
        return _COMPARE_INTEGERS[predicate]
    compare = _COMPARE_INTEGERS["s" + predicate[1:]]
    return lambda left, right: compare(as_unsigned(left), as_unsigned(right))


def build_compare_floats(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    predicate = operation.attributes.split(",")[0].strip()
    if predicate in ("ord", "uno"):
        wanted = predicate == "uno"
        return lambda left, right: (np.isnan(left) | np.isnan(right)) == wanted
    compare = _COMPARE_FLOATS[predicate[1:]]
    if predicate[0] == "u":
        return lambda left, right: compare(left, right) | np.isnan(left) | np.isnan(right)
    return lambda left, right: compare(left, right) & ~(np.isnan(left) | np.isnan(right))


def build_extension(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    """Widen or convert an integer that is read as unsigned."""
    assert result is not None
    element = result.element
    return lambda value: convert(as_unsigned(value), element)


def build_sign_extension(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    assert result is not None
    element = result.element
    return lambda value: -convert(value, element) if value.dtype == np.bool_ else convert(value, element)


def build_truncation(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    assert result is not None
    if result.element == "i1":
        return lambda value: (value & 1).astype(np.bool_)
    element = result.element
    return lambda value: convert(value, element)


def build_float_to_integer(
    operation: Operation, kinds: list[Type], result: Type | None, machine: Machine
) -> Evaluation:
    """Convert with saturation, as cvt.rzi does; NaN becomes 0."""
    assert result is not None
    kind: np.dtype[Any] = np.dtype(STORED_DTYPES[result.element])
    limits = np.iinfo(kind if operation.name == "arith.fptosi" else UNSIGNED[kind.itemsize])

    def evaluate(value: Array) -> Array:
        wide = np.nan_to_num(np.trunc(np.asarray(value, np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
        inside = np.clip(wide, float(limits.min), float(limits.max))
        whole = np.where(
            inside >= float(limits.max), limits.max, np.where(inside <= float(limits.min), limits.min, inside)
        )
        return whole.astype(limits.dtype).view(kind)

    return evaluate


def build_program_id(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    axis = "xyz".index(operation.attributes.strip()[-1])
    if operation.name == "tt.get_program_id":
        return lambda: np.int32(machine.program[axis])
    return lambda: np.int32(machine.grid[axis])


def build_range(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    bounds = {key: int(value) for key, value in re.findall(r"(start|end) = (-?\d+)", operation.attributes)}
    values = np.arange(bounds["start"], bounds["end"], dtype=np.int32)
    return lambda: values


def build_splat(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    assert result is not None
    shape = result.shape
    return lambda value: np.broadcast_to(np.reshape(value, (1,) * len(shape)), shape)


def build_broadcast(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    assert result is not None
    shape = result.shape
    return lambda value: np.broadcast_to(value, shape)


def build_reshape(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    assert result is not None
    shape = result.shape
    return lambda value: np.reshape(value, shape)


def build_transpose(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    match = re.search(r"order = array<i32: ([\d, ]+)>", operation.attributes)
    order = tuple(int(part) for part in match[1].split(",")) if match else (1, 0)
    return lambda value: np.transpose(value, order)


def build_add_pointer(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    size = np.int64(find_size(kinds[0].pointee))
    return lambda pointer, offset: pointer + offset.astype(np.int64) * size


def build_dot(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    """Matrix product with the accumulator's type; TF32 operands are rounded as the tensor cores do."""
    assert result is not None
    left_kind, right_kind = kinds[0].element, kinds[1].element
    tf32 = left_kind == "f32" and re.search(r"inputPrecision = tf32(?!x3)", operation.attributes) is not None
    wide = {"f64": np.float64}.get(result.element, np.float32) if result.element in FLOATS else np.int32
    element = result.element
    work = 2 * math.prod(result.shape) * kinds[0].shape[-1]
    if not {left_kind, right_kind} <= {*FLOATS, "i8"}:
        raise NotInterpretable(f"a matrix product of {left_kind} and {right_kind}")

    def evaluate(left: Array, right: Array, accumulator: Array) -> Array:
        machine.touched.operations += work
        left, right = left.astype(wide), right.astype(wide)
        if tf32:
            left, right = round_to_tf32(left), round_to_tf32(right)
        return convert(left @ right + accumulator, element)

    return evaluate


def build_external(operation: Operation, result: Type, machine: Machine) -> Evaluation:
    match = re.search(r'symbol = "(\w+)"', operation.attributes)
    if not match:
        raise NotInterpretable("an external function without a symbol")
    model, element, work = find_model(match[1]), result.element, count(machine, result)

    def evaluate(*values: Array) -> Array:
        machine.touched.operations += work
        return convert(model(*values), element)

    return evaluate


def build_histogram(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    assert result is not None
    bins, element = result.shape[0], result.element
    return lambda value: convert(np.bincount(value[(value >= 0) & (value < bins)], minlength=bins), element)


def build_gather(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    match = re.search(r"axis = (\d+)", operation.attributes)
    axis = int(match[1]) if match else 0
    return lambda value, indices: np.take_along_axis(value, indices.astype(np.int64), axis)


def split_last(value: Array) -> tuple[Array, Array]:
    return value[..., 0], value[..., 1]


def pass_through(operation: Operation, kinds: list[Type], result: Type | None, machine: Machine) -> Evaluation:
    return lambda value: value


def simple(function: Callable[..., Any]) -> Builder:
    """Build an operation that keeps its operands' types."""
    return lambda operation, kinds, result, machine: function


def clamp(value: Array, low: Array, high: Array) -> Array:
    return np.fmin(np.fmax(value, low), high)


def erf(value: Array) -> Array:
    return find_model("__nv_erff")(value)


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.remf": np.fmod, "arith.negf": np.negative, "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum, "arith.minimumf": np.minimum, "arith.addi": boolean_or(np.logical_xor, np.add),
    "arith.subi": boolean_or(np.logical_xor, np.subtract), "arith.muli": boolean_or(np.logical_and, np.multiply),
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.divsi": divide_signed, "arith.remsi": np.fmod, "arith.divui": unsigned(np.floor_divide),
    "arith.remui": unsigned(np.remainder), "arith.shli": np.left_shift, "arith.shrsi": np.right_shift,
    "arith.shrui": unsigned(np.right_shift), "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.maxui": unsigned(np.maximum), "arith.minui": unsigned(np.minimum), "arith.sitofp": np.asarray,
    "arith.truncf": np.asarray, "arith.extf": np.asarray, "tt.fp_to_fp": np.asarray, "math.exp": np.exp,
    "math.exp2": np.exp2, "math.log": np.log, "math.log2": np.log2, "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1.0 / np.sqrt(x), "math.sin": np.sin, "math.cos": np.cos, "math.tanh": np.tanh,
    "math.erf": erf, "math.floor": np.floor, "math.ceil": np.ceil, "math.absf": np.abs, "math.absi": np.abs,
    "math.fma": lambda x, y, z: x.astype(np.float64) * y + z, "math.round": np.rint, "math.trunc": np.trunc,
    "math.copysign": np.copysign, "math.powf": np.power, "math.log1p": np.log1p, "math.expm1": np.expm1,
    "tt.precise_sqrt": np.sqrt, "tt.precise_divf": np.divide, "tt.clampf": clamp, "tt.mulhiui": unsigned(multiply_high),
    "arith.ceildivsi": lambda x, y: -(-x // y), "arith.floordivsi": np.floor_divide,
}  # fmt: skip

BUILDERS: dict[str, Builder] = {
    **{name: elementwise(function) for name, function in _ARITHMETIC.items()},
    "arith.cmpi": build_compare_integers,
    "arith.cmpf": build_compare_floats,
    "arith.select": simple(np.where),
    "arith.extui": build_extension,
    "arith.uitofp": build_extension,
    "arith.extsi": build_sign_extension,
    "arith.trunci": build_truncation,
    "arith.index_cast": build_truncation,
    "arith.fptosi": build_float_to_integer,
    "arith.fptoui": build_float_to_integer,
    "tt.get_program_id": build_program_id,
    "tt.get_num_programs": build_program_id,
    "tt.make_range": build_range,
    "tt.splat": build_splat,
    "tt.broadcast": build_broadcast,
    "tt.expand_dims": build_reshape,
    "tt.reshape": build_reshape,
    "tt.trans": build_transpose,
    "tt.addptr": build_add_pointer,
    "tt.ptr_to_int": pass_through,
    "tt.int_to_ptr": pass_through,
    "tt.dot": build_dot,
    "tt.histogram": build_histogram,
    "tt.gather": build_gather,
    "tt.join": simple(lambda left, right: np.stack([left, right], axis=-1)),
    "tt.split": simple(split_last),
    "tt.cat": simple(lambda left, right: np.concatenate([left, right])),
}


def build_access(operation: Operation, kinds: list[Type], machine: Machine) -> Evaluation:
    """Build a load, store or atomic. Raises NotInterpretable for a type without a stored form."""
    element = kinds[0].pointee
    element = "ptr" if element.startswith("!tt.ptr") else element
    find_size(element)
    match operation.name:
        case "tt.load":
            return Load(machine, element)
        case "tt.store":
            return Store(machine, element)
        case "tt.atomic_cas":
            return CompareAndSwap(machine, element)
    return Update(machine, element, operation.attributes.split(",")[0].strip())


class Access:
    """Finds the stored elements behind pointers and a mask."""

    action = "access"

    def __init__(self, machine: Machine, element: str) -> None:
        self.machine, self.element = machine, element
        self.stored: np.dtype[Any] = np.dtype(STORED_DTYPES[element])

    def groups(self, pointers: Array, mask: Array | None) -> list[tuple[int, Array, Array, Array]]:
        """Return (base, stored elements, positions in the flat pointers, element indices) by storage."""
        flat = np.ravel(pointers)
        chosen = None if mask is None else np.nonzero(np.ravel(np.broadcast_to(mask, np.shape(pointers))))[0]
        addresses = flat if chosen is None else flat[chosen]
        if addresses.size == 0:
            return []
        self.machine.touched.operations += int(addresses.size)
        found = []
        for base, positions, indices in self.machine.memory.locate(addresses, self.stored.itemsize, self.action):
            memory = self.machine.memory.flat(base)
            whole = memory[: memory.nbytes // self.stored.itemsize * self.stored.itemsize].view(self.stored)
            found.append((base, whole, positions if chosen is None else chosen[positions], indices))
        return found

    def mark_written(self, base: int, indices: Array) -> None:
        self.machine.touched.writes.setdefault(base, []).append((self.element, indices))


class Load(Access):
    action = "read"

    def __call__(self, pointers: Array, mask: Array | None = None, other: Array | None = None) -> Array:
        shape = np.shape(pointers)
        stored = np.zeros(math.prod(shape), self.stored)
        if other is not None:
            stored[:] = np.ravel(np.broadcast_to(encode(np.asarray(other), self.element), shape))
        for base, memory, positions, indices in self.groups(pointers, mask):
            stored[positions] = memory[indices]
            self.machine.touched.reads.add(base)
        return decode(stored.reshape(shape), self.element)


class Store(Access):
    action = "write"

    def __call__(self, pointers: Array, value: Array, mask: Array | None = None) -> None:
        values = np.ravel(np.broadcast_to(encode(np.asarray(value), self.element), np.shape(pointers)))
        for base, memory, positions, indices in self.groups(pointers, mask):
            memory[indices] = values[positions]
            self.mark_written(base, indices)


_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "fadd": operator.add, "add": operator.add, "max": max, "min": min, "umax": max, "umin": min,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "exch": lambda old, new: new,
}  # fmt: skip


class Update(Access):
    """An atomic read-modify-write, one element after another."""

    action = "atomic update"

    def __init__(self, machine: Machine, element: str, kind: str) -> None:
        super().__init__(machine, element)
        if kind not in _UPDATES:
            raise NotInterpretable(f"atomic {kind}")
        self.function = _UPDATES[kind]
        if kind in ("umax", "umin"):
            self.stored = np.dtype(UNSIGNED[self.stored.itemsize])

    def __call__(self, pointers: Array, value: Array, mask: Array | None = None) -> Array:
        shape = np.shape(pointers)
        old = np.zeros(math.prod(shape), self.stored)
        values = np.ravel(np.broadcast_to(encode(np.asarray(value), self.element), shape)).view(self.stored)
        for base, memory, positions, indices in self.groups(pointers, mask):
            for position, index in zip(positions, indices, strict=True):
                old[position] = memory[index]
                memory[index] = self.combine(memory[index], values[position])
            self.machine.touched.reads.add(base)
            self.mark_written(base, indices)
        return decode(old.reshape(shape).view(STORED_DTYPES[self.element]), self.element)

    def combine(self, old: Any, new: Any) -> Any:
        if self.element == "bf16":
            left, right = (decode(np.asarray([value]), "bf16")[0] for value in (old, new))
            return encode(convert(np.asarray([self.function(left, right)]), "bf16"), "bf16")[0]
        return self.function(old, new)


class CompareAndSwap(Access):
    action = "atomic swap"

    def __call__(self, pointers: Array, expected: Array, value: Array) -> Array:
        shape = np.shape(pointers)
        old = np.zeros(math.prod(shape), self.stored)
        wanted, values = (
            np.ravel(np.broadcast_to(encode(np.asarray(item), self.element), shape)) for item in (expected, value)
        )
        for base, memory, positions, indices in self.groups(pointers, None):
            for position, index in zip(positions, indices, strict=True):
                old[position] = memory[index]
                if old[position] == wanted[position]:
                    memory[index] = values[position]
            self.machine.touched.reads.add(base)
            self.mark_written(base, indices)
        return decode(old.reshape(shape), self.element)
