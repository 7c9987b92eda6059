"""A worker with a GPU, step by step, for `manage.py shell`."""

from __future__ import annotations

from portal.accounts.models import User
from portal.catalog.models import Environment, Task
from portal.ops.services import register_worker
from portal.runs import lease
from portal.runs.models import Run
from portal.runs.services import submit_run
from portal.systems.models import System
from tests.portal.factories import SOURCE, judge_timed


def start() -> Run:
    """Submit a run for the GPU as the demo's user and take it, like a worker."""
    register_worker(name="gpu", environment="h200", host="gpu")
    submit_run(
        user=User.objects.get(),
        task=Task.objects.get(id="l1-09"),
        environment=Environment.objects.get(slug="h200"),
        system=System.objects.get(slug="hand-written"),
        source=SOURCE,
    )
    run = lease.claim_run(environment="h200", worker="gpu")
    assert run is not None
    assert run.lease_token is not None
    lease.begin_run(token=run.lease_token)
    return run


def act(step: str) -> str:
    """Take one step with the newest run for the GPU: `start`, `wait`, `round`, `finish` or `reject`. Return its id."""
    run = start() if step == "start" else Run.objects.filter(environment="h200").latest("id")
    assert run.lease_token is not None
    match step:
        case "wait":
            progress = {"waiting": {"for": "the GPU", "t": 1}}
            lease.record_progress(token=run.lease_token, current_gate="", progress=progress)
        case "round":
            progress = {"performance": {"state": "started", "t": 2}, "timing": {"round": 3, "of": 4, "t": 2}}
            lease.record_progress(token=run.lease_token, current_gate="performance", progress=progress)
        case "finish":
            lease.finish_run(token=run.lease_token, verdict=judge_timed(run))
        case "reject":
            verdict = judge_timed(run, outcome="rejected", failures=["PREC_TF32"], speedup=None)
            lease.finish_run(token=run.lease_token, verdict=verdict)
    return str(run.public_id)
