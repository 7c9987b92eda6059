"""Finds floats that a kernel makes of parts of words from memory. Pure text in, facts out.

Numbers of the task's precision that are kept as narrower integers, or several in one word, are below that precision
whatever the types say. For each value of canonical Triton IR two facts are followed: how many bits of a word that was
loaded can have reached it, and of which kernel parameters an address is made. An operation that is not known hands on
all bits of its operands.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import NamedTuple

MAXIMUM_PASSES = 16
# What is shifted by an amount that is no constant is taken for a part.
UNKNOWN_SHIFT = 16

_FUNCTION = re.compile(r"^ *tt\.func (public )?.*?@([\w$.\-]+)\(")
_OPERATION = re.compile(r'^( *)(?:(%[\w$.\-]+)(:\d+)? = )?"?([a-z]+\.[\w.]+)"?(.*)$')
_BLOCK = re.compile(r"^( *)\^\w+\((.*)\):")
_VALUE = re.compile(r"%[\w$.\-]+(?:#\d+)?")
_LOCATION = re.compile(r" loc\(.*$")
_CARRIED = re.compile(r"(%[\w$.\-]+) = (%[\w$.\-]+(?:#\d+)?)")
_CONSTANT = re.compile(r"arith\.constant (?:dense<)?(-?\d+)>? :")
_INTEGER = re.compile(r"(?:(?<=x)|(?<![a-z]))i(\d+)\b")
_SYMBOL = re.compile(r'@"((?:[^"\\]|\\.)*)"')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PARAMETER = re.compile(r"(%[\w$.\-]+): ")
_KIND = re.compile(r"%[\w$.\-]+: (\S+)")
_POINTEE = re.compile(r"!tt\.(?:ptr|tensordesc)<(?:tensor<)?(?:\d+x)*(b?[if])(\d+)\b")
_FLOAT = re.compile(r"^\s*(?:tensor<(?:\d+x)*)?b?f\d+")
_CALLEE = re.compile(r"@([\w$.\-]+)\(")

_SHIFTS = {"arith.shli", "arith.shrsi", "arith.shrui"}
_QUOTIENTS = {"arith.divsi", "arith.divui", "arith.floordivsi", "arith.ceildivsi", "arith.ceildivui"}
_REMAINDERS = {"arith.andi", "arith.remsi", "arith.remui"}
_TAKING = {"arith.trunci", *_SHIFTS, *_QUOTIENTS, *_REMAINDERS}
_LOADS = ("tt.load", "tt.descriptor_load", "tt.experimental_descriptor_load", "tt.descriptor_gather", "tt.atomic_")
_CASTS = {"tt.bitcast", "arith.bitcast"}
_CONVERSIONS = {"arith.sitofp", "arith.uitofp", "tt.extern_elementwise", "tt.elementwise_inline_asm", *_CASTS}
# They tell places, truth values or new numbers, not the bits of their operands.
_ENDING = ("arith.cmp", "tt.store", "tt.print", "tt.assert", "tt.histogram", "tt.get_program_id", "tt.make_range")
# What they make of an address may be another, whatever it was made of.
_REPLACING = {"tt.ptr_to_int", "tt.elementwise_inline_asm", "tt.extern_elementwise"}
ANYWHERE = "anywhere"
_ASSEMBLY = "tt.elementwise_inline_asm"
_ASSEMBLED_LOAD = re.compile(r"\b(?:ldu?|atom|tex|suld)\.[\w.:]*?\.([busf])(8|16|32|64)\b")
# Beside a load they leave its words whole: registers, hints to caches, and what stands there when a condition fails.
_WHOLE_INSTRUCTION = re.compile(
    r"(?:@!?\S+\s+)?(?:\.reg|createpolicy|ldu?|setp|prefetch|mov\.\w+\s+[^{}\s,]+,\s*[^{}\s,]+$)"
)
# What is left of a word when assembly does more with it than loading it.
TAKEN_APART = 8
# How a float is taken apart into sign, exponent and fraction: nothing is kept in a part of it.
_FLOAT_PARTS = {
    ("arith.shrui", 23), ("arith.shrsi", 23), ("arith.shrsi", 31), ("arith.shrui", 31), ("arith.andi", 0x7FFFFF),
    ("arith.andi", 0x7F800000), ("arith.andi", 0x7FFFFFFF), ("arith.andi", -(1 << 31)), ("arith.andi", -0x7F800001),
}  # fmt: skip


class Fact(NamedTuple):
    """The bits of a loaded word that a value can hold, None when it holds none, and the parameters behind it.

    `floating` says that the word was loaded as a float.
    """

    bits: int | None = None
    sources: frozenset[str] = frozenset()
    floating: bool = False


NOTHING = Fact()


class Region(NamedTuple):
    """What the results and the carried values of an operation with regions are called here."""

    results: list[str]
    carried: list[str]


class Reader:
    """Follows every line of the IR until nothing new is learnt.

    Regions beside each other use the same names again, so a value is called by its name and the line that defines it.
    """

    def __init__(self, text: str, own: Collection[int]) -> None:
        """Read IR whose public function's parameters at the places `own` reach the submission's own memory."""
        self.lines = [
            _QUOTED.sub("", line) if _FUNCTION.match(line) else _LOCATION.sub("", line)
            for line in _SYMBOL.sub(name_symbol, text).splitlines()
        ]
        self.own = own
        self.own_parameters: set[str] = {ANYWHERE}
        self.facts: dict[str, Fact] = {}
        self.constants: dict[str, int] = {}
        self.parts: dict[str, int] = {}
        self.function, self.number = "", 0
        self.values: dict[str, str] = {}
        self.regions: dict[int, Region] = {}

    def run(self) -> dict[str, int]:
        """Return the conversions to floats, by their result, with the bits that they start from."""
        for _ in range(MAXIMUM_PASSES):
            before = dict(self.facts)
            for number, line in enumerate(self.lines):
                self.number = number
                self.read(line)
            if self.facts == before:
                break
        return self.parts

    def read(self, line: str) -> None:
        """Follow one line."""
        if function := _FUNCTION.match(line):
            self.enter(function[2], public=bool(function[1]), signature=line)
        elif block := _BLOCK.match(line):
            # Of a while loop's second region: what its condition passed on.
            region = self.regions.get(len(block[1]), Region([], []))
            names = [self.define(name) for name in _VALUE.findall(block[2])]
            for name, passed in zip(names, region.results, strict=False):
                self.learn(name, self.facts.get(passed, NOTHING))
        elif match := _OPERATION.match(line):
            indent, result, count, operation, rest = match.groups()
            results = [f"{result}#{index}" for index in range(int(count[1:]))] if count else [result] if result else []
            self.follow(len(indent), results, operation, rest)

    def enter(self, name: str, *, public: bool, signature: str) -> None:
        """Start a function."""
        self.function, self.regions = name, {}
        # By their places: Triton 3.1 calls them %arg0 and so on, later versions as the source does.
        self.values = {parameter: f"{name}%{place}" for place, parameter in enumerate(_PARAMETER.findall(signature))}
        pointers = [kind.startswith("!tt.") for kind in _KIND.findall(signature)]
        for place, key in enumerate(self.values.values() if public else ()):
            # A number may be the address of anything.
            self.facts.setdefault(key, Fact(None, frozenset({key} if pointers[place] else ())))
            if place in self.own:
                self.own_parameters.add(key)

    def define(self, name: str) -> str:
        """Return what a value that this line defines is called here."""
        self.values[name] = f"{self.number}{name}"
        return self.values[name]

    def get(self, name: str) -> Fact:
        return self.facts.get(self.values.get(name, ""), NOTHING)

    def learn(self, key: str, fact: Fact) -> None:
        """Add a fact to what is known of a value: of two widths the narrower is the one to look at."""
        known = self.facts.get(key, NOTHING)
        widths = [bits for bits in (known.bits, fact.bits) if bits is not None]
        floating = (known.floating or known.bits is None) and (fact.floating or fact.bits is None)
        self.facts[key] = Fact(min(widths, default=None), known.sources | fact.sources, floating)

    def follow(self, indent: int, results: list[str], operation: str, rest: str) -> None:
        """Learn what one operation says of its results."""
        operands = _VALUE.findall(rest)
        known = [self.get(name) for name in operands]
        match operation:
            case "arith.constant":
                self.keep_constant(results, operation + rest)
            case "scf.for" | "scf.while" | "scf.if":
                self.open(indent, results, rest.partition(" to ")[2] if operation == "scf.for" else rest)
            case "scf.yield":
                self.leave(indent, known)
            case "scf.condition":
                self.leave(indent, known[1:])
            case "tt.call":
                self.call(results, known, rest)
            case "tt.return":
                for place, fact in enumerate(known):
                    self.learn(f"{self.function}:{place}", fact)
            case _:
                loaded = self.find_assembled(known, rest) if operation == _ASSEMBLY else None
                fact = loaded or self.find_fact(operation, operands, rest)
                keys = [self.define(name) for name in results]
                for key in keys if fact != NOTHING else ():
                    self.learn(key, fact)
                # Assembly may load and convert in one operation.
                self.note_conversion(keys, operation, [*known, fact] if operation == _ASSEMBLY else known, rest)

    def keep_constant(self, results: list[str], line: str) -> None:
        """Remember the value of an integer."""
        key = self.define(results[0]) if results else ""
        if found := _CONSTANT.search(line):
            self.constants[key] = int(found[1])

    def open(self, indent: int, results: list[str], rest: str) -> None:
        """Start the regions of a loop or a branch: carried values begin as what is handed over."""
        carried = [(inside, self.get(start)) for inside, start in _CARRIED.findall(rest)]
        region = Region([self.define(name) for name in results], [self.define(name) for name, _ in carried])
        self.regions[indent] = region
        for key, (_, fact) in zip(region.carried, carried, strict=True):
            self.learn(key, fact)

    def leave(self, indent: int, yielded: list[Fact]) -> None:
        """Hand what a region yields to the operation's results and to the next round of a loop."""
        for keys in self.regions.get(indent - 2, Region([], [])):
            for key, fact in zip(keys, yielded, strict=False):
                self.learn(key, fact)

    def call(self, results: list[str], known: list[Fact], rest: str) -> None:
        """Hand arguments to a function of the module, and what it returns back."""
        found = _CALLEE.search(rest)
        callee = found[1] if found else ""
        for place, fact in enumerate(known):
            self.learn(f"{callee}%{place}", fact)
        for place, name in enumerate(results):
            self.learn(self.define(name), self.facts.get(f"{callee}:{place}", NOTHING))

    def find_fact(self, operation: str, operands: list[str], rest: str) -> Fact:
        """Return what an operation's result holds."""
        known = [self.get(name) for name in operands]
        if operation.startswith(_LOADS):
            return self.find_loaded(known[0] if known else NOTHING, rest)
        holding = [fact for fact in known if fact.bits is not None]
        sources = frozenset().union(*(fact.sources for fact in known))
        if sources and operation in _REPLACING:
            sources |= {ANYWHERE}
        if not holding or operation.startswith(_ENDING):
            return Fact(None, sources)
        bits, floating = max(fact.bits or 0 for fact in holding), all(fact.floating for fact in holding)
        moved = floating and (operation.startswith("tt.") or operation == "arith.select")
        if makes_floats(operation, rest) and not moved:
            return NOTHING
        if operation not in _TAKING:
            return Fact(bits, sources, floating)
        keys = (self.values.get(name, "") for name in operands)
        constant = next((self.constants[key] for key in keys if key in self.constants), None)
        if floating and (operation, constant) in _FLOAT_PARTS:
            return NOTHING
        return Fact(count_left(operation, bits, constant, find_width(rest)), sources, floating)

    def find_loaded(self, address: Fact, rest: str) -> Fact:
        """Return what a load gives: a word of the submission's own memory, or nothing that matters here."""
        pointee = _POINTEE.search(rest)
        if pointee is None or pointee[2] == "1":
            return NOTHING
        given = address.sources and not address.sources & self.own_parameters
        return NOTHING if given else Fact(int(pointee[2]), floating="f" in pointee[1])

    def find_assembled(self, known: list[Fact], rest: str) -> Fact | None:
        """Return what inline assembly loads, or None when it loads nothing."""
        text = rest.partition(" {constraints")[0]
        loads = _ASSEMBLED_LOAD.findall(text)
        if not loads:
            return None
        sources = frozenset().union(*(fact.sources for fact in known))
        whole = loads_whole_words(text)
        if whole and len(known) == 1 and sources and not sources & self.own_parameters:
            return NOTHING
        bits = min(int(width) for _, width in loads)
        if whole:
            return Fact(bits, floating=all(kind == "f" for kind, _ in loads))
        return Fact(min(bits, TAKEN_APART))

    def note_conversion(self, keys: list[str], operation: str, known: list[Fact], rest: str) -> None:
        """Keep a conversion of a loaded word, or of a part of one, to floats."""
        bits = [fact.bits for fact in known if fact.bits is not None]
        if keys and bits and operation in _CONVERSIONS and makes_floats(operation, rest):
            self.parts[keys[0]] = max(bits)


def name_symbol(quoted: re.Match[str]) -> str:
    """Return a function's quoted name as a plain one, another for each."""
    return f"@quoted_{hashlib.sha256(quoted[1].encode()).hexdigest()[:16]}"


def loads_whole_words(text: str) -> bool:
    """Return whether assembly, in quotes, does nothing but load."""
    instructions = (part.strip(' \t"{}') for part in re.split(r";|\\0A", text))
    return all(_WHOLE_INSTRUCTION.match(part) for part in instructions if part)


def makes_floats(operation: str, rest: str) -> bool:
    """Return whether an operation's result is of floats."""
    types = rest.rpartition(" : ")[2] if " : " in rest else rest
    return _FLOAT.search(re.split(r" to | -> ", types)[-1]) is not None and operation not in {"tt.addptr", "tt.splat"}


def find_width(rest: str) -> int:
    """Return the width of an operation's integer result."""
    found = _INTEGER.findall(rest.rpartition(" : ")[2])
    return int(found[-1]) if found else 64


def count_left(operation: str, bits: int, constant: int | None, width: int) -> int:
    """Return how many of a loaded integer's bits are left after an operation that takes some; `width` is the result's."""
    bits = min(bits, width)
    if operation in _SHIFTS:
        # A left shift leaves no more than was below the top, a right shift no more than was above.
        lost = min(bits, UNKNOWN_SHIFT) if constant is None else constant
        return max(0, min(bits, width - lost))
    if constant is None or operation == "arith.trunci":
        return bits
    if operation in _QUOTIENTS:
        return max(0, bits - max(0, abs(constant).bit_length() - 1))
    mask = constant & ((1 << width) - 1) if operation == "arith.andi" else max(0, abs(constant) - 1)
    return min(bits, mask.bit_count() if operation == "arith.andi" else mask.bit_length())


def find_parts(text: str, own: Collection[int], width: int) -> list[int]:
    """Return the bits of each part of a loaded word, narrower than `width`, of which a kernel makes a float.

    `own` are the places of the kernel's parameters that point to memory of the submission's own, and not to inputs.
    Truth values are no parts.
    """
    return sorted(bits for bits in Reader(text, own).run().values() if 1 < bits < width)
