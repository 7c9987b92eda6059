"""Exported tasks before Harbor's own linter and digest. Harbor is no dependency: without it nothing is tested here."""

from __future__ import annotations

from pathlib import Path

import pytest

from verifier.environment import load_environment
from verifier.exports.harbor import export
from verifier.task import load_task


@pytest.mark.parametrize("official", [False, True], ids=["public", "official"])
def test_exported_tasks_lint_clean_and_have_harbors_digest(tmp_path: Path, official: bool) -> None:  # noqa: FBT001
    lint = pytest.importorskip("harbor.lint")
    packager = pytest.importorskip("harbor.publisher.packager").Packager
    # Which bytes a tag names is for whoever builds the images to pin.
    rules = set(lint.LintRule) - {lint.LintRule("unpinned-image")}
    tasks = [load_task(name) for name in ("l1-09", "l2-01", "l4-24")]
    manifest = export(tasks, tmp_path / "out", load_environment("h200"), official=official)
    for item in manifest.tasks:
        folder = tmp_path / "out" / item.folder
        assert not lint.lint_task(folder, selected_rules=rules)
        assert item.digest == f"sha256:{packager.compute_content_hash(folder)[0]}"
