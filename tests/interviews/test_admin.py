from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client

from grading.models import Scorecard
from interviews.models import Interview, TimelineEntry, User

OUR_MODELS = [model for app in ("interviews", "grading") for model in apps.get_app_config(app).get_models()]
#: Shown inside the rows that they belong to.
INLINE_ONLY = {"KitQuestion", "PanelMember", "InterviewQuestion"}


@pytest.fixture
def administrator(db: None) -> User:
    return User.objects.create_superuser("root@example.org", "correct horse battery", name="Root")


def test_every_model_is_registered_or_shown_inside_another() -> None:
    missing = {model.__name__ for model in OUR_MODELS if not admin.site.is_registered(model)}
    assert missing == INLINE_ONLY


@pytest.mark.parametrize("model", [model for model in OUR_MODELS if model.__name__ not in INLINE_ONLY])
def test_every_list_and_every_row_opens(client: Client, administrator: User, interview: Interview, model: type) -> None:
    client.force_login(administrator)
    name = model.__name__.lower()
    app = model._meta.app_label  # type: ignore[attr-defined]
    assert client.get(f"/admin/{app}/{name}/").status_code == 200
    row = model.objects.first()  # type: ignore[attr-defined]
    if row is not None:
        assert client.get(f"/admin/{app}/{name}/{row.pk}/change/").status_code == 200


@pytest.mark.parametrize("model", ["questionversion", "timelineentry", "check", "rubric", "wronganswer"])
def test_versions_and_the_timeline_are_never_edited_by_hand(
    client: Client, administrator: User, interview: Interview, model: str
) -> None:
    TimelineEntry.objects.create(
        interview=interview, sequence=1, at=interview.starts_at, kind="note", actor_kind="user"
    )
    client.force_login(administrator)
    assert client.get(f"/admin/interviews/{model}/add/").status_code == 403
    row = apps.get_model("interviews", model).objects.first()
    assert row is not None
    assert client.post(f"/admin/interviews/{model}/{row.pk}/change/", {}).status_code == 403
    assert client.post(f"/admin/interviews/{model}/{row.pk}/delete/", {"post": "yes"}).status_code == 403


def test_the_secrets_of_the_link_are_not_shown(client: Client, administrator: User, interview: Interview) -> None:
    client.force_login(administrator)
    page = client.get(f"/admin/interviews/interview/{interview.pk}/change/").text
    assert interview.link_nonce not in page
    assert interview.link_hash not in page


def test_a_draft_of_a_scorecard_is_nobody_elses_to_read(
    client: Client, administrator: User, interview: Interview, interviewer: User
) -> None:
    card = Scorecard.objects.create(interview=interview, author=interviewer, summary="Half a thought")
    client.force_login(administrator)
    assert "Half a thought" not in client.get(f"/admin/grading/scorecard/{card.pk}/change/", follow=True).text


def test_a_person_is_made_with_a_role_and_a_password(client: Client, administrator: User) -> None:
    client.force_login(administrator)
    typed = {
        "email": "new@example.org",
        "name": "Nia New",
        "groups": [],
        "usable_password": "true",
        "password1": "correct horse battery",
        "password2": "correct horse battery",
    }
    response = client.post("/admin/interviews/user/add/", typed)
    assert response.status_code == 302, response.text
    assert User.objects.get(email="new@example.org").check_password("correct horse battery")
