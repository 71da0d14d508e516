from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from interviews.models import Interview, InterviewStatus, Kit, User
from tests.interviews.making import make_interview

URL = "/interviews/"


def test_an_anonymous_visitor_is_asked_to_sign_in(client: Client, db: None) -> None:
    assert client.get(URL).status_code == 302


def test_the_panel_sees_its_interviews_and_a_stranger_does_not(
    client: Client, interview: Interview, interviewer: User, colleague: User, stranger: User
) -> None:
    for user, sees in [(interviewer, True), (colleague, True), (stranger, False)]:
        client.force_login(user)
        assert ("Cleo Candidate" in client.get(URL).text) is sees


def test_a_bank_editor_has_no_list_of_interviews(client: Client, make_user: Callable[..., User]) -> None:
    client.force_login(make_user("Bea Editor", "bank editor"))
    assert client.get(URL).status_code == 403


def test_the_list_shows_what_is_ahead_unless_asked_otherwise(
    client: Client, interview: Interview, interviewer: User, kit: Kit
) -> None:
    live = make_interview(interviewer, kit, "Lia Live")
    ended = make_interview(interviewer, kit, "Ed Ended")
    Interview.objects.filter(pk=live.pk).update(status=InterviewStatus.LIVE)
    Interview.objects.filter(pk=ended.pk).update(status=InterviewStatus.ENDED)
    client.force_login(interviewer)
    names = {"Cleo Candidate", "Lia Live", "Ed Ended"}

    def shown(query: str) -> set[str]:
        page = client.get(URL + query).text
        return {name for name in names if name in page}

    assert shown("") == {"Cleo Candidate"}
    assert shown("?show=live") == {"Lia Live"}
    assert shown("?show=ended") == {"Ed Ended"}
    assert shown("?show=nonsense") == {"Cleo Candidate"}


def test_the_next_interview_comes_first(client: Client, interview: Interview, interviewer: User, kit: Kit) -> None:
    make_interview(interviewer, kit, "Later Larry", starts_in=timedelta(days=3))
    client.force_login(interviewer)
    page = client.get(URL).text
    assert page.index("Cleo Candidate") < page.index("Later Larry")


@pytest.mark.parametrize(("text", "found"), [("cleo", True), ("CLEO@example", True), ("nobody", False), ("  ", True)])
def test_the_search_looks_at_the_candidates_name_and_address(
    client: Client, interview: Interview, interviewer: User, text: str, found: bool
) -> None:
    client.force_login(interviewer)
    page = client.get(URL, {"q": text}).text
    assert ("Cleo Candidate" in page) is found


def test_a_search_that_finds_nothing_says_so_and_keeps_the_text(
    client: Client, interview: Interview, interviewer: User
) -> None:
    client.force_login(interviewer)
    page = client.get(URL, {"q": "<nobody>"}).text
    assert 'value="&lt;nobody&gt;"' in page
    assert "Clear the search" in page


def test_an_interview_whose_time_is_over_and_that_nobody_started_is_marked(
    client: Client, interview: Interview, interviewer: User
) -> None:
    Interview.objects.update(starts_at=timezone.now() - timedelta(hours=3))
    client.force_login(interviewer)
    assert "Not started" in client.get(URL).text


def test_long_lists_are_split_into_pages_and_cost_as_many_queries_as_short_ones(
    client: Client, kit: Kit, interviewer: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(30):
        make_interview(interviewer, kit, f"Candidate {number:02}", starts_in=timedelta(hours=number + 1))
    client.force_login(interviewer)
    with django_assert_max_num_queries(14):
        first = client.get(URL).text
    assert first.count('class="row row--link interview-row"') == 25
    assert "1–25 of 30" in first
    second = client.get(URL, {"page": 2}).text
    assert "Candidate 29" in second
    assert client.get(URL, {"page": "nonsense"}).status_code == 200
