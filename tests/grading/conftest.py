"""Runs, and the ways to ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.test import Client
from django.utils import timezone

from gpu_runner.protocol import Mode
from grading.models import Run
from grading.runs import start_run
from interviews import links
from interviews.access import Participant, identify
from interviews.models import CandidateSession, Interview, InterviewQuestion, InterviewStatus, User
from tests.grading.stack import Browser, Stack, wait_for


@pytest.fixture
def live_interview(interview: Interview) -> Interview:
    Interview.objects.filter(pk=interview.pk).update(status=InterviewStatus.LIVE, started_at=timezone.now())
    interview.refresh_from_db()
    return interview


@pytest.fixture
def question(live_interview: Interview) -> InterviewQuestion:
    return live_interview.questions.select_related("version", "interview").get(position=1)


@pytest.fixture
def candidate(live_interview: Interview) -> Participant:
    """Admitted to the room."""
    session, token = links.open_session(live_interview)
    CandidateSession.objects.filter(pk=session.pk).update(admitted_at=timezone.now())
    participant = identify(live_interview, AnonymousUser(), {links.cookie_name(live_interview): token})
    assert participant is not None
    return participant


@pytest.fixture
def panelist(live_interview: Interview, interviewer: User) -> Participant:
    participant = identify(live_interview, interviewer, {})
    assert participant is not None
    return participant


@pytest.fixture
def make_run(candidate: Participant, question: InterviewQuestion) -> Callable[..., Run]:
    def make(mode: Mode = Mode.PROGRAM, ranks: int = 1, text: str = "print(1)\n", **columns: Any) -> Run:
        run = start_run(candidate, question, mode=mode, ranks=ranks, text=text)
        if columns:
            Run.objects.filter(pk=run.pk).update(**columns)
            run.refresh_from_db()
        return run

    return make


@pytest.fixture
def candidate_client(live_interview: Interview) -> Client:
    """The browser of an admitted candidate."""
    client = Client()
    session, token = links.open_session(live_interview)
    CandidateSession.objects.filter(pk=session.pk).update(admitted_at=timezone.now())
    client.cookies[links.cookie_name(live_interview)] = token
    return client


@pytest.fixture
def interviewer_client(interviewer: User) -> Client:
    client = Client()
    client.force_login(interviewer)
    return client


@pytest.fixture
def roles(transactional_db: None) -> None:
    """Made by a migration, and lost when the former test emptied the tables."""
    for name in ("interviewer", "bank editor", "hiring admin"):
        Group.objects.get_or_create(name=name)


@pytest.fixture
def room(roles: None, interview: Interview) -> Interview:
    """A live interview that other programs see too."""
    Interview.objects.filter(pk=interview.pk).update(status=InterviewStatus.LIVE)
    return interview


@pytest.fixture
def candidate_browser(stack: Stack, room: Interview) -> Iterator[Browser]:
    """The admitted candidate of ``room``, at the real web server. ``stack`` is the test module's own.

    Afterwards nothing runs any more, so that one test does not take the slot of the next.
    """
    session, token = links.open_session(room)
    CandidateSession.objects.filter(pk=session.pk).update(admitted_at=timezone.now())
    browser = Browser(stack, {links.cookie_name(room): token})
    yield browser
    for run in Run.objects.open():
        browser.stop({"id": str(run.public_id)})
    wait_for(stack.is_idle, 30, "an idle host")
