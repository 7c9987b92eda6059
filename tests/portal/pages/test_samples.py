from __future__ import annotations

import pytest
from django.http import FileResponse
from django.test import Client

from portal.runs.sample_solutions import SAMPLES, Sample
from tests.portal.pages.conftest import Visit


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_sample_is_sent_as_plain_text(client: Client, sample: Sample) -> None:
    response = client.get(f"/submit/samples/{sample.name}.py")
    assert isinstance(response, FileResponse)
    assert response.headers["Content-Type"] == "text/plain"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Disposition"] == f'attachment; filename="{sample.name}.py"'
    assert b"".join(response.streaming_content) == sample.path.read_bytes()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_sample_says_which_task_it_is_for(sample: Sample) -> None:
    assert sample.path.read_text().startswith(f"# task: {sample.task_id}\n")


@pytest.mark.parametrize("name", ["certified", "__init__", "no-such-sample"])
def test_no_other_file_is_sent(client: Client, name: str) -> None:
    assert client.get(f"/submit/samples/{name}.py").status_code == 404


@pytest.mark.parametrize("path", ["..%2fviews", "../views", "%2e%2e/%2e%2e/settings"])
def test_no_path_leads_out_of_the_folder(client: Client, path: str) -> None:
    assert client.get(f"/submit/samples/{path}.py").status_code == 404


def test_the_submit_page_offers_all(visit: Visit, catalog: None) -> None:
    page = visit("alice").get("/submit/").content.decode()
    for sample in SAMPLES:
        assert f"/submit/samples/{sample.name}.py" in page
        assert sample.description in page
