from __future__ import annotations

from django.urls import path, re_path
from django.views.decorators.http import require_safe
from django.views.generic import TemplateView
from drf_spectacular.views import SpectacularJSONAPIView

from portal.api import campaign_views, views
from portal.api.problems import answer_unknown

app_name = "api"

urlpatterns = [
    path("tasks/", views.TaskList.as_view(), name="tasks"),
    path("tasks/<slug:task>/", views.TaskRetrieval.as_view(), name="task"),
    path("environments/", views.EnvironmentList.as_view(), name="environments"),
    path("environments/<slug:slug>/", views.EnvironmentRetrieval.as_view(), name="environment"),
    path("systems/", views.SystemList.as_view(), name="systems"),
    path("systems/<slug:slug>/", views.SystemRetrieval.as_view(), name="system"),
    path("runs/", views.RunList.as_view(), name="runs"),
    path("runs/<uuid:public_id>/", views.RunRetrieval.as_view(), name="run"),
    path("runs/<uuid:public_id>/cancel/", views.RunCancellation.as_view(), name="cancel"),
    path("runs/<uuid:public_id>/verdict/", views.RunVerdict.as_view(), name="verdict"),
    path("runs/<uuid:public_id>/source/", views.RunSource.as_view(), name="source"),
    path("campaigns/", campaign_views.CampaignList.as_view(), name="campaigns"),
    path("campaigns/<uuid:public_id>/", campaign_views.CampaignRetrieval.as_view(), name="campaign"),
    path("campaigns/<uuid:public_id>/files/", campaign_views.CampaignFiles.as_view(), name="campaign_files"),
    path(
        "campaigns/<uuid:public_id>/files/<int:number>/",
        campaign_views.CampaignFileRemoval.as_view(),
        name="campaign_file",
    ),
    path("campaigns/<uuid:public_id>/confirm/", campaign_views.CampaignConfirmation.as_view(), name="confirm_campaign"),
    path("campaigns/<uuid:public_id>/discard/", campaign_views.CampaignDiscarding.as_view(), name="discard_campaign"),
    path("campaigns/<uuid:public_id>/cancel/", campaign_views.CampaignCancellation.as_view(), name="cancel_campaign"),
    path("me/", views.Me.as_view(), name="me"),
    path("schema/", SpectacularJSONAPIView.as_view(), name="schema"),
    path("docs/", require_safe(TemplateView.as_view(template_name="api/docs.html")), name="docs"),
    re_path("", answer_unknown, name="unknown"),
]
