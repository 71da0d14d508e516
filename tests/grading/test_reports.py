"""The report: facts with their sources, for those who may read them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpu_runner.protocol import Mode
from grading import reports
from grading.evidence import since_start
from grading.models import Run, RunState, Submission
from interviews import documents
from interviews.models import Interview, User
from tests.grading import acts


@pytest.fixture
def running(interview: Interview, interviewer: User) -> Interview:
    return acts.begin(interview, interviewer)


def fresh(interview: Interview) -> Interview:
    return Interview.objects.with_people().get(pk=interview.pk)


def page(interview: Interview, reader: User) -> str:
    client = Client()
    client.force_login(reader)
    response = client.get(reverse("grading:report", args=[interview.public_id]))
    assert response.status_code == 200
    return response.content.decode()


def test_without_a_scorecard_the_page_says_so(running: Interview, hiring_admin: User) -> None:
    html = page(running, hiring_admin)
    assert "No scorecard submitted yet" in html
    assert "0 of 2 scorecards submitted" in html
    assert "still going on" in html


def test_before_the_start_there_is_nothing_to_report(interview: Interview, hiring_admin: User) -> None:
    assert "has not started" in page(interview, hiring_admin)


def test_a_draft_is_in_no_report(running: Interview, interviewer: User, hiring_admin: User) -> None:
    acts.rate(running, interviewer, evidence="SECRET draft")
    for reader in (interviewer, hiring_admin):
        assert "SECRET" not in page(running, reader)


def test_the_panel_reads_the_others_after_submitting_its_own(
    running: Interview, interviewer: User, colleague: User, hiring_admin: User
) -> None:
    acts.submit(running, interviewer, evidence="SECRET evidence", recommendation="strong_yes")
    html = page(running, colleague)
    assert "SECRET" not in html
    assert "Strong yes" not in html
    assert "Summary of Ada" not in html
    assert "1 of 2 scorecards submitted" in html
    assert "1 scorecard of your panel is submitted" in html
    assert "SECRET evidence" in page(running, hiring_admin)
    acts.submit(running, colleague, level=1, recommendation="no")
    html = page(running, colleague)
    assert "SECRET evidence" in html
    assert "Strong yes" in html


def test_ratings_are_combined_by_rule(
    running: Interview, interviewer: User, colleague: User, hiring_admin: User
) -> None:
    acts.submit(running, interviewer, level=4)
    acts.submit(running, colleague, level=None, recommendation="no")
    report = reports.report(fresh(running), hiring_admin)
    assert report.mean == Decimal(4)
    assert report.recommendations == [("Yes", 1), ("No", 1)]
    means = [(Decimal(4), interviewer), (None, colleague)]
    assert [question.rater_means for question in report.questions] == [means, means]
    html = page(running, hiring_admin)
    assert report.rule in html
    assert "not assessed by 1" in html


def test_raters_far_apart_are_pointed_out(running: Interview, interviewer: User, colleague: User) -> None:
    acts.submit(running, interviewer, level=1)
    acts.submit(running, colleague, level=4)
    assert "raters 3 levels apart" in page(running, colleague)


def test_the_final_code_is_the_documents_and_names_the_run_that_ran_it(running: Interview, hiring_admin: User) -> None:
    starter = documents.text_at(running.questions.get(position=1))
    first = reports.report(fresh(running), hiring_admin).questions[0].code
    assert (first.text, first.edits, first.run_number) == (starter, 0, None)
    assert "nobody changed it" in page(running, hiring_admin)
    acts.finished_run(running, hiring_admin, text=starter)
    assert "It is exactly what" in page(running, hiring_admin)
    acts.finished_run(running, hiring_admin, text="something else")
    code = reports.report(fresh(running), hiring_admin).questions[0].code
    assert (code.run_number, code.same_as_run) == (2, False)


def test_edits_are_counted_and_the_starter_is_none(running: Interview, interviewer: User) -> None:
    from pycrdt import Doc, Text

    question = running.questions.get(position=1)
    log = documents.read_log(question.pk, epoch=question.document_epoch, after=0)
    doc: Doc[Text] = Doc()
    text = doc.get(documents.TEXT, type=Text)
    for edit in log.edits:
        doc.apply_update(edit.update)
    before = doc.get_state()
    text += "print(1)\n"
    documents.record_edit(
        question.pk, epoch=log.epoch, update=doc.get_update(before), by=acts.seated(running, interviewer)
    )
    code = reports.report(fresh(running), interviewer).questions[0].code
    assert code.edits == 1
    assert code.text.endswith("print(1)\n")
    assert code.last_edit.startswith("30:0")


def test_runs_and_checks_are_shown_with_what_they_found(running: Interview, interviewer: User) -> None:
    acts.finished_run(running, interviewer, mode=Mode.PROGRAM)
    acts.finished_run(running, interviewer)
    html = page(running, interviewer)
    assert 'id="run-1"' in html
    assert "1 of 1 visible checks passed, hidden: 0 of 1" in html
    assert "PRIVATE expected 3, got 4" in html
    assert "Machine and versions of runs 1–2 – rehearsed on CPU: no timing" in html
    assert "2.13.0" in html


def test_an_open_run_is_shown_as_such(running: Interview, interviewer: User) -> None:
    question = running.questions.get(position=1)
    Run.objects.create(
        interview=running,
        question=question,
        submission=Submission.objects.create(question=question, text=""),
        number=1,
        mode=Mode.CHECKS.value,
        state=RunState.QUEUED,
        requested_by_user=interviewer,
    )
    html = page(running, interviewer)
    assert "Still going on" in html
    assert "The newest run of the checks" not in html


def test_the_timeline_links_what_the_evidence_cites(running: Interview, interviewer: User) -> None:
    note = acts.write_note(running, interviewer, "Asked about <overflow>.")
    acts.finished_run(running, interviewer)
    html = page(running, interviewer)
    assert f'id="note-{note.sequence}"' in html
    assert "Asked about &lt;overflow&gt;." in html
    assert "Run 1: Checks finished" in html


def test_versions_are_those_of_the_interview(running: Interview, interviewer: User) -> None:
    assert 'href="/questions/adding/?version=1"' in page(running, interviewer)


def test_a_question_that_was_not_opened_is_told_apart(interview: Interview, interviewer: User) -> None:
    started = acts.begin(interview, interviewer, positions=(1,))
    assert "It was not opened in this interview." in page(started, interviewer)


def test_time_counts_from_the_start(running: Interview) -> None:
    assert running.started_at is not None
    clocks = [timedelta(0), timedelta(seconds=761.9), timedelta(hours=1, minutes=2, seconds=3)]
    assert [since_start(running, running.started_at + clock) for clock in clocks] == ["0:00", "12:41", "1:02:03"]
    assert since_start(running, running.started_at - timedelta(seconds=1)) == "before the start"


def test_the_report_takes_the_same_queries_however_much_there_is(
    running: Interview,
    interviewer: User,
    colleague: User,
    hiring_admin: User,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    client = Client()
    client.force_login(hiring_admin)
    url = reverse("grading:report", args=[running.public_id])
    acts.submit(running, interviewer)
    acts.finished_run(running, interviewer)
    acts.write_note(running, interviewer, "One.")
    with django_assert_num_queries(19):
        client.get(url)
    for _ in range(3):
        acts.finished_run(running, interviewer)
        acts.finished_run(running, colleague, position=2, mode=Mode.PROGRAM)
        acts.write_note(running, colleague, "More.", position=2)
    acts.submit(running, colleague)
    with django_assert_num_queries(19):
        assert client.get(url).status_code == 200
