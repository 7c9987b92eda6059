from __future__ import annotations

from django.urls import path

from portal.catalog import views

app_name = "catalog"

urlpatterns = [
    path("", views.list_tasks, name="task_list"),
    path("<slug:slug>/", views.show_task, name="task_detail"),
]
