from __future__ import annotations

from django.urls import path

from portal.notifications import views

app_name = "notifications"

urlpatterns = [
    path("", views.list_notifications, name="list"),
    path("read/", views.read_all, name="read"),
    path("settings/", views.choose, name="preferences"),
]
