"""What happens to an interview while people are in its room. Each change is settled by a conditional UPDATE."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from interviews import documents, room_events, timeline
from interviews.access import Participant
from interviews.models import CandidateSession, EntryKind, Interview, InterviewQuestion, InterviewStatus, TimelineEntry
from interviews.room_events import Audience

NOTE_LIMIT = 10_000


def start(interview: Interview, *, by: Participant) -> bool:
    """Starts the clock and opens the current question. Whether it was this call that did."""
    with transaction.atomic():
        started = Interview.objects.filter(pk=interview.pk, status=InterviewStatus.SCHEDULED).update(
            status=InterviewStatus.LIVE, started_at=timezone.now()
        )
        if not started:
            return False
        timeline.append(interview, EntryKind.STARTED, by=by)
        position = Interview.objects.values_list("current_position", flat=True).get(pk=interview.pk)
        if interview.questions.filter(position=position, opened_at=None).exists():
            _open(interview, position, by=by)
        room_events.publish(interview, "started")
    return True


def admit(interview: Interview, session_id: int, *, by: Participant) -> bool:
    """Lets a waiting candidate in; the first one starts the interview. Whether it was this call that did."""
    with transaction.atomic():
        admitted = CandidateSession.objects.filter(
            pk=session_id, interview=interview, admitted_at=None, removed_at=None
        ).update(admitted_at=timezone.now(), admitted_by=by.user)
        if not admitted:
            return False
        timeline.append(interview, EntryKind.ADMITTED, by=by, payload={"session": session_id})
        room_events.publish(interview, "admitted", audience=Audience.INTERVIEWERS, session=session_id)
        start(interview, by=by)
    return True


def remove(interview: Interview, session_id: int, *, by: Participant) -> bool:
    """Declines a waiting candidate, or shows an admitted one out. That browser's cookie is worthless from now on."""
    with transaction.atomic():
        removed = CandidateSession.objects.filter(pk=session_id, interview=interview, removed_at=None).update(
            removed_at=timezone.now()
        )
        if not removed:
            return False
        timeline.append(interview, EntryKind.LEFT, by=by, payload={"session": session_id, "removed": True})
        room_events.publish(interview, "removed", audience=Audience.INTERVIEWERS, session=session_id)
    return True


def open_question(interview: Interview, position: int, *, by: Participant) -> bool:
    """Puts a question before everybody. Whether that changed anything."""
    with transaction.atomic():
        timeline.take_turn(interview)
        interview.refresh_from_db(fields=["status", "current_position"])
        question = InterviewQuestion.objects.filter(interview=interview, position=position).first()
        if question is None or interview.is_over:
            return False
        if interview.current_position == position and question.opened_at is not None:
            return False
        Interview.objects.filter(pk=interview.pk).update(current_position=position)
        _open(interview, position, by=by)
        room_events.publish(interview, "question", position=position)
    return True


def end_interview(interview: Interview, *, by: Participant) -> bool:
    """Ends the interview: from now on its documents can only be read. Whether it was this call that did."""
    with transaction.atomic():
        ended = (
            Interview.objects.filter(pk=interview.pk)
            .exclude(status=InterviewStatus.ENDED)
            .update(status=InterviewStatus.ENDED, ended_at=timezone.now())
        )
        if not ended:
            return False
        timeline.append(interview, EntryKind.ENDED, by=by)
        room_events.publish(interview, "ended")
    return True


def add_note(interview: Interview, note_id: UUID, text: str, *, position: int, by: Participant) -> TimelineEntry:
    """A private note in the timeline. ``note_id`` is made by the page, so that sending it again adds nothing."""
    with transaction.atomic():
        timeline.take_turn(interview)
        known = TimelineEntry.objects.filter(interview=interview, kind=EntryKind.NOTE, payload__id=str(note_id)).first()
        if known is not None:
            return known
        question = InterviewQuestion.objects.filter(interview=interview, position=position).first()
        payload = {"id": str(note_id), "text": text.strip()[:NOTE_LIMIT]}
        entry = timeline.append(interview, EntryKind.NOTE, by=by, question=question, payload=payload, private=True)
        room_events.publish(interview, "note", audience=Audience.INTERVIEWERS, note=note_wire(entry))
    return entry


def notes(interview: Interview) -> list[dict[str, Any]]:
    entries = TimelineEntry.objects.filter(interview=interview, kind=EntryKind.NOTE)
    return [note_wire(entry) for entry in entries.select_related("user", "question").order_by("sequence")]


def note_wire(entry: TimelineEntry) -> dict[str, Any]:
    return {
        "id": entry.payload["id"],
        "text": entry.payload["text"],
        "at": entry.at.isoformat(),
        "sequence": entry.sequence,
        "author": entry.user.name if entry.user else "",
        "position": entry.question.position if entry.question else None,
    }


def note_waiting(candidate: Participant) -> None:
    """Puts a candidate's first knock into the timeline."""
    knocks = TimelineEntry.objects.filter(
        interview=candidate.interview, kind=EntryKind.LOBBY, candidate_session=candidate.session
    )
    if not knocks.exists():
        timeline.append(candidate.interview, EntryKind.LOBBY, by=candidate)


def note_presence(interview: Interview, *, by: Participant, here: bool) -> None:
    """Puts coming and going into the timeline, each only once in a row."""
    last = (
        TimelineEntry.objects.filter(
            interview=interview,
            kind__in=[EntryKind.JOINED, EntryKind.LEFT],
            user=by.user,
            candidate_session=by.session,
        )
        .order_by("-sequence")
        .values_list("kind", flat=True)
        .first()
    )
    kind = EntryKind.JOINED if here else EntryKind.LEFT
    if last != kind and (here or last is not None):
        timeline.append(interview, kind, by=by)


def _open(interview: Interview, position: int, *, by: Participant) -> None:
    question = (
        InterviewQuestion.objects.select_related("version", "interview")
        .filter(interview=interview, position=position)
        .first()
    )
    if question is None:
        return
    InterviewQuestion.objects.filter(pk=question.pk, opened_at=None).update(opened_at=timezone.now())
    documents.begin(question)
    timeline.append(interview, EntryKind.QUESTION, by=by, question=question, payload={"position": position})
