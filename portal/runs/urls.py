from __future__ import annotations

from django.urls import path

from portal.runs import views

app_name = "runs"

urlpatterns = [
    path("submit/", views.submit_solution, name="submit"),
    path("submit/samples/<slug:name>.py", views.download_sample, name="sample"),
    path("runs/", views.list_runs, name="run_list"),
    path("runs/<uuid:public_id>/", views.show_run, name="run_detail"),
    path("runs/<uuid:public_id>/status/", views.show_status, name="run_status"),
    path("runs/<uuid:public_id>/verdict.json", views.download_verdict, name="verdict"),
    path("runs/<uuid:public_id>/solution.py", views.download_source, name="source"),
    path("runs/<uuid:public_id>/cancel/", views.cancel, name="cancel"),
    path("runs/<uuid:public_id>/visibility/", views.change_visibility, name="visibility"),
]
