from __future__ import annotations

import zoneinfo
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

#: Set by the page's script from the browser; wins over the zone in the profile, since it is where the reader sits.
TIME_ZONE_COOKIE = "time_zone"


class TimeZoneMiddleware:
    """Every page shows times in its reader's zone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        zone = str(request.COOKIES.get(TIME_ZONE_COOKIE) or getattr(request.user, "time_zone", "UTC"))
        try:
            timezone.activate(zoneinfo.ZoneInfo(zone))
        except (zoneinfo.ZoneInfoNotFoundError, ValueError):
            timezone.deactivate()
        try:
            return self.get_response(request)
        finally:
            timezone.deactivate()
