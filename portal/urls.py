"""Every address of the portal."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("", include("portal.standings.urls")),
    path("tasks/", include("portal.catalog.urls")),
    path("", include("portal.runs.urls")),
    path("campaigns/", include("portal.campaigns.urls")),
    path("", include("portal.review.urls")),
    path("api/v1/", include("portal.api.urls")),
    path("notifications/", include("portal.notifications.urls")),
    path("", include("portal.accounts.urls")),
    path("", include("portal.accounts.entrance")),
    path("healthz/", include("portal.ops.urls")),
]

handler400 = "portal.ops.views.show_bad_request"
