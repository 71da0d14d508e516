from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from interviews.models import Interview, Kit, User

URL = "/interviews/new/"


@pytest.fixture
def typed(kit: Kit, interviewer: User, colleague: User) -> dict[str, object]:
    day = timezone.now().date() + timedelta(days=7)
    return {
        "candidate_name": "Cleo Candidate",
        "candidate_email": "cleo@example.org",
        "kit": kit.pk,
        "date": day.isoformat(),
        "time": "14:30",
        "time_zone": "UTC",
        "duration_minutes": 60,
        "video_url": "https://meet.example.org/x",
        "panel": [interviewer.pk, colleague.pk],
        "lead": colleague.pk,
    }


def test_an_interviewer_arranges_an_interview(
    client: Client, typed: dict[str, object], interviewer: User, colleague: User, kit: Kit
) -> None:
    client.force_login(interviewer)
    response = client.post(URL, typed, follow=True)
    interview = Interview.objects.get()
    assert response.redirect_chain == [(f"/interviews/{interview.public_id}/", 302)]
    assert "is arranged" in response.text
    day = datetime.fromisoformat(str(typed["date"])).replace(tzinfo=UTC)
    assert interview.starts_at == day + timedelta(hours=14, minutes=30)
    assert (interview.kit, interview.created_by, interview.duration_minutes) == (kit, interviewer, 60)
    assert interview.panel.get(lead=True).user == colleague
    assert interview.questions.count() == 2
    assert interview.is_link_good


def test_a_hiring_admin_may_arrange_and_a_bank_editor_may_not(
    client: Client, typed: dict[str, object], hiring_admin: User, make_user: Callable[..., User]
) -> None:
    client.force_login(make_user("Bea Editor", "bank editor"))
    assert client.post(URL, typed).status_code == 403
    client.force_login(hiring_admin)
    assert client.post(URL, typed).status_code == 302


def test_an_anonymous_visitor_is_asked_to_sign_in(client: Client, typed: dict[str, object]) -> None:
    assert client.post(URL, typed)["Location"].startswith("/accounts/login/")
    assert not Interview.objects.exists()


def test_the_form_starts_with_oneself_as_lead_in_ones_own_zone(client: Client, kit: Kit, interviewer: User) -> None:
    client.force_login(interviewer)
    client.cookies["time_zone"] = "Asia/Tokyo"
    page = client.get(URL, {"kit": kit.pk}).text
    assert '<option value="Asia/Tokyo" selected>' in page
    assert f'name="panel" value="{interviewer.pk}" checked' in page
    assert f'name="lead" value="{interviewer.pk}" checked' in page
    assert f'<option value="{kit.pk}" selected>' in page


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("candidate_name", "", "Who is the candidate?"),
        ("candidate_email", "cleo", "This is not an email address."),
        ("kit", "", "Which questions will you ask?"),
        ("date", "", "On which day?"),
        ("date", "tomorrow", "Write the day as 2026-12-31."),
        ("date", "2020-01-01", "This is in the past."),
        ("time", "", "At what time?"),
        ("time", "half past", "Write the time as 14:30."),
        ("time_zone", "Moon/Crater", "Nobody knows this time zone."),
        ("duration_minutes", "5", "An interview lasts 10 minutes or more."),
        ("duration_minutes", "999", "An interview lasts 240 minutes or less."),
        ("video_url", "ftp://example.org/x", "The link must start with https://."),
        ("panel", [], "Choose at least one interviewer."),
        ("panel", [999_999], "Somebody you chose is gone."),
        ("lead", "", "Choose who leads the interview."),
    ],
)
def test_what_is_wrong_is_said_beside_the_field_and_what_was_typed_is_kept(
    client: Client, typed: dict[str, object], interviewer: User, field: str, value: object, words: str
) -> None:
    client.force_login(interviewer)
    response = client.post(URL, {**typed, field: value})
    assert response.status_code == 422
    assert words in response.text
    assert "Nothing is saved yet" in response.text
    if field != "candidate_name":
        assert 'value="Cleo Candidate"' in response.text
    if field != "lead":
        assert 'value="14:30"' in response.text or field == "time"
    assert not Interview.objects.exists()


def test_a_time_that_the_clocks_jump_over_is_refused(
    client: Client, typed: dict[str, object], interviewer: User
) -> None:
    client.force_login(interviewer)
    typed |= {"date": "2027-03-28", "time": "02:30", "time_zone": "Europe/Berlin"}
    assert "the clocks jump over this time" in client.post(URL, typed).text


def test_who_leads_must_be_on_the_panel(
    client: Client, typed: dict[str, object], interviewer: User, colleague: User
) -> None:
    client.force_login(interviewer)
    response = client.post(URL, {**typed, "panel": [interviewer.pk], "lead": colleague.pk})
    assert "Ben Colleague leads the interview, but is not on the panel." in response.text


def test_one_alone_leads_without_being_asked(client: Client, typed: dict[str, object], interviewer: User) -> None:
    client.force_login(interviewer)
    client.post(URL, {**typed, "panel": [interviewer.pk], "lead": ""})
    assert Interview.objects.get().panel.get().lead


def test_only_interviewers_and_hiring_admins_can_be_on_a_panel(
    client: Client, typed: dict[str, object], interviewer: User, make_user: Callable[..., User]
) -> None:
    editor = make_user("Bea Editor", "bank editor")
    client.force_login(interviewer)
    assert "Bea Editor" not in client.get(URL).text
    assert client.post(URL, {**typed, "panel": [editor.pk], "lead": editor.pk}).status_code == 422


def test_a_kit_without_questions_is_not_offered(client: Client, interviewer: User) -> None:
    Kit.objects.create(name="Empty kit")
    client.force_login(interviewer)
    assert "Empty kit" not in client.get(URL).text
