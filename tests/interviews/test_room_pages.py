"""The candidate's link, the lobby and the room as pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from interviews import links
from interviews.models import CandidateSession, Interview, InterviewStatus, User

pytestmark = pytest.mark.django_db


def join_path(interview: Interview) -> str:
    return links.candidate_url(interview).removeprefix("http://testserver")


def joined(interview: Interview) -> Client:
    client = Client()
    assert client.get(join_path(interview)).status_code == 302
    return client


def test_the_link_gives_a_cookie_that_scripts_cannot_read_and_leads_to_the_lobby(interview: Interview) -> None:
    client = Client()
    response = client.get(join_path(interview))
    assert response.status_code == 302
    assert response["Location"] == f"/room/{interview.public_id}/"
    assert response["Referrer-Policy"] == "no-referrer"
    cookie = response.cookies[links.cookie_name(interview)]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert not CandidateSession.objects.get().is_admitted
    assert CandidateSession.objects.get().token_hash == links.hash_token(cookie.value)
    page = client.get(response["Location"])
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]


def test_the_cookie_is_secure_where_the_site_is(interview: Interview, settings: Settings) -> None:
    settings.SESSION_COOKIE_SECURE = True
    response = Client().get(join_path(interview))
    assert response.cookies[links.cookie_name(interview)]["secure"]


def test_following_the_link_again_keeps_the_place(interview: Interview) -> None:
    client = joined(interview)
    client.get(join_path(interview))
    assert CandidateSession.objects.count() == 1
    joined(interview)
    assert CandidateSession.objects.count() == 2


def test_somebody_who_was_removed_waits_anew(interview: Interview) -> None:
    client = joined(interview)
    CandidateSession.objects.update(removed_at=timezone.now())
    assert client.get(f"/room/{interview.public_id}/").status_code == 404
    client.get(join_path(interview))
    assert CandidateSession.objects.filter(removed_at=None).count() == 1
    assert client.get(f"/room/{interview.public_id}/").status_code == 200


def test_a_forged_link_opens_nothing_and_tells_nothing(interview: Interview) -> None:
    response = Client().get("/j/forged/")
    assert response.status_code == 404
    assert "Cleo" not in response.content.decode()
    assert CandidateSession.objects.count() == 0


@pytest.mark.parametrize("field", ["link_expires_at", "link_revoked_at"])
def test_a_link_that_is_over_says_so_and_nothing_else(interview: Interview, field: str) -> None:
    client = joined(interview)
    setattr(interview, field, timezone.now() - timedelta(seconds=1))
    interview.save()
    response = client.get(join_path(interview))
    assert response.status_code == 410
    for private in ("Cleo", "Adding", "Ada", str(interview.public_id)):
        assert private not in response.content.decode()
    assert client.get(f"/room/{interview.public_id}/").status_code == 404


def test_a_renewed_link_leaves_the_old_one_dead(interview: Interview) -> None:
    old = join_path(interview)
    links.issue(interview)
    interview.save()
    assert Client().get(old).status_code == 404
    assert Client().get(join_path(interview)).status_code == 302


def test_the_candidates_pages_hold_nothing_private(interview: Interview, interviewer: User) -> None:
    client = joined(interview)
    for status in InterviewStatus:
        Interview.objects.update(status=status)
        CandidateSession.objects.update(admitted_at=timezone.now(), admitted_by=interviewer)
        html = client.get(f"/room/{interview.public_id}/").content.decode()
        for private in ("PRIVATE", "Adding", "Sharding", "cleo@example.org", "Small kit", "Ada Interviewer"):
            assert private not in html
        assert 'data-role="candidate"' in html


def test_the_panel_enters_the_room(
    interview: Interview, interviewer: User, colleague: User, hiring_admin: User
) -> None:
    for user in (interviewer, colleague, hiring_admin):
        client = Client()
        client.force_login(user)
        response = client.get(f"/interviews/{interview.public_id}/room/")
        assert response.status_code == 200
        assert "Only interviewers see this" in response.content.decode()


def test_only_the_panel_has_a_scorecard_in_the_room(
    interview: Interview, interviewer: User, hiring_admin: User
) -> None:
    for user, scores in ((interviewer, True), (hiring_admin, False)):
        client = Client()
        client.force_login(user)
        html = client.get(f"/interviews/{interview.public_id}/room/").content.decode()
        assert ("/scorecard/panel/" in html) is scores


def test_strangers_find_no_room(interview: Interview, stranger: User) -> None:
    address = f"/interviews/{interview.public_id}/room/"
    client = Client()
    assert client.get(address).status_code == 302
    client.force_login(stranger)
    assert client.get(address).status_code == 404
    assert client.get(f"/room/{interview.public_id}/").status_code == 404
    assert joined(interview).get(address).status_code == 302


def test_the_policy_of_the_room_allows_no_inline_script_or_style(interview: Interview, interviewer: User) -> None:
    client = Client()
    client.force_login(interviewer)
    response = client.get(f"/interviews/{interview.public_id}/room/")
    policy = response["Content-Security-Policy"]
    assert "unsafe" not in policy
    html = response.content.decode()
    assert " style=" not in html
    assert "<style" not in html
    nonce = html.split('data-nonce="')[1].split('"')[0]
    assert f"'nonce-{nonce}'" in policy
