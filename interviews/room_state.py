"""The room as one participant may see it: plain JSON values for the WebSocket. What is private is left out here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from interviews import rooms
from interviews.access import Participant, identify, identify_candidate
from interviews.highlighting import highlight
from interviews.models import Check, Interview, InterviewQuestion, QuestionVersion, User
from interviews.prose import render_markdown

#: Cursors and avatars have so many colours (``static/css/room.css``); 0 is the candidate's.
COLOURS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the database on behalf of one connection."""

    participant: Participant
    #: Primary keys of the questions whose document this participant may open, by position.
    documents: dict[int, int]
    colour: int
    state: dict[str, Any]
    waiting: list[dict[str, Any]]


def look(
    public_id: UUID, user: User | AnonymousUser | None, cookies: Mapping[str, str], *, as_candidate: bool
) -> Look | None:
    """Everything a connection needs to know now; ``None`` for a stranger, or somebody who was shown out.

    ``as_candidate`` is what the candidate's page asks for, so that an interviewer who tries the candidate's link in
    their own browser sees what the candidate sees.
    """
    interview = Interview.objects.select_related("candidate").filter(public_id=public_id).first()
    if interview is None:
        return None
    participant = _identify(interview, user, cookies, as_candidate=as_candidate)
    if participant is None:
        return None
    questions = list(
        interview.questions.select_related("version__outline")
        .prefetch_related("version__checks", "version__follow_ups")
        .order_by("position")
    )
    if not participant.is_interviewer:
        questions = [q for q in questions if q.opened_at is not None] if participant.may_enter else []
    return Look(
        participant=participant,
        documents={question.position: question.pk for question in questions},
        colour=_colour(interview, participant),
        state=_state(interview, participant, questions) if participant.may_enter else _lobby_state(interview),
        waiting=_waiting(interview) if participant.is_interviewer else [],
    )


def pulse(
    public_id: UUID, user: User | AnonymousUser | None, cookies: Mapping[str, str], *, as_candidate: bool
) -> tuple[Any, ...] | None:
    """A value that changes whenever ``look`` would show something new, for a fraction of its price."""
    interview = Interview.objects.filter(public_id=public_id).first()
    if interview is None:
        return None
    participant = _identify(interview, user, cookies, as_candidate=as_candidate)
    if participant is None:
        return None
    return (
        participant.role,
        participant.may_enter,
        interview.status,
        interview.current_position,
        *interview.questions.order_by("position").values_list("pk", "document_epoch", "opened_at"),
        *interview.candidate_sessions.filter(admitted_at=None, removed_at=None).values_list("pk", flat=True),
    )


def _identify(
    interview: Interview, user: User | AnonymousUser | None, cookies: Mapping[str, str], *, as_candidate: bool
) -> Participant | None:
    if not as_candidate:
        # The connection's user is as old as the connection; rights are asked for anew.
        fresh = User.objects.filter(pk=user.pk).first() if isinstance(user, User) else None
        return identify(interview, fresh or AnonymousUser(), cookies)
    return identify_candidate(interview, cookies)


def _state(interview: Interview, participant: Participant, questions: list[InterviewQuestion]) -> dict[str, Any]:
    private = participant.is_interviewer
    return {
        "status": interview.status,
        "candidate": interview.candidate.name,
        "starts_at": interview.starts_at.isoformat(),
        "started_at": interview.started_at.isoformat() if interview.started_at else None,
        "ended_at": interview.ended_at.isoformat() if interview.ended_at else None,
        "duration_minutes": interview.duration_minutes,
        "video_url": interview.video_url,
        "current_position": interview.current_position,
        "read_only": interview.is_over,
        "now": timezone.now().isoformat(),
        "questions": [_question(question, private=private) for question in questions],
        **({"notes": rooms.notes(interview)} if private else {}),
    }


def _lobby_state(interview: Interview) -> dict[str, Any]:
    """All that somebody in the lobby learns."""
    return {"status": interview.status, "starts_at": interview.starts_at.isoformat()}


def _question(question: InterviewQuestion, *, private: bool) -> dict[str, Any]:
    version = question.version
    public: dict[str, Any] = {
        "position": question.position,
        "title": version.title,
        "minutes": version.minutes,
        "ranks": version.ranks,
        "max_ranks": version.max_ranks,
        "gpus": version.gpus,
        "epoch": question.document_epoch,
        "opened_at": question.opened_at.isoformat() if question.opened_at else None,
        "prompt_html": render_markdown(version.prompt, 3),
        "checks": [_check(check) for check in version.checks.all() if private or not check.hidden],
    }
    return {**public, "private": _private(version)} if private else public


def _private(version: QuestionVersion) -> dict[str, Any]:
    outline = getattr(version, "outline", None)
    return {
        "summary": version.summary,
        "difficulty": version.get_difficulty_display(),
        "outline_html": render_markdown(outline.text, 3) if outline else "",
        "reference_html": highlight(version.reference),
        "follow_ups": [
            {"title": item.title, "html": render_markdown(item.text, 4)} for item in version.follow_ups.all()
        ],
    }


def _check(check: Check) -> dict[str, Any]:
    return {"name": check.name, "title": check.title, "hidden": check.hidden}


def _waiting(interview: Interview) -> list[dict[str, Any]]:
    sessions = interview.candidate_sessions.filter(admitted_at=None, removed_at=None).order_by("created_at")
    return [
        {"session": session.pk, "key": f"candidate-{session.pk}", "name": session.display_name} for session in sessions
    ]


def _colour(interview: Interview, participant: Participant) -> int:
    """The candidate has a colour alone; the panel's are told apart by their place on it."""
    if participant.user is None:
        return 0
    panel = list(interview.panel.order_by("pk").values_list("user_id", flat=True))
    place = panel.index(participant.user.pk) if participant.user.pk in panel else len(panel)
    return 1 + place % (COLOURS - 1)
