from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.core.management.base import BaseCommand, CommandError

from portal.accounts.models import Team, User
from portal.imports.jobs import JobError, read_job
from portal.imports.packages import read_package
from portal.imports.services import Preview, Row, build_preview, clean, import_job, measure_work
from portal.runs.models import Run


class Command(BaseCommand):
    help = (
        "Import the trials of one job of Harbor as runs, which workers verify again. Without --yes it only shows what "
        "would become of each trial. The same job again changes nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("job", type=Path, metavar="JOBS_DIR", help="the directory of one job")
        parser.add_argument(
            "--package", type=Path, required=True, help="what `kq export harbor` wrote, or its kernelquest.json"
        )
        parser.add_argument("--team", required=True, help="the slug of the team that the systems belong to")
        parser.add_argument("--user", required=True, help="who imports: somebody who manages the team")
        parser.add_argument("--visibility", choices=Run.Visibility.values, default=Run.Visibility.PRIVATE)
        parser.add_argument(
            "--release-source", action="store_true", help="whoever sees the runs may read their sources"
        )
        parser.add_argument("--yes", action="store_true", help="import what is shown, all or nothing")

    def handle(self, *_: Any, **given: Any) -> None:
        team, user = find_people(given["team"], given["user"])
        try:
            job, package = read_job(given["job"]), read_package(given["package"])
        except JobError as error:
            raise CommandError(f"Nothing was imported. {error}") from error
        preview = build_preview(job, package)
        self.stdout.write(write_table(preview))
        if not preview.new:
            self.stdout.write("There is nothing to import.")
            return
        if not given["yes"]:
            self.stdout.write(f"Nothing was imported. Add --yes to queue {len(preview.new)} runs.")
            return
        shown = {"visibility": given["visibility"], "release_source": given["release_source"]}
        try:
            made = import_job(user=user, team=team, job=job, package=package, **shown)
        except (ValidationError, PermissionDenied) as error:
            reason = " ".join(error.messages) if isinstance(error, ValidationError) else str(error)
            raise CommandError(f"Nothing was imported. {reason}") from error
        names = ", ".join(campaign.system.name for campaign in made.campaigns)
        self.stdout.write(f"Imported {len(made.runs)} runs of {names}. They wait for a worker.")


def find_people(team: str, user: str) -> tuple[Team, User]:
    """Return a team and a user by their names. Raises CommandError."""
    found_team, found_user = Team.objects.filter(slug=team).first(), User.objects.filter(username=user).first()
    if found_team is None or found_user is None:
        what = f"team {team}" if found_team is None else f"user {user}"
        raise CommandError(f"Nothing was imported. There is no {what}.")
    return found_team, found_user


def write_table(preview: Preview) -> str:
    """Return what would become of each trial, a line each, and how many there are of each kind."""
    header = ("trial", "task", "system", "minutes", "solution", "becomes")
    lines = [header, *(describe(row) for row in preview.rows)]
    lines += [(clean(name, 60), "", "", "", "", f"left out: {clean(why, 120)}") for name, why in preview.job.unfinished]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(preview.counts.items()))
    unread = f", {len(preview.job.unfinished)} not finished or not readable" if preview.job.unfinished else ""
    return "\n".join([*rows, f"{len(preview.rows)} trials: {counts}{unread}."])


def describe(row: Row) -> tuple[str, ...]:
    """Return one trial as the cells of a line."""
    seconds = measure_work(row.trial)
    reason = f": {clean(row.decision.reason, 120)}" if row.decision.reason else ""
    becomes = "imported before" if row.imported else f"{row.decision.fate}{reason}"
    return (
        clean(row.trial.folder, 60),
        row.task or clean(row.trial.result.task_name, 60),
        row.system,
        "" if seconds is None else f"{seconds / 60:.1f}",
        "none" if row.trial.artifact is None else f"{len(row.trial.artifact):,} bytes",
        f"{becomes}, to be looked at" if row.decision.flagged else becomes,
    )
