from __future__ import annotations

from django.urls import path

from portal.ops import views

app_name = "ops"

urlpatterns = [
    path("live", views.report_live, name="live"),
    path("ready", views.report_ready, name="ready"),
]
