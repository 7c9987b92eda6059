"""Many runs that are verified again: choose, count, confirm, compare."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from portal.review.forms import BatchForm, ConfirmationForm
from portal.review.models import Batch
from portal.review.permissions import for_administrators
from portal.review.reverification import MOST_AT_ONCE, compare_batch, start_batch
from portal.runs.views import MemberRequest

EXAMPLES = 10


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@for_administrators
def verify_again(request: MemberRequest) -> HttpResponse:
    """Show how many runs are asked for, and queue them once that is confirmed with a reason."""
    form = BatchForm(request.GET)
    asked = bool(request.GET) and form.is_valid()
    runs = form.find_runs() if asked else None
    count = runs.count() if runs is not None else 0
    confirmation = ConfirmationForm(request.POST if request.method == "POST" else None, initial={"expected": count})
    if request.method == "POST" and runs is not None and confirmation.is_valid():
        try:
            batch = start_batch(user=request.user, runs=runs, filters=form.words, **confirmation.cleaned_data)
        except ValidationError as error:
            confirmation.add_error(None, error)
        else:
            messages.success(request, f"{count:,} runs are queued, behind everything that is submitted.")
            return redirect("review:batch", number=batch.pk)
    context = {
        "form": form,
        "asked": asked,
        "count": count,
        "most": MOST_AT_ONCE,
        "examples": runs.for_lists()[:EXAMPLES] if runs is not None else [],
        "confirmation": confirmation,
        "batches": Batch.objects.select_related("requested_by")[:20],
    }
    return render(request, "review/verify_again.html", context, status=400 if confirmation.errors else 200)


@require_safe
@never_cache
@for_administrators
def show_batch(request: MemberRequest, number: int) -> HttpResponse:
    """Show what became of the runs of one batch: before and after."""
    batch = get_object_or_404(Batch.objects.select_related("requested_by"), pk=number)
    comparisons = compare_batch(batch)
    counts = {
        "differs": sum(one.differs for one in comparisons),
        "same": sum(one.after is not None and not one.differs for one in comparisons),
        "waits": sum(one.waits for one in comparisons),
        "failed": sum(one.after is None and not one.waits for one in comparisons),
    }
    ordered = sorted(comparisons, key=lambda one: (not one.differs, not one.waits))
    return render(request, "review/batch.html", {"batch": batch, "comparisons": ordered, "counts": counts})
