from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.ops.worker_role import RoleRefused, grant_worker


class Command(BaseCommand):
    help = (
        "Let a PostgreSQL role do what a worker needs, and nothing else. Run it with the web's own DATABASE_URL, "
        "once for each role and again after every migrate."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("role", help="a role that exists, such as kernelquest_worker")

    def handle(self, *_: Any, role: str, **__: Any) -> None:
        try:
            grant_worker(role=role)
        except RoleRefused as refusal:
            raise CommandError(str(refusal)) from refusal
        self.stdout.write(f"The role {role} can do what a worker needs. Give workers a DATABASE_URL with it.")
