"""Addresses of runs, their event streams, scorecards and reports."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "grading"
urlpatterns: list[URLPattern] = []
