"""What is checked before a submission is taken. Nothing here parses or runs it."""

from __future__ import annotations

import re
from dataclasses import dataclass

SOURCE_CAP = 256 * 1024
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.py")


class UploadError(ValueError):
    """Why a submission is refused, and what to do."""


def check_file_name(name: str) -> None:
    """Raise UploadError unless `name` is that of one Python file, without a folder."""
    if "/" in name or "\\" in name:
        raise UploadError("The file name has path parts. Give one file, such as solution.py.")
    if not _FILE_NAME.fullmatch(name):
        raise UploadError("The file name is not that of a Python file. Give one file that ends in .py, such as solution.py.")


def decode_source(content: bytes) -> str:
    """Return the text of a submission. Raises UploadError when it is empty, too large, binary or not UTF-8."""
    if len(content) > SOURCE_CAP:
        raise UploadError(f"The file has {len(content):,} bytes. At most {SOURCE_CAP:,} (256 KiB) are taken.")
    if b"\0" in content:
        raise UploadError("The file contains NUL bytes. Save it as plain text.")
    try:
        text = content.decode("utf-8")
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
        Hint(bool(re.search(r"^class\s+ModelNew\b", text, re.MULTILINE)), "defines class ModelNew"),
        Hint("triton.jit" in text or bool(re.search(r"^@jit\b", text, re.MULTILINE)), "uses @triton.jit"),
    ]
