from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError

from verifier.environment import load_environment
from verifier.lint import lint_tasks
from verifier.task import (
    ParameterSpecification,
    TaskError,
    evaluate_expression,
    find_tasks_root,
    load_task,
    load_task_folder,
    load_tasks,
)


@pytest.mark.parametrize(
    ("expression", "value"), [(7, 7), ("N", 3), ("4*N*D + 8*(N+1)", 92), ("D//2", 2), ("2**N", 8), ("(N - 1) * D", 10)]
)
def test_expressions_over_dims(expression: int | str, value: int) -> None:
    assert evaluate_expression(expression, {"N": 3, "D": 5}) == value


@pytest.mark.parametrize(
    "expression", ["M", "N/2", "__import__('os')", "N.real", "1.5", "True", "f(N)", "N +", "[N]", "N if N else D"]
)
def test_anything_else_is_no_expression(expression: str) -> None:
    with pytest.raises(ValueError, match=r"N|dim"):
        evaluate_expression(expression, {"N": 3, "D": 5})


def test_tasks_are_found_by_id_slug_and_folder() -> None:
    task = load_task("l1-09")
    assert load_task("sparsemax-rows") == task
    assert load_task(str(task.path)).id == "l1-09"
    with pytest.raises(KeyError):
        load_task("l9-99")


def test_every_task_on_disk_is_sound() -> None:
    tasks, complaints = lint_tasks()
    assert complaints == []
    assert {"l1-01", "l1-09", "l2-01"} <= {task.id for task in tasks}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(find_tasks_root() / "l1" / "sparsemax-rows", tmp_path / "l1" / "sparsemax-rows")
    shutil.copytree(find_tasks_root() / "environments", tmp_path / "environments")
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('id = "l1-09"', 'id = "l1-9"', "id"),
        ('id = "l1-09"', 'id = "l2-09"', ""),
        ('slug = "sparsemax-rows"', 'slug = "other-rows"', "slug"),
        ('dtype = "fp32"', 'dtype = "fp31"', "dtype"),
        ('rule = "allclose"', 'rule = "close enough"', "tolerance.rule"),
        ('shape = ["M", "D"]', 'shape = ["M", "Q"]', ""),
        ("visible = true", "visible = false", ""),
        ('family = "select-sort"', "familly = 'select-sort'", "family"),
    ],
)
def test_a_malformed_specification_is_named_with_file_key_and_reason(root: Path, old: str, new: str, key: str) -> None:
    folder = root / "l1" / "sparsemax-rows"
    edit(folder / "task.toml", old, new)
    with pytest.raises(TaskError) as caught:
        load_task_folder(folder)
    assert caught.value.path == folder / "task.toml"
    assert caught.value.key == key
    assert caught.value.reason


def test_broken_toml_and_missing_files_are_named(root: Path) -> None:
    folder = root / "l1" / "sparsemax-rows"
    (folder / "hidden.py").unlink()
    with pytest.raises(TaskError, match=r"hidden\.py: the file is missing"):
        load_task_folder(folder)
    (folder / "hidden.py").write_text("")
    (folder / "task.toml").write_text("id = ")
    with pytest.raises(TaskError, match="not valid TOML"):
        load_task_folder(folder)


def test_a_repeated_id_is_refused(root: Path) -> None:
    shutil.copytree(root / "l1" / "sparsemax-rows", root / "l1" / "sparsemax-twice")
    edit(root / "l1" / "sparsemax-twice" / "task.toml", 'slug = "sparsemax-rows"', 'slug = "sparsemax-twice"')
    with pytest.raises(TaskError, match="also the id"):
        load_tasks(root)


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("reference.py", "class Model(", "class Reference(", "Model"),
        ("reference.py", "return (shifted - tau)", "return 1.5 * (shifted - tau)", "of the budget"),
        ("certified.py", "class ModelNew", "class Solution", "ModelNew"),
        ("hidden.py", "def compute_oracle", "def compute", "compute_oracle"),
        ("instruction.md", "Sparsemax", "Sparsemax (offset, uniform-tight)", "hidden distribution"),
    ],
)
def test_lint_sees_what_the_specification_cannot(root: Path, file: str, old: str, new: str, reason: str) -> None:
    edit(root / "l1" / "sparsemax-rows" / file, old, new)
    _, complaints = lint_tasks(root)
    assert complaints
    assert any(reason in f"{item.key} {item.reason}" for item in complaints)


def test_environments_load_and_say_whether_they_time() -> None:
    assert not load_environment("cpu-interpreter").timed
    assert load_environment("l40s").official
    with pytest.raises(KeyError):
        load_environment("abacus")


def test_a_repeated_parameter_stands_for_one_in_each_layer() -> None:
    weight = ParameterSpecification(name="layers.*.weight", dtype="float16", shape=["2*W", "W"], count="LAY")
    found = [
        (item.name, item.resolve_shape({"W": 3, "LAY": 2}), item.dtype) for item in weight.expand({"W": 3, "LAY": 2})
    ]
    assert found == [("layers.0.weight", (6, 3), "float16"), ("layers.1.weight", (6, 3), "float16")]
    single = ParameterSpecification(name="norm.weight", dtype="float32", shape=["W"])
    assert [item.name for item in single.expand({"W": 3})] == ["norm.weight"]


@pytest.mark.parametrize(("name", "count"), [("layers.*.weight", 1), ("layers.0.weight", "LAY"), ("a.*.b.*", 2)])
def test_a_star_and_a_count_go_together(name: str, count: int | str) -> None:
    with pytest.raises(ValidationError, match=r"goes with a count"):
        ParameterSpecification(name=name, dtype="float32", shape=[1], count=count)


def test_a_task_is_found_beside_a_broken_one(root: Path) -> None:
    shutil.copytree(root / "l1" / "sparsemax-rows", root / "l1" / "broken")
    (root / "l1" / "broken" / "task.toml").write_text("id = ", encoding="utf-8")
    assert load_task("l1-09", root).specification.slug == "sparsemax-rows"
    with pytest.raises(TaskError, match="not valid TOML"):
        load_task("broken", root)
