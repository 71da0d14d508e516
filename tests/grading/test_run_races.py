from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.utils import timezone

from gpu_runner.protocol import Mode, Outcome, RunResult
from grading.models import Run
from grading.runs import RunNotPossible, record_result, start_run
from interviews import links
from interviews.access import Participant, identify
from interviews.models import CandidateSession, EntryKind, Interview, InterviewQuestion

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def participant(room: Interview) -> Participant:
    session, token = links.open_session(room)
    CandidateSession.objects.filter(pk=session.pk).update(admitted_at=timezone.now())
    participant = identify(room, AnonymousUser(), {links.cookie_name(room): token})
    assert participant is not None
    return participant


def test_many_clicks_at_once_make_one_run_of_each_question(room: Interview, participant: Participant) -> None:
    questions = list(room.questions.select_related("version"))
    together = threading.Barrier(8)

    def click(question: InterviewQuestion) -> bool:
        together.wait()
        try:
            start_run(participant, question, mode=Mode.PROGRAM, ranks=1, text="")
        except RunNotPossible:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(click, questions * 4))
    assert sum(started) == 2
    assert sorted(Run.objects.values_list("number", flat=True)) == [1, 2]
    assert len(set(Run.objects.values_list("question", flat=True))) == 2


def test_a_result_that_comes_many_times_at_once_counts_once(room: Interview, participant: Participant) -> None:
    question = room.questions.select_related("version").get(position=1)
    run = start_run(participant, question, mode=Mode.CHECKS, ranks=1, text="")
    together = threading.Barrier(6)

    def record(number: int) -> None:
        result = RunResult(
            run_id=str(run.public_id), attempt=1, token=run.token, outcome=Outcome.EXITED, message=str(number)
        )
        together.wait()
        try:
            record_result(result.to_wire())
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(record, range(6)))
    run.refresh_from_db()
    assert run.is_finished
    assert room.timeline.filter(kind=EntryKind.RUN_FINISHED).count() == 1
    assert run.checks.count() == 2
