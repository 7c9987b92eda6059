"""What a worker's host holds: enough to judge, nothing that opens the web."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.tokens import default_token_generator
from django.core import signing
from django.test import Client
from pytest_django import Settings

from portal.accounts.services import find_invitation, invite_member, sign_invitation
from tests.conftest import People

READ = (
    "import json; from portal import worker_settings as s;"
    "print(json.dumps({n: getattr(s, n) for n in dir(s) if n.isupper()}, default=str))"
)
LOADED = """
import sys, django
django.setup()
import portal.urls, portal.wsgi, portal.runs.services
print(sorted({"django_q.tasks", "django_q.brokers"} & set(sys.modules)))
"""


def call(folder: Path, code: str, module: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {"PATH": os.environ["PATH"], "PORTAL_VAR": str(folder), "DJANGO_SETTINGS_MODULE": module, **environment}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=known, check=False, capture_output=True, text=True)


def read_worker_settings(folder: Path, **environment: str) -> dict[str, Any]:
    answer = call(folder, READ, "portal.worker_settings", **environment)
    assert answer.returncode == 0, answer.stderr
    return dict(json.loads(answer.stdout))


def test_a_worker_makes_a_key_of_its_own_and_never_reads_the_webs(tmp_path: Path) -> None:
    (tmp_path / "secret-key").write_text("the key of the web")
    (tmp_path / "secret-key").chmod(0)
    first, second = read_worker_settings(tmp_path), read_worker_settings(tmp_path)
    assert first["SECRET_KEY"] == second["SECRET_KEY"] == (tmp_path / "worker-key").read_text()
    assert stat.S_IMODE((tmp_path / "worker-key").stat().st_mode) == 0o600
    assert len(first["SECRET_KEY"]) > 50


def test_a_worker_leaves_no_key_of_the_web(tmp_path: Path) -> None:
    read_worker_settings(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["worker-key"]


def test_one_key_for_both_is_refused(tmp_path: Path) -> None:
    answer = call(tmp_path, READ, "portal.worker_settings", PORTAL_SECRET_KEY="same", PORTAL_WORKER_KEY="same")
    assert answer.returncode == 1
    assert "a worker makes a key of its own" in answer.stderr


def test_the_worker_has_the_settings_of_the_portal_else(tmp_path: Path) -> None:
    settings = read_worker_settings(tmp_path, DATABASE_URL="postgres://worker@db/portal")
    assert settings["DATABASES"]["default"]["USER"] == "worker"
    assert settings["Q_CLUSTER"]["name"] == "kernelquest"


def test_the_web_can_send_no_pickle(tmp_path: Path) -> None:
    answer = call(tmp_path, LOADED, "portal.settings")
    assert answer.stdout.strip() == "[]", answer.stderr


def test_what_a_worker_signs_opens_nothing(people: People, client: Client, settings: Settings) -> None:
    """The links of mail and of invitations, and a session's own hash, follow from the web's key."""
    invitation = invite_member(team=people.team, user=people.alice, email="dora@team.example", role="member")
    web = settings.SECRET_KEY
    client.force_login(people.alice)
    assert client.get("/account/").status_code == 200

    settings.SECRET_KEY = "the key of a captured worker"
    reset = default_token_generator.make_token(people.alice)
    invited, cookie = (
        signing.Signer(salt="portal.accounts.invitation").sign(str(invitation.public_id)),
        signing.dumps(1),
    )
    forged = Client()
    forged.force_login(people.alice)

    settings.SECRET_KEY = web
    assert not default_token_generator.check_token(people.alice, reset)
    assert find_invitation(invited) is None
    assert find_invitation(sign_invitation(invitation)) == invitation
    with pytest.raises(signing.BadSignature):
        signing.loads(cookie)
    # Even one who could write sessions would not know the hash that each must hold.
    assert forged.get("/account/").status_code == 302
    assert client.get("/account/").status_code == 200
