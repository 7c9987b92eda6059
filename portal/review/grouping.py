"""Finds the sources that look alike, and keeps what it found."""

from __future__ import annotations

import numpy as np
from django.db import transaction

from portal.review.fingerprints import ALIKE, Signature, compute_signature, cut_bands, estimate_likeness
from portal.review.models import Fingerprint, FingerprintBand
from portal.runs.models import Run, Source
from portal.runs.querysets import RunQuerySet

# So many are looked at when a reviewer opens the queue; the rest come next time.
AT_ONCE = 200


def _find_group(source: Source, signature: Signature, bands: list[str]) -> str:
    """Return the group of the known source that is most like this one, or a new group."""
    known = Fingerprint.objects.filter(bands__digest__in=bands).distinct()
    likeness = [
        (estimate_likeness(signature, np.frombuffer(one.signature, dtype=np.uint32)), one.group) for one in known[:500]
    ]
    best, group = max(likeness, default=(0.0, ""))
    return group if best >= ALIKE else source.pk


@transaction.atomic
def fingerprint_source(*, source: Source) -> Fingerprint:
    """Note what `source` looks like, and which group it belongs to. Once is enough."""
    # Of two at once the second waits here, so that both end in one group.
    Source.objects.select_for_update().get(pk=source.pk)
    known = Fingerprint.objects.filter(pk=source.pk).first()
    if known:
        return known
    signature = compute_signature(source.text)
    bands = cut_bands(signature)
    group = _find_group(source, signature, bands)
    fingerprint = Fingerprint.objects.create(source=source, signature=signature.tobytes(), group=group)
    FingerprintBand.objects.bulk_create(FingerprintBand(fingerprint=fingerprint, digest=band) for band in bands)
    return fingerprint


def fingerprint_missing(runs: RunQuerySet) -> int:
    """Note what the sources of `runs` look like where that is not known yet, and return how many there were."""
    missing = runs.filter(source__fingerprint__isnull=True).order_by().values("source")
    sources = list(Source.objects.filter(pk__in=missing).order_by("created_at")[:AT_ONCE])
    for source in sources:
        fingerprint_source(source=source)
    return len(sources)


def list_similar(run: Run) -> RunQuerySet:
    """Return the other runs of the same task whose sources look like that of `run`."""
    group = Fingerprint.objects.filter(pk=run.source_id).values("group")
    return Run.objects.filter(task=run.task_id, source__fingerprint__group__in=group).exclude(pk=run.pk)
