from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.campaigns.file_names import REPETITIONS, Place, PlaceError, clean_name, find_place
from portal.runs.uploads import UploadError

TASKS = {
    "l1-09": "l1-09",
    "sparsemax-rows": "l1-09",
    "l2-01": "l2-01",
    "conv-2": "l2-01",
    "conv": "l3-05",
}


@pytest.mark.parametrize(
    ("name", "task", "repetition"),
    [
        *(
            ("l1-09.py", "l1-09", 1),
            ("l1-09/1.py", "l1-09", 1),
            ("l1-09/02.py", "l1-09", 2),
            ("L1-09/3.PY", "l1-09", 3),
        ),
        *(("l1-09_rep2.py", "l1-09", 2), ("l1-09-rep-2.py", "l1-09", 2), ("l1-09.run3.py", "l1-09", 3)),
        *(("l1-09_2.py", "l1-09", 2), ("l1-09 r2.py", "l1-09", 2), ("sparsemax-rows_2.py", "l1-09", 2)),
        *(
            ("l1-09/solution.py", "l1-09", 1),
            ("l1-09/solution_2.py", "l1-09", 2),
            ("l1-09/rep3/solution.py", "l1-09", 3),
        ),
        *(("rep2/l1-09.py", "l1-09", 2), ("2/l1-09.py", "l1-09", 2), ("out/rep2/level1/l1-09/solution.py", "l1-09", 2)),
        *(("l1-09_2/solution.py", "l1-09", 2), ("2026/l1-09/best.py", "l1-09", 1), ("Lösungen/l1-09/2.py", "l1-09", 2)),
        # A slug that ends like a repetition is first of all a slug.
        *(("conv-2.py", "l2-01", 1), ("conv-2_3.py", "l2-01", 3), ("conv-3.py", "l3-05", 3)),
        *(("l1-09/l1-09_2.py", "l1-09", 2), ("l1-09_2/2.py", "l1-09", 2)),
    ],
)
def test_a_name_says_task_and_repetition(name: str, task: str, repetition: int) -> None:
    assert find_place(clean_name(name), TASKS) == Place(task, repetition)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("solution.py", "No part of the name is a task"),
        ("l9-99/1.py", "No part of the name is a task"),
        ("l1-09/l2-01.py", "more than one task: l1-09, l2-01"),
        ("rep1/l1-09_2.py", "more than one repetition: 1, 2"),
        ("l1-09/4.py", "Repetition 4 is not one of 1 to 3"),
        ("l1-09_0.py", "Repetition 0 is not one of 1 to 3"),
    ],
)
def test_a_name_that_says_it_not_is_explained(name: str, words: str) -> None:
    with pytest.raises(PlaceError, match=words):
        find_place(name, TASKS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "cannot be kept"),
        ("../l1-09.py", "cannot be kept"),
        ("a/../../l1-09.py", "cannot be kept"),
        ("l1-09\n.py", "cannot be kept"),
        ("l1-09\0.py", "cannot be kept"),
        ("l1-09\u202e.py", "cannot be kept"),
        ("a" * 198 + ".py", "more than 200 characters"),
        ("solutions.zip", "Archives are not taken. Unpack it"),
        ("l1-09.tar.gz", "Archives are not taken. Unpack it"),
        ("notes.md", "Only files that end in .py"),
    ],
)
def test_a_name_that_cannot_be_kept_is_refused(name: str, words: str) -> None:
    with pytest.raises(UploadError, match=words):
        clean_name(name)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("./a//b\\l1-09.py", "a/b/l1-09.py"),
        ("/l1-09.py", "l1-09.py"),
        ("Lo\u0308sung/l1-09.py", "L\u00f6sung/l1-09.py"),
    ],
)
def test_one_path_has_one_name(name: str, kept: str) -> None:
    assert clean_name(name) == kept


@given(st.text(max_size=40) | st.lists(st.sampled_from(["l1-09", "rep2", "1", "conv", "_2", "-", "x"])).map("/".join))
def test_any_name_is_placed_or_refused(text: str) -> None:
    try:
        name = clean_name(f"{text}.py")
        place = find_place(name, TASKS)
    except (UploadError, PlaceError):
        return
    assert clean_name(name) == name
    assert place.task in TASKS.values()
    assert 1 <= place.repetition <= REPETITIONS
