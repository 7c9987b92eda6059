"""``kq submit``, ``status``, ``wait`` and ``reward``: a team's side of a portal, from the command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from verifier.bundle import BundleError
from verifier.cli_workspace import estimate_reward, find_workspace, submit_here
from verifier.exits import Exit, find_failure_exit
from verifier.terminal import JsonOption, err, fail, out
from verifier.verdict import FailureCode
from verifier.workspaces.workspace import open_workspace

if TYPE_CHECKING:
    from verifier.portal_client import Body, Portal, PortalError

ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")
PROBLEMS_SHOWN = 20

PortalOption = Annotated[str, typer.Option("--portal", help="The portal's address.", envvar="KQ_PORTAL")]
IdentifierArgument = Annotated[str, typer.Argument(help="A run or a campaign: its identifier, or its page's address.")]
TimeoutOption = Annotated[float | None, typer.Option(min=0, help="Seconds to wait at most; none for no limit.")]


class Visibility(StrEnum):
    PRIVATE = "private"
    TEAM = "team"
    PUBLIC = "public"


def open_portal(address: str, *, as_json: bool) -> Portal:
    """Return the portal that was named, with the token of this person, or end the command."""
    from verifier.portal_client import Portal

    if not address:
        raise fail(Exit.USAGE, "no portal was named", "give --portal ADDRESS or set KQ_PORTAL", as_json=as_json)
    token = os.environ.get("KQ_TOKEN", "").strip()
    if not token:
        fix = "make a token on your account page of the portal, then: export KQ_TOKEN=kq_..."
        raise fail(Exit.USAGE, "there is no token", fix, as_json=as_json)
    try:
        return Portal(address, token)
    except ValueError as error:
        raise fail(Exit.USAGE, str(error), "such as https://portal.example", as_json=as_json) from None


@contextmanager
def explain_portal(*, as_json: bool) -> Iterator[None]:
    """End the command with the portal's own words when it refuses something or cannot be reached."""
    from verifier.portal_client import PortalError

    try:
        yield
    except PortalError as error:
        raise fail(choose_exit(error), str(error), advise(error), as_json=as_json) from None


def choose_exit(error: PortalError) -> Exit:
    """Return the exit code of what a portal refused: whether the same may be tried later, or must be changed."""
    later = error.status is None or error.status == 429 or error.status >= 500  # noqa: PLR2004  as HTTP has it
    return Exit.TRANSIENT if later else Exit.USAGE


def advise(error: PortalError) -> str:
    """Return what to do about an error, beyond what the portal says."""
    if page := error.problem.get("earlier_page"):
        return f"see {page}, or submit it again with --again"
    match error.status:
        case None:
            return "check the address and the network; what was sent is kept, so run this again"
        case 401:
            return "KQ_TOKEN must hold a token of this portal that is still good"
        case 429 if seconds := error.problem.get("retry_after"):
            return f"try again in {seconds // 3600} h {seconds // 60 % 60} min"
    return ""


def submit(
    path: Annotated[Path, typer.Argument(help="One Python file, or a folder of them for a whole campaign.")],
    portal: PortalOption = "",
    task: Annotated[str, typer.Option(help="The task of a single file: its number or slug.", envvar="KQ_TASK")] = "",
    system: Annotated[str, typer.Option(help="The system; needed where your teams have more than one.")] = "",
    environment: Annotated[str, typer.Option(help="Where to judge; needed where more than one is served.")] = "",
    visibility: Annotated[Visibility, typer.Option(help="Who sees the runs.")] = Visibility.PRIVATE,
    release_source: Annotated[bool, typer.Option("--release-source", help="Let them read the sources.")] = False,
    wall_clock: Annotated[int | None, typer.Option(min=1, help="Seconds that the agent worked on a file.")] = None,
    title: Annotated[str, typer.Option(help="Of a campaign; the folder's name unless given.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Submit bytes that are submitted already.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Submit a campaign without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what a folder would become; keep the draft.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the verdicts.")] = False,
    note: Annotated[str, typer.Option(help="In a workspace: what is new in this attempt.")] = "",
    skip_check: Annotated[bool, typer.Option("--skip-check", help="In a workspace: submit without the gates.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Submit a solution, or a folder of solutions as a campaign, to a portal; or, in a workspace, make it its artifact.

    A folder's files say by their names what they are for: l1-09/2.py or l1-09_rep2.py is the second run of l1-09. When
    the connection is lost, run the same again: only what is missing is sent.

    Exit code 0: submitted; 2: refused, and why; 3: the portal cannot be reached, or the quota is spent. With --wait as
    kq wait.
    """
    if path.suffix.lower() in ARCHIVES:
        raise fail(Exit.USAGE, f"{path} is an archive", "unpack it, then submit the folder", as_json=as_json)
    if not path.exists():
        raise fail(Exit.NO_ARTIFACT, f"there is no file or folder {path}", as_json=as_json)
    if not portal and (here := open_workspace(Path())):
        submit_here(here, path, note, skip_check=skip_check, as_json=as_json)
        return
    place = open_portal(portal, as_json=as_json)
    with explain_portal(as_json=as_json):
        chosen: Body = {
            "system": system or choose_system(place, as_json=as_json),
            "environment": environment or choose_environment(place, as_json=as_json),
            "visibility": visibility.value,
            "release_source": release_source,
        }
        if path.is_dir():
            chosen["title"] = title or path.resolve().name
            subject = submit_folder(place, path, chosen, again=again, yes=yes, dry_run=dry_run, as_json=as_json)
        else:
            chosen |= {"task": task, "allow_duplicate": again, "wall_clock_seconds": wall_clock}
            subject = submit_file(place, path, chosen, as_json=as_json)
        if subject and wait:
            raise typer.Exit(await_end(place, subject["id"], None, as_json=as_json))
    if subject:
        show(place, subject, as_json=as_json)


def submit_file(place: Portal, path: Path, chosen: Body, *, as_json: bool) -> Body:
    """Submit one file, and return the run."""
    from verifier.portal_client import read_solution

    if not chosen["task"]:
        raise fail(Exit.USAGE, "the file's task was not named", "give --task l1-09, for instance", as_json=as_json)
    try:
        source = read_solution(path)
    except BundleError as error:
        code = Exit.NO_ARTIFACT
        raise fail(code, error.message, f"{error.code}: {error.code.explanation}", as_json=as_json) from None
    run: Body = place.post("/runs/", chosen | {"source": source})
    return run


def submit_folder(
    place: Portal, folder: Path, chosen: Body, *, again: bool, yes: bool, dry_run: bool, as_json: bool
) -> Body | None:
    """Put a folder into a draft, show what it would become, and confirm it. None when it stays a draft."""
    from verifier.portal_client import confirm_draft, fill_draft, find_draft, read_folder

    files, refusals = read_folder(folder)
    if refusals:
        raise fail(Exit.NO_ARTIFACT, tell_some(refusals), "mend or remove them; nothing was sent", as_json=as_json)
    if not files:
        raise fail(Exit.NO_ARTIFACT, f"{folder} holds no file that ends in .py", as_json=as_json)
    draft = find_draft(place, chosen) or place.post("/campaigns/", chosen)
    change = {"visibility": chosen["visibility"], "release_source": chosen["release_source"]}
    if draft["visibility"] != change["visibility"] or draft["source_released"] != change["release_source"]:
        place.patch(f"/campaigns/{draft['id']}/", change)
    for number, name in enumerate(fill_draft(place, draft, files), 1):
        err.print(f"sent {number}: {escape(name)}", highlight=False)
    preview = place.get(f"/campaigns/{draft['id']}/files/").body
    show_preview(preview["files"])
    check_preview(preview["files"], again=again or dry_run, as_json=as_json)
    if dry_run or not (yes or agrees(len(files))):
        err.print(f"Nothing was submitted. The draft is at {place.address}{draft['page']}", highlight=False)
        return None
    return confirm_draft(place, draft, preview["digest"], allow_duplicates=again)


def check_preview(rows: Sequence[Body], *, again: bool, as_json: bool) -> None:
    """End the command when no run can be made of some files, or when bytes are submitted twice without a word."""
    if problems := [f"{row['name']}: {row['problem']}" for row in rows if row["problem"]]:
        fix = "rename or remove them, then run this again; nothing was submitted"
        raise fail(Exit.USAGE, tell_some(problems), fix, as_json=as_json)
    same = [row["name"] for row in rows if row["earlier_run"] or row["twin"]]
    if same and not again:
        message = f"the same bytes are submitted for the same task already: {tell_some(same)}"
        fix = "remove them, or submit them again with --again; nothing was submitted"
        raise fail(Exit.USAGE, message, fix, as_json=as_json)


def tell_some(lines: Sequence[str]) -> str:
    """Return some of many complaints."""
    shown = "; ".join(lines[:PROBLEMS_SHOWN])
    return shown if len(lines) <= PROBLEMS_SHOWN else f"{shown}; and {len(lines) - PROBLEMS_SHOWN} more"


def agrees(count: int) -> bool:
    """Return whether the person at the terminal wants to go on; where nobody can be asked, the command was enough."""
    return not sys.stdin.isatty() or typer.confirm(f"Submit {count} runs?", err=True)


def show_preview(rows: Sequence[Body]) -> None:
    """Print what each file would become, on stderr."""
    table = Table("file", "task", "repetition", "bytes", "problem", box=None)
    for row in rows:
        same = f"run {row['earlier_run'][:8]}" if row["earlier_run"] else row["twin"]
        problem = row["problem"] or (f"same bytes as {same}" if same else "")
        cells = [row["name"], row["task"] or "", str(row["repetition"] or ""), str(row["bytes"]), problem]
        table.add_row(*map(escape, cells))
    err.print(table, highlight=False)


def choose_system(place: Portal, *, as_json: bool) -> str:
    """Return the one system of this person's teams, or end the command."""
    systems = [name for team in place.get("/me/").body["teams"] for name in team["systems"]]
    return choose_only("system", systems, as_json=as_json)


def choose_environment(place: Portal, *, as_json: bool) -> str:
    """Return the one environment for which runs are taken, or end the command."""
    served = [row["slug"] for row in place.list_all("/environments/") if row["served"]]
    return choose_only("environment", served, as_json=as_json)


def choose_only(what: str, names: Sequence[str], *, as_json: bool) -> str:
    """Return the one name that there is, or end the command with all of them."""
    if len(names) == 1:
        return names[0]
    known = f"give --{what} with one of: {', '.join(names)}" if names else "create one on your team's page"
    count = "more than one" if names else "no"
    raise fail(Exit.USAGE, f"there is {count} {what} for you on this portal", known, as_json=as_json)


def status(identifier: IdentifierArgument, portal: PortalOption = "", as_json: JsonOption = False) -> None:
    """Say where a run or a campaign is. Exit code 0 whatever its verdict."""
    place = open_portal(portal, as_json=as_json)
    with explain_portal(as_json=as_json):
        subject = place.get(find_path(place, identifier, as_json=as_json)).body
    show(place, subject, as_json=as_json)


def wait(
    identifier: IdentifierArgument,
    portal: PortalOption = "",
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Wait for the verdict of a run, or of all runs of a campaign.

    Exit code 0: accepted; 1 or 10 to 15: as kq verify; 3: it ended without a verdict; 4: the time is over. Of a
    campaign 0: all are accepted; 1: some are not; 3: some ended without a verdict.
    """
    place = open_portal(portal, as_json=as_json)
    with explain_portal(as_json=as_json):
        raise typer.Exit(await_end(place, identifier, timeout, as_json=as_json))


def reward(
    identifier: Annotated[str, typer.Argument(help="A run: its identifier, or its page's address.")] = "",
    portal: PortalOption = "",
    timeout: TimeoutOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Print the reward of a run by its verdict; nothing where the environment cannot decide it.

    Without a run, in a workspace: an estimate for its artifact, from visible inputs. Exit code 0: printed, or there is
    none; 3: the run ended without a verdict; 4: it has none yet; 10: nothing was submitted.
    """
    if not identifier:
        estimate_reward(find_workspace(Path(), as_json=as_json), as_json=as_json)
        return
    place = open_portal(portal, as_json=as_json)
    with explain_portal(as_json=as_json):
        path = find_path(place, identifier, as_json=as_json)
        if path.startswith("/campaigns/"):
            raise fail(Exit.USAGE, "a campaign has no reward", "ask for one of its runs", as_json=as_json)
        run = follow(place, path, timeout, as_json=as_json)
    verdict = run["verdict"]
    if verdict is None:
        raise fail(Exit.TRANSIENT, f"the run was {run['state']} and has no verdict", "submit it again", as_json=as_json)
    if as_json:
        figures = {name: verdict[name] for name in ("reward", "capture", "outcome", "primary_failure", "speedup")}
        print(json.dumps({"schema": "kernelquest.reward/1", "ok": True, "run": run["id"], **figures}))
    elif verdict["reward"] is None:
        err.print(f"{verdict['outcome']}: {run['environment']} cannot decide a reward", highlight=False)
    else:
        print(verdict["reward"])


def find_path(place: Portal, identifier: str, *, as_json: bool) -> str:
    """Return where the API has the run or the campaign of this identifier, or end the command."""
    from verifier.portal_client import PortalError, find_identifier

    try:
        found = find_identifier(identifier)
    except ValueError as error:
        raise fail(Exit.USAGE, str(error), "kq submit prints it", as_json=as_json) from None
    for path in (f"/runs/{found}/", f"/campaigns/{found}/"):
        try:
            place.get(path)
        except PortalError as error:
            if error.status != 404:  # noqa: PLR2004  as HTTP has it
                raise
        else:
            return path
    fix = "whose token is in KQ_TOKEN must be in the team"
    raise fail(Exit.USAGE, f"{place.address} shows you no run or campaign {found}", fix, as_json=as_json)


def has_ended(subject: Body) -> bool:
    """Return whether nothing more happens to a run, or to any run of a campaign."""
    from verifier.portal_client import ENDED

    if "states" in subject:
        return subject["state"] != "draft" and set(subject["states"]) <= ENDED
    return subject["state"] in ENDED


def follow(place: Portal, path: str, timeout: float | None, *, as_json: bool) -> Body:
    """Return a run or a campaign once it has ended, and say on stderr how far it is; or end the command."""
    from verifier.portal_client import watch

    try:
        for subject in watch(place, path, timeout):
            if has_ended(subject):
                return subject
            err.print(escape(describe(subject)), highlight=False)
    except TimeoutError:
        pass
    raise fail(Exit.TIMED_OUT, "it has not ended within the time", "run: kq wait, with more", as_json=as_json)


def await_end(place: Portal, identifier: str, timeout: float | None, *, as_json: bool) -> Exit:
    """Wait for the end of a run or a campaign, print it, and return the exit code of its verdicts."""
    subject = follow(place, find_path(place, identifier, as_json=as_json), timeout, as_json=as_json)
    show(place, subject, as_json=as_json)
    return find_campaign_exit(subject) if "states" in subject else find_run_exit(subject)


def find_run_exit(run: Body) -> Exit:
    """Return the exit code of a run that has ended."""
    verdict = run["verdict"]
    if verdict is None:
        return Exit.TRANSIENT
    if verdict["outcome"] in ("passed", "accepted"):
        return Exit.OK
    try:
        return find_failure_exit(FailureCode(verdict["primary_failure"]))
    except ValueError:
        # A newer portal knows codes that this command does not.
        return Exit.BELOW_TARGET


def find_campaign_exit(campaign: Body) -> Exit:
    """Return the exit code of a campaign whose runs have ended."""
    outcomes = campaign["outcomes"]
    if sum(outcomes.values()) < campaign["runs"]:
        return Exit.TRANSIENT
    return Exit.OK if set(outcomes) <= {"passed", "accepted"} else Exit.BELOW_TARGET


def describe(subject: Body) -> str:
    """Return where a run or a campaign is, as a line."""
    if "states" in subject:
        counts = subject["states"] | subject["outcomes"]
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if name != "finished")
        return f"campaign {subject['id']}: {subject['state']}, {subject['runs']} runs ({told or 'none'})"
    words: list[Any] = [subject["state"]]
    if subject["state"] == "queued":
        words.append(f"{subject['ahead']} ahead")
    elif subject["current_gate"] and subject["verdict"] is None:
        words.append(f"{subject['current_gate']} gate")
    if verdict := subject["verdict"]:
        words += [verdict["outcome"], *verdict["failures"]]
        words += [f"{verdict['speedup']:.3f} times as fast"] if verdict["speedup"] else []
    return f"run {subject['id']} of {subject['task']}: {', '.join(map(str, words))}"


def show(place: Portal, subject: Body, *, as_json: bool) -> None:
    """Print a run or a campaign."""
    if as_json:
        kind = "campaign" if "states" in subject else "run"
        print(json.dumps({"schema": f"kernelquest.{kind}/1", "ok": True, kind: subject}))
        return
    out.print(escape(describe(subject)), highlight=False, soft_wrap=True)
    out.print(escape(f"{place.address}{subject['page']}"), highlight=False, soft_wrap=True)
