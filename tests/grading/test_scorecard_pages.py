"""The scorecard's page, the room's fragment of it, and what they save."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpu_runner.protocol import Mode
from grading.models import Rating, Scorecard
from interviews.models import Interview, User
from tests.grading import acts


@pytest.fixture
def running(interview: Interview, interviewer: User) -> Interview:
    return acts.begin(interview, interviewer)


def as_user(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page_url(name: str, interview: Interview) -> str:
    return reverse(f"grading:{name}", args=[interview.public_id])


def rating_url(interview: Interview, position: int = 1) -> str:
    question = interview.questions.get(position=position)
    return reverse("grading:rating_save", args=[interview.public_id, position, acts.criterion_of(question).pk])


def test_the_page_shows_every_anchor_as_text(running: Interview, interviewer: User) -> None:
    html = as_user(interviewer).get(page_url("scorecard", running)).content.decode()
    for level in range(1, 5):
        assert html.count(f"PRIVATE anchor {level}</span>") == 2
    assert html.count('name="level" value="not_assessed"') == 2


def test_looking_at_a_scorecard_writes_nothing(running: Interview, interviewer: User) -> None:
    as_user(interviewer).get(page_url("scorecard", running))
    as_user(interviewer).get(page_url("scorecard_panel", running))
    assert not Scorecard.objects.exists()


def test_before_the_start_the_rubric_can_be_read_but_not_filled_in(interview: Interview, interviewer: User) -> None:
    html = as_user(interviewer).get(page_url("scorecard", interview)).content.decode()
    assert "PRIVATE anchor 1" in html
    assert "The interview has not started" in html
    assert html.count("disabled>") == 3
    assert "data-submit" not in html


def test_the_panel_shows_the_question_of_its_position_alone(running: Interview, interviewer: User) -> None:
    acts.finished_run(running, interviewer, position=2)
    html = as_user(interviewer).get(page_url("scorecard_panel", running), {"position": 2}).content.decode()
    assert html.count('data-autosave="rating"') == 1
    assert "rating-2-" in html
    assert "rating-1-" not in html
    assert "1 of 1 visible checks passed, hidden: 0 of 1" in html
    assert "<html" not in html


@pytest.mark.parametrize("position", ["0", "9", "x", "-1", "99999999999999999999"])
def test_the_panel_of_no_question_is_not_found(running: Interview, interviewer: User, position: str) -> None:
    response = as_user(interviewer).get(page_url("scorecard_panel", running), {"position": position})
    assert response.status_code == 404


def test_whoever_is_not_on_the_panel_is_told_so(running: Interview, hiring_admin: User) -> None:
    for name in ("scorecard", "scorecard_panel"):
        html = as_user(hiring_admin).get(page_url(name, running)).content.decode()
        assert "Only members of the panel rate" in html
        assert "PRIVATE" not in html


def test_strangers_find_no_scorecard(running: Interview, stranger: User, hiring_admin: User) -> None:
    for name in ("scorecard", "scorecard_panel", "citable", "scorecard_submit", "report"):
        assert as_user(stranger).get(page_url(name, running)).status_code == 404, name
        assert Client().get(page_url(name, running)).status_code == 302, name
    for person in (stranger, hiring_admin):
        for url in (rating_url(running), page_url("summary_save", running), page_url("scorecard_submit", running)):
            assert as_user(person).post(url, {"level": "1"}).status_code == 404, url
    assert not Scorecard.objects.exists()


def test_a_save_answers_what_is_saved_and_what_it_still_wants(running: Interview, interviewer: User) -> None:
    response = as_user(interviewer).post(rating_url(running), {"level": "3", "evidence": "", "version": ""})
    answer = response.json()
    assert response.status_code == 200
    assert answer["saved"]["level"] == "3"
    assert answer["saved"]["wants"] == "an evidence note"
    assert (answer["rated"], answer["total"]) == (0, 2)


def test_a_saved_draft_comes_back_on_the_page(running: Interview, interviewer: User) -> None:
    note = acts.write_note(running, interviewer, "Asked about overflow.")
    client = as_user(interviewer)
    client.post(
        rating_url(running), {"level": "not_assessed", "evidence": "line\r\nline <b>", "cites": [note.sequence]}
    )
    html = client.get(page_url("scorecard", running)).content.decode()
    assert re.search(r'value="not_assessed" checked', html)
    assert "line\nline &lt;b&gt;</textarea>" in html
    assert f'name="cites" value="{note.sequence}"' in html
    assert Rating.objects.get().evidence == "line\nline <b>"


def test_a_stale_save_is_answered_with_what_is_newer(running: Interview, interviewer: User) -> None:
    client = as_user(interviewer)
    note = acts.write_note(running, interviewer, "A note.")
    first = client.post(rating_url(running), {"level": "2", "evidence": "One.", "version": ""}).json()["saved"]
    fields = {"level": "4", "evidence": "Two.", "cites": [note.sequence], "version": first["version"]}
    second = client.post(rating_url(running), fields).json()["saved"]
    response = client.post(rating_url(running), {"level": "1", "evidence": "Old.", "version": first["version"]})
    assert response.status_code == 409
    saved = response.json()["saved"]
    assert saved == second
    assert (saved["level"], saved["evidence"]) == ("4", "Two.")
    assert saved["cites"][0]["sequence"] == note.sequence
    assert saved["cites"][0]["label"].endswith(", note by Ada Interviewer")


def test_a_stale_summary_is_answered_with_what_is_newer(running: Interview, interviewer: User) -> None:
    client = as_user(interviewer)
    client.post(page_url("summary_save", running), {"summary": "One.", "version": ""})
    response = client.post(page_url("summary_save", running), {"summary": "Old.", "version": ""})
    assert response.status_code == 409
    assert response.json()["saved"]["summary"] == "One."


@pytest.mark.parametrize(
    "fields", [{"level": "5"}, {"evidence": "x" * 5_001}, {"cites": "x"}, {"cites": "-1"}, {"version": "x" * 65}]
)
def test_what_does_not_fit_is_refused_in_words(running: Interview, interviewer: User, fields: dict[str, str]) -> None:
    response = as_user(interviewer).post(rating_url(running), fields)
    assert response.status_code == 422
    assert response.json()["error"]
    assert not Rating.objects.exists()


def test_a_locked_scorecard_refuses_saves(running: Interview, interviewer: User) -> None:
    acts.submit(running, interviewer)
    client = as_user(interviewer)
    assert client.post(rating_url(running), {"level": "1", "evidence": "After."}).status_code == 423
    assert client.post(page_url("summary_save", running), {"summary": "After."}).status_code == 423
    html = client.get(page_url("scorecard", running)).content.decode()
    assert "It no longer changes." in html
    assert "<textarea" not in html
    assert "PRIVATE anchor 3" in html


def test_a_criterion_of_another_question_is_not_found(running: Interview, interviewer: User) -> None:
    other = acts.criterion_of(running.questions.get(position=2))
    url = reverse("grading:rating_save", args=[running.public_id, 1, other.pk])
    assert as_user(interviewer).post(url, {"level": "1"}).status_code == 404


def test_the_dialog_names_what_is_missing_and_leads_there(running: Interview, interviewer: User) -> None:
    html = (
        as_user(interviewer).get(page_url("scorecard_submit", running), headers={"HX-Request": "true"}).content.decode()
    )
    assert "3 things still missing" in html
    assert "#recommendation" in html
    assert "<html" not in html
    places = re.findall(r'data-missing="([^"]+)"', html)
    page = as_user(interviewer).get(page_url("scorecard", running)).content.decode()
    assert len(places) == 3
    assert all(f'id="{place}"' in page for place in places)


def test_submitting_locks_and_says_so(running: Interview, interviewer: User) -> None:
    client = as_user(interviewer)
    acts.rate(running, interviewer)
    response = client.post(page_url("scorecard_submit", running), follow=True)
    assert "Something is still missing" in response.content.decode()
    client.post(page_url("summary_save", running), {"recommendation": "yes"})
    assert "Submit and lock" in client.get(page_url("scorecard_submit", running)).content.decode()
    response = client.post(page_url("scorecard_submit", running), follow=True)
    assert "Your scorecard is submitted." in response.content.decode()
    assert Scorecard.objects.get().is_submitted
    assert "was submitted" in client.get(page_url("scorecard_submit", running)).content.decode()


def test_runs_checks_and_notes_can_be_cited(running: Interview, interviewer: User) -> None:
    acts.finished_run(running, interviewer, position=1)
    acts.finished_run(running, interviewer, position=2, mode=Mode.PROGRAM)
    acts.write_note(running, interviewer, "Only on question one.")
    html = as_user(interviewer).get(page_url("citable", running), {"position": 1}).content.decode()
    labels = re.findall(r'data-label="([^"]+)"', html)
    assert [label.split(", ", 1)[1] for label in labels] == [
        "note by Ada Interviewer",
        "run 1",
        "run 1, check 1",
        "run 1, check 2",
    ]
    assert labels[1].startswith("30:0")


def test_the_scorecard_page_takes_the_same_queries_however_much_there_is(
    running: Interview, interviewer: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client = as_user(interviewer)
    acts.rate(running, interviewer)
    acts.finished_run(running, interviewer)
    with django_assert_num_queries(13):
        client.get(page_url("scorecard", running))
    for _ in range(3):
        acts.finished_run(running, interviewer)
        acts.finished_run(running, interviewer, position=2)
    note = acts.write_note(running, interviewer, "A note.")
    for rating in Rating.objects.all():
        rating.cites.add(note)
    with django_assert_num_queries(13):
        client.get(page_url("scorecard", running))
