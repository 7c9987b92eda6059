"""The recorded submissions of the spotlight: the index and the files agree, and stand for the published runs."""

from __future__ import annotations

import tomllib
from collections import Counter

import pytest

from verifier.task import find_tasks_root
from verifier.verdict import FailureCode

FOLDER = find_tasks_root() / "recorded" / "spotlight"
INDEX = tomllib.loads((FOLDER / "index.toml").read_text(encoding="utf-8"))
SUBMISSIONS = INDEX["submission"]

# The announcement's counts: ten rejected runs that were timed carry eleven labels.
PUBLISHED = {
    "tensor-core dot": 7,
    "fp32 emulated on half-precision hardware": 1,
    "stability shortcut": 2,
    "closed form": 1,
    "no submission": 1,
    "IEEE fp32 kernel": 1,
}


def test_twelve_runs_carry_the_published_labels() -> None:
    labels = Counter(label for item in SUBMISSIONS for label in item["archetype"].split(" and "))
    assert len(SUBMISSIONS) == 12
    assert labels == PUBLISHED


def test_every_file_has_one_entry() -> None:
    named = sorted(item["file"] for item in SUBMISSIONS if "file" in item)
    assert named == sorted(path.name for path in FOLDER.glob("*.py"))
    assert len({item["name"] for item in SUBMISSIONS}) == len(SUBMISSIONS)


@pytest.mark.parametrize("item", SUBMISSIONS, ids=lambda item: item["name"])
def test_expected_code_fits_the_published_words(item: dict[str, str]) -> None:
    word, _, reason = item["published"].partition(": ")
    assert reason
    assert word == ("rejected" if item["expected"] else "accepted")
    if item["expected"]:
        assert not FailureCode(item["expected"]).is_infrastructure
