"""The board, and the same figures as files and as a feed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial, wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.feedgenerator import Atom1Feed
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from portal.catalog.models import Environment
from portal.standings.boards import Board, Row, build_boards, sort_rows
from portal.standings.charts import Rate, build_rate_figure
from portal.standings.counts import read_latest, read_standings, read_tallies, remember, stamp_standings
from portal.standings.exports import ShownBoard, Value, build_published_records, build_records, write_csv
from portal.standings.order import describe_order
from portal.standings.published import build_rows, build_segments, load_snapshot, rank_published
from portal.standings.selection import Selection, SelectionForm, read_choices
from portal.standings.spotlight import load_published
from portal.systems.models import System

CSV_TYPE = "text/csv; charset=utf-8"


def load_systems(keys: Iterable[int]) -> dict[int, System]:
    """Return systems by key, with their scaffolds."""
    return System.objects.select_related("scaffold").in_bulk(list(keys))


def load_boards(selection: Selection, stamp: str, environments: Mapping[str, Environment]) -> list[ShownBoard]:
    """Return the boards that `selection` asks for, timed environments first, each ordered as asked."""
    chosen = selection.change(sort="")
    boards = remember("boards", chosen, stamp, lambda: build_boards(read_tallies(chosen)))
    systems = load_systems({row.system for board in boards for row in board.rows})
    names = {key: system.name for key, system in systems.items()}
    shown = [
        ShownBoard(
            board,
            environments[board.environment].title,
            environments[board.environment].timed,
            [(systems[row.system], row) for row in sort_rows(board.rows, selection.sort, names)],
        )
        for board in boards
    ]
    return sorted(shown, key=lambda one: (not one.timed, not environments[one.board.environment].official, one.title))


def build_board_figure(shown: ShownBoard) -> dict[str, Any]:
    """Return the chart of one board, in the order of its table."""
    rates = [Rate(system.name, row.rate.percent, row.rate.low, row.rate.high) for system, row in shown.rows if row.rate]
    return build_rate_figure(rates, f"{shown.board.measure} with 95 % interval")


@cache
def build_published_figure() -> dict[str, Any]:
    """Return the chart of the published board, which never changes."""
    rows = build_rows(load_snapshot())
    rates = [Rate(row.system, row.pass_rate_percent, row.low_percent, row.high_percent) for row in rows]
    return build_rate_figure(rates, "Pass rate with 95 % interval")


@cache
def render_published() -> SafeString:
    """Return the published half of the board, which never changes."""
    snapshot = load_snapshot()
    context = {
        "snapshot": snapshot,
        "order": describe_order(rank_published(snapshot)),
        "spotlight": load_published(),
        "precision_losses": load_published().count_labelled("precision loss"),
        "rows": build_rows(snapshot),
        "segments": build_segments(snapshot.runs),
        "figure": build_published_figure(),
    }
    return render_to_string("standings/_published.html", context)


def render_verified(form: SelectionForm, selection: Selection, boards: Iterable[ShownBoard]) -> SafeString:
    """Return the half of the board that was verified here."""
    drawn = [(shown, build_board_figure(shown)) for shown in boards]
    return render_to_string("standings/_verified.html", {"form": form, "selection": selection, "boards": drawn})


def render_board(request: HttpRequest, stamp: str) -> SafeString:
    """Return the page of the board."""
    choices = read_choices()
    form = SelectionForm(request.GET, choices=choices)
    selection = form.read()
    boards = load_boards(selection, stamp, choices.environments)
    context = {
        "snapshot": load_snapshot(),
        "selection": selection,
        "published": render_published(),
        "verified": render_verified(form, selection, boards),
    }
    return render_to_string("standings/board.html", context, request)


@require_safe
def show_board(request: HttpRequest) -> HttpResponse:
    """Show what was published and, apart from it, what was verified here."""
    stamp = stamp_standings(read_standings())
    compute = partial(render_board, request, stamp)
    if request.COOKIES:
        return HttpResponse(compute())
    # Without a cookie nobody is signed in and no message waits: all such visitors of one address see the same page.
    return HttpResponse(remember(f"page {request.build_absolute_uri()}", Selection(), stamp, compute))


@dataclass(frozen=True)
class Export:
    """What the page at the same address would show."""

    selection: Selection
    boards: list[ShownBoard]
    latest: dict[tuple[str, int], datetime]

    @property
    def records(self) -> list[dict[str, Value]]:
        return build_records(self.boards, self.selection.release, self.latest)


class Refused(Exception):
    """A file is asked for by filters that are not understood; it must not quietly hold more than was asked for."""

    def __init__(self, form: SelectionForm) -> None:
        super().__init__("\n".join(f"{name}: {form.say_what_fits(name)}" for name in form.errors))


def read_export(request: HttpRequest) -> Export:
    """Return what a file is to hold. Raises Refused."""
    choices = read_choices()
    form = SelectionForm(request.GET, choices=choices)
    selection = form.read()
    if form.errors:
        raise Refused(form)
    stamp = stamp_standings(read_standings())
    latest = remember("latest", selection.change(sort=""), stamp, lambda: read_latest(selection))
    return Export(selection, load_boards(selection, stamp, choices.environments), latest)


def answer_refusal(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Let `view` answer filters that are not understood with what is wrong with each."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)
        except Refused as refusal:
            return HttpResponseBadRequest(f"{refusal}\n", content_type="text/plain; charset=utf-8")

    return answer


@require_safe
@answer_refusal
def export_csv(request: HttpRequest) -> HttpResponse:
    """Send the board as CSV."""
    return HttpResponse(write_csv(read_export(request).records), content_type=CSV_TYPE)


@require_safe
@answer_refusal
def export_json(request: HttpRequest) -> HttpResponse:
    """Send the board as JSON."""
    export = read_export(request)
    body = {"schema": "kernelquest.board/1", "selection": export.selection.query, "rows": export.records}
    return JsonResponse(body, json_dumps_params={"indent": 2})


def describe_row(board: Board, row: Row) -> str:
    """Return a row of the board in one or two sentences."""
    rate = f"{row.rate.percent:.1f} % [{row.rate.low:.1f}, {row.rate.high:.1f}]" if row.rate else "unknown"
    words = f"{board.measure} {rate} over {row.rated} runs."
    if row.speedup is None:
        return words
    return f"{words} Speedup {row.speedup.mean:.2f}x on {row.speedup.covered} of {row.speedup.tasks} tasks."


@require_safe
@answer_refusal
def export_feed(request: HttpRequest) -> HttpResponse:
    """Send the board as an Atom feed, one entry a row, newly dated by each verdict."""
    export = read_export(request)
    selection = export.selection
    page = request.build_absolute_uri(f"{reverse('standings:board')}?{selection.query}")
    feed = Atom1Feed(
        title="KernelQuest: verified here", link=page, description="", feed_url=request.build_absolute_uri()
    )
    for shown in export.boards:
        for system, row in shown.rows:
            # A verdict that came in after one of the two was read is new.
            latest = export.latest.get((shown.board.environment, row.system), timezone.now())
            address = request.build_absolute_uri(reverse("standings:system", args=[system.slug]))
            link = f"{address}?{selection.change(environment=shown.board.environment, sort='').query}"
            feed.add_item(
                title=f"{system.name} in {shown.title}", link=link, description=describe_row(shown.board, row),
                unique_id=link, updateddate=latest, pubdate=latest,
            )  # fmt: skip
    return HttpResponse(feed.writeString("utf-8"), content_type=feed.content_type)


@require_safe
def export_published_csv(_request: HttpRequest) -> HttpResponse:
    """Send the published board as CSV, each figure with where it comes from."""
    return HttpResponse(write_csv(build_published_records(build_rows(load_snapshot()))), content_type=CSV_TYPE)


@require_safe
def export_published_json(_request: HttpRequest) -> HttpResponse:
    """Send the published board as JSON, each figure with where it comes from."""
    snapshot = load_snapshot()
    body = {"schema": "kernelquest.published-board/1", "source": snapshot.source}
    rows = build_published_records(build_rows(snapshot))
    return JsonResponse(body | {"rows": rows}, json_dumps_params={"indent": 2})
