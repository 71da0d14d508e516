"""Arranging interviews: everything that makes one, changes when and with whom it is, or calls it off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from interviews import links
from interviews.models import Candidate, Interview, InterviewQuestion, Kit, PanelMember, User


class InterviewTouched(Exception):
    """Something has happened in the interview already, so it can no longer be undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """What people agree on before an interview."""

    candidate_name: str
    candidate_email: str
    kit: Kit
    starts_at: datetime
    time_zone: str
    duration_minutes: int
    video_url: str
    panel: tuple[User, ...]
    lead: User

    def __post_init__(self) -> None:
        if self.lead not in self.panel:
            raise ValueError("the lead must be on the panel")


@transaction.atomic
def create_interview(arrangement: Arrangement, *, by: User) -> Interview:
    """A new interview with its link, its panel, and the kit's questions pinned to their latest versions."""
    candidate = Candidate.objects.create(name=arrangement.candidate_name, email=arrangement.candidate_email)
    interview = Interview(candidate=candidate, created_by=by)
    _set_time_and_place(interview, arrangement)
    interview.kit = arrangement.kit
    links.issue(interview)
    interview.save()
    _set_panel(interview, arrangement)
    _pin_questions(interview)
    return interview


@transaction.atomic
def rearrange(interview: Interview, arrangement: Arrangement) -> None:
    """Changes an interview. The candidate's link stays the same, and lasts as long as the new time needs.

    Raises ``InterviewTouched`` when its kit would change although something has happened already.
    """
    locked = Interview.objects.select_for_update().select_related("candidate").get(pk=interview.pk)
    if arrangement.kit.pk != locked.kit_id:
        if not locked.is_untouched:
            raise InterviewTouched
        locked.kit = arrangement.kit
        locked.questions.all().delete()
        _pin_questions(locked)
    locked.candidate.name = arrangement.candidate_name
    locked.candidate.email = arrangement.candidate_email
    locked.candidate.save()
    _set_time_and_place(locked, arrangement)
    locked.link_expires_at = locked.ends_at + links.LINK_GRACE
    locked.save(
        update_fields=["kit", "starts_at", "time_zone", "duration_minutes", "video_url", "link_expires_at"],
    )
    _set_panel(locked, arrangement)


@transaction.atomic
def cancel(interview: Interview) -> None:
    """Calls an interview off: it is gone, and so is its candidate. Raises ``InterviewTouched`` once something happened."""
    locked = Interview.objects.select_for_update().select_related("candidate").get(pk=interview.pk)
    if not locked.is_untouched:
        raise InterviewTouched
    locked.delete()
    if not locked.candidate.interviews.exists():
        locked.candidate.delete()


def renew_link(interview: Interview) -> None:
    """Gives the candidate a new link; the old one opens nothing any more."""
    # A link that is renewed after the interview's time is wanted now, so it lasts from now.
    latest_end = max(interview.ends_at, timezone.now())
    links.issue(interview, expires_at=latest_end + links.LINK_GRACE)
    interview.save(update_fields=["link_nonce", "link_hash", "link_expires_at", "link_revoked_at"])


def revoke_link(interview: Interview) -> None:
    """The candidate's link opens nothing any more, nor do the browsers that followed it."""
    interview.link_revoked_at = timezone.now()
    interview.save(update_fields=["link_revoked_at"])


def _set_time_and_place(interview: Interview, arrangement: Arrangement) -> None:
    interview.starts_at = arrangement.starts_at
    interview.time_zone = arrangement.time_zone
    interview.duration_minutes = arrangement.duration_minutes
    interview.video_url = arrangement.video_url


def _set_panel(interview: Interview, arrangement: Arrangement) -> None:
    interview.panel.exclude(user__in=arrangement.panel).delete()
    for user in arrangement.panel:
        PanelMember.objects.update_or_create(
            interview=interview, user=user, defaults={"lead": user == arrangement.lead}
        )


def _pin_questions(interview: Interview) -> None:
    entries: Iterable[tuple[int, int]] = (
        (entry.position, entry.question.latest.pk)
        for entry in Kit.objects.with_questions().get(pk=interview.kit_id).entries.all()
    )
    InterviewQuestion.objects.bulk_create(
        InterviewQuestion(interview=interview, position=position, version_id=version_id)
        for position, version_id in entries
    )
