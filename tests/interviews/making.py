"""Makes rows that several tests need, the way the product makes them."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from interviews.models import Interview, Kit, User
from interviews.scheduling import Arrangement, create_interview


def arrangement(
    lead: User, kit: Kit, candidate: str = "Nia New", *, starts_in: timedelta = timedelta(days=1)
) -> Arrangement:
    return Arrangement(
        candidate_name=candidate,
        candidate_email="nia@example.org",
        kit=kit,
        starts_at=timezone.now() + starts_in,
        time_zone="Europe/Berlin",
        duration_minutes=45,
        video_url="",
        panel=(lead,),
        lead=lead,
    )


def make_interview(
    lead: User, kit: Kit, candidate: str = "Nia New", *, starts_in: timedelta = timedelta(days=1)
) -> Interview:
    return create_interview(arrangement(lead, kit, candidate, starts_in=starts_in), by=lead)
