from __future__ import annotations

import json
from io import StringIO

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.management import call_command

from portal.accounts.models import Membership, Team, User
from portal.systems.models import System

pytestmark = pytest.mark.django_db


def create(**options: str) -> dict[str, str]:
    output = StringIO()
    call_command("create_demo_data", stdout=output, **options)
    printed: dict[str, str] = json.loads(output.getvalue())
    return printed


def sign_in(printed: dict[str, str]) -> AbstractBaseUser | None:
    return authenticate(username=printed["username"], password=printed["password"])


def test_the_printed_sign_in_works() -> None:
    assert sign_in(create())
    user = User.objects.get()
    assert user.is_staff is False
    assert list(System.objects.submittable_by(user).values_list("name", flat=True)) == [
        "Hand-written kernels",
        "Sample solutions",
    ]


def test_a_given_password_is_taken() -> None:
    assert create(password="correct horse")["password"] == "correct horse"
    assert authenticate(username="demo", password="correct horse")


def test_again_adds_nothing_and_replaces_the_password() -> None:
    first, second = create(), create()
    assert first["password"] != second["password"]
    assert sign_in(first) is None
    assert sign_in(second)
    assert (User.objects.count(), Team.objects.count(), Membership.objects.count()) == (1, 1, 1)
    assert System.objects.count() == 2
