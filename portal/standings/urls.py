from __future__ import annotations

from django.urls import path

from portal.standings import views

app_name = "standings"

urlpatterns = [
    path("", views.show_board, name="board"),
    path("methodology/", views.show_methodology, name="methodology"),
]
