"""Which part may import which: tasks <- verifier <- portal."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Light modules: plain data and pure mathematics.
OPEN_TO_PORTAL = {
    "verifier.bundle",
    "verifier.certificate",
    "verifier.environment",
    "verifier.floor",
    "verifier.limits",
    "verifier.reward",
    "verifier.task",
    "verifier.timing",
    "verifier.verdict",
}


def list_modules(folder: str) -> list[Path]:
    """Return the Python files of `folder`, without submissions."""
    submissions = {"samples", "exploits", "honest"}
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if not submissions & set(path.parts)]


def find_imports(path: Path) -> set[str]:
    """Return the modules that the file at `path` imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"verifier.{alias.name}" for alias in node.names} if node.module == "verifier" else {node.module}
    return found


def find_roots(path: Path) -> set[str]:
    """Return the top-level packages that the file at `path` imports."""
    return {name.partition(".")[0] for name in find_imports(path)}


@pytest.mark.parametrize("path", list_modules("portal"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_portal_imports_only_the_light_part_of_the_verifier(path: Path) -> None:
    assert not find_roots(path) & {"torch", "triton"}
    heavy = {name for name in find_imports(path) if name.startswith("verifier.")} - OPEN_TO_PORTAL
    # The version number is no module.
    assert heavy <= {"verifier.__version__"}


@pytest.mark.parametrize("path", list_modules("verifier"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_verifier_knows_nothing_of_the_portal(path: Path) -> None:
    assert not find_roots(path) & {"django", "portal"}


def test_the_light_part_stays_light() -> None:
    for name in OPEN_TO_PORTAL:
        path = ROOT / f"{name.replace('.', '/')}.py"
        heavy = {module for module in find_imports(path) if module.startswith("verifier.")} - OPEN_TO_PORTAL
        assert not heavy
        assert not find_roots(path) & {"torch", "triton"}


def read_declared(*extras: str) -> set[str]:
    """Return the packages that pyproject.toml declares for the web host and for `extras`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] + [line for extra in extras for line in project["optional-dependencies"][extra]]
    return {re.split(r"[^A-Za-z0-9-]", line, maxsplit=1)[0].lower() for line in lines}


def find_packages(folder: str) -> set[str]:
    """Return the packages that the files of `folder` import."""
    owners = importlib.metadata.packages_distributions()
    roots = {root for path in list_modules(folder) for root in find_roots(path)}
    others = roots - sys.stdlib_module_names - {"portal", "tests", "verifier"}
    return {owners.get(root, [root])[0].lower().replace("_", "-") for root in others}


@pytest.mark.parametrize(
    ("folder", "extras"), [("portal", ()), ("verifier", ("verifier",)), ("tests", ("verifier", "dev"))]
)
def test_every_imported_package_is_declared(folder: str, extras: tuple[str, ...]) -> None:
    assert find_packages(folder) <= read_declared(*extras)


def test_every_declared_package_is_used() -> None:
    # Django finds its driver, and Triton its build tools, by themselves.
    indirect = {"psycopg", "setuptools"}
    settings = (ROOT / "portal" / "settings.py").read_text(encoding="utf-8")
    demo = (ROOT / "portal" / "ops" / "demo.py").read_text(encoding="utf-8")
    used = find_packages("portal") | find_packages("verifier")
    named = {name for name in read_declared("verifier") if name.replace("-", "_") in settings or f'"{name}"' in demo}
    assert read_declared("verifier") - used - named == indirect
