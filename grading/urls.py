"""Addresses of runs, their event streams, scorecards and reports."""

from __future__ import annotations

from django.urls import URLPattern, path

from grading import live, views

_INTERVIEW = "interviews/<uuid:public_id>"

_pages: list[URLPattern] = [
    path(f"{_INTERVIEW}/scorecard/", views.scorecard, name="scorecard"),
    path(f"{_INTERVIEW}/scorecard/panel/", views.scorecard_panel, name="scorecard_panel"),
    path(f"{_INTERVIEW}/scorecard/citable/", views.citable, name="citable"),
    path(f"{_INTERVIEW}/scorecard/submit/", views.scorecard_submit, name="scorecard_submit"),
    path(f"{_INTERVIEW}/scorecard/summary/", views.summary_save, name="summary_save"),
    path(f"{_INTERVIEW}/scorecard/ratings/<int:position>/<int:criterion_id>/", views.rating_save, name="rating_save"),
    path(f"{_INTERVIEW}/report/", views.report, name="report"),
]

app_name = "grading"
urlpatterns: list[URLPattern] = [
    *_pages,
    path("api/runs/<uuid:run_id>/events", live.run_events, name="run_events"),
]
