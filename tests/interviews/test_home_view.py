from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from interviews.models import Candidate, Interview, InterviewStatus, Kit, PanelMember, User
from tests.interviews.making import make_interview


def test_an_anonymous_visitor_is_asked_to_sign_in(client: Client, db: None) -> None:
    response = client.get("/")
    assert response.status_code == 302
    assert response["Location"] == "/accounts/login/?next=/"


def test_everybody_on_the_panel_sees_the_interview_ahead(
    client: Client, interview: Interview, interviewer: User, colleague: User
) -> None:
    for user in (interviewer, colleague):
        client.force_login(user)
        assert "Cleo Candidate" in client.get("/").text


def test_a_stranger_sees_nothing_of_it(client: Client, interview: Interview, stranger: User) -> None:
    client.force_login(stranger)
    page = client.get("/").text
    assert "Cleo" not in page
    assert "No interview ahead" in page


def test_a_hiring_admin_sees_everybodys_interviews(client: Client, interview: Interview, hiring_admin: User) -> None:
    client.force_login(hiring_admin)
    assert "Cleo Candidate" in client.get("/").text


def test_a_live_interview_offers_its_room(client: Client, interview: Interview, interviewer: User) -> None:
    Interview.objects.update(status=InterviewStatus.LIVE, started_at=timezone.now())
    client.force_login(interviewer)
    page = client.get("/").text
    assert f'href="/interviews/{interview.public_id}/room/"' in page


def test_an_ended_interview_waits_for_the_scorecard_of_each_on_the_panel(
    client: Client, interview: Interview, interviewer: User, colleague: User, hiring_admin: User
) -> None:
    Interview.objects.update(status=InterviewStatus.ENDED, ended_at=timezone.now())
    interviewer.scorecards.create(interview=interview)
    colleague.scorecards.create(interview=interview, submitted_at=timezone.now())

    client.force_login(interviewer)
    page = client.get("/").text
    assert "Cleo Candidate" in page
    assert "Draft" in page
    for done in (colleague, hiring_admin):
        client.force_login(done)
        assert "Cleo Candidate" not in client.get("/").text


def test_a_bank_editor_is_led_to_the_bank(client: Client, make_user: Callable[..., User]) -> None:
    client.force_login(make_user("Bea Editor", "bank editor"))
    page = client.get("/").text
    assert "The bank is yours" in page
    assert "New interview" not in page


def test_somebody_without_a_role_is_told_so(client: Client, stranger: User) -> None:
    stranger.groups.clear()
    client.force_login(stranger)
    page = client.get("/").text
    assert "You have no role yet" in page
    assert 'href="/questions/"' not in page


def test_the_greeting_follows_the_readers_clock(client: Client, interview: Interview, interviewer: User) -> None:
    client.force_login(interviewer)
    now = timezone.now()
    ahead = {hour: f"Etc/GMT{(now.hour - hour + 12) % 24 - 12:+d}" for hour in (9, 14, 20)}
    words = {9: "Good morning, Ada", 14: "Good afternoon, Ada", 20: "Good evening, Ada"}
    for hour, zone in ahead.items():
        client.cookies["time_zone"] = zone
        assert words[hour] in client.get("/").text


def test_more_interviews_cost_no_more_queries(
    client: Client,
    interview: Interview,
    kit: Kit,
    interviewer: User,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    client.force_login(interviewer)
    for days in range(1, 7):
        make_interview(interviewer, kit, f"Candidate {days}", starts_in=timedelta(days=days))
    ended = make_interview(interviewer, kit, "Ended", starts_in=-timedelta(days=1))
    Interview.objects.filter(pk=ended.pk).update(status=InterviewStatus.ENDED)
    with django_assert_max_num_queries(20):
        assert client.get("/").text.count("Candidate ") >= 6


@pytest.mark.parametrize("status", [InterviewStatus.SCHEDULED, InterviewStatus.LIVE])
def test_an_interview_that_has_not_ended_waits_for_no_scorecard(
    client: Client, interview: Interview, interviewer: User, status: InterviewStatus
) -> None:
    Interview.objects.update(status=status)
    client.force_login(interviewer)
    assert "You have scored every interview you were in." in client.get("/").text


def test_an_interview_without_candidate_address_is_fine(
    client: Client, interview: Interview, interviewer: User
) -> None:
    Candidate.objects.update(email="")
    assert PanelMember.objects.filter(user=interviewer).exists()
    client.force_login(interviewer)
    assert client.get("/").status_code == 200
