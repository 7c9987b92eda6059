"""Begin a campaign, put files into its draft, look at what they would become, confirm it, and watch its runs."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Count, Max
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseStopPolling

from portal.campaigns.file_names import REPETITIONS
from portal.campaigns.forms import ConfirmationForm, DraftForm
from portal.campaigns.models import Campaign
from portal.campaigns.preview import build_preview
from portal.campaigns.services import (
    MAXIMUM_FILES,
    CampaignConflict,
    Put,
    cancel_campaign,
    confirm_campaign,
    create_campaign,
    discard_campaign,
    put_file,
    remove_files,
    show_campaign,
)
from portal.runs.forms import VisibilityForm
from portal.runs.labels import OUTCOME_LABELS
from portal.runs.models import Run
from portal.runs.quotas import read_quota
from portal.runs.states import OPEN, State
from portal.runs.uploads import SOURCE_CAP
from portal.runs.views import MemberRequest
from portal.systems.models import System
from verifier.verdict import Outcome

BAD_REQUEST, CONFLICT = 400, 409
CAMPAIGNS_PER_PAGE = 50
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


def get_campaign(request: HttpRequest, public_id: UUID) -> Campaign:
    """Return the campaign, or raise Http404 when there is none that the visitor may see."""
    campaigns = Campaign.objects.visible_to(request.user).select_related("system", "team", "environment", "created_by")
    return get_object_or_404(campaigns, public_id=public_id)


def may_change(request: HttpRequest, campaign: Campaign) -> bool:
    """Return whether the visitor may change the campaign."""
    return System.objects.submittable_by(request.user).filter(pk=campaign.system_id).exists()


def get_own_campaign(request: HttpRequest, public_id: UUID) -> Campaign:
    """Return the campaign, or raise Http404 when there is none that the visitor may change."""
    campaign = get_campaign(request, public_id)
    if not may_change(request, campaign):
        raise Http404
    return campaign


@require_safe
@login_required
def list_campaigns(request: MemberRequest) -> HttpResponse:
    """Show the campaigns of the visitor's teams: drafts to go on with, and what was submitted."""
    campaigns = Campaign.objects.visible_to(request.user).exclude(state=Campaign.State.DISCARDED).for_lists()
    page = Paginator(campaigns, CAMPAIGNS_PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "campaigns/list.html", {"page": page})


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def begin_campaign(request: MemberRequest) -> HttpResponse:
    """Begin a draft."""
    form = DraftForm(request.POST if request.method == "POST" else None, user=request.user)
    if form.is_valid():
        try:
            campaign = create_campaign(user=request.user, **form.cleaned_data)
        except ValidationError as error:
            form.add_error(None, error)
        else:
            return redirect("campaigns:campaign", public_id=campaign.public_id)
    drafts = Campaign.objects.visible_to(request.user).drafts().for_lists()
    context = {"form": form, "drafts": drafts, "maximum": MAXIMUM_FILES}
    return render(request, "campaigns/begin.html", context, status=BAD_REQUEST if form.errors else 200)


@require_safe
@login_required
@never_cache
def show(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Show a draft with its preview, or how far the runs of a campaign are."""
    return render_campaign(request, get_campaign(request, public_id))


def render_campaign(request: MemberRequest, campaign: Campaign, status: int = 200, **more: Any) -> HttpResponse:
    """Return the page of a campaign, in the state that it has."""
    context = {"campaign": campaign, "owned": may_change(request, campaign), **more}
    if campaign.is_draft:
        return render(request, "campaigns/draft.html", build_draft_context(request, campaign) | context, status=status)
    context |= build_progress(request, campaign)
    return render(request, "campaigns/campaign.html", context, status=status)


def build_draft_context(request: MemberRequest, campaign: Campaign) -> dict[str, Any]:
    """Return what the page of a draft shows."""
    preview = build_preview(campaign, request.user)
    quota = read_quota(campaign.team)
    return {
        "preview": preview,
        "quota": quota,
        "too_many": len(preview.rows) - quota.left,
        "confirmation": ConfirmationForm(initial={"digest": preview.digest}),
        "maximum": MAXIMUM_FILES,
        "repetitions": REPETITIONS,
        "cap": SOURCE_CAP,
    }


def build_progress(request: MemberRequest, campaign: Campaign) -> dict[str, Any]:
    """Return how far the runs of a campaign are."""
    runs = Run.objects.visible_to(request.user).filter(campaign=campaign)
    states = dict(runs.order_by().values_list("state").annotate(Count("pk")))
    outcomes = dict(runs.filter(verdict__isnull=False).order_by().values_list("verdict__outcome").annotate(Count("pk")))
    last = runs.aggregate(Max("verdict_id"))["verdict_id__max"]
    return {
        "runs": runs.for_lists().order_by("task_id", "repetition"),
        "count": sum(states.values()),
        "states": [(State(state).label, count) for state, count in states.items() if State(state) != State.FINISHED],
        "outcomes": [(OUTCOME_LABELS[Outcome(outcome)], count) for outcome, count in outcomes.items()],
        "judged": sum(outcomes.values()),
        "open": sum(count for state, count in states.items() if state in OPEN),
        "version": f"{last}-{'-'.join(f'{state}{count}' for state, count in sorted(states.items()))}",
        "visibility_form": VisibilityForm(
            initial={"visibility": campaign.visibility, "release_source": campaign.source_released}
        ),
    }


@require_safe
@login_required
@never_cache
def show_progress(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Return the part of a campaign's page that changes; nothing while it is as the page has it."""
    campaign = get_campaign(request, public_id)
    context = {"campaign": campaign, **build_progress(request, campaign)}
    if request.GET.get("seen") == context["version"]:
        return HttpResponse(status=204)
    page = render(request, "campaigns/_progress.html", context)
    return page if context["open"] else HttpResponseStopPolling(page.content)


def tell_conflict(request: MemberRequest, public_id: UUID, conflict: CampaignConflict) -> HttpResponse:
    """Show the campaign as it is now, with why the request came too late."""
    messages.warning(request, conflict.messages[0])
    return render_campaign(request, get_campaign(request, public_id), CONFLICT)


@require_POST
@login_required
def add_files(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Put the files of a form into a draft. Those that are refused are named, and the others are in it."""
    campaign = get_own_campaign(request, public_id)
    outcomes: list[Put] = []
    refusals: list[tuple[str, str]] = []
    for upload in request.FILES.getlist("files"):
        try:
            outcomes.append(
                put_file(campaign=campaign, user=request.user, name=upload.name or "", content=upload.read())[1]
            )
        except CampaignConflict as conflict:
            return tell_conflict(request, public_id, conflict)
        except ValidationError as error:
            refusals.append((upload.name or "", " ".join(error.messages)))
    if not outcomes and not refusals:
        refusals.append(("", "Choose files first."))
    if not refusals:
        messages.success(request, describe_outcomes(outcomes))
        return redirect("campaigns:campaign", public_id=public_id)
    return render_campaign(request, campaign, BAD_REQUEST, refusals=refusals, taken=describe_outcomes(outcomes))


def describe_outcomes(outcomes: list[Put]) -> str:
    """Return in words what became of the files that were taken."""
    counts = {outcome: outcomes.count(outcome) for outcome in Put}
    words = [f"{count} {outcome}" for outcome, count in counts.items() if count]
    return f"Files: {', '.join(words)}." if words else ""


def read_numbers(request: HttpRequest) -> list[int]:
    """Return the numbers of files that a form chose."""
    return [int(value) for value in request.POST.getlist("file") if _NUMBER.fullmatch(value)]


@require_POST
@login_required
def remove(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Take the chosen files out of a draft, or all of which no run can be made."""
    campaign = get_own_campaign(request, public_id)
    numbers = read_numbers(request)
    if "problems" in request.POST:
        numbers = [row.file.pk for row in build_preview(campaign, request.user).problems]
    try:
        removed = remove_files(campaign=campaign, user=request.user, files=numbers)
    except CampaignConflict as conflict:
        return tell_conflict(request, public_id, conflict)
    messages.success(request, f"Files: {removed} removed.")
    return redirect("campaigns:campaign", public_id=public_id)


@require_POST
@login_required
def confirm(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Queue a run for every file of the draft, or for none."""
    campaign = get_own_campaign(request, public_id)
    form = ConfirmationForm(request.POST)
    if not form.is_valid():
        messages.warning(request, "Look at the draft again, then confirm it.")
        return render_campaign(request, campaign, BAD_REQUEST)
    try:
        campaign = confirm_campaign(campaign=campaign, user=request.user, **form.cleaned_data)
    except CampaignConflict as conflict:
        return tell_conflict(request, public_id, conflict)
    except ValidationError as error:
        return render_campaign(request, campaign, BAD_REQUEST, errors=error.messages)
    messages.success(request, "The campaign was submitted. Its runs wait for a worker.")
    return redirect("campaigns:campaign", public_id=public_id)


@require_POST
@login_required
def discard(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Forget a draft."""
    try:
        discard_campaign(campaign=get_own_campaign(request, public_id), user=request.user)
    except CampaignConflict as conflict:
        return tell_conflict(request, public_id, conflict)
    messages.success(request, "The draft was discarded.")
    return redirect("campaigns:campaign_list")


@require_POST
@login_required
def cancel(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Cancel the runs of a campaign that have no verdict yet."""
    cancelled = cancel_campaign(campaign=get_own_campaign(request, public_id), user=request.user)
    messages.success(request, f"Runs: {cancelled} cancelled; one that a worker has at work ends within seconds.")
    return redirect("campaigns:campaign", public_id=public_id)


@require_POST
@login_required
def change_visibility(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Change who sees the runs of a campaign, and their sources."""
    campaign = get_own_campaign(request, public_id)
    form = VisibilityForm(request.POST)
    if form.is_valid():
        try:
            show_campaign(campaign=campaign, user=request.user, **form.cleaned_data)
        except CampaignConflict as conflict:
            return tell_conflict(request, public_id, conflict)
    else:
        messages.warning(request, "Choose who sees the runs.")
    return redirect("campaigns:campaign", public_id=public_id)
