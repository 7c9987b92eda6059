"""The reference of the commands is what the command says of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_of_commands_is_current(tmp_path: Path) -> None:
    made = tmp_path / "commands.md"
    command = [
        sys.executable,
        "-m",
        "typer",
        "verifier.cli",
        "utils",
        "docs",
        "--name",
        "kq",
        "--title",
        "The command kq",
    ]
    subprocess.run([*command, "--output", str(made)], cwd=ROOT, check=True, capture_output=True)
    assert made.read_text() == (ROOT / "docs" / "commands.md").read_text(), "run: make reference"
