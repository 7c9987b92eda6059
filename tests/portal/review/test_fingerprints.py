from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.review.fingerprints import (
    ALIKE,
    BANDS,
    HASHES,
    compute_signature,
    cut_bands,
    estimate_likeness,
    normalise_tokens,
)
from portal.review.grouping import fingerprint_missing, list_similar
from portal.review.models import Fingerprint
from portal.runs.models import Run
from portal.runs.sample_solutions import FOLDER
from tests.conftest import Submit

HONEST = (FOLDER / "honest.py").read_text()
OTHER = (FOLDER / "tf32.py").read_text()
DISGUISED = "# mine\n\n" + HONEST.replace("ModelNew", "Fast").replace("self.", "self . ").replace("    ", "        ")


def compare(first: str, second: str) -> float:
    return estimate_likeness(compute_signature(first), compute_signature(second))


def test_names_comments_and_spacing_do_not_matter() -> None:
    assert compare(HONEST, DISGUISED) == 1.0
    assert normalise_tokens("x = 1  # one") == normalise_tokens("long_name=1")


def test_attributes_texts_and_numbers() -> None:
    assert normalise_tokens("a.dot(b, 'tf32', 0x1f)") == ["name", ".dot", "(", "name", ",", "text", ",", "0x1f", ")"]
    assert normalise_tokens("a.dot") != normalise_tokens("a.sum")


def test_different_work_is_not_alike() -> None:
    assert compare(HONEST, OTHER) < ALIKE


def test_a_line_more_is_still_alike() -> None:
    assert compare(HONEST, HONEST + "\nwarm = torch.ones(3)\n") >= ALIKE


@given(st.text(max_size=300))
def test_every_text_has_a_signature(text: str) -> None:
    signature = compute_signature(text)
    assert len(signature) == HASHES
    assert len(cut_bands(signature)) == BANDS


@pytest.mark.parametrize("piece", ['"""', "'", '"\\', "#", "a.", ".\t", "x " * 7, "\\"])
def test_hostile_text_takes_no_time(piece: str) -> None:
    before = time.process_time()
    compute_signature((piece * 262_144)[:262_144])
    assert time.process_time() - before < 5


def test_runs_that_look_alike_are_one_group(submit: Submit) -> None:
    first, second, third = (submit(source=text) for text in (HONEST, DISGUISED, OTHER))
    assert fingerprint_missing(Run.objects.all()) == 3
    assert fingerprint_missing(Run.objects.all()) == 0
    assert list(list_similar(first)) == [second]
    assert list(list_similar(third)) == []
    assert Fingerprint.objects.values("group").distinct().count() == 2
