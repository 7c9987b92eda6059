"""A reader of the textual Triton IR (`ttir`) that Triton 3.1 prints after its own IR passes.

Text in, plain data out. The text may come from a hostile process: it is only ever read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from verifier.device.faults import IRError

MAXIMUM_LINES = 200_000
MAXIMUM_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Type:
    """A scalar or a tensor: shape () for a scalar; `pointee` is the element type behind a pointer."""

    element: str
    shape: tuple[int, ...] = ()
    pointee: str = ""

    @property
    def is_pointer(self) -> bool:
        return bool(self.pointee)


@dataclass
class Operation:
    """One operation: names of results and operands, the attribute text, types, and nested regions."""

    name: str
    results: list[str]
    operands: list[str]
    attributes: str
    operand_types: list[Type]
    result_types: list[Type]
    regions: list[Region] = field(default_factory=list)
    successors: list[tuple[str, list[str]]] = field(default_factory=list)
    line: int = 0


@dataclass
class Block:
    label: str
    arguments: list[tuple[str, Type]]
    operations: list[Operation] = field(default_factory=list)


@dataclass
class Region:
    blocks: list[Block]


@dataclass
class Function:
    name: str
    public: bool
    arguments: list[tuple[str, Type]]
    region: Region


_VALUE = re.compile(r"%[A-Za-z0-9_$.\-]+(?:#\d+)?")
_RESULTS = re.compile(r"^((?:%[\w$.\-]+(?::\d+)?(?:,\s*)?)+)\s*=\s*(.*)$")
_FUNCTION = re.compile(
    r"^tt\.func (public|private) @(\"[^\"]+\"|[\w$.]+)\((.*)\)(?:\s*->\s*.*?)?\s*(?:attributes \{[^{}]*\}\s*)?\{$"
)
_FOR = re.compile(
    r"^scf\.for (%\S+) = (%\S+) to (%\S+) step (%\S+)\s*(?:iter_args\((.*?)\) -> \((.*)\))?\s*(?::\s*(\w+))?\s*(?:attributes\s*)?\{$"
)
_POINTER = re.compile(r"^!tt\.ptr<(.+?)(?:, \d+)?>$")


def parse_type(text: str) -> Type:
    """Return the type that `text` spells, such as ``tensor<16x!tt.ptr<f32>>``. Raises IRError."""
    text = text.strip()
    shape: list[int] = []
    if text.startswith("tensor<") and text.endswith(">"):
        text = text[len("tensor<") : -1]
        while match := re.match(r"(\d+)x", text):
            shape.append(int(match[1]))
            text = text[match.end() :]
        text = text.split(", #")[0]
    elements = 1
    for size in shape:
        elements *= size
    if elements > MAXIMUM_ELEMENTS:
        raise IRError(f"a tensor of {elements} elements is larger than Triton allows")
    if match := _POINTER.match(text):
        return Type("ptr", tuple(shape), match[1])
    if not re.fullmatch(r"[A-Za-z]\w*", text):
        raise IRError(f"type {text!r} is not known")
    return Type(text, tuple(shape))


def split_types(text: str) -> list[str]:
    """Split a comma-separated list of types at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character in "<(":
            depth += 1
        elif character in ">)" and text[index - 1 : index] != "-":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def parse_types(text: str) -> list[Type]:
    """Return the types in a list that may be wrapped in parentheses."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return [parse_type(part) for part in split_types(text)]


def find_closing(line: str, position: int) -> int:
    """Return the position after the parenthesis that closes the one before `position`."""
    depth, quoted = 1, False
    while position < len(line) and depth:
        character = line[position]
        if character == '"' and line[position - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += {"(": 1, ")": -1}.get(character, 0)
        position += 1
    return position


class Lines:
    """The module's lines with locations and comments removed."""

    def __init__(self, text: str) -> None:
        raw = text.splitlines()
        if len(raw) > MAXIMUM_LINES:
            raise IRError(f"more than {MAXIMUM_LINES} lines")
        self.lines = [(number, self.clean(line)) for number, line in enumerate(raw, 1)]
        self.lines = [(number, line) for number, line in self.lines if line and not line.startswith("#")]
        self.position = 0

    @staticmethod
    def clean(line: str) -> str:
        """Return a line without locations and comments; what stands in quotes is left alone."""
        kept, position, quoted = [], 0, False
        while position < len(line):
            character = line[position]
            if character == '"' and (not quoted or line[position - 1] != "\\"):
                quoted = not quoted
            if not quoted and line.startswith("//", position):
                break
            if not quoted and line.startswith(" loc(", position):
                position = find_closing(line, position + len(" loc("))
                continue
            kept.append(character)
            position += 1
        return "".join(kept).strip()

    def peek(self) -> str:
        if self.position >= len(self.lines):
            raise IRError("the text ends inside a region")
        return self.lines[self.position][1]

    def next(self) -> tuple[int, str]:
        line = self.peek()
        number = self.lines[self.position][0]
        self.position += 1
        return number, line

    def __bool__(self) -> bool:
        return self.position < len(self.lines)


def expand_results(text: str) -> list[str]:
    """Return the names that a result list defines: ``%29:2`` defines ``%29#0`` and ``%29#1``."""
    names = []
    for part in (piece.strip() for piece in text.split(",")):
        name, _, count = part.partition(":")
        names += [f"{name}#{index}" for index in range(int(count))] if count else [name]
    return names


def parse_arguments(text: str) -> list[tuple[str, Type]]:
    """Return names and types of ``%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32}, ...``."""
    text = re.sub(r"\{[^{}]*\}", "", text)
    pairs = (part.split(":", 1) for part in split_types(text))
    return [(name.strip(), parse_type(kind)) for name, kind in pairs]


def parse_region(lines: Lines, arguments: list[tuple[str, Type]]) -> Region:
    """Read blocks until the closing brace, which is left for the caller."""
    blocks = [Block("^entry", arguments)]
    while not lines.peek().startswith("}"):
        if match := re.match(r"^(\^\w+)(?:\((.*)\))?:$", lines.peek()):
            lines.next()
            block = Block(match[1], parse_arguments(match[2] or ""))
            if len(blocks) == 1 and not blocks[0].operations:
                blocks[0] = block
            else:
                blocks.append(block)
            continue
        blocks[-1].operations.append(parse_operation(lines))
    return Region(blocks)


def split_signature(text: str) -> tuple[str, str]:
    """Split ``head : types`` at the last colon outside brackets, braces and strings."""
    depth, quoted, cut = 0, False, -1
    for index, character in enumerate(text):
        if character == '"' and text[index - 1 : index] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in "<({[":
            depth += 1
        elif character in ">)}]" and text[index - 1 : index] != "-":
            depth -= 1
        elif character == ":" and depth == 0 and text[index - 1 : index] == " ":
            cut = index
    return (text[:cut].strip(), text[cut + 1 :].strip()) if cut >= 0 else (text.strip(), "")


def parse_signature(text: str) -> tuple[list[Type], list[Type]]:
    """Return operand and result types of ``a, b -> c``, ``a to b``, ``a * b -> c`` or ``a``."""
    if not text:
        return [], []
    for arrow in (" -> ", " to "):
        before, found, after = text.rpartition(arrow)
        if found and not before.endswith("<"):
            return parse_types(before.replace(" * ", ", ")), parse_types(after) if after != "()" else []
    types = parse_types(text)
    return types, types[-1:]


def parse_operation(lines: Lines) -> Operation:
    """Read one operation with its regions. Raises IRError."""
    number, line = lines.next()
    results: list[str] = []
    if match := _RESULTS.match(line):
        results, line = expand_results(match[1]), match[2]
    if line.startswith("scf.for"):
        operation = parse_for(lines, line)
    elif line.startswith("scf.if"):
        operation = parse_if(lines, line)
    elif line.startswith("scf.while"):
        operation = parse_while(lines, line)
    elif line.startswith('"'):
        operation = parse_generic(lines, line)
    elif line.startswith("cf."):
        operation = parse_branch(line)
    else:
        operation = parse_plain(line)
    operation.results, operation.line = results, number
    return operation


def parse_plain(line: str) -> Operation:
    head, signature = split_signature(line)
    name, rest = re.match(r"^([\w.]*)(.*)$", head).groups()  # type: ignore[union-attr]
    outside = re.sub(r"\{[^{}]*\}|\"(?:[^\"\\]|\\.)*\"", "", rest)
    operand_types, result_types = parse_signature(signature) if name != "tt.return" else ([], [])
    return Operation(name, [], _VALUE.findall(outside), rest.strip(), operand_types, result_types)


def parse_for(lines: Lines, line: str) -> Operation:
    match = _FOR.match(line)
    if not match:
        raise IRError(f"loop not understood: {line[:200]}")
    induction, lower, upper, step, carried, types, kind = match.groups()
    pairs = [part.split(" = ") for part in split_types(carried)] if carried else []
    result_types = [parse_type(part) for part in split_types(types)] if types else []
    arguments = [(induction, parse_type(kind or "index"))]
    arguments += [(name.strip(), result) for (name, _), result in zip(pairs, result_types, strict=True)]
    region = parse_region(lines, arguments)
    lines.next()
    return Operation(
        "scf.for", [], [lower, upper, step, *(value.strip() for _, value in pairs)], "", [], result_types, [region]
    )


def parse_if(lines: Lines, line: str) -> Operation:
    match = re.match(r"^scf\.if (%\S+)\s*(?:-> \((.*)\))?\s*\{$", line)
    if not match:
        raise IRError(f"condition not understood: {line[:200]}")
    result_types = [parse_type(part) for part in split_types(match[2])] if match[2] else []
    regions = [parse_region(lines, [])]
    _, closing = lines.next()
    if closing.startswith("} else {"):
        regions.append(parse_region(lines, []))
        lines.next()
    return Operation("scf.if", [], [match[1]], "", [], result_types, regions)


def parse_while(lines: Lines, line: str) -> Operation:
    match = re.match(r"^scf\.while(?: \((.*?)\))? : \((.*)\) -> (.*) \{$", line)
    if not match:
        raise IRError(f"while loop not understood: {line[:200]}")
    pairs = [part.split(" = ") for part in split_types(match[1])] if match[1] else []
    types = [parse_type(part) for part in split_types(match[2])]
    arguments = [(name.strip(), kind) for (name, _), kind in zip(pairs, types, strict=True)]
    before = parse_region(lines, arguments)
    lines.next()
    after = parse_region(lines, [])
    lines.next()
    result_types = [] if match[3] == "()" else parse_types(match[3])
    return Operation("scf.while", [], [value.strip() for _, value in pairs], "", types, result_types, [before, after])


def parse_generic(lines: Lines, line: str) -> Operation:
    match = re.match(r'^"([\w.]+)"\((.*?)\)\s*(<\{.*\}>)?\s*(.*)$', line)
    if not match:
        raise IRError(f"operation not understood: {line[:200]}")
    regions = []
    rest = match[4]
    while rest.endswith("({") or (rest.endswith("{") and rest.startswith("}")):
        regions.append(parse_region(lines, []))
        _, rest = lines.next()
    _, _, signature = rest.partition(" : ") if rest.startswith("}") else ("", "", rest.lstrip(": "))
    operand_types, result_types = parse_signature(signature)
    return Operation(match[1], [], _VALUE.findall(match[2]), match[3] or "", operand_types, result_types, regions)


def parse_branch(line: str) -> Operation:
    name, _, rest = line.partition(" ")
    condition = _VALUE.match(rest)
    operands = [condition[0]] if name == "cf.cond_br" and condition else []
    targets = re.findall(r"(\^\w+)(?:\(([^)]*)\))?", rest)
    if not targets:
        raise IRError(f"branch not understood: {line[:200]}")
    successors = [(label, _VALUE.findall(values.split(":")[0])) for label, values in targets]
    return Operation(name, [], operands, "", [], [], successors=successors)


def parse_module(text: str) -> dict[str, Function]:
    """Return the functions of a module by name. Raises IRError."""
    lines = Lines(text)
    functions: dict[str, Function] = {}
    while lines:
        _, line = lines.next()
        if line.startswith("module") or line == "}":
            continue
        match = _FUNCTION.match(line)
        if not match:
            raise IRError(f"a function was expected: {line[:200]}")
        name = match[2].strip('"')
        arguments = parse_arguments(match[3])
        functions[name] = Function(name, match[1] == "public", arguments, parse_region(lines, arguments))
        lines.next()
    if not any(function.public for function in functions.values()):
        raise IRError("the module has no public function")
    return functions


def walk_operations(region: Region) -> Iterator[Operation]:
    """Yield every operation of a region, nested ones included."""
    for block in region.blocks:
        for operation in block.operations:
            yield operation
            for nested in operation.regions:
                yield from walk_operations(nested)
