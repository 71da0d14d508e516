"""Who is asking: an interviewer of the panel or the candidate. Pages, API, event streams and WebSockets all ask here."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404

from interviews import links
from interviews.models import CandidateSession, Interview, User


class Role(enum.StrEnum):
    INTERVIEWER = "interviewer"
    CANDIDATE = "candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """Somebody in an interview's room. Exactly one of ``user`` and ``session`` is set."""

    interview: Interview
    role: Role
    user: User | None = None
    session: CandidateSession | None = None

    @property
    def is_interviewer(self) -> bool:
        return self.role is Role.INTERVIEWER

    @property
    def name(self) -> str:
        return self.user.name if self.user else self.session.display_name if self.session else ""

    @property
    def key(self) -> str:
        """The same for all connections of one person."""
        return f"user-{self.user.pk}" if self.user else f"candidate-{self.session.pk if self.session else 0}"

    @property
    def may_enter(self) -> bool:
        """Candidates enter when admitted; interviewers always."""
        return self.is_interviewer or (self.session is not None and self.session.is_admitted)


def identify(interview: Interview, user: User | AnonymousUser, cookies: Mapping[str, str]) -> Participant | None:
    """The participant behind a connection, or ``None`` for a stranger.

    A signed-in member of the panel is an interviewer even where a candidate's cookie is present too.
    """
    if isinstance(user, User) and user.is_active and user.has_perm("interviews.conduct_interview", interview):
        return Participant(interview=interview, role=Role.INTERVIEWER, user=user)
    return identify_candidate(interview, cookies)


def identify_candidate(interview: Interview, cookies: Mapping[str, str]) -> Participant | None:
    """The candidate of this browser, whoever else may be signed in there."""
    token = cookies.get(links.cookie_name(interview))
    session = links.find_session(interview, token) if token else None
    return Participant(interview=interview, role=Role.CANDIDATE, session=session) if session else None


def participant_or_404(request: HttpRequest, public_id: UUID, *, entered: bool = True) -> Participant:
    """The participant of this request. Strangers get 404: whether an interview exists is nobody's business.

    With ``entered``, a candidate who still waits in the lobby gets 404 too. The candidate's page asks ``?as=candidate``, so
    that an interviewer who tries the candidate's link in their own browser sees there what a candidate sees.
    """
    interview = get_object_or_404(Interview.objects.select_related("candidate"), public_id=public_id)
    if request.GET.get("as") == Role.CANDIDATE:
        participant = identify_candidate(interview, request.COOKIES)
    else:
        participant = identify(interview, request.user, request.COOKIES)
    if participant is None or (entered and not participant.may_enter):
        raise Http404
    return participant


def candidate_or_404(request: HttpRequest, public_id: UUID) -> Participant:
    """The candidate of this request, in the lobby or in the room; never an interviewer."""
    interview = get_object_or_404(Interview.objects.select_related("candidate"), public_id=public_id)
    participant = identify_candidate(interview, request.COOKIES)
    if participant is None:
        raise Http404
    return participant
