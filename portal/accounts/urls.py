from __future__ import annotations

from django.urls import path

from portal.accounts import views

app_name = "accounts"

urlpatterns = [
    path("account/", views.show_account, name="home"),
    path("account/second-factor/required/", views.require_second_factor, name="second_factor"),
]
