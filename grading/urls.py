"""Addresses of runs, their event streams, scorecards and reports."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from grading import live
from grading.api import api

app_name = "grading"
urlpatterns: list[URLPattern | URLResolver] = [
    path("api/runs/<uuid:run_id>/events", live.run_events, name="run_events"),
    path("api/", api.urls),
]
