"""Addresses of questions, kits, interviews and the room. The names are what other code and templates use."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "interviews"
urlpatterns: list[URLPattern] = []
