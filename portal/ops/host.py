"""Asks the verifier whether this host can judge in an environment, before a worker takes runs that it cannot judge."""

from __future__ import annotations

import os
import subprocess

from django.conf import settings
from pydantic import BaseModel, ValidationError

from portal.runs.verification import scrub_environment

EXAMINATION_SECONDS = 180


class HostUnfit(Exception):
    """A worker cannot judge on this host; the message says why and what to do."""


class Finding(BaseModel):
    """One thing that the verifier looked at; `fix` is empty when all is well."""

    name: str
    found: str
    fix: str


class Examination(BaseModel):
    """What the verifier found."""

    ok: bool
    findings: list[Finding]


def examine_host(environment: str) -> Examination:
    """Return what the verifier says of this host. Raises HostUnfit when it does not answer."""
    command = [*settings.VERIFIER_COMMAND, "doctor", "--environment", environment, "--json"]
    try:
        answer = subprocess.run(
            command,
            cwd=settings.BASE_DIR,
            env=scrub_environment(os.environ),
            capture_output=True,
            check=False,
            timeout=EXAMINATION_SECONDS,
        )
        return Examination.model_validate_json(answer.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostUnfit(f"The verifier cannot be asked about this host: {error}") from error
    except ValidationError as error:
        said = answer.stderr.decode("utf-8", "replace").strip()[-500:]
        raise HostUnfit(f"The verifier does not say whether this host can judge. {said}".strip()) from error


def check_host(environment: str) -> None:
    """Raise HostUnfit when this host cannot judge in `environment`."""
    examination = examine_host(environment)
    if not examination.ok:
        faults = [f"{item.name}: {item.found}. {item.fix}" for item in examination.findings if item.fix]
        raise HostUnfit("\n".join([f"This host cannot judge in {environment}.", *faults]))
