from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from interviews.models import Kit, Question, User

LIST = "/questions/"
DETAIL = "/questions/adding/"


def add_version(slug: str, **changes: object) -> None:
    version = Question.objects.get(slug=slug).latest
    version.pk = None
    version.number += 1
    for name, value in changes.items():
        setattr(version, name, value)
    version.save()


@pytest.mark.parametrize("url", [LIST, DETAIL])
def test_everybody_with_a_role_reads_the_bank_and_nobody_else(
    client: Client, kit: Kit, make_user: Callable[..., User], url: str
) -> None:
    assert client.get(url).status_code == 302
    nobody = make_user("Nora Newcomer")
    nobody.groups.clear()
    client.force_login(nobody)
    assert client.get(url).status_code == 403
    for role in ("interviewer", "bank editor", "hiring admin"):
        client.force_login(make_user(f"One {role}", role))
        assert client.get(url).status_code == 200


def test_the_list_shows_the_latest_version_of_each(client: Client, kit: Kit, interviewer: User) -> None:
    add_version("adding", title="Adding, better")
    client.force_login(interviewer)
    page = client.get(LIST).text
    assert "Adding, better" in page
    assert ">Adding</a>" not in page
    assert "Sharding" in page


def test_a_retired_question_is_not_listed_but_can_still_be_read(client: Client, kit: Kit, interviewer: User) -> None:
    Question.objects.filter(slug="adding").update(retired_at=timezone.now())
    client.force_login(interviewer)
    assert "Adding" not in client.get(LIST).text
    assert "no new kit takes it" in client.get(DETAIL).text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, {"Adding", "Sharding"}),
        ({"q": "shard"}, {"Sharding"}),
        ({"q": "about adding"}, {"Adding"}),
        ({"q": "nothing like it"}, set()),
        ({"kind": "kernel"}, {"Sharding"}),
        ({"difficulty": "core", "kind": "arithmetic"}, {"Adding"}),
        ({"kind": "nonsense"}, {"Adding", "Sharding"}),
        ({"q": "gang"}, {"Sharding"}),
    ],
)
def test_the_list_is_narrowed_by_kind_difficulty_and_words(
    client: Client, kit: Kit, interviewer: User, query: dict[str, str], found: set[str]
) -> None:
    Question.objects.get(slug="sharding").versions.update(kind="kernel", topics=["gang scheduling"])
    client.force_login(interviewer)
    page = client.get(LIST, query).text
    assert {title for title in ("Adding", "Sharding") if f">{title}</a>" in page} == found


def test_an_empty_bank_says_how_to_fill_it(client: Client, interviewer: User) -> None:
    client.force_login(interviewer)
    assert "manage.py load_bank" in client.get(LIST).text


def test_the_question_shows_all_its_parts(client: Client, kit: Kit, interviewer: User) -> None:
    client.force_login(interviewer)
    page = client.get(DETAIL).text
    for part in (
        "PRIVATE outline of adding",
        "PRIVATE follow-up adding",
        "PRIVATE large numbers",
        "PRIVATE correctness",
        "PRIVATE anchor 4",
        "PRIVATE zero",
        "Small numbers",
    ):
        assert part in page
    assert '<span class="hl-k">def</span>' in page


def test_an_older_version_can_be_read_and_says_that_it_is_old(client: Client, kit: Kit, interviewer: User) -> None:
    add_version("adding", title="Adding, better")
    client.force_login(interviewer)
    page = client.get(DETAIL, {"version": "1"}).text
    assert "<h1>Adding</h1>" in page
    assert "The latest is version 2" in page
    assert "The latest is" not in client.get(DETAIL).text


@pytest.mark.parametrize("version", ["9", "0", "-1", "two", "²"])
def test_a_version_that_is_not_there_is_not_found(client: Client, kit: Kit, interviewer: User, version: str) -> None:
    client.force_login(interviewer)
    assert client.get(DETAIL, {"version": version}).status_code == 404


def test_a_version_without_its_private_parts_can_be_read(client: Client, kit: Kit, interviewer: User) -> None:
    add_version("adding")
    client.force_login(interviewer)
    page = client.get(DETAIL).text
    assert "This version has no outline." in page
    assert "This version has no rubric." in page


def test_more_questions_cost_no_more_queries(
    client: Client, kit: Kit, interviewer: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client.force_login(interviewer)
    with django_assert_max_num_queries(6):
        client.get(LIST)
    with django_assert_max_num_queries(14):
        client.get(DETAIL)
