from __future__ import annotations

import pytest
from django.test import Client
from django.utils.html import escape

from portal.runs.labels import GATE_EXPLANATIONS, GATE_LABELS, OUTCOME_EXPLANATIONS, OUTCOME_LABELS
from verifier.verdict import FailureCode, FailureMode, Gate, GateStatus, Outcome, rank_failures

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(client: Client) -> str:
    response = client.get("/methodology/")
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("code", list(FailureCode))
def test_it_explains_every_failure_code(page: str, code: FailureCode) -> None:
    assert f'<tr id="{code}">' in page
    assert escape(code.explanation) in page


@pytest.mark.parametrize("mode", list(FailureMode))
def test_it_names_every_failure_mode(page: str, mode: FailureMode) -> None:
    assert f'id="mode-{mode}"' in page


def test_it_ranks_codes_as_the_verifier_does(page: str) -> None:
    first = rank_failures(list(FailureCode))[0]
    row = page.split(f'<tr id="{first}">', 1)[1].split("</tr>", 1)[0]
    assert '<td class="number" data-label="Rank">1</td>' in row


def test_every_gate_status_and_outcome_has_words() -> None:
    assert set(GATE_EXPLANATIONS) == set(Gate)
    assert set(OUTCOME_LABELS) == set(OUTCOME_EXPLANATIONS) == set(Outcome)
    assert set(GATE_LABELS) == {*GateStatus, "started", "waiting"}
