from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from portal.ops.demo_data import create_demo_data


class Command(BaseCommand):
    help = "Make the demo's user, team and systems, and print the sign-in as JSON. Run it again as often as you like."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--password", help="default: a new generated one at every call")

    def handle(self, *_: Any, password: str | None, **__: Any) -> None:
        self.stdout.write(json.dumps(create_demo_data(password=password)))
