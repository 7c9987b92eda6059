"""An evaluator of Triton IR: each operation becomes one Python closure over a frame of values.

Programs of a launch run one after another, in order. Values are NumPy arrays in the types of the IR.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from verifier.device.faults import IRError, KernelFault, NotInterpretable
from verifier.interpreter import operators
from verifier.interpreter.ir import Block, Function, Operation, Region, Type, parse_module
from verifier.interpreter.memory import Memory
from verifier.interpreter.numbers import Array, convert, find_dtype, parse_constant, reinterpret

Frame = list[Any]
Step = Callable[[Frame], None]

MAXIMUM_CALL_DEPTH = 32
LAUNCH_SECONDS = 30.0


class OverBudget(Exception):
    """A launch did more steps than one verification may take."""


@dataclass
class Touched:
    """What one launch did: elements and arithmetic, and which elements it wrote, by storage."""

    operations: int = 0
    reads: set[int] = field(default_factory=set)
    writes: dict[int, list[tuple[str, Array]]] = field(default_factory=dict)


@dataclass
class Machine:
    """What the steps of one launch share."""

    memory: Memory
    touched: Touched = field(default_factory=Touched)
    program: tuple[int, int, int] = (0, 0, 0)
    grid: tuple[int, int, int] = (1, 1, 1)
    steps_left: int = 0
    deadline: float = 0.0

    def spend(self, steps: int) -> None:
        """Count steps. Raises OverBudget when none are left."""
        self.steps_left -= steps
        if self.steps_left < 0 or time.monotonic() > self.deadline:
            raise OverBudget("the kernel did not end within the interpreter's budget of steps and time")


class Return(Exception):
    """Leaves the function, with its values."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values


class Compiler:
    """Turns one function into closures."""

    def __init__(self, module: dict[str, Function], function: Function, machine: Machine, depth: int = 0) -> None:
        if depth > MAXIMUM_CALL_DEPTH:
            raise KernelFault("functions call each other too deeply")
        self.module, self.function, self.machine, self.depth = module, function, machine, depth
        self.slots: dict[str, int] = {}
        self.types: dict[str, Type] = {}
        self.define(function.arguments)
        self.run_region = self.compile_region(function.region)

    def slot(self, name: str) -> int:
        return self.slots.setdefault(name, len(self.slots))

    def define(self, arguments: list[tuple[str, Type]]) -> list[int]:
        self.types.update(dict(arguments))
        return [self.slot(name) for name, _ in arguments]

    def call(self, arguments: list[Any]) -> list[Any]:
        """Run the function once and return its values."""
        frame: Frame = [None] * (len(self.slots) + 1)
        frame[: len(arguments)] = arguments
        try:
            self.run_region(frame)
        except Return as result:
            return result.values
        return []

    def compile_region(self, region: Region) -> Callable[[Frame], list[Any]]:
        """Return a closure that runs a region and returns the values of its terminator."""
        if len(region.blocks) == 1:
            return self.compile_block(region.blocks[0])
        for block in region.blocks:
            self.define(block.arguments)
        compiled = {block.label: self.compile_jump(block, region) for block in region.blocks}
        first = region.blocks[0].label

        def run(frame: Frame) -> list[Any]:
            label: str | None = first
            while label is not None:
                label = compiled[label](frame)
            return []

        return run

    def compile_jump(self, block: Block, region: Region) -> Callable[[Frame], str | None]:
        """Return a closure that runs one block of several and names the next."""
        *body, last = block.operations
        steps = [self.compile_operation(operation) for operation in body]
        arguments = {target.label: [self.slot(name) for name, _ in target.arguments] for target in region.blocks}
        if not last.successors:
            finish = self.compile_terminator(last)

            def leave(frame: Frame) -> None:
                self.run_steps(steps, frame)
                raise Return(finish(frame))

            return leave
        condition = self.slot(last.operands[0]) if last.operands else None
        targets = [
            (label, [self.slot(value) for value in values], arguments[label]) for label, values in last.successors
        ]

        def jump(frame: Frame) -> str:
            self.run_steps(steps, frame)
            label, sources, slots = targets[0 if condition is None or frame[condition] else 1]
            for slot, value in zip(slots, [frame[source] for source in sources], strict=True):
                frame[slot] = value
            return label

        return jump

    def run_steps(self, steps: list[Step], frame: Frame) -> None:
        self.machine.spend(len(steps) + 1)
        for step in steps:
            step(frame)

    def compile_block(self, block: Block) -> Callable[[Frame], list[Any]]:
        self.define(block.arguments)
        *body, last = block.operations or [Operation("scf.yield", [], [], "", [], [])]
        if last.name not in TERMINATORS:
            body, last = block.operations, Operation("scf.yield", [], [], "", [], [])
        steps = [self.compile_operation(operation) for operation in body]
        finish = self.compile_terminator(last)
        returns = last.name == "tt.return"

        def run(frame: Frame) -> list[Any]:
            self.run_steps(steps, frame)
            values = finish(frame)
            if returns:
                raise Return(values)
            return values

        return run

    def compile_terminator(self, operation: Operation) -> Callable[[Frame], list[Any]]:
        slots = [self.slot(name) for name in operation.operands]
        if operation.name == "tt.assert":
            return lambda frame: []
        return lambda frame: [frame[slot] for slot in slots]

    def find_type(self, operation: Operation, index: int = 0) -> Type:
        """Return the type of a result, where its text states operands only."""
        if index < len(operation.result_types):
            return operation.result_types[index]
        return self.types[operation.operands[0]]

    def compile_operation(self, operation: Operation) -> Step:
        """Return the closure of one operation. Raises NotInterpretable or IRError."""
        operands = [self.slot(name) for name in operation.operands]
        for index, name in enumerate(operation.results):
            self.types[name] = self.result_type(operation, index)
        results = [self.slot(name) for name in operation.results]
        control = CONTROL.get(operation.name)
        if control is not None:
            return control(self, operation, operands, results)
        evaluate = self.build_evaluation(operation)
        if not results:
            return lambda frame: evaluate(*(frame[slot] for slot in operands))
        if len(results) > 1:

            def assign_many(frame: Frame) -> None:
                for slot, value in zip(results, evaluate(*(frame[source] for source in operands)), strict=True):
                    frame[slot] = value

            return assign_many
        (target,) = results

        def assign(frame: Frame) -> None:
            frame[target] = evaluate(*[frame[slot] for slot in operands])

        return assign

    def result_type(self, operation: Operation, index: int) -> Type:
        if operation.name == "arith.constant" and operation.attributes in ("true", "false"):
            return Type("i1")
        kind = self.find_type(operation, index)
        if operation.name in ("arith.cmpi", "arith.cmpf"):
            return Type("i1", kind.shape)
        if operation.name == "tt.load":
            pointer = operation.operand_types[0]
            return (
                Type("ptr", pointer.shape, pointer.pointee[8:-1])
                if pointer.pointee.startswith("!tt.ptr")
                else Type(pointer.pointee, pointer.shape)
            )
        if operation.name == "tt.addptr":
            return operation.operand_types[0]
        if operation.name in ("tt.get_program_id", "tt.get_num_programs"):
            return Type("i32")
        return kind

    def operand_type(self, operation: Operation, index: int) -> Type:
        return self.types[operation.operands[index]]

    def build_evaluation(self, operation: Operation) -> Callable[..., Any]:
        name, machine = operation.name, self.machine
        result = self.types[operation.results[0]] if operation.results else None
        if name == "arith.constant" and result is not None:
            constant = parse_constant(operation.attributes, result.element)
            value = np.broadcast_to(constant, result.shape)
            return lambda: value
        if name == "tt.extern_elementwise" and result is not None:
            return operators.build_external(operation, result, machine)
        if name in ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"):
            return operators.build_access(
                operation, [self.operand_type(operation, i) for i in range(len(operation.operands))], machine
            )
        if name in ("tt.bitcast", "arith.bitcast"):
            source, target = self.operand_type(operation, 0), operation.result_types[0]
            return lambda value: reinterpret(value, source.element, target.element)
        build = operators.BUILDERS.get(name)
        if build is not None:
            kinds = [self.operand_type(operation, index) for index in range(len(operation.operands))]
            return build(operation, kinds, result, machine)
        raise NotInterpretable(f"operation {name}")


TERMINATORS = {
    "scf.yield",
    "scf.condition",
    "tt.return",
    "tt.reduce.return",
    "tt.scan.return",
    "tt.elementwise_inline_asm.return",
}


def compile_for(compiler: Compiler, operation: Operation, operands: list[int], results: list[int]) -> Step:
    block = operation.regions[0].blocks[0]
    induction, *carried = compiler.define(block.arguments)
    body = compiler.compile_region(operation.regions[0])
    lower, upper, step, *initial = operands
    kind = find_dtype(block.arguments[0][1].element)

    def run(frame: Frame) -> None:
        values = [frame[slot] for slot in initial]
        stride = int(frame[step])
        if stride <= 0:
            raise KernelFault("a loop's step must be positive")
        for index in range(int(frame[lower]), int(frame[upper]), stride):
            frame[induction] = kind(index)
            for slot, value in zip(carried, values, strict=True):
                frame[slot] = value
            values = body(frame)
        for slot, value in zip(results, values, strict=True):
            frame[slot] = value

    return run


def compile_if(compiler: Compiler, operation: Operation, operands: list[int], results: list[int]) -> Step:
    branches = [compiler.compile_region(region) for region in operation.regions]

    def run(frame: Frame) -> None:
        values: list[Any] = []
        if frame[operands[0]]:
            values = branches[0](frame)
        elif len(branches) > 1:
            values = branches[1](frame)
        for slot, value in zip(results, values, strict=bool(results)):
            frame[slot] = value

    return run


def compile_while(compiler: Compiler, operation: Operation, operands: list[int], results: list[int]) -> Step:
    before, after = operation.regions
    before_slots = compiler.define(before.blocks[0].arguments)
    after_slots = compiler.define(after.blocks[0].arguments)
    run_before, run_after = compiler.compile_region(before), compiler.compile_region(after)

    def run(frame: Frame) -> None:
        values = [frame[slot] for slot in operands]
        while True:
            for slot, value in zip(before_slots, values, strict=True):
                frame[slot] = value
            condition, *values = run_before(frame)
            if not condition:
                break
            for slot, value in zip(after_slots, values, strict=True):
                frame[slot] = value
            values = run_after(frame)
        for slot, value in zip(results, values, strict=True):
            frame[slot] = value

    return run


def find_attribute(text: str, key: str, default: str = "") -> str:
    """Return the text of one attribute: ``axis`` in ``<{axis = 1 : i32, reverse = false}>``."""
    match = re.search(rf"\b{key} = ([^:,}}>]+)", text)
    return match[1].strip() if match else default


def build_combiner(
    compiler: Compiler, operation: Operation
) -> Callable[[Frame, list[Array], list[Array]], list[Array]]:
    """Return the combine function of a reduce or scan over whole arrays."""
    slots = compiler.define(operation.regions[0].blocks[0].arguments)
    body = compiler.compile_region(operation.regions[0])
    machine = compiler.machine

    def combine(frame: Frame, left: list[Array], right: list[Array]) -> list[Array]:
        for slot, value in zip(slots, [*left, *right], strict=True):
            frame[slot] = value
        machine.touched.operations += int(left[0].size)
        return body(frame)

    return combine


def compile_reduce(compiler: Compiler, operation: Operation, operands: list[int], results: list[int]) -> Step:
    axis = int(find_attribute(operation.attributes, "axis"))
    combine = build_combiner(compiler, operation)

    def run(frame: Frame) -> None:
        values = [np.moveaxis(frame[slot], axis, 0) for slot in operands]
        while values[0].shape[0] > 1:
            half = values[0].shape[0] // 2
            values = combine(frame, [value[:half] for value in values], [value[half:] for value in values])
        for slot, value in zip(results, values, strict=True):
            frame[slot] = value[0]

    return run


def compile_scan(compiler: Compiler, operation: Operation, operands: list[int], results: list[int]) -> Step:
    axis = int(find_attribute(operation.attributes, "axis"))
    backwards = find_attribute(operation.attributes, "reverse", "false") == "true"
    combine = build_combiner(compiler, operation)

    def run(frame: Frame) -> None:
        values = [np.moveaxis(frame[slot], axis, 0) for slot in operands]
        if backwards:
            values = [value[::-1] for value in values]
        distance = 1
        while distance < values[0].shape[0]:
            combined = combine(frame, [value[:-distance] for value in values], [value[distance:] for value in values])
            values = [np.concatenate([value[:distance], part]) for value, part in zip(values, combined, strict=True)]
            distance *= 2
        for slot, value in zip(results, values, strict=True):
            frame[slot] = np.moveaxis(value[::-1] if backwards else value, 0, axis)

    return run


def compile_call(compiler: Compiler, operation: Operation, operands: list[int], results: list[int]) -> Step:
    match = re.match(r"^@(\"[^\"]+\"|[\w$.]+)", operation.attributes)
    function = compiler.module.get(match[1].strip('"')) if match else None
    if function is None:
        raise IRError(f"call of an unknown function: {operation.attributes[:100]}")
    callee = Compiler(compiler.module, function, compiler.machine, compiler.depth + 1)

    def run(frame: Frame) -> None:
        for slot, value in zip(results, callee.call([frame[slot] for slot in operands]), strict=True):
            frame[slot] = value

    return run


def compile_nothing(compiler: Compiler, operation: Operation, operands: list[int], results: list[int]) -> Step:
    return lambda frame: None


CONTROL: dict[str, Callable[[Compiler, Operation, list[int], list[int]], Step]] = {
    "scf.for": compile_for,
    "scf.if": compile_if,
    "scf.while": compile_while,
    "tt.reduce": compile_reduce,
    "tt.scan": compile_scan,
    "tt.call": compile_call,
    "tt.print": compile_nothing,
    "tt.assert": compile_nothing,
    "gpu.barrier": compile_nothing,
    "tt.debug_barrier": compile_nothing,
}


def pack(value: Any, element: str) -> Any:
    """Return an argument as the type that a kernel takes. Raises KernelFault for what is no number."""
    if not isinstance(value, int | float):
        raise KernelFault(f"a value of type {type(value).__name__} cannot be passed to a kernel")
    try:
        return convert(np.asarray(value), element)
    except (OverflowError, TypeError, ValueError) as error:
        raise KernelFault(f"{value} does not fit a parameter of type {element}") from error


class Kernel:
    """One compiled kernel, ready to run over a grid."""

    def __init__(self, text: str, memory: Memory) -> None:
        """Read the IR in `text`. Raises IRError, KernelFault or NotInterpretable."""
        module = parse_module(text)
        function = next(function for function in module.values() if function.public)
        self.arguments = [kind for _, kind in function.arguments]
        self.machine = Machine(memory)
        self.compiled = Compiler(module, function, self.machine)

    def run(self, grid: tuple[int, int, int], arguments: list[int | float | bool], step_budget: int) -> Touched:
        """Run every program of `grid` and return what was touched.

        `arguments` are the scalars and addresses of the function's parameters, in order. Raises
        IllegalAccess, OverBudget, KernelFault or NotInterpretable.
        """
        if len(arguments) != len(self.arguments):
            raise KernelFault(f"the kernel takes {len(self.arguments)} arguments, not {len(arguments)}")
        values = [pack(value, kind.element) for value, kind in zip(arguments, self.arguments, strict=True)]
        machine = self.machine
        machine.touched, machine.grid, machine.steps_left = Touched(), grid, step_budget
        machine.deadline = time.monotonic() + LAUNCH_SECONDS
        with np.errstate(all="ignore"):
            for z, y, x in np.ndindex(grid[::-1]):
                machine.program = (x, y, z)
                self.compiled.call(list(values))
        return machine.touched
