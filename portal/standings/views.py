"""The board, and how runs are judged."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.runs.labels import GATE_EXPLANATIONS
from portal.standings.boards import build_boards
from portal.standings.charts import Rate, build_rate_figure
from portal.standings.models import Standing
from portal.standings.published import build_failure_rows, build_rows, build_segments, load_snapshot
from verifier.verdict import FailureCode, FailureMode, Outcome, rank_failures


@require_safe
def show_board(request: HttpRequest) -> HttpResponse:
    """Show what was published and, apart from it, what was verified here."""
    snapshot = load_snapshot()
    rows = build_rows(snapshot)
    rates = [Rate(row.system, row.pass_rate_percent, row.low_percent, row.high_percent) for row in rows]
    standings = Standing.objects.select_related("environment", "system__scaffold").order_by(
        "environment", "-passed", "-accepted", "system__name"
    )
    context = {
        "snapshot": snapshot,
        "rows": rows,
        "failure_rows": build_failure_rows(snapshot),
        "segments": build_segments(snapshot.runs),
        "figure": build_rate_figure(rates, "Pass rate with 95 % interval"),
        "boards": build_boards(standings),
    }
    return render(request, "standings/board.html", context)


@require_safe
def show_methodology(request: HttpRequest) -> HttpResponse:
    """Show gates, outcomes and failure codes as the verifier defines them."""
    ranked = list(enumerate(rank_failures(list(FailureCode)), 1))
    failures = [(mode, [(rank, code) for rank, code in ranked if code.mode is mode]) for mode in FailureMode]
    context = {"failures": failures, "gates": GATE_EXPLANATIONS.items(), "outcomes": list(Outcome)}
    return render(request, "standings/methodology.html", context)
