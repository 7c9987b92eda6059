"""Every address and every operation of the API, asked for by every role, against the table of permissions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from allauth.account.internal.flows.login import record_authentication
from allauth.account.models import EmailAddress, EmailConfirmationHMAC
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from django.conf import settings as django_settings
from django.db import transaction
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator
from pytest_django import Settings

from portal.accounts.models import User
from portal.accounts.services import invite_member, sign_invitation
from portal.accounts.tokens import create_token
from portal.campaigns.models import Campaign
from portal.campaigns.services import create_campaign, put_file
from portal.catalog.models import Environment, Task
from portal.permissions import ADDRESSES, KEEPERS, OPERATIONS, READERS, SIGNED_IN, Role
from portal.review.models import Decision
from portal.review.reverification import start_batch
from portal.review.services import decide, open_appeal, take_case
from portal.runs.models import Run
from portal.systems.models import System
from portal.systems.services import create_system
from tests.conftest import People, Submit
from tests.portal.factories import reject
from tests.portal.pages.conftest import Finish, finish  # noqa: F401  a fixture
from verifier.verdict import FailureCode

# It stands in everything of the team, and nowhere else.
CANARY = "canary"
SOURCE = f"# {CANARY}\nclass ModelNew: pass\n"
REASON = f"The {CANARY} was judged by the wrong rule, as anybody can see."
PEOPLE = {
    Role.STRANGER: "charlie",
    Role.MEMBER: "bob",
    Role.OWNER: "alice",
    Role.REVIEWER: "staff",
    Role.ADMINISTRATOR: "admin",
}
# What is kept of a passkey, as an authenticator without attestation once answered.
CREDENTIAL = {
    "id": "aWRlbnRpZmllcg",
    "rawId": "aWRlbnRpZmllcg",
    "response": {
        "clientDataJSON": "eyJ0eXBlIjoid2ViYXV0aG4uY3JlYXRlIiwiY2hhbGxlbmdlIjoiWTJoaGJHeGxibWRsIiwib3JpZ2luIjoiaHR0cDovL3Rlc3"
        "RzZXJ2ZXIiLCJjcm9zc09yaWdpbiI6ZmFsc2V9",
        "attestationObject": "o2NmbXRkbm9uZWdhdHRTdG10oGhhdXRoRGF0YViOAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABBAAAAAQAAAA"
        "AAAAAAAAAAAAAAAAAACmlkZW50aWZpZXKlAQIDJiABIVggVfRAg3snESUc3bSpHr4bR_pFhTj4XmuxFp4-79l4EEYiWCBOCNS0Tfes-ewtooob5EAdWk"
        "uioMMhmRMkJ6OWTqmlQg",
    },
    "clientExtensionResults": {},
    "type": "public-key",
}
OUTSIDERS = (Role.ANONYMOUS, Role.WORKER, Role.STRANGER)
REFUSED = {401, 403, 404, 405}


def list_names(patterns: Sequence[URLPattern | URLResolver], namespace: str = "") -> Iterator[str]:
    """Give the name of every address of the resolver."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from list_names(pattern.url_patterns, f"{pattern.namespace}:" if pattern.namespace else namespace)
        else:
            assert pattern.name, f"an address without a name: {pattern}"
            yield f"{namespace}{pattern.name}"


SCHEMA = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
DESCRIBED = [f"{method.upper()} {path}" for path, methods in SCHEMA["paths"].items() for method in methods]
NAMES = sorted(set(list_names(get_resolver().url_patterns)))
# What the schema describes is asked for by operation.
BY_OPERATION = {name for name in NAMES if name.startswith("api:")} - set(ADDRESSES)


@dataclass(frozen=True)
class Belongings:
    """What the addresses name: all of it is one team's."""

    people: People
    run: Run
    waiting: Run
    other: Run
    campaign: Campaign
    question: Decision
    batch: int
    token: int
    passkey: int
    confirmation: str
    invitation: Any

    def find_arguments(self, name: str) -> dict[str, Any]:
        """Return what stands in the address `name`."""
        run = self.waiting if name == "runs:cancel" else self.run
        campaign = self.campaign.public_id
        arguments: dict[str, dict[str, Any]] = {
            "runs:sample": {"name": "honest"},
            "catalog:task_detail": {"slug": run.task.slug},
            "standings:system": {"slug": run.system.slug},
            "review:difference": {"public_id": run.public_id, "other_id": self.other.public_id},
            "review:reply": {"public_id": run.public_id, "decision": self.question.pk},
            "review:batch": {"number": self.batch},
            "accounts:revoke_token": {"number": self.token},
            "accounts:withdraw": {"slug": run.team.slug, "public_id": self.invitation.public_id},
            "accounts:set_role": {"slug": run.team.slug, "username": "bob"},
            "accounts:remove_member": {"slug": run.team.slug, "username": "bob"},
            "accounts:change_system": {"slug": run.team.slug, "system": run.system.slug},
            "accounts:invitation": {"signed": sign_invitation(self.invitation)},
            "account_confirm_email": {"key": self.confirmation},
            "account_reset_password_from_key": {"uidb36": "1", "key": "none"},
            "mfa_remove_webauthn": {"pk": self.passkey},
            "mfa_edit_webauthn": {"pk": self.passkey},
        }
        usual = {"public_id": campaign if "campaign" in name else run.public_id, "slug": run.team.slug}
        return arguments.get(name) or {argument: usual[argument] for argument in list_arguments(name)}

    def fill(self, path: str) -> str:
        """Return the address of an operation of the API."""
        run = self.waiting if path.endswith("cancel/") else self.run
        public_id = self.campaign.public_id if "campaigns" in path else run.public_id
        slug = run.environment_id if "environments" in path else run.system.slug
        number = self.campaign.files.get().pk
        return path.format(public_id=public_id, slug=slug, task=run.task_id, number=number)


def list_arguments(name: str) -> list[str]:
    """Return what an address asks for."""
    resolver: Any = get_resolver()
    *namespaces, last = name.split(":")
    for namespace in namespaces:
        resolver = resolver.namespace_dict[namespace][1]
    ((_, arguments),) = resolver.reverse_dict[last][0]
    return list(arguments)


@pytest.fixture
def belongings(
    people: People,
    environment: Environment,
    task: Task,
    finish: Finish,  # noqa: F811  the fixture
) -> Belongings:
    people.team.name = f"The {CANARY} team"
    people.team.save()
    system = create_system(slug=f"{CANARY}-system", name=f"The {CANARY} system", team=people.team)
    submit = Submit(
        user=people.alice, task=task, environment=environment, system=system, source=SOURCE, visibility="team"
    )
    run, other = (finish(submit(), reject, FailureCode.PREC_TF32) for _ in range(2))
    open_appeal(run=other, user=people.alice, reason=REASON)
    take_case(run=run, user=people.staff)
    question = decide(run=run, user=people.staff, kind="ask", reason=REASON, verdict_number=1)
    runs = Run.objects.filter(pk=other.pk)
    batch = start_batch(user=people.admin, runs=runs, expected=1, filters=CANARY, reason=REASON)
    Run.objects.filter(pk=other.pk).update(state="finished")
    take_case(run=run, user=people.staff)
    campaign = create_campaign(user=people.alice, system=system, environment=environment, title=CANARY)
    put_file(campaign=campaign, user=people.alice, name="l1-09.py", content=SOURCE.encode())
    token, _ = create_token(user=people.alice, name=CANARY, scope="read", days=7)
    for name in set(PEOPLE.values()) - {"alice"}:
        equip(getattr(people, name), "key")
    passkey = equip(people.alice, CANARY)
    address = EmailAddress.objects.create(user=people.alice, email="alice@team.example")
    invitation = invite_member(team=people.team, user=people.alice, email=f"{CANARY}@team.example", role="member")
    return Belongings(
        people, run, submit(), other, campaign, question, batch.pk, token.pk, passkey.pk,
        EmailConfirmationHMAC(address).key, invitation,
    )  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What somebody was answered."""

    status: int
    location: str
    text: str

    @property
    def served(self) -> bool:
        """True when it gives something: neither sent to the entrance, nor told that there is nothing."""
        return self.status not in REFUSED and not self.location.startswith("/sign-in/?next=")


def equip(user: User, name: str) -> Authenticator:
    """Give `user` a password and every kind of second factor; return the passkey."""
    user.set_password("a long enough password")
    user.save()
    Authenticator.objects.filter(user=user).delete()
    TOTP.activate(user, "JBSWY3DPEHPK3PXP")
    RecoveryCodes.activate(user)
    return Authenticator.objects.create(user=user, type="webauthn", data={"name": name, "credential": CREDENTIAL})


def reauthenticate(client: Client, user: User) -> None:
    """Let `client` have given a password and a code a moment ago, as what is delicate asks for, and every page of staff."""
    request = RequestFactory().get("/")
    request.session = client.session
    record_authentication(request, user, method="password", reauthenticated=True)
    record_authentication(request, user, method="mfa", reauthenticated=True)
    request.session.save()


class Visitor:
    """Somebody who asks, each time as if for the first time."""

    def __init__(self, role: Role, people: People, settings: Settings) -> None:
        self.client, self.headers = Client(), {}
        if role is Role.WORKER:
            key, settings.SECRET_KEY = settings.SECRET_KEY, "the key of a captured worker"
            self.client.force_login(people.admin)
            settings.SECRET_KEY = key
        elif role is not Role.ANONYMOUS:
            user: User = getattr(people, PEOPLE[role])
            self.client.force_login(user)
            self.headers = {"Authorization": f"Bearer {create_token(user=user, name='t', scope='submit', days=7)[1]}"}
            reauthenticate(self.client, user)
        cookie = self.client.cookies.get(django_settings.SESSION_COOKIE_NAME)
        self.session = cookie.value if cookie else ""

    def ask(self, method: str, path: str) -> Answer:
        """Return the answer; what it changed is undone."""
        self.client.cookies.clear()
        of_api = path.startswith("/api/")
        if self.session and not of_api:
            self.client.cookies[django_settings.SESSION_COOKIE_NAME] = self.session
        body, kind = ("{}", "application/json") if of_api and method != "GET" else ("", "application/octet-stream")
        with transaction.atomic():
            response = self.client.generic(method, path, body, kind, headers=self.headers if of_api else {})
            # Read to its end, a streamed one closes its file.
            content = b"".join(response) if response.streaming else response.content
            transaction.set_rollback(True)
        return Answer(response.status_code, response.headers.get("Location", ""), content.decode())


@pytest.fixture(params=list(Role))
def role(request: pytest.FixtureRequest) -> Role:
    return Role(request.param)


@pytest.fixture
def visitor(role: Role, belongings: Belongings, settings: Settings) -> Visitor:
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    return Visitor(role, belongings.people, settings)


def test_every_address_and_every_operation_has_its_line() -> None:
    described = {reverse_pattern(name) for name in BY_OPERATION}
    assert described == {path for _, path in map(str.split, DESCRIBED)}
    assert set(ADDRESSES) == set(NAMES) - BY_OPERATION
    assert set(OPERATIONS) == set(DESCRIBED)


def reverse_pattern(name: str) -> str:
    """Return the address of an operation as the schema writes it."""
    resolver: Any = get_resolver().namespace_dict["api"][1]
    ((path, arguments),) = resolver.reverse_dict[name.removeprefix("api:")][0]
    return "/api/v1/" + path % {argument: f"{{{argument}}}" for argument in arguments}


def test_everybody_gets_from_addresses_what_the_table_says(
    role: Role, visitor: Visitor, belongings: Belongings
) -> None:
    found: dict[str, tuple[bool, bool]] = {}
    for name in ADDRESSES:
        path = reverse(name, kwargs=belongings.find_arguments(name))
        served = []
        for method in ("GET", "POST"):
            answer = visitor.ask(method, path)
            assert answer.status < 500, f"{method} {path}"
            served.append(answer.served)
        found[name] = (served[0], served[1])
    assert found == {name: (role in rule.read, role in rule.write) for name, rule in ADDRESSES.items()}


def test_everybody_gets_from_the_api_what_the_table_says(role: Role, visitor: Visitor, belongings: Belongings) -> None:
    found = {}
    for operation in OPERATIONS:
        method, path = operation.split()
        answer = visitor.ask(method, belongings.fill(path))
        assert answer.status < 500, operation
        found[operation] = answer.served
        if not answer.served:
            assert answer.status == (401 if is_personal(operation) and role not in SIGNED_IN else 404)
            assert json.loads(answer.text)["status"] == answer.status
    assert found == {operation: role in roles for operation, roles in OPERATIONS.items()}


def is_personal(operation: str) -> bool:
    """Return whether an operation asks for a token before it looks at what is named."""
    return not operation.startswith("GET") or "campaigns" in operation or "/me/" in operation


@pytest.mark.parametrize("role", OUTSIDERS, indirect=True)
def test_nothing_of_a_team_shows_to_outsiders(role: Role, visitor: Visitor, belongings: Belongings) -> None:
    """Neither in what they get nor in what they are refused: pages, exports, feeds, lists, choices of forms."""
    paths = [reverse(name, kwargs=belongings.find_arguments(name)) for name in ADDRESSES]
    paths += [belongings.fill(operation.split()[1]) for operation in OPERATIONS if operation.startswith("GET")]
    for narrowing in ("system", "team", "q", "systems"):
        paths += [f"{path}?{narrowing}={belongings.run.system.slug}" for path in ("/", "/runs/", "/board.csv")]
    paths += [f"/api/v1/runs/?source_sha256={belongings.run.source_id}", "/api/v1/runs/?state=finished"]
    paths += [f"/submit/?from={belongings.run.public_id}", f"/board.json?environment={belongings.run.environment_id}"]
    secrets = [CANARY, *(str(run.public_id) for run in Run.objects.all()), belongings.run.source_id]
    for path in paths:
        text = visitor.ask("GET", path).text.replace(path, "")
        if "/invitations/" not in path:
            assert [secret for secret in secrets if secret in text] == [], path


def test_the_team_itself_sees_what_outsiders_do_not(belongings: Belongings, settings: Settings) -> None:
    """The search for the canary would find it."""
    visitor = Visitor(Role.OWNER, belongings.people, settings)
    for path in ("/runs/", "/submit/", f"/runs/{belongings.run.public_id}/solution.py", "/api/v1/runs/"):
        assert CANARY in visitor.ask("GET", path).text, path


@pytest.mark.parametrize("operation", [row for row in OPERATIONS if not row.startswith("GET")])
def test_a_token_that_reads_does_not_write(belongings: Belongings, settings: Settings, operation: str) -> None:
    method, path = operation.split()
    _, secret = create_token(user=belongings.people.alice, name="reads", scope="read", days=7)
    headers = {"Authorization": f"Bearer {secret}"}
    response = Client().generic(method, belongings.fill(path), "{}", "application/json", headers=headers)
    assert response.status_code == 403
    assert "may only read" in json.loads(response.content)["detail"]


def test_a_campaign_that_was_submitted_shows_to_staff_as_well(belongings: Belongings, settings: Settings) -> None:
    """The table speaks of a draft; reviewers see what came of it, and change nothing."""
    Campaign.objects.update(state=Campaign.State.SUBMITTED, submitted_at=timezone.now())
    path = f"/campaigns/{belongings.campaign.public_id}/"
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    visitors = {role: Visitor(role, belongings.people, settings) for role in Role}
    seen = {role for role, visitor in visitors.items() if visitor.ask("GET", path).served}
    changed = {role for role, visitor in visitors.items() if visitor.ask("POST", f"{path}visibility/").served}
    assert seen == READERS
    assert changed == KEEPERS


def test_a_system_is_what_a_run_is_submitted_for(belongings: Belongings) -> None:
    visible = {role: System.objects.submittable_by(getattr(belongings.people, name)) for role, name in PEOPLE.items()}
    able = {role for role, systems in visible.items() if systems.filter(slug=f"{CANARY}-system").exists()}
    assert able == {Role.MEMBER, Role.OWNER, Role.ADMINISTRATOR}
