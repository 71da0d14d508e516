from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from interviews import links
from interviews.access import Role, identify
from interviews.models import CandidateSession, Interview, User


def cookies(interview: Interview, token: str) -> dict[str, str]:
    return {links.cookie_name(interview): token}


def test_a_member_of_the_panel_is_an_interviewer(interview: Interview, interviewer: User, colleague: User) -> None:
    for user in (interviewer, colleague):
        participant = identify(interview, user, {})
        assert participant is not None
        assert (participant.role, participant.name, participant.may_enter) == (Role.INTERVIEWER, user.name, True)


def test_a_hiring_admin_may_conduct_any_interview(interview: Interview, hiring_admin: User) -> None:
    participant = identify(interview, hiring_admin, {})
    assert participant is not None
    assert participant.is_interviewer


def test_strangers_are_nobody(interview: Interview, stranger: User) -> None:
    assert identify(interview, stranger, {}) is None
    assert identify(interview, AnonymousUser(), {}) is None
    assert identify(interview, AnonymousUser(), cookies(interview, "guess")) is None


def test_a_deactivated_interviewer_is_nobody(interview: Interview, interviewer: User) -> None:
    interviewer.is_active = False
    assert identify(interview, interviewer, {}) is None


def test_a_candidate_waits_until_admitted(interview: Interview) -> None:
    session, token = links.open_session(interview)
    waiting = identify(interview, AnonymousUser(), cookies(interview, token))
    assert waiting is not None
    assert (waiting.role, waiting.name, waiting.may_enter) == (Role.CANDIDATE, "Cleo Candidate", False)
    CandidateSession.objects.filter(pk=session.pk).update(admitted_at=timezone.now())
    admitted = identify(interview, AnonymousUser(), cookies(interview, token))
    assert admitted is not None
    assert admitted.may_enter


def test_a_removed_candidate_is_nobody(interview: Interview) -> None:
    session, token = links.open_session(interview)
    CandidateSession.objects.filter(pk=session.pk).update(admitted_at=timezone.now(), removed_at=timezone.now())
    assert identify(interview, AnonymousUser(), cookies(interview, token)) is None


def test_a_candidates_cookie_opens_no_other_interview(interview: Interview, kit: object, interviewer: User) -> None:
    other = Interview(
        candidate=interview.candidate, kit=interview.kit, starts_at=timezone.now(), created_by=interviewer
    )
    links.issue(other)
    other.save()
    _, token = links.open_session(other)
    assert identify(interview, AnonymousUser(), cookies(interview, token)) is None


def test_an_interviewer_with_a_candidates_cookie_stays_an_interviewer(interview: Interview, interviewer: User) -> None:
    _, token = links.open_session(interview)
    participant = identify(interview, interviewer, cookies(interview, token))
    assert participant is not None
    assert participant.is_interviewer


def token_of(interview: Interview) -> str:
    return links.candidate_url(interview).rstrip("/").rsplit("/", 1)[1]


def test_the_link_finds_its_interview_and_the_database_does_not_hold_it(interview: Interview) -> None:
    token = token_of(interview)
    assert links.find_interview(token) == interview
    assert len(token) == 43
    assert token not in str(Interview.objects.values().get(pk=interview.pk))


def test_a_new_link_revokes_the_old_one(interview: Interview) -> None:
    old = token_of(interview)
    links.issue(interview)
    interview.save()
    assert links.find_interview(old) is None
    assert links.find_interview(token_of(interview)) == interview


@pytest.mark.parametrize("field", ["link_revoked_at", "link_expires_at"])
def test_a_dead_link_opens_nothing_and_ends_its_sessions(interview: Interview, field: str) -> None:
    token, (_, cookie) = token_of(interview), links.open_session(interview)
    setattr(interview, field, timezone.now() - timedelta(seconds=1))
    interview.save()
    assert links.find_interview(token) is None
    assert links.find_session(interview, cookie) is None
