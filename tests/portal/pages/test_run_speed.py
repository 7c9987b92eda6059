"""The page of a run that was timed, with what a real GPU said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from portal.catalog.models import Environment
from tests.conftest import Submit
from tests.portal.factories import GATES, judge_timed, reject
from tests.portal.pages.conftest import Finish, Visit

MARKUP = "<script>alert(1)</script>"
Show = Callable[..., str]


@pytest.fixture
def show(visit: Visit, submit: Submit, finish: Finish, gpu: Environment) -> Show:
    """Return the page of a run on a GPU that got the verdict with the given changes, as text on one line."""

    def read(**given: object) -> str:
        run = finish(submit(environment=gpu, visibility="public"), judge_timed, **given)
        page = visit("anonymous").get(f"/runs/{run.public_id}/").content.decode()
        return re.sub(r"\s+", " ", page)

    return read


def cut_section(page: str, name: str) -> str:
    return page.split(f'aria-labelledby="{name}"')[1].split("</section>", maxsplit=1)[0]


def read_facts(section: str) -> dict[str, str]:
    found = re.findall(r"<dt>(.*?)</dt>\s*<dd[^>]*>(.*?)</dd>", section)
    return {name: text.strip() for name, text in found}


def read_rows(section: str, caption: str) -> list[list[str]]:
    table = section.split(caption)[1].split("</table>", maxsplit=1)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table.split("<tbody>")[1])
    return [[re.sub("<.*?>", "", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]


def test_a_speed_without_a_target_counts(show: Show) -> None:
    page = show()
    assert "Accepted, no target yet" in page
    assert "No target has been certified in NVIDIA H200 yet, so this is not a pass" in page
    speed = cut_section(page, "speed")
    assert "<strong>14.75x</strong> against compiled PyTorch" in speed
    assert "95 % interval 14.74x to 14.77x" in speed
    assert "Not counted" not in speed
    facts = read_facts(speed)
    assert (facts["Counted speedup"], facts["Target"]) == ("14.75x", "not certified yet")
    assert (facts["Floor of the hardware"], facts["Submission over floor"]) == ("0.04500 ms", "1.95x")
    assert "Reward" not in facts


def test_a_target_that_was_reached(show: Show) -> None:
    page = show(outcome="passed", target=12.0, capture=1.0, reward=0.918)
    assert "Every gate passed and the certified target was reached" in page
    facts = read_facts(cut_section(page, "speed"))
    assert (facts["Target"], facts["Headroom taken"], facts["Reward"]) == ("12.00x", "100.0 %", "0.918")


def test_a_target_that_was_missed(show: Show) -> None:
    page = show(outcome="below_target", failures=["PERF_BELOW_TARGET"], target=22.0, capture=0.86, reward=0.71)
    assert "Accepted, below target" in page
    assert read_facts(cut_section(page, "speed"))["Counted speedup"] == "14.75x"


def test_what_the_stopwatch_said_of_a_rejected_run_is_marked_as_uncounted(show: Show) -> None:
    failures = ["PREC_TF32", "CORR_VALUE"]
    speed = cut_section(show(outcome="rejected", failures=failures, speedup=None, target=3.2), "speed")
    notice = speed.split('<div class="notice notice--bad">')[1].split("</div>")[0]
    assert "<strong>Not counted.</strong> The stopwatch said 14.75x against compiled PyTorch" in notice
    assert "95 % interval of 14.74x to 14.77x" in notice
    assert "/methodology/#PREC_TF32" in notice
    assert "precision loss" in notice
    assert "CORR_VALUE" not in notice
    facts = read_facts(speed)
    assert (facts["Counted speedup"], facts["Target"]) == ("none", "3.20x")
    assert "<strong>14.75x" not in speed


def test_the_three_sides(show: Show) -> None:
    profiled = {"eager": 1.97, "compiled": 1.29}
    rows = read_rows(cut_section(show(timing={"profiled": profiled}), "speed"), "Milliseconds a call")
    assert rows == [
        ["Eager PyTorch", "1.982", "1.982", "1.979", "1.985", "0.1 %", "1.970", "0 of 100"],
        ["Compiled PyTorch baseline", "1.298", "1.298", "1.294", "1.301", "0.2 %", "1.290", "0 of 100"],
        ["This submission", "0.08798", "0.08792", "0.08742", "0.08858", "0.5 %", "0.09507", "0 of 100"],
    ]


def test_the_two_clocks_and_the_gpu(show: Show) -> None:
    facts = read_facts(cut_section(show(), "speed"))
    assert facts["Device's events"] == "105.4 ms"
    assert facts["Clock of the judge"].startswith("106.5 ms")
    assert facts["Apart"] == "1.153 ms, at most 9.268 ms allowed"
    assert facts["GPU"] == "NVIDIA H200, driver 580.159.04"
    assert (facts["SM clock"], facts["Memory clock"]) == ("1,980 MHz", "3,201 MHz")
    assert (facts["Temperature"], facts["Power"]) == ("32 to 37 \u00b0C", "119.7 to 316.2 W")
    assert facts["Rounds measured again"] == "none"
    assert "matmul_tf32 no" in facts["Switches of the reference"]


def test_why_rounds_were_measured_again_is_folded(show: Show) -> None:
    gpu = judge_gpu(disturbances=["sw_thermal_slowdown", f"a process {MARKUP}"])
    speed = cut_section(show(timing={"gpu": gpu, "rounds": 8, "sessions": 2}), "speed")
    assert read_facts(speed)["Rounds measured again"] == "2"
    assert "8 alternating rounds in 2 sessions" in speed
    folded = speed.split("Why rounds were measured again")[1].split("</details>")[0]
    assert "<li>sw_thermal_slowdown</li>" in folded
    assert MARKUP not in folded


def judge_gpu(**given: object) -> dict[str, object]:
    readings = {"sm_clock": [1410, 1905, 1980], "memory_clock": [3201] * 3, "temperature": [32, 71], "watts": [90, 640]}
    return {"name": "NVIDIA H200", "uuid": "GPU-0", "driver": "580"} | readings | given


def test_every_reading_is_there_and_folded(show: Show) -> None:
    folded = cut_section(show(), "speed").split("Every reading, in milliseconds")[1].split("</details>")[0]
    readings = {name: len(text.split()) for name, text in read_facts(folded).items()}
    assert sorted(readings.values()) == [48, 100, 100, 100, 100]


def test_the_work_on_the_gpu_and_where_the_time_went(show: Show) -> None:
    evidence = cut_section(show(), "evidence")
    (row,) = read_rows(evidence, '<table class="stack"> <caption>Work on the GPU')
    assert row == ["project_row", "own kernel", "1", "0.09507", "100.0 %"]
    facts = read_facts(evidence)
    assert (facts["Start of the processes"], facts["Performance"]) == ("11.0 s", "11.3 s")
    assert "Counted speedup" not in facts


def test_a_long_list_of_work_is_folded_and_escaped(
    visit: Visit, submit: Submit, finish: Finish, gpu: Environment
) -> None:
    run = submit(environment=gpu, visibility="public")
    body = judge_timed(run).model_dump(mode="json")
    body["evidence"]["activities"] = [
        {"name": f"k{number}{MARKUP}", "own": False, "launches": 1, "milliseconds": number, "share": 0.1}
        for number in range(12)
    ]
    body["evidence"]["library"] = [{"name": f"aten::op{number}", "calls": 1, "operations": 1} for number in range(13)]
    page = visit("anonymous").get(f"/runs/{finish(run, judge_timed, evidence=body['evidence']).public_id}/")
    text = page.content.decode()
    shown, folded = text.split("2 more that took less")
    assert shown.index("k11&lt;script&gt;") < shown.index("k2&lt;script&gt;")
    assert "k1&lt;script&gt;" in folded.split("</details>")[0]
    assert "3 more that did less" in folded
    assert MARKUP not in text


def test_a_run_that_was_not_timed_on_a_gpu_says_so(
    visit: Visit, submit: Submit, finish: Finish, gpu: Environment
) -> None:
    run = finish(submit(environment=gpu, visibility="public"), reject, gates=GATES[:1])
    page = visit("anonymous").get(f"/runs/{run.public_id}/").content.decode()
    assert 'aria-labelledby="speed"' not in page
    assert read_facts(page)["Counted speedup"] == "none, nothing was timed"


def test_every_timed_call_is_drawn(show: Show) -> None:
    page = show()
    figure = json.loads(page.split('<script id="timing" type="application/json">')[1].split("</script>")[0])
    assert [trace["name"] for trace in figure["data"]] == ["eager PyTorch", "compiled PyTorch", "this submission"]
    assert {len(trace["y"]) for trace in figure["data"]} == {100}
    assert figure["layout"]["shapes"][0]["y0"] == pytest.approx(0.045, abs=1e-4)


def test_nothing_is_drawn_where_nothing_was_timed(visit: Visit, submit: Submit, finish: Finish) -> None:
    page = visit("alice").get(f"/runs/{finish(submit()).public_id}/").content.decode()
    assert "plotly" not in page
    assert "Every timed call" not in page
