from __future__ import annotations

import os
from pathlib import Path

import pytest

from verifier.bundle import MAXIMUM_BYTES, BundleError, check_bytes, read_file
from verifier.verdict import FailureCode


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", FailureCode.ART_MISSING_FILE),
        (b"\x1c", FailureCode.ART_MISSING_FILE),
        ("\N{NO-BREAK SPACE}\n".encode(), FailureCode.ART_MISSING_FILE),
        (b" \n\t\n", FailureCode.ART_MISSING_FILE),
        (b"x = 1\x00", FailureCode.ART_BAD_BUNDLE),
        (b"\xff\xfe\x00", FailureCode.ART_BAD_BUNDLE),
        (b"\x7fELF\x01\x02\x80", FailureCode.ART_BAD_BUNDLE),
        (b"x = '\xe9'", FailureCode.ART_BAD_BUNDLE),
        (b"#" * (MAXIMUM_BYTES + 1), FailureCode.ART_BAD_BUNDLE),
    ],
)
def test_what_is_no_source_file_is_refused(data: bytes, code: FailureCode) -> None:
    with pytest.raises(BundleError) as caught:
        check_bytes(data)
    assert caught.value.code is code
    assert caught.value.message.endswith(".")


def test_a_file_of_exactly_the_limit_is_taken() -> None:
    assert len(check_bytes(b"#" * MAXIMUM_BYTES)) == MAXIMUM_BYTES


def test_links_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text("x = 1")
    (tmp_path / "link.py").symlink_to(tmp_path / "solution.py")
    os.mkfifo(tmp_path / "pipe.py")
    for name in ("link.py", ".", "pipe.py"):
        with pytest.raises(BundleError) as caught:
            read_file(tmp_path / name)
        assert caught.value.code is FailureCode.ART_BAD_BUNDLE
    with pytest.raises(BundleError) as caught:
        read_file(tmp_path / "absent.py")
    assert caught.value.code is FailureCode.ART_MISSING_FILE
    assert read_file(tmp_path / "solution.py") == b"x = 1"
