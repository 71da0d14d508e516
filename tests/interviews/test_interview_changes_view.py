"""Changing an interview, calling it off, and its candidate's link."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from interviews.models import Interview, InterviewStatus, User

CHANGES = ["edit", "cancel", "link/renew", "link/revoke"]


@pytest.fixture
def url(interview: Interview) -> str:
    return f"/interviews/{interview.public_id}/"


@pytest.fixture
def typed(interview: Interview, interviewer: User) -> dict[str, object]:
    return {
        "candidate_name": "Cleo Changed",
        "kit": interview.kit_id,
        "date": (timezone.now() + timedelta(days=3)).date().isoformat(),
        "time": "09:00",
        "time_zone": "America/New_York",
        "duration_minutes": 30,
        "panel": [interviewer.pk],
        "lead": interviewer.pk,
    }


@pytest.mark.parametrize("change", CHANGES)
def test_a_stranger_changes_nothing(
    client: Client, url: str, typed: dict[str, object], stranger: User, change: str
) -> None:
    before = Interview.objects.values().get()
    client.force_login(stranger)
    assert client.post(f"{url}{change}/", typed).status_code == 404
    assert Interview.objects.values().get() == before


@pytest.mark.parametrize("change", CHANGES)
def test_an_anonymous_visitor_changes_nothing(client: Client, url: str, typed: dict[str, object], change: str) -> None:
    before = Interview.objects.values().get()
    assert client.post(f"{url}{change}/", typed)["Location"].startswith("/accounts/login/")
    assert Interview.objects.values().get() == before


@pytest.mark.parametrize("change", CHANGES[1:])
def test_a_look_changes_nothing(client: Client, url: str, interviewer: User, change: str) -> None:
    client.force_login(interviewer)
    assert client.get(f"{url}{change}/").status_code == 405


def test_a_colleague_moves_the_interview(client: Client, url: str, typed: dict[str, object], colleague: User) -> None:
    client.force_login(colleague)
    page = client.get(f"{url}edit/").text
    assert 'value="Cleo Candidate"' in page
    response = client.post(f"{url}edit/", typed, follow=True)
    interview = Interview.objects.select_related("candidate").get()
    assert interview.candidate.name == "Cleo Changed"
    assert (interview.time_zone, interview.local_starts_at.hour, interview.duration_minutes) == (
        "America/New_York",
        9,
        30,
    )
    # Who takes themselves off the panel no longer sees it.
    assert response.status_code == 404


def test_a_mistake_keeps_what_was_typed(client: Client, url: str, typed: dict[str, object], interviewer: User) -> None:
    client.force_login(interviewer)
    response = client.post(f"{url}edit/", {**typed, "time": "late"})
    assert response.status_code == 422
    assert 'value="Cleo Changed"' in response.text
    assert 'value="late"' in response.text


def test_the_kit_stays_once_something_happened(
    client: Client, url: str, typed: dict[str, object], interviewer: User
) -> None:
    Interview.objects.update(timeline_length=3)
    client.force_login(interviewer)
    assert "so its questions stay" in client.get(f"{url}edit/").text
    assert client.post(f"{url}edit/", {**typed, "kit": ""}).status_code == 302


def test_an_interview_that_is_past_can_still_be_changed_in_other_ways(
    client: Client, url: str, typed: dict[str, object], interviewer: User, interview: Interview
) -> None:
    Interview.objects.update(starts_at=timezone.now().replace(second=0, microsecond=0) - timedelta(hours=5))
    interview.refresh_from_db()
    same_time = {
        "date": interview.local_starts_at.date().isoformat(),
        "time": interview.local_starts_at.strftime("%H:%M"),
        "time_zone": interview.time_zone,
    }
    client.force_login(interviewer)
    assert client.post(f"{url}edit/", {**typed, **same_time}).status_code == 302


def test_an_ended_interview_is_not_changed(
    client: Client, url: str, typed: dict[str, object], interviewer: User
) -> None:
    Interview.objects.update(status=InterviewStatus.ENDED)
    client.force_login(interviewer)
    assert "can no longer be changed" in client.post(f"{url}edit/", typed, follow=True).text
    assert Interview.objects.get().candidate.name == "Cleo Candidate"


def test_calling_off_removes_it(client: Client, url: str, interviewer: User) -> None:
    client.force_login(interviewer)
    assert "is called off" in client.post(f"{url}cancel/", follow=True).text
    assert not Interview.objects.exists()


def test_an_interview_in_which_something_happened_stays(client: Client, url: str, interviewer: User) -> None:
    Interview.objects.update(timeline_length=1)
    client.force_login(interviewer)
    assert "so it stays" in client.post(f"{url}cancel/", follow=True).text
    assert Interview.objects.exists()


def test_a_new_link_replaces_the_old_one(client: Client, url: str, interview: Interview, interviewer: User) -> None:
    client.force_login(interviewer)
    assert "has a new link" in client.post(f"{url}link/renew/", follow=True).text
    assert Interview.objects.get().link_hash != interview.link_hash


def test_a_revoked_link_is_shown_as_such_and_can_be_replaced(client: Client, url: str, interviewer: User) -> None:
    client.force_login(interviewer)
    page = client.post(f"{url}link/revoke/", follow=True).text
    assert "Revoked" in page
    assert 'id="candidate-link"' not in page
    client.post(f"{url}link/renew/")
    assert 'id="candidate-link"' in client.get(url).text
