"""What is checked before a submission is taken. Nothing here parses or runs it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from verifier.bundle import MAXIMUM_BYTES, BundleError, check_bytes

SOURCE_CAP = MAXIMUM_BYTES
_FILE_NAME = re.compile(r"\w[\w.-]*\.py", re.ASCII)
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".whl")
_DEFINES_MODEL = re.compile(r"^class\s+ModelNew\b", re.MULTILINE)
_USES_JIT = re.compile(r"^\s*@(triton\.)?jit\b", re.MULTILINE)


class UploadError(ValueError):
    """Why a submission is refused, and what to do."""


def refuse_archive(name: str) -> None:
    """Raise UploadError when `name` is that of an archive."""
    if name.lower().endswith(_ARCHIVES):
        raise UploadError("Archives are not taken. Unpack it, and choose the .py files in it.")


def check_file_name(name: str) -> None:
    """Raise UploadError unless `name` is that of one Python file, without a folder."""
    if "/" in name or "\\" in name:
        raise UploadError("The file name has path parts. Choose one file, such as solution.py.")
    refuse_archive(name)
    if not _FILE_NAME.fullmatch(name):
        raise UploadError("This is not a Python file by its name. Choose one that ends in .py.")


def decode_source(content: bytes) -> str:
    """Return the text of a submission, by the verifier's own rules. Raises UploadError."""
    try:
        return check_bytes(content)
    except BundleError as error:
        raise UploadError(error.message) from error


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
