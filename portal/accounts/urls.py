from __future__ import annotations

from django.urls import path

from portal.accounts import team_views, views

app_name = "accounts"

urlpatterns = [
    path("account/", views.show_account, name="home"),
    path("account/second-factor/required/", views.require_second_factor, name="second_factor"),
    path("account/tokens/", views.manage_tokens, name="tokens"),
    path("account/tokens/<int:number>/revoke/", views.revoke, name="revoke_token"),
    path("teams/new/", team_views.found, name="found_team"),
    path("teams/<slug:slug>/", team_views.show_team, name="team"),
    path("teams/<slug:slug>/invite/", team_views.invite, name="invite"),
    path("teams/<slug:slug>/invitations/<uuid:public_id>/withdraw/", team_views.withdraw, name="withdraw"),
    path("teams/<slug:slug>/members/<str:username>/role/", team_views.set_role, name="set_role"),
    path("teams/<slug:slug>/members/<str:username>/remove/", team_views.remove, name="remove_member"),
    path("teams/<slug:slug>/webhook/", team_views.choose_webhook, name="webhook"),
    path("teams/<slug:slug>/systems/new/", team_views.add_system, name="add_system"),
    path("teams/<slug:slug>/systems/<slug:system>/", team_views.change_system, name="change_system"),
    path("invitations/<str:signed>/", team_views.answer_invitation, name="invitation"),
]
