"""Small template tags of the interface: icons, times, words. They print what they are given, they do not decide."""

from __future__ import annotations

from django import template

register = template.Library()
