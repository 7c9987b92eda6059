"""What must hold for every file of the project, and for the files that a newcomer meets first."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from portal.ops.bootstrap import LOCKS
from verifier.environment import load_environment

ROOT = Path(__file__).resolve().parents[2]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)(?:\[[a-z,]+\])?==(\S+)", re.MULTILINE)

# The brackets keep this file from finding itself.
FORBIDDEN = {
    "a registry host": re.compile(r"[p]ypi\.org|[p]ythonhosted\.org|[r]egistry\.npmjs|[d]eb\.debian\.org"),
    "a path of one machine": re.compile(r"(?<![\w.])/(?:[w]ork|[r]oot|[h]ome/\w+)/"),
}
# Written by others.
VENDORED = ("static/vendor/",)
# A test submission may try to read any path.
HOSTILE = ("tests/exploits/",)


@cache
def list_texts() -> list[tuple[str, str]]:
    """Return name and text of every text file that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    texts = []
    for name in filter(None, answer.stdout.split("\0")):
        path = ROOT / name
        if name.startswith(VENDORED) or not path.is_file():
            continue
        content = path.read_bytes()
        if b"\0" not in content:
            texts.append((name, content.decode("utf-8")))
    return texts


def read_pins(name: str) -> set[tuple[str, ...]]:
    """Return the (package, version) pairs of one lock."""
    return set(PIN.findall((ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")))


def list_targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    found = [name for name, text in list_texts() if not name.startswith(HOSTILE) and FORBIDDEN[what].search(text)]
    assert not found, f"{what} in: {', '.join(found)}"


@pytest.mark.parametrize("text", [f"https://{'pypi'}.org/simple", f"see {'/work'}/main", f"'{'/root'}/.cache/x'"])
def test_the_search_for_forbidden_names_finds(text: str) -> None:
    assert any(pattern.search(text) for pattern in FORBIDDEN.values())


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_of_a_lock_has_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(PIN.findall(text)) > 10
    unhashed = [entry.split()[0] for entry in entries if not HASH.search(entry)]
    assert not unhashed


@pytest.mark.parametrize("name", LOCKS)
def test_each_lock_holds_those_that_it_names(name: str) -> None:
    assert all(read_pins(held) <= read_pins(name) for held in LOCKS[name])


def test_the_web_host_needs_neither_torch_nor_triton() -> None:
    names = {name for name, _ in read_pins("web")}
    assert "django" in names
    assert not names & {"torch", "triton"}


@pytest.mark.parametrize(("lock", "environment"), [("demo", "cpu-interpreter"), ("demo", "l40s"), ("h200", "h200")])
def test_a_lock_has_the_software_of_its_environments(lock: str, environment: str) -> None:
    versions = load_environment(environment).versions
    assert {("torch", versions.torch), ("triton", versions.triton)} <= read_pins(lock)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_every_make_command_of_a_document_exists(document: str) -> None:
    named = set(re.findall(r"\bmake ([a-z][a-z-]+)", (ROOT / document).read_text(encoding="utf-8")))
    assert named <= list_targets(), f"not in the Makefile: {named - list_targets()}"


def test_make_without_a_target_prints_every_described_one() -> None:
    answer = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    printed = set(re.findall(r"^  make ([a-z-]+) ", answer.stdout, re.MULTILINE))
    assert printed == list_targets()


@pytest.mark.parametrize(
    "document",
    ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/decisions.md", "docs/adding-a-task.md"],
)
def test_every_relative_link_of_a_document_leads_somewhere(document: str) -> None:
    path = ROOT / document
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert not missing


def test_no_template_breaks_a_tag_over_lines() -> None:
    """Django shows such a tag as text."""
    whole = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}")
    broken = [
        f"{name}:{number}"
        for name, text in list_texts()
        if name.startswith("templates/")
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(r"\{\{|\}\}|\{%|%\}", whole.sub("", line))
    ]
    assert not broken, f"tags over several lines in: {', '.join(broken)}"
