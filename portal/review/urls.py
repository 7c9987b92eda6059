from __future__ import annotations

from django.urls import path

from portal.review.views import batches, case, queue, team

app_name = "review"

urlpatterns = [
    path("review/", queue.show_queue, name="queue"),
    path("review/trail/", queue.show_trail, name="trail"),
    path("review/again/", batches.verify_again, name="verify_again"),
    path("review/again/<int:number>/", batches.show_batch, name="batch"),
    path("review/<uuid:public_id>/", case.show_case, name="case"),
    path("review/<uuid:public_id>/take/", case.take, name="take"),
    path("review/<uuid:public_id>/release/", case.release, name="release"),
    path("review/<uuid:public_id>/decide/", case.decide_case, name="decide"),
    path("review/<uuid:public_id>/diff/", case.find_difference, name="find_difference"),
    path("review/<uuid:public_id>/diff/<uuid:other_id>/", case.show_difference, name="difference"),
    path("runs/<uuid:public_id>/appeal/", team.appeal, name="appeal"),
    path("runs/<uuid:public_id>/reply/<int:decision>/", team.reply, name="reply"),
]
