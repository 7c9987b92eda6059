from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from portal.catalog.models import Certificate, Environment, Release, Task
from portal.catalog.services import compute_task_digest, load_catalog
from tests.conftest import Submit
from verifier.task import TaskError, find_tasks_root, load_tasks

pytestmark = pytest.mark.django_db

SPARSEMAX = Path("l1") / "sparsemax-rows"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the real tasks without what was measured, to be changed at will."""
    measured = shutil.ignore_patterns("certificates")
    return Path(shutil.copytree(find_tasks_root(), tmp_path / "tasks", ignore=measured))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_it_loads_everything(root: Path) -> None:
    catalog = load_catalog(root)
    folders = load_tasks(root)
    assert (catalog.tasks, catalog.environments, catalog.certificates, catalog.retired) == (len(folders), 3, 0, 0)
    assert set(Task.objects.values_list("id", flat=True)) == {folder.id for folder in folders}
    environment = Environment.objects.get(slug="cpu-interpreter")
    assert (environment.timed, environment.official, environment.device["compute_capability"]) == (False, False, 89)
    assert Environment.objects.get(official=True).slug == "l40s"


def test_it_keeps_what_is_hidden_out_of_the_database(root: Path) -> None:
    load_catalog(root)
    for folder in load_tasks(root):
        task = Task.objects.get(id=folder.id)
        hidden = [item for item in folder.specification.distributions if not item.visible]
        assert hidden
        assert [item["name"] for item in task.distributions] == [
            item.name for item in folder.specification.visible_distributions
        ]
        assert task.hidden_distributions == len(hidden)
        row = json.dumps(Task.objects.filter(id=folder.id).values().get(), default=str)
        assert not [item.description for item in hidden if item.description in row]
        assert (folder.path / "certified.py").read_text(encoding="utf-8")[:200] not in row


def test_a_second_time_changes_nothing(root: Path) -> None:
    load_catalog(root)
    before = list(Task.objects.values()), list(Environment.objects.values())
    load_catalog(root)
    assert (list(Task.objects.values()), list(Environment.objects.values())) == before


@pytest.mark.parametrize("name", ["task.toml", "instruction.md", "reference.py", "hidden.py", "certified.py"])
def test_a_change_of_any_file_changes_the_digest(root: Path, name: str) -> None:
    folder = root / SPARSEMAX
    before = compute_task_digest(folder)
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write("\n")
    assert compute_task_digest(folder) != before


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        pytest.param('dtype = "fp32"', 'dtype = "fp8"', "dtype", id="bad value"),
        pytest.param('timing_mode = "cold"', 'speed = "cold"', "timing_mode", id="unknown key"),
        pytest.param('schema = "kernelquest.task/1"', "schema = [", "TOML", id="not TOML"),
    ],
)
def test_a_malformed_task_changes_nothing_and_says_where(root: Path, old: str, new: str, key: str) -> None:
    load_catalog(root)
    before = list(Task.objects.values())
    edit(root / "l1" / "csr-neighbor-max" / "instruction.md", "\n", "\n\n")
    edit(root / SPARSEMAX / "task.toml", old, new)
    with pytest.raises(CommandError) as caught:
        call_command("load_tasks", root=root, stdout=StringIO())
    message = str(caught.value)
    assert "Nothing was loaded." in message
    assert str(SPARSEMAX / "task.toml") in message
    assert key in message
    assert list(Task.objects.values()) == before


def test_a_missing_file_is_named(root: Path) -> None:
    (root / SPARSEMAX / "reference.py").unlink()
    with pytest.raises(TaskError, match=r"reference\.py: the file is missing"):
        load_catalog(root)


def test_a_folder_without_tasks_is_no_catalogue(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="KQ_TASKS"):
        load_catalog(tmp_path)


def test_a_task_that_is_gone_keeps_its_runs_and_comes_back(root: Path, submit: Submit) -> None:
    run = submit()
    gone = root / SPARSEMAX
    aside = root / "aside"
    gone.rename(aside)
    assert load_catalog(root).retired == 1
    assert not Task.objects.active().filter(id=run.task_id).exists()
    assert Task.objects.get(id=run.task_id).runs.get() == run
    aside.rename(gone)
    assert load_catalog(root).retired == 0
    assert Task.objects.active().filter(id=run.task_id).exists()


HEAD = {"schema": "kernelquest.certificate/1"}


def write_certificate(root: Path, environment: str, text: str) -> Path:
    folder = root / SPARSEMAX / "certificates"
    folder.mkdir(exist_ok=True)
    path = folder / f"{environment}.json"
    path.write_text(text, encoding="utf-8")
    return path


class TestCertificates:
    def test_they_follow_the_files(self, root: Path) -> None:
        path = write_certificate(root, "h200", json.dumps({**HEAD, "target": 1.8, "margin": 0.07}))
        assert load_catalog(root).certificates == 1
        certificate = Certificate.objects.get()
        assert (certificate.task.slug, certificate.environment_id, certificate.target) == (
            "sparsemax-rows",
            "h200",
            1.8,
        )
        assert certificate.body["margin"] == 0.07
        write_certificate(root, "h200", json.dumps({**HEAD, "target": 2.5}))
        load_catalog(root)
        assert Certificate.objects.get().target == 2.5
        path.unlink()
        load_catalog(root)
        assert not Certificate.objects.exists()

    def test_a_task_without_a_target_says_why(self, root: Path) -> None:
        write_certificate(root, "h200", json.dumps({**HEAD, "certified": False, "reason": "slower than the baseline"}))
        load_catalog(root)
        certificate = Certificate.objects.get()
        assert (certificate.target, certificate.body["reason"]) == (None, "slower than the baseline")
        assert str(certificate) == "l1-09 in h200: not certified"

    @pytest.mark.parametrize(
        ("environment", "text", "words"),
        [
            ("h200", "{", "JSON"),
            ("h200", "{}", "schema"),
            ("h200", json.dumps(HEAD), "a certified task has a target"),
            ("h200", json.dumps({**HEAD, "target": 0}), "greater than 0"),
            ("h200", json.dumps({**HEAD, "target": "fast"}), "target"),
            ("moon", json.dumps({**HEAD, "target": 2}), "no environment 'moon'"),
        ],
    )
    def test_a_bad_one_changes_nothing(self, root: Path, environment: str, text: str, words: str) -> None:
        path = write_certificate(root, environment, text)
        with pytest.raises(TaskError, match=words) as caught:
            load_catalog(root)
        assert caught.value.path == path
        assert not Task.objects.exists()


def test_each_set_of_tasks_is_a_release_and_the_loaded_one_is_the_newest(root: Path) -> None:
    load_catalog(root)
    first = Release.objects.get()
    assert dict(first.tasks.values_list("task", "digest")) == dict(Task.objects.values_list("id", "digest"))
    load_catalog(root)
    assert Release.objects.get().loaded_at == first.loaded_at
    path = root / SPARSEMAX / "instruction.md"
    before = path.read_text(encoding="utf-8")
    path.write_text(before + "\nOne more line.\n", encoding="utf-8")
    load_catalog(root)
    second = Release.objects.get(loaded_at__gt=first.loaded_at)
    assert first.tasks.get(task="l1-09").digest != second.tasks.get(task="l1-09").digest
    assert first.tasks.get(task="l1-01").digest == second.tasks.get(task="l1-01").digest
    path.write_text(before, encoding="utf-8")
    load_catalog(root)
    assert [release.slug for release in Release.objects.all()] == [first.slug, second.slug]


def test_a_task_that_is_gone_is_in_no_new_release(root: Path) -> None:
    load_catalog(root)
    shutil.rmtree(root / SPARSEMAX)
    load_catalog(root)
    newest, oldest = Release.objects.all()
    assert (newest.tasks.filter(task="l1-09").exists(), oldest.tasks.filter(task="l1-09").exists()) == (False, True)
