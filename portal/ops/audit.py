"""Ask a public database of vulnerabilities about every pinned package: `python -m portal.ops.audit`.

pip-audit does the asking, from an environment of its own. Where no network is, nothing is audited and that is said:
a check that needs the internet must not stop work without it. `--strict` makes it a failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# What stands on the internet decides. The others hold what the benchmark pins, which runs submissions in a sandbox.
DECIDING, TOLD = ("web",), ("dev", "h200")
INSTALLATION_SECONDS, AUDIT_SECONDS = 300, 300
FAULTS_FOUND, NOT_AUDITED = 1, 2


class AuditUnavailable(Exception):
    """Nothing can be audited now; the message says why."""


def call(command: list[str], seconds: int) -> subprocess.CompletedProcess[str]:
    """Run a command. Raises AuditUnavailable when it does not end in time."""
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise AuditUnavailable(f"{Path(command[0]).name} did not end within {seconds} seconds") from error


def prepare_tool(folder: Path) -> Path:
    """Return pip-audit, installed in `folder` from its lock. Raises AuditUnavailable."""
    python = folder / "bin" / "python"
    lock = str(ROOT / "requirements" / "audit.txt")
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "-r", lock]
    for command in ([sys.executable, "-m", "venv", str(folder)], [str(python), "-m", "pip", "install", *options]):
        answer = call(command, INSTALLATION_SECONDS)
        if answer.returncode:
            raise AuditUnavailable(f"pip-audit cannot be installed: {answer.stderr.strip()[-300:]}")
    return folder / "bin" / "pip-audit"


def audit(tool: Path, lock: str) -> dict[str, Any]:
    """Return what is known of the packages of `lock`. Raises AuditUnavailable."""
    options = ["--vulnerability-service", "osv", "--require-hashes", "--disable-pip", "--format", "json"]
    path = ROOT / "requirements" / f"{lock}.txt"
    answer = call([str(tool), *options, "--progress-spinner", "off", "--requirement", str(path)], AUDIT_SECONDS)
    try:
        return dict(json.loads(answer.stdout))
    except ValueError as error:
        last = answer.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise AuditUnavailable(f"the database cannot be asked: {last[0][:300]}") from error


def list_faults(report: dict[str, Any]) -> Iterator[str]:
    """Give a line for each known fault, and for each package that could not be looked up."""
    for package in report["dependencies"]:
        if reason := package.get("skip_reason"):
            yield f"{package['name']}: not audited: {reason}"
        for fault in package.get("vulns", []):
            fixed = ", ".join(fault["fix_versions"]) or "no version yet"
            yield f"{package['name']} {package['version']}: {fault['id']}, fixed in {fixed}"


def run(folder: Path) -> int:
    """Audit every lock; return the exit code. Raises AuditUnavailable."""
    tool = prepare_tool(folder)
    code = 0
    for lock in DECIDING + TOLD:
        faults = list(list_faults(audit(tool, lock)))
        print(f"{lock}: {len(faults)} known faults", *faults, sep="\n  ")
        if faults and lock in DECIDING:
            code = FAULTS_FOUND
    return code


def main(arguments: list[str]) -> int:
    """Audit; return the exit code."""
    try:
        return run(Path(os.environ.get("PORTAL_VAR", ROOT / "var")) / "audit")
    except AuditUnavailable as error:
        print(f"Not audited: {error}", file=sys.stderr)
        return NOT_AUDITED if "--strict" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
