"""What is checked before a submission is taken. Nothing here parses or runs it."""

from __future__ import annotations

import re
from dataclasses import dataclass

SOURCE_CAP = 256 * 1024
_FILE_NAME = re.compile(r"\w[\w.-]*\.py", re.ASCII)
_DEFINES_MODEL = re.compile(r"^class\s+ModelNew\b", re.MULTILINE)
_USES_JIT = re.compile(r"^\s*@(triton\.)?jit\b", re.MULTILINE)


class UploadError(ValueError):
    """Why a submission is refused, and what to do."""


def check_file_name(name: str) -> None:
    """Raise UploadError unless `name` is that of one Python file, without a folder."""
    if "/" in name or "\\" in name:
        raise UploadError("The file name has path parts. Choose one file, such as solution.py.")
    if not _FILE_NAME.fullmatch(name):
        raise UploadError("This is not a Python file by its name. Choose one that ends in .py.")


def decode_source(content: bytes) -> str:
    """Return the text of a submission. Raises UploadError when it is empty, too large, binary or not UTF-8."""
    if len(content) > SOURCE_CAP:
        raise UploadError(f"The file has {len(content):,} bytes. At most {SOURCE_CAP:,} (256 KiB) are taken.")
    if b"\0" in content:
        raise UploadError("The file contains NUL bytes. Submit Python source as plain text.")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UploadError(f"The file is not UTF-8: {error.reason} at byte {error.start}. Save it as UTF-8.") from error
    if not text.strip():
        raise UploadError("The file is empty. It must define a class ModelNew.")
    return text


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
