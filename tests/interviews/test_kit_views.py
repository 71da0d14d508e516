from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from interviews.models import Interview, Kit, Question, User


@pytest.fixture
def editor(make_user: Callable[..., User]) -> User:
    return make_user("Bea Editor", "bank editor")


def slugs(kit: Kit) -> list[str]:
    return [entry.question.slug for entry in kit.entries.select_related("question").order_by("position")]


def shown_order(page: str) -> list[str]:
    return [part.partition('"')[0] for part in page.split('name="questions" value="')[1:]]


def test_kits_are_read_by_interviewers_and_changed_by_bank_editors_and_hiring_admins(
    client: Client, kit: Kit, interviewer: User, editor: User, hiring_admin: User
) -> None:
    edit = f"/kits/{kit.pk}/edit/"
    client.force_login(interviewer)
    assert client.get(f"/kits/{kit.pk}/").status_code == 200
    assert "New kit" not in client.get("/kits/").text
    assert client.get(edit).status_code == client.get("/kits/new/").status_code == 403
    for user in (editor, hiring_admin):
        client.force_login(user)
        assert client.get(edit).status_code == client.get("/kits/new/").status_code == 200


@pytest.mark.parametrize("path", ["", "new/", "{pk}/", "{pk}/edit/"])
def test_an_anonymous_visitor_is_asked_to_sign_in(client: Client, kit: Kit, path: str) -> None:
    assert client.get("/kits/" + path.format(pk=kit.pk)).status_code == 302


def test_a_kit_is_made_with_its_questions_in_order(client: Client, kit: Kit, editor: User) -> None:
    client.force_login(editor)
    response = client.post(
        "/kits/new/", {"name": "Second kit", "description": "For juniors", "questions": ["sharding", "adding"]}
    )
    made = Kit.objects.get(name="Second kit")
    assert response["Location"] == f"/kits/{made.pk}/"
    assert made.created_by == editor
    assert slugs(made) == ["sharding", "adding"]
    page = client.get(response["Location"]).text
    assert page.index("Sharding") < page.index("Adding")
    assert "30 min" in page


@pytest.mark.parametrize(
    ("do", "order"),
    [
        ("up:sharding", ["sharding", "adding"]),
        ("down:adding", ["sharding", "adding"]),
        ("up:adding", ["adding", "sharding"]),
        ("down:sharding", ["adding", "sharding"]),
        ("remove:adding", ["sharding"]),
        ("remove:unknown", ["adding", "sharding"]),
        ("nonsense", ["adding", "sharding"]),
    ],
)
def test_a_press_arranges_the_list_and_saves_nothing(
    client: Client, kit: Kit, editor: User, do: str, order: list[str]
) -> None:
    client.force_login(editor)
    typed = {"name": "Typed name", "description": "", "questions": ["adding", "sharding"], "do": do}
    response = client.post(f"/kits/{kit.pk}/edit/", typed)
    assert response.status_code == 200
    assert shown_order(response.text) == order
    assert 'value="Typed name"' in response.text
    assert slugs(kit) == ["adding", "sharding"]
    assert Kit.objects.get().name == "Small kit"


def test_a_question_is_added_at_the_end_and_only_once(client: Client, kit: Kit, editor: User) -> None:
    client.force_login(editor)
    typed = {"name": "", "description": "", "questions": ["sharding"], "do": "add", "add_question": "adding"}
    page = client.post("/kits/new/", typed).text
    assert shown_order(page) == ["sharding", "adding"]
    assert "What is the kit called?" not in page
    again = client.post("/kits/new/", {**typed, "questions": ["sharding", "adding"]}).text
    assert shown_order(again) == ["sharding", "adding"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, "What is the kit called?"),
        ({"name": "Small kit"}, "There is a kit of this name already."),
        ({"questions": []}, "Add at least one question."),
        ({"questions": ["adding", "gone"]}, "gone is no longer in the bank."),
    ],
)
def test_what_is_wrong_is_said_and_what_was_typed_is_kept(
    client: Client, kit: Kit, editor: User, changes: dict[str, object], words: str
) -> None:
    client.force_login(editor)
    typed = {"name": "Second kit", "description": "Typed words", "questions": ["adding"], **changes}
    response = client.post("/kits/new/", typed)
    assert response.status_code == 422
    assert words in response.text
    assert "Typed words" in response.text
    assert Kit.objects.count() == 1


def test_a_retired_question_stays_in_its_kit_but_cannot_be_added(client: Client, kit: Kit, editor: User) -> None:
    Question.objects.filter(slug="adding").update(retired_at=timezone.now())
    client.force_login(editor)
    assert shown_order(client.get(f"/kits/{kit.pk}/edit/").text) == ["adding", "sharding"]
    assert '<option value="adding">' not in client.get("/kits/new/").text


def test_changing_a_kit_changes_no_interview(client: Client, interview: Interview, kit: Kit, editor: User) -> None:
    client.force_login(editor)
    client.post(f"/kits/{kit.pk}/edit/", {"name": "Small kit", "description": "", "questions": ["sharding"]})
    assert slugs(kit) == ["sharding"]
    assert interview.questions.count() == 2


def test_no_kits_yet_says_what_a_kit_is(client: Client, interviewer: User) -> None:
    client.force_login(interviewer)
    assert "There is no kit yet" in client.get("/kits/").text


def test_more_kits_cost_no_more_queries(
    client: Client, kit: Kit, editor: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(8):
        Kit.objects.create(name=f"Kit {number}").set_questions(list(Question.objects.all()))
    client.force_login(editor)
    with django_assert_max_num_queries(10):
        assert client.get("/kits/").text.count("Sharding") == 9
    with django_assert_max_num_queries(12):
        client.get(f"/kits/{kit.pk}/")
    with django_assert_max_num_queries(12):
        client.get(f"/kits/{kit.pk}/edit/")
