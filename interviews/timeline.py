"""The one ordered log of an interview: every accepted edit and every event."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from interviews.access import Participant
from interviews.models import ActorKind, EntryKind, Interview, InterviewQuestion, TimelineEntry


def take_turn(interview: Interview) -> None:
    """Within a transaction: nobody else writes to this interview's timeline until it ends."""
    Interview.objects.filter(pk=interview.pk).update(timeline_length=F("timeline_length"))


def append(
    interview: Interview,
    kind: EntryKind,
    *,
    by: Participant | None = None,
    question: InterviewQuestion | None = None,
    payload: dict[str, Any] | None = None,
    update: bytes | None = None,
    private: bool = False,
) -> TimelineEntry:
    """Writes the next entry. ``by`` is ``None`` for what the system does.

    Writers of one interview take turns on its row, so the sequence has no gap and no double.
    """
    with transaction.atomic():
        Interview.objects.filter(pk=interview.pk).update(timeline_length=F("timeline_length") + 1)
        sequence = Interview.objects.values_list("timeline_length", flat=True).get(pk=interview.pk)
        if by is None:
            actor = ActorKind.SYSTEM
        else:
            actor = ActorKind.USER if by.is_interviewer else ActorKind.CANDIDATE
        return TimelineEntry.objects.create(
            interview=interview,
            sequence=sequence,
            at=timezone.now(),
            kind=kind,
            actor_kind=actor,
            user=by.user if by else None,
            candidate_session=by.session if by else None,
            question=question,
            payload=payload or {},
            update=update,
            private=private,
        )
