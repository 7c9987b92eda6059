"""The contract and the spotlight."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from django.utils.html import escape

from portal.runs.uploads import SOURCE_CAP
from portal.standings import contract, spotlight
from portal.standings.spotlight import load_archetypes, load_published
from portal.standings.views import background
from tests.portal.factories import build_verdict
from verifier import limits, timing
from verifier.limits import TimeLimits
from verifier.verdict import FailureCode, Outcome

pytestmark = pytest.mark.django_db


def read(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_the_contract_states_the_verifiers_limits(client: Client, catalog: None) -> None:
    page = read(client, "/contract/")
    assert f"at most {SOURCE_CAP // 1024} KiB" in page
    for limit in contract.list_limits():
        assert f'{limit.label}</th><td class="number">{limit.untimed:,.4g}</td>' in page
    assert "NVIDIA L40S" in page


def test_the_contract_follows_the_verifier(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROUNDS", 77)
    monkeypatch.setattr(limits, "GPU_LIMITS", TimeLimits(load=61.5))
    monkeypatch.setattr(timing, "NEAR_TARGET", 0.13)
    page = read(client, "/contract/")
    for figure in (">77<", ">61.5<", ">within 13 %<"):
        assert figure in page


def list_figures() -> list[str]:
    """Return the names of all plain figures of the verifier's limits."""
    return [name for name, value in vars(limits).items() if name.isupper() and not isinstance(value, TimeLimits)]


@pytest.mark.parametrize("name", list_figures())
def test_the_contract_shows_every_figure_of_the_gates(
    client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = read(client, "/contract/")
    value = getattr(limits, name)
    monkeypatch.setattr(limits, name, {"changed": True} if isinstance(value, dict) else value + 1)
    assert read(client, "/contract/") != before


def test_every_failure_code_belongs_to_one_gate() -> None:
    listed = [code for _, codes in contract.list_codes() for code in codes]
    assert sorted(listed) == sorted(code for code in FailureCode if not code.is_infrastructure)
    assert len(listed) == len(set(listed))


def test_rewards_cover_every_code_before_performance() -> None:
    rewards = contract.list_rewards()
    listed = [code for _, codes in rewards for code in codes]
    assert len(listed) == len(set(listed))
    assert rewards == sorted(rewards)
    assert FailureCode.TAMPER_HARNESS in rewards[0][1]


def test_the_bands_of_the_reward_come_from_its_formula(client: Client) -> None:
    page = read(client, "/contract/")
    for band in ("0.10 to 0.20", "0.20 to 0.80", "0.90 to 1.00"):
        assert f'<td class="number">{band}</td>' in page


def test_the_spotlight_tells_the_published_story(client: Client) -> None:
    page = read(client, "/spotlight/attention/")
    published = page.split('id="published"')[1].split('id="recreated"')[0]
    assert "11 of 12 runs beat the target. Only 1 passed." in page
    for text in ("1.63x", "1.70x", "27.86x", "99.8 %", "10 steps", "Nothing of it was measured here"):
        assert text in published
    assert published.count("above 1.70x") == 3
    assert " \u00d7 ".join(map(str, load_published().shape)) in published


def test_the_chart_holds_what_the_table_says() -> None:
    points = background.list_published_points(load_published())
    assert [(point.speedup, point.counted, point.at_least) for point in points] == [
        (1.7, True, False), (1.7, False, True), (1.7, False, True), (27.86, False, False), (1.7, False, True),
    ]  # fmt: skip


def test_what_was_not_measured_is_said_so(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "list_recorded_environments", list)
    page = read(client, "/spotlight/attention/").split('id="recreated"')[1]
    assert "No verdict has been recorded yet" in page
    assert page.count("not measured yet") == 3 * load_published().total
    for item in load_archetypes(None):
        assert escape(item.recorded.published) in page


def test_recorded_verdicts_stand_beside_what_was_expected(
    client: Client, catalog: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spotlight, "find_tasks_root", lambda: tmp_path)
    folder = tmp_path / spotlight.RECORDED
    verdicts = folder / "verdicts" / "h200"
    verdicts.mkdir(parents=True)
    entry = '[[submission]]\nname = "{}"\narchetype = "dot"\npublished = "rejected: x"\nexpected = "PREC_TF32"\n'
    names = ("first", "second", "third")
    (folder / "index.toml").write_text(
        'schema = "kernelquest.recorded/1"\ntask = "l2-01"\n' + "".join(map(entry.format, names))
    )
    for name, code in (("first", FailureCode.PREC_TF32), ("second", FailureCode.STALE_CONSTANT)):
        verdict = build_verdict("l2-01", "h200", outcome=Outcome.REJECTED, failures=[code], measured_speedup=3.21)
        (verdicts / f"{name}.json").write_text(verdict.to_json())
    page = read(client, "/spotlight/attention/").split('id="recreated"')[1]
    first, second, third = (page.split(f"<code>{name}</code>")[1].split("</tr>")[0] for name in names)
    assert "3.21x" in first
    assert ("nothing" in first, "differs" in first, "differs" in second) == (True, False, True)
    assert third.count("not measured yet") == 3
    assert 'data-chart="recorded-h200"' in page
