from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.catalog.services import load_catalog
from verifier.task import TaskError


class Command(BaseCommand):
    help = "Copy the tasks and environments on disk into the database. A malformed one changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--root", type=Path, help="the folder of tasks; default: tasks/, or KQ_TASKS")

    def handle(self, *_: Any, root: Path | None, **__: Any) -> None:
        try:
            catalog = load_catalog(root)
        except TaskError as error:
            raise CommandError(f"Nothing was loaded. {error}") from error
        self.stdout.write(
            f"Loaded {catalog.tasks} tasks, {catalog.environments} environments, {catalog.certificates} certificates; "
            f"{catalog.retired} tasks are gone."
        )
