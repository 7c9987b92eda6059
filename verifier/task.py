"""A task on disk: its specification, its loader, and the tensors that its dims stand for.

Reading a task imports neither torch nor the task's Python files; `verifier.modules` does that.
"""

from __future__ import annotations

import ast
import math
import operator
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

MINIMUM_INSTRUCTION_WORDS = 50
REQUIRED_FILES = ("task.toml", "instruction.md", "reference.py", "hidden.py", "certified.py")

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
DtypeName = Literal["float64", "float32", "float16", "int64", "int32", "bool"]
Expression = int | str
DTYPE_BYTES: dict[DtypeName, int] = {"float64": 8, "float32": 4, "float16": 2, "int64": 8, "int32": 4, "bool": 1}


class TaskError(ValueError):
    """A malformed task: which file, which key, and why."""

    def __init__(self, path: Path, key: str, reason: str) -> None:
        self.path, self.key, self.reason = path, key, reason
        super().__init__(f"{path}: {key}: {reason}" if key else f"{path}: {reason}")


_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


def evaluate_expression(expression: Expression, dims: Mapping[str, int]) -> int:
    """Return the integer that `expression` stands for, such as ``"4*N*D + 8*(N+1)"``.

    Only integers, names of `dims`, ``+ - * // **`` and parentheses are allowed. Raises ValueError.
    """

    def walk(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                return value
            case ast.Name(id=name):
                if name not in dims:
                    raise ValueError(f"unknown dim {name!r}; known: {', '.join(sorted(dims))}")
                return dims[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return int(_OPERATORS[type(op)](walk(left), walk(right)))
        raise ValueError(f"{expression!r} is not an integer expression over dims")

    if isinstance(expression, int):
        return expression
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{expression!r} is not an expression: {error.msg}") from error
    return walk(tree.body)


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TensorSpecification(Model):
    """One named tensor: dtype and a shape of expressions over dims."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")]
    dtype: DtypeName
    shape: list[Expression]
    description: str = ""

    def resolve_shape(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape for `dims`."""
        return tuple(evaluate_expression(size, dims) for size in self.shape)

    def measure(self, dims: Mapping[str, int]) -> int:
        """Return the bytes of the tensor for `dims`."""
        return math.prod(self.resolve_shape(dims)) * DTYPE_BYTES[self.dtype]


class ParameterSpecification(TensorSpecification):
    """One named parameter or buffer, or one of every repeated layer: `*` in the name stands for 0 to `count` - 1."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.([A-Za-z0-9_]+|\*))*$")]
    count: Expression = 1

    @model_validator(mode="after")
    def check_star(self) -> ParameterSpecification:
        if self.name.count("*") != (self.count != 1):
            raise ValueError("a name with one '*' goes with a count, and a count with such a name")
        return self

    def expand(self, dims: Mapping[str, int]) -> list[TensorSpecification]:
        """Return every tensor that it stands for at `dims`."""
        names = [self.name.replace("*", str(index)) for index in range(evaluate_expression(self.count, dims))]
        return [TensorSpecification(name=name, dtype=self.dtype, shape=self.shape) for name in names]


class Distribution(Model):
    """One way to draw inputs. Only visible ones are ever shown to an agent."""

    name: Slug
    visible: bool
    description: str


class Tolerance(Model):
    """How far the output may be from the float64 oracle, at every element.

    exact: equal values, NaN and infinities in the same places. Outputs of integers and truth values are always exact.
    allclose: |y - oracle| <= atol + rtol * |oracle| + rms * R, where R is the root mean square of the finite
    values of the oracle along its last dimension.
    """

    rule: Literal["exact", "allclose"]
    rtol: float = Field(0.0, ge=0)
    atol: float = Field(0.0, ge=0)
    rms: float = Field(0.0, ge=0)
    why: str = Field(min_length=10)

    @model_validator(mode="after")
    def check_rule(self) -> Tolerance:
        if self.rule == "exact" and (self.rtol or self.atol or self.rms):
            raise ValueError("rule 'exact' takes no rtol, atol or rms")
        if self.rule == "allclose" and not self.atol:
            raise ValueError("rule 'allclose' needs atol > 0: the oracle may be zero somewhere")
        return self


class Floor(Model):
    """Bytes that must move and operations that must be done, as expressions over dims; or why there is none."""

    bytes_read: Expression | None = None
    bytes_written: Expression | None = None
    operations: Expression | None = None
    pipe: Literal["fp32", "fp16", "int32"] = "fp32"
    note: str = ""
    none_because: str = ""

    @model_validator(mode="after")
    def check_complete(self) -> Floor:
        given = (self.bytes_read, self.bytes_written, self.operations)
        if self.none_because and any(value is not None for value in given):
            raise ValueError("a task with none_because has no formulas")
        if not self.none_because and any(value is None for value in given):
            raise ValueError("bytes_read, bytes_written and operations are all needed, or none_because")
        return self


class Structure(Model):
    """What gate 1 asks of this task."""

    minimum_own_share: float = Field(gt=0, le=1, description="own kernels' share of all operations in the graded call")
    # Below 1: whoever resubmits the reference beside an idle kernel takes nothing off the library.
    maximum_offload: float = Field(gt=0, lt=1, description="library operations over those of the eager reference")
    why: str = Field(min_length=10)


class Shortcut(Model):
    """A known way to cheat on this task, and what exposes it."""

    name: str
    exposed_by: str


class Dims(Model):
    timed: dict[str, int]
    small: dict[str, int]

    @model_validator(mode="after")
    def check_same_names(self) -> Dims:
        if set(self.timed) != set(self.small):
            raise ValueError("timed and small must name the same dims")
        if any(size < 1 for size in (*self.timed.values(), *self.small.values())):
            raise ValueError("every dim must be at least 1")
        return self


class TaskSpecification(Model):
    """The contents of task.toml."""

    schema_id: Literal["kernelquest.task/1"] = Field(alias="schema")
    id: Annotated[str, StringConstraints(pattern=r"^l[1-4]-\d{2}$")]
    slug: Slug
    title: str = Field(min_length=5, max_length=120)
    level: Literal["L1", "L2", "L3", "L4"]
    family: Slug
    dtype: Literal["fp32", "fp16"]
    timing_mode: Literal["cold", "warm"]
    spotlight: bool = False
    competency: str = Field(min_length=5)
    summary: str = Field(min_length=20)
    dims: Dims
    inputs: list[TensorSpecification] = Field(min_length=1)
    parameters: list[ParameterSpecification] = []
    outputs: list[TensorSpecification] = Field(min_length=1)
    distributions: list[Distribution] = Field(min_length=1, max_length=5)
    tolerance: Tolerance
    floor: Floor
    structure: Structure
    shortcuts: list[Shortcut] = []

    @model_validator(mode="after")
    def check_consistency(self) -> TaskSpecification:
        if self.id[:2] != self.level.lower():
            raise ValueError(f"id {self.id} does not belong to level {self.level}")
        if not self.distributions[0].visible:
            raise ValueError("the first distribution is the timed one and must be visible")
        for group in (self.inputs, self.outputs, self.parameters, self.distributions):
            names = [item.name for item in group]
            if len(names) != len(set(names)):
                raise ValueError(f"names repeat: {names}")
        for dims in (self.dims.timed, self.dims.small):
            for tensor in (*self.inputs, *self.parameters, *self.outputs):
                tensor.resolve_shape(dims)
            names = [tensor.name for tensor in self.list_state(dims)]
            if len(names) != len(set(names)):
                raise ValueError(f"names repeat: {sorted(names)}")
            for formula in (self.floor.bytes_read, self.floor.bytes_written, self.floor.operations):
                if formula is not None:
                    evaluate_expression(formula, dims)
        return self

    def list_state(self, dims: Mapping[str, int]) -> list[TensorSpecification]:
        """Return every parameter and buffer at `dims`."""
        return [tensor for parameter in self.parameters for tensor in parameter.expand(dims)]

    @property
    def visible_distributions(self) -> list[Distribution]:
        """The distributions that an agent may see."""
        return [item for item in self.distributions if item.visible]


class Task(Model):
    """A task and where it lies."""

    path: Path
    specification: TaskSpecification
    instruction: str

    @property
    def id(self) -> str:
        return self.specification.id

    @property
    def reference_source(self) -> str:
        """The text of reference.py, which everybody may read."""
        return (self.path / "reference.py").read_text(encoding="utf-8")


def find_tasks_root() -> Path:
    """Return the folder of tasks: `KQ_TASKS` when set, else the one beside the verifier."""
    configured = os.environ.get("KQ_TASKS")
    return Path(configured) if configured else Path(__file__).resolve().parent.parent / "tasks"


def _describe(error: ValidationError) -> tuple[str, str]:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return key, f"{first['msg']}{more}"


def parse_toml(path: Path) -> dict[str, Any]:
    """Return the table in the TOML file at `path`. Raises TaskError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise TaskError(path, "", "the file is missing") from error
    except UnicodeDecodeError as error:
        raise TaskError(path, "", f"the file is not UTF-8: {error.reason} at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise TaskError(path, "", f"not valid TOML: {error}") from error


def load_task_folder(folder: Path) -> Task:
    """Return the task in `folder`. Raises TaskError with file, key and reason."""
    for name in REQUIRED_FILES:
        if not (folder / name).is_file():
            raise TaskError(folder / name, "", "the file is missing")
    path = folder / "task.toml"
    try:
        specification = TaskSpecification.model_validate(parse_toml(path))
    except ValidationError as error:
        key, reason = _describe(error)
        raise TaskError(path, key, reason) from error
    if folder.name != specification.slug:
        raise TaskError(path, "slug", f"is {specification.slug!r} but the folder is {folder.name!r}")
    if folder.parent.name != specification.level.lower():
        raise TaskError(path, "level", f"is {specification.level} but the folder lies in {folder.parent.name}/")
    instruction = (folder / "instruction.md").read_text(encoding="utf-8")
    if len(instruction.split()) < MINIMUM_INSTRUCTION_WORDS:
        reason = f"has fewer than {MINIMUM_INSTRUCTION_WORDS} words; say the workload, shapes, contract and what is not allowed"
        raise TaskError(folder / "instruction.md", "", reason)
    return Task(path=folder, specification=specification, instruction=instruction)


def list_task_folders(root: Path | None = None) -> list[Path]:
    """Return every folder that holds a task.toml, by level and slug."""
    return sorted(path.parent for path in (root or find_tasks_root()).glob("l[1-4]/*/task.toml"))


def load_tasks(root: Path | None = None) -> list[Task]:
    """Return all tasks by id. Raises TaskError for a malformed or repeated one."""
    tasks: dict[str, Task] = {}
    for folder in list_task_folders(root):
        task = load_task_folder(folder)
        if task.id in tasks:
            raise TaskError(folder / "task.toml", "id", f"{task.id} is also the id of {tasks[task.id].path}")
        tasks[task.id] = task
    return [tasks[key] for key in sorted(tasks)]


def load_task(name: str, root: Path | None = None) -> Task:
    """Return the task whose id, slug or folder is `name`. Raises TaskError, or KeyError when there is none."""
    if os.sep in name and (Path(name) / "task.toml").is_file():
        return load_task_folder(Path(name).resolve())
    for folder in list_task_folders(root):
        if name in (folder.name, read_id(folder)):
            return load_task_folder(folder)
    raise KeyError(name)


def read_id(folder: Path) -> str:
    """Return the id that a task's file states, or an empty text when it cannot be read: another's fault is no fault here."""
    try:
        return str(parse_toml(folder / "task.toml").get("id", ""))
    except TaskError:
        return ""
