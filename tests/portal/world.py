"""An installation with something on every page: teams, runs with real evidence, appeals, decisions, messages.

Run as `python -m tests.portal.world` against the database of the settings. It prints the address of every page, and a
session for each role. With `--hostile` every text that somebody can choose holds markup that would tell on itself.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portal.accounts.models import User
    from portal.campaigns.models import Campaign
    from portal.review.models import Decision
    from portal.runs.models import Run
    from portal.systems.models import System

VERDICTS = Path(__file__).parent / "verdicts"
# Any of it that comes to life leaves a trace in the page.
MARKUP = (
    "\"'><script>window.harmed = 1</script><img src=x onerror=\"window.harmed = 1\"><svg onload='window.harmed = 1'>"
    "</title></textarea></pre></details><a href=\"javascript:window.harmed = 1\">x</a>{{ 7|add:'7' }}<!-- \u202e"
)
# The same for fields with room for little.
SHORT_MARKUP = "\"'><img src=x onerror=harmed=1>"
LITTLE = 400
PEOPLE = ("alice", "bob", "charlie", "judith", "greta")
APPEAL = "The kernel keeps its accumulators in float32 throughout. The gate seems to look at a conversion of the index."
QUESTION = "Which of the two launches writes the result? Please point to the lines, so that we look at the same kernel."
ANSWER = "The second one, from line 31. The first only prepares the offsets and is not on the graded path."
UPHELD = "The machine code has tensor-core instructions in TF32 on the path that makes the output, as the gate says."
OVERTURNED = (
    "The output is right on every hidden distribution; the rule compared with the wrong instance. Mended today."
)
PATTERN = "TF32 behind allow_tf32"
TITLES = ("Triton agent 3", "Hand-written kernels", "Search over schedules")


class World:
    """What was made, and where it is seen."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.people: dict[str, User] = {}

    def say(self, text: str, cap: int = 4_000) -> str:
        """Return a text that somebody wrote, with the mark in it."""
        if not self.mark:
            return text
        return f"{text} {SHORT_MARKUP if cap < LITTLE else self.mark}"[:cap]

    def taint(self, value: Any, key: str = "") -> Any:  # noqa: ANN401  whatever JSON holds
        """Return evidence with the mark in every text that comes from a submission or from a library."""
        match value:
            case str():
                return value + self.mark if key in TEXTS else value
            case list():
                return [self.taint(item, key) for item in value]
            case dict():
                return {name: self.taint(item, name) for name, item in value.items()}
        return value


# Names of fields of a verdict that hold free text.
TEXTS = {
    "name",
    "label",
    "detail",
    "note",
    "error",
    "traceback",
    "output_tail",
    "events",
    "observed",
    "lines",
    "excerpt",
}


def make_people(world: World) -> None:
    """Make two members of a team, a stranger, a reviewer and an administrator, each able to sign in."""
    from allauth.account.models import EmailAddress  # noqa: PLC0415  after the settings
    from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes  # noqa: PLC0415
    from allauth.mfa.totp.internal.auth import TOTP  # noqa: PLC0415

    from portal.accounts.models import User  # noqa: PLC0415

    for name in PEOPLE:
        user = User.objects.create_user(
            world.say(name, 150), f"{name}@night.example", is_staff=name in PEOPLE[3:], is_superuser=name == "greta"
        )
        EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
        TOTP.activate(user, "JBSWY3DPEHPK3PXP")
        RecoveryCodes.activate(user)
        world.people[name] = user


def make_team(world: World) -> list[System]:
    """Make the team with its systems, an invitation, a token and a webhook."""
    from portal.accounts.models import ApiToken, Invitation  # noqa: PLC0415
    from portal.accounts.services import add_member, create_team  # noqa: PLC0415
    from portal.accounts.tokens import create_token  # noqa: PLC0415
    from portal.notifications.models import Delivery, Webhook  # noqa: PLC0415
    from portal.systems.models import Scaffold  # noqa: PLC0415
    from portal.systems.services import create_system  # noqa: PLC0415

    alice = world.people["alice"]
    team = create_team(slug="night-shift", name=world.say("Night shift", 120), owner=alice)
    add_member(team=team, user=world.people["bob"])
    scaffold = Scaffold.objects.create(slug="loop", name=world.say("Loop", 120), version=world.say("2.1", 60))
    systems = [
        create_system(
            slug=f"system-{number}", name=world.say(name, 120), vendor=world.say("Vendor", 120), team=team,
            scaffold=scaffold,
        )
        for number, name in enumerate(TITLES)
    ]  # fmt: skip
    create_token(user=alice, name="laptop", scope="submit", days=30)
    ApiToken.objects.update(name=world.say("laptop", 60))
    webhook = Webhook.objects.create(team=team, url="https://hooks.example/kernels", secret="s" * 64)
    Delivery.objects.create(
        webhook=webhook, payload={"text": world.mark}, state="due", attempts=2, last_error=world.say("refused", 200)
    )
    Invitation.objects.create(
        team=team, email="dora@night.example", invited_by=alice, expires_at="2999-01-01T00:00:00Z"
    )  # fmt: skip
    return systems


def submit(world: World, system: System, *, task: str, environment: str, source: str, **given: Any) -> Run:
    """Submit a solution as Alice."""
    from portal.catalog.models import Environment, Task  # noqa: PLC0415
    from portal.runs.services import submit_run  # noqa: PLC0415

    return submit_run(
        user=world.people["alice"],
        task=Task.objects.get(id=task),
        environment=Environment.objects.get(slug=environment),
        system=system,
        source=f"{source}# {world.mark}\n" if world.mark else source,
        **{"visibility": "public", **given},
    )


def judge(world: World, run: Run, name: str, **changes: Any) -> Run:
    """Let a worker judge the run, which must be the next one due, as a real verifier once did."""
    from portal.runs import lease  # noqa: PLC0415
    from verifier.verdict import Verdict  # noqa: PLC0415

    held = lease.claim_run(environment=run.environment_id, worker=world.say("gpu-1:worker", 120))
    if held is None or held.pk != run.pk or held.lease_token is None:
        raise RuntimeError(f"{run} is not the next one due")
    lease.begin_run(token=held.lease_token)
    body = json.loads((VERDICTS / f"{name}.json").read_text(encoding="utf-8"))
    body |= {"task": run.task_id, "environment": run.environment_id, "solution_sha256": run.source_id} | changes
    body |= {"evidence": world.taint(body["evidence"]), "gates": world.taint(body["gates"])}
    lease.finish_run(token=held.lease_token, verdict=Verdict.model_validate(body), log_tail=world.say("The end."))
    run.refresh_from_db()
    return run


def reject(code: str, measured: float) -> dict[str, Any]:
    """Return what makes a timed verdict one that rejects a fast run."""
    return {"outcome": "rejected", "failures": [code], "speedup": None, "measured_speedup": measured, "target": 1.61}


@dataclass(frozen=True)
class Runs:
    """The runs that pages are about, by what became of them, and the batch of those that are verified again."""

    appealed: Run
    asked: Run
    overturned: Run
    fast: Run
    waiting: Run
    batch: int


def read_sample(name: str) -> str:
    """Return one of the sample solutions."""
    from portal.runs.sample_solutions import FOLDER  # noqa: PLC0415

    return (FOLDER / f"{name}.py").read_text(encoding="utf-8")


def make_runs(world: World, systems: list[System]) -> Runs:
    """Submit and judge runs in both environments, and have people say something about them."""
    cpu = partial(submit, world, environment="cpu-interpreter")
    gpu = partial(submit, world, environment="h200", task="l1-09")
    tf32, constant, honest = map(read_sample, ("tf32", "constant", "honest"))
    appealed = judge(world, cpu(systems[0], task="l2-01", source=tf32), "tf32_cpu")
    asked = judge(world, cpu(systems[1], task="l2-01", source=f"{tf32}\n"), "tf32_cpu")
    overturned = judge(world, cpu(systems[2], task="l1-09", source=constant), "constant_cpu")
    fast = judge(world, gpu(systems[0], source=constant), "sparsemax_h200", **reject("STALE_ALIAS_REPLAY", 41.2))
    judge(world, gpu(systems[1], source=honest), "sparsemax_h200")
    slow = judge(world, gpu(systems[1], source=tf32), "sparsemax_h200", **reject("PREC_TF32", 1.1))
    for number in range(8):
        source = f"{constant}\n# attempt {number}\n"
        judge(world, cpu(systems[number % 3], task="l1-09", source=source), "constant_cpu")
    review(world, appealed, asked, slow, overturned)
    batch = verify_again(world)
    return Runs(appealed, asked, overturned, fast, gpu(systems[2], source=honest, visibility="team"), batch)


def review(world: World, appealed: Run, asked: Run, upheld: Run, overturned: Run) -> None:
    """Appeal against one verdict, ask about the next, uphold the third and overturn the last."""
    from portal.review.services import Ruling, decide, open_appeal, reply_to, take_case  # noqa: PLC0415

    alice, judith = world.people["alice"], world.people["judith"]

    def rule(run: Run, kind: str, reason: str, **given: Any) -> Decision:
        take_case(run=run, user=judith)
        number = run.verdict.number if run.verdict else 0
        return decide(run=run, user=judith, kind=kind, reason=world.say(reason), verdict_number=number, **given)

    open_appeal(run=appealed, user=alice, reason=world.say(APPEAL))
    reply_to(decision=rule(asked, "ask", QUESTION), user=alice, text=world.say(ANSWER))
    rule(asked, "flag", UPHELD, pattern=world.say(PATTERN, 80))
    rule(upheld, "uphold", UPHELD)
    rule(overturned, "overturn", OVERTURNED, ruling=Ruling())


def verify_again(world: World) -> int:
    """Have what was called constant verified again, and one of it judged otherwise; return the batch."""
    from portal.review.reverification import start_batch  # noqa: PLC0415
    from portal.runs.models import Run  # noqa: PLC0415

    chosen = Run.objects.filter(verdict__primary_failure="STALE_CONSTANT", state="finished")
    batch = start_batch(
        user=world.people["greta"], runs=chosen, expected=chosen.count(), filters=world.say("code STALE_CONSTANT"),
        reason=world.say("The rule for constants looks at one more distribution since today."),
    )  # fmt: skip
    judge(
        world, Run.objects.filter(batches=batch).earliest("queued_at"), "constant_cpu", outcome="accepted", failures=[]
    )
    return batch.pk


def make_campaign(world: World, system: System) -> Campaign:
    """Begin a draft with three files, one of which has no task."""
    from portal.campaigns.services import create_campaign, put_file  # noqa: PLC0415
    from portal.catalog.models import Environment  # noqa: PLC0415

    environment, alice = Environment.objects.get(slug="cpu-interpreter"), world.people["alice"]
    campaign = create_campaign(
        user=alice, system=system, environment=environment, title=world.say("Autumn", 120)
    )  # fmt: skip
    for name in ("l1-09/solution.py", "l2-01.py", "unknown task.py"):
        put_file(campaign=campaign, user=alice, name=name, content=f"{read_sample('honest')}# {name}\n")
    return campaign


def name_pages(runs: Runs, campaign: Campaign) -> dict[str, dict[str, Any]]:
    """Return what stands in the address of each page that is about something."""
    from portal.accounts.models import Invitation  # noqa: PLC0415
    from portal.accounts.services import sign_invitation  # noqa: PLC0415

    case, drafted = {"public_id": runs.appealed.public_id}, {"public_id": campaign.public_id}
    team = {"slug": "night-shift"}
    return {
        "catalog:task_detail": {"slug": runs.appealed.task.slug},
        "standings:system": {"slug": "system-0"},
        "runs:sample": {"name": "honest"},
        **dict.fromkeys(("runs:run_detail", "runs:run_status", "runs:verdict", "runs:source"), case),
        **dict.fromkeys(("review:case", "review:find_difference"), case),
        "review:difference": case | {"other_id": runs.asked.public_id},
        "review:batch": {"number": runs.batch},
        **dict.fromkeys(("campaigns:campaign", "campaigns:progress"), drafted),
        **dict.fromkeys(("accounts:team", "accounts:add_system"), team),
        "accounts:change_system": team | {"system": "system-0"},
        "accounts:invitation": {"signed": sign_invitation(Invitation.objects.get())},
        "account_confirm_email": {"key": "none"},
        "account_reset_password_from_key": {"uidb36": "1", "key": "none"},
    }


def fill(mark: str = "") -> dict[str, Any]:
    """Make everything; return a session for each role and the address of every page."""
    from django.urls import reverse  # noqa: PLC0415

    from portal.ops.services import register_worker  # noqa: PLC0415

    world = World(mark)
    make_people(world)
    systems = make_team(world)
    register_worker(name="gpu-1:h200", environment="h200", host="gpu-1")
    runs = make_runs(world, systems)
    named = name_pages(runs, make_campaign(world, systems[0]))
    judged = {"fast": runs.fast, "asked about": runs.asked, "overturned": runs.overturned}
    cases = {f"case of a run that was {what}": ("review:case", run) for what, run in judged.items()}
    others = judged | {"to be judged": runs.waiting}
    shown = cases | {f"run that was {what}": ("runs:run_detail", run) for what, run in others.items()}
    return {
        "pages": {name: reverse(name, kwargs=arguments) for name, arguments in named.items()},
        "more": {words: reverse(name, kwargs={"public_id": run.public_id}) for words, (name, run) in shown.items()},
        "sessions": sign_in(world),
    }


def sign_in(world: World) -> dict[str, str]:
    """Return a session of each person, who gave a password a moment ago."""
    from allauth.account.internal.flows.login import record_authentication  # noqa: PLC0415
    from django.test import Client, RequestFactory  # noqa: PLC0415

    sessions = {}
    for name, user in world.people.items():
        user.set_password("a long enough password")
        user.save()
        client = Client()
        client.force_login(user)
        request = RequestFactory().get("/")
        request.session = client.session
        record_authentication(request, user, method="password", reauthenticated=True)
        record_authentication(request, user, method="mfa", reauthenticated=True)
        request.session.save()
        sessions[name] = str(request.session.session_key)
    return sessions


def main(arguments: list[str]) -> None:
    """Fill the database of the settings, and print where to look."""
    import django  # noqa: PLC0415

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()
    sys.stdout.write(json.dumps(fill(MARKUP if "--hostile" in arguments else "")))


if __name__ == "__main__":
    main(sys.argv[1:])
