from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.runs.uploads import SOURCE_CAP, UploadError, check_file_name, decode_source, list_hints


@pytest.mark.parametrize("name", ["solution.py", "my-kernel_2.v1.py", "A.py"])
def test_a_python_file_name_is_taken(name: str) -> None:
    check_file_name(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../solution.py", "path parts"),
        ("a/b.py", "path parts"),
        ("a\\b.py", "path parts"),
        ("solution.txt", "ends in .py"),
        (".py", "ends in .py"),
        ("", "ends in .py"),
        ("solution.py\n", "ends in .py"),
        ("sölution.py", "ends in .py"),
    ],
)
def test_another_name_is_refused(name: str, words: str) -> None:
    with pytest.raises(UploadError, match=words):
        check_file_name(name)


@given(st.binary(max_size=200))
def test_what_is_taken_is_text_without_change(content: bytes) -> None:
    try:
        text = decode_source(content)
    except UploadError:
        return
    assert text.encode() == content
    assert text.strip()
    assert "\0" not in text


def test_the_cap_is_exact() -> None:
    assert decode_source(b"#" * SOURCE_CAP)
    with pytest.raises(UploadError, match="262,145 bytes"):
        decode_source(b"#" * (SOURCE_CAP + 1))


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("@triton.jit\ndef k(): ...\nclass ModelNew(nn.Module): ...\n", [True, True]),
        ("@jit\ndef k(): ...\nclass ModelNew: ...\n", [True, True]),
        ("class ModelNewer: ...\n", [False, False]),
        ("# class ModelNew, @triton.jit\n", [False, False]),
    ],
)
def test_hints(text: str, passed: list[bool]) -> None:
    assert [hint.passed for hint in list_hints(text)] == passed
