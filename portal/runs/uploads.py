"""What can be told of a submission from its name and text alone. Nothing here parses or runs it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.core.exceptions import ValidationError

_FILE_NAME = re.compile(r"\w[\w.-]*\.py", re.ASCII)
_DEFINES_MODEL = re.compile(r"^class\s+ModelNew\b", re.MULTILINE)
_USES_JIT = re.compile(r"^\s*@(triton\.)?jit\b", re.MULTILINE)


def check_file_name(name: str) -> None:
    """Raise ValidationError unless `name` is that of one Python file, without a folder."""
    if "/" in name or "\\" in name:
        raise ValidationError("The file name has path parts. Choose one file, such as solution.py.", code="path")
    if not _FILE_NAME.fullmatch(name):
        raise ValidationError("This is not a Python file by its name. Choose one that ends in .py.", code="name")


@dataclass(frozen=True)
class Hint:
    """Something that a verdict will probably mind. It does not stop a submission."""

    passed: bool
    label: str


def list_hints(text: str) -> list[Hint]:
    """Return what can be told from the text alone."""
    return [
        Hint(bool(_DEFINES_MODEL.search(text)), "defines class ModelNew"),
        Hint(bool(_USES_JIT.search(text)), "uses @triton.jit"),
    ]
