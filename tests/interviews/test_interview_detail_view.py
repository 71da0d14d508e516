from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from interviews import links
from interviews.models import Interview, InterviewStatus, User


@pytest.fixture
def url(interview: Interview) -> str:
    return f"/interviews/{interview.public_id}/"


def test_the_panel_the_maker_and_a_hiring_admin_see_it(
    client: Client, url: str, interviewer: User, colleague: User, hiring_admin: User
) -> None:
    for user in (interviewer, colleague, hiring_admin):
        client.force_login(user)
        assert "Cleo Candidate" in client.get(url).text


def test_a_stranger_is_told_that_there_is_nothing(client: Client, url: str, stranger: User) -> None:
    client.force_login(stranger)
    response = client.get(url)
    assert response.status_code == 404
    assert "Cleo" not in response.text
    unknown = client.get("/interviews/00000000-0000-0000-0000-000000000000/")
    assert unknown.content == response.content


def test_an_anonymous_visitor_is_asked_to_sign_in(client: Client, url: str) -> None:
    assert client.get(url).status_code == 302


def test_the_candidate_has_no_business_here(client: Client, url: str, interview: Interview) -> None:
    session, cookie = links.open_session(interview)
    session.admitted_at = timezone.now()
    session.save()
    client.cookies[links.cookie_name(interview)] = cookie
    assert client.get(url).status_code == 302


def test_the_link_can_be_copied(client: Client, url: str, interview: Interview, interviewer: User) -> None:
    client.force_login(interviewer)
    page = client.get(url).text
    assert f'value="{links.candidate_url(interview)}"' in page
    assert 'data-copy-from="candidate-link"' in page


def test_times_are_shown_in_the_readers_zone_and_in_the_interviews(client: Client, url: str, interviewer: User) -> None:
    Interview.objects.update(starts_at=datetime(2026, 12, 1, 12, 0, tzinfo=UTC))
    client.force_login(interviewer)
    client.cookies["time_zone"] = "Asia/Tokyo"
    page = client.get(url).text
    assert ">Tue 1 Dec, 21:00</time>" in page
    assert ">Tue 1 Dec, 13:00 CET</time>" in page


def test_the_questions_link_to_their_pinned_versions(client: Client, url: str, interviewer: User) -> None:
    client.force_login(interviewer)
    assert 'href="/questions/adding/?version=1"' in client.get(url).text


def test_an_ended_interview_is_neither_entered_nor_changed(client: Client, url: str, interviewer: User) -> None:
    Interview.objects.update(status=InterviewStatus.ENDED)
    client.force_login(interviewer)
    page = client.get(url).text
    assert "Open room" not in page
    assert "Change or move it" not in page
    assert "Scorecard" in page


def test_somebody_who_made_it_but_is_not_on_the_panel_neither_conducts_nor_scores_it(
    client: Client, url: str, interview: Interview, stranger: User
) -> None:
    Interview.objects.update(created_by=stranger, status=InterviewStatus.LIVE)
    client.force_login(stranger)
    page = client.get(url).text
    assert "Open room" not in page
    assert f"/interviews/{interview.public_id}/scorecard/" not in page
    assert f"/interviews/{interview.public_id}/report/" in page


def test_the_page_costs_few_queries(
    client: Client, url: str, interviewer: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client.force_login(interviewer)
    with django_assert_max_num_queries(10):
        client.get(url)
