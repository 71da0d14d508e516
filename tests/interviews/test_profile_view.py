from __future__ import annotations

from django.test import Client

from interviews.models import User

URL = "/profile/"


def test_one_changes_ones_own_name_and_zone(client: Client, interviewer: User, colleague: User) -> None:
    client.force_login(interviewer)
    response = client.post(URL, {"name": "Ada Lovelace", "time_zone": "Europe/London"}, follow=True)
    assert "Your profile is saved." in response.text
    interviewer.refresh_from_db()
    colleague.refresh_from_db()
    assert (interviewer.name, interviewer.time_zone) == ("Ada Lovelace", "Europe/London")
    assert colleague.name == "Ben Colleague"


def test_nobody_makes_themselves_more_than_they_are(client: Client, interviewer: User) -> None:
    client.force_login(interviewer)
    client.post(URL, {"name": "Ada", "time_zone": "UTC", "is_superuser": "on", "email": "boss@example.org"})
    interviewer.refresh_from_db()
    assert not interviewer.is_superuser
    assert interviewer.email == "ada.interviewer@example.org"


def test_mistakes_are_named(client: Client, interviewer: User) -> None:
    client.force_login(interviewer)
    response = client.post(URL, {"name": "", "time_zone": "Moon/Crater"})
    assert response.status_code == 422
    assert "What shall we call you?" in response.text


def test_an_anonymous_visitor_is_asked_to_sign_in(client: Client, db: None) -> None:
    assert client.get(URL)["Location"] == f"/accounts/login/?next={URL}"


def test_the_zone_of_the_profile_is_used_until_the_browser_tells_its_own(client: Client, interviewer: User) -> None:
    User.objects.filter(pk=interviewer.pk).update(time_zone="Asia/Tokyo")
    client.force_login(interviewer)
    assert 'data-time-zone="Asia/Tokyo"' in client.get(URL).text
    client.cookies["time_zone"] = "America/New_York"
    assert 'data-time-zone="America/New_York"' in client.get(URL).text
