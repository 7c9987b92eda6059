"""Checks on the bytes of a submission, before anything runs. The portal, the command line and the judge share them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from verifier.verdict import FailureCode

MAXIMUM_BYTES = 256 * 1024
FILE_NAME = "solution.py"


class BundleError(ValueError):
    """The submission cannot be taken. `code` is its failure code, the message says what to do."""

    def __init__(self, code: FailureCode, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def check_bytes(data: bytes) -> str:
    """Return the text of a submission. Raises BundleError."""
    if len(data) > MAXIMUM_BYTES:
        raise BundleError(
            FailureCode.ART_BAD_BUNDLE,
            f"The file has {len(data):,} bytes; at most {MAXIMUM_BYTES:,} (256 KiB) are allowed. Remove data and generated code.",
        )
    if b"\x00" in data:
        raise BundleError(
            FailureCode.ART_BAD_BUNDLE,
            "The file holds NUL bytes, so it is not Python source. Submit the .py file itself.",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BundleError(
            FailureCode.ART_BAD_BUNDLE,
            f"The file is not UTF-8 (byte {error.start}: {error.reason}). Save it as UTF-8 and submit it again.",
        ) from error
    # What is white to Unicode is more than what is white to ASCII.
    if not text.strip():
        raise BundleError(
            FailureCode.ART_MISSING_FILE, "The file is empty. Submit one Python file that defines ModelNew."
        )
    return text


def read_file(path: Path) -> bytes:
    """Return the bytes of the submission at `path`: a regular file, never through a symbolic link. Raises BundleError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise BundleError(FailureCode.ART_MISSING_FILE, f"There is no file {path}.") from error
    except OSError as error:
        raise BundleError(
            FailureCode.ART_BAD_BUNDLE,
            f"{path} cannot be read as a regular file: {error.strerror}. Symbolic links are refused.",
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BundleError(FailureCode.ART_BAD_BUNDLE, f"{path} is not a regular file.")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAXIMUM_BYTES + 1)
