from __future__ import annotations

from django.urls import path

from portal.campaigns import views

app_name = "campaigns"

urlpatterns = [
    path("", views.list_campaigns, name="campaign_list"),
    path("new/", views.begin_campaign, name="begin"),
    path("<uuid:public_id>/", views.show, name="campaign"),
    path("<uuid:public_id>/progress/", views.show_progress, name="progress"),
    path("<uuid:public_id>/files/", views.add_files, name="add_files"),
    path("<uuid:public_id>/files/remove/", views.remove, name="remove_files"),
    path("<uuid:public_id>/confirm/", views.confirm, name="confirm"),
    path("<uuid:public_id>/discard/", views.discard, name="discard"),
    path("<uuid:public_id>/cancel/", views.cancel, name="cancel"),
    path("<uuid:public_id>/visibility/", views.change_visibility, name="visibility"),
]
