from __future__ import annotations

from django.urls import path

from portal.standings.views import analysis, background, board, guide, systems

app_name = "standings"

urlpatterns = [
    path("", board.show_board, name="board"),
    path("board.csv", board.export_csv, name="board_csv"),
    path("board.json", board.export_json, name="board_json"),
    path("board.atom", board.export_feed, name="board_feed"),
    path("published.csv", board.export_published_csv, name="published_csv"),
    path("published.json", board.export_published_json, name="published_json"),
    path("levels/", analysis.show_levels, name="levels"),
    path("failures/", analysis.show_failures, name="failures"),
    path("compare/", analysis.show_comparison, name="compare"),
    path("systems/", systems.list_systems, name="systems"),
    path("systems/<slug:slug>/", systems.show_system, name="system"),
    path("spotlight/attention/", background.show_spotlight, name="spotlight"),
    path("methodology/", background.show_methodology, name="methodology"),
    path("contract/", background.show_contract, name="contract"),
    path("style/", guide.show_style, name="style"),
]
