"""The digest by which Harbor knows a task: two packages with the same one hold the same files."""

from __future__ import annotations

import hashlib
from pathlib import Path

FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
FOLDERS = ("environment", "tests", "solution", "steps")


def compute_digest(folder: Path) -> str:
    """Return the SHA-256 over the names and contents of what a task of Harbor consists of, as its lock files have it."""
    paths = [folder / name for name in FILES if (folder / name).is_file()]
    paths += [path for name in FOLDERS for path in (folder / name).rglob("*") if path.is_file()]
    named = sorted((path.relative_to(folder).as_posix(), path) for path in paths)
    lines = [f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n" for name, path in named]
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
