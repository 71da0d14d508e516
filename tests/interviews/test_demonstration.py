from __future__ import annotations

import json
import stat
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from interviews import demonstration, links, scheduling
from interviews.models import Interview, InterviewStatus, Kit, Question, QuestionKind, QuestionVersion, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def bank(db: None) -> None:
    """One question of each kind."""
    for kind in QuestionKind.values:
        QuestionVersion.objects.create(
            question=Question.objects.create(slug=f"about-{kind}"),
            number=1,
            content_hash=kind,
            title=kind,
            summary=kind,
            kind=kind,
            difficulty="core",
            minutes=15,
            prompt="",
            starter="",
            reference="",
            checks_source="",
        )


@pytest.mark.usefixtures("bank")
def test_it_is_an_interview_that_starts_now_on_one_question_of_each_kind() -> None:
    interview = demonstration.prepare("a password", reset_passwords=True)

    assert abs(interview.starts_at - timezone.now()) < timedelta(minutes=1)
    assert [q.version.kind for q in interview.questions.all()] == ["arithmetic", "distributed", "kernel"]
    assert [(m.user.email, m.lead) for m in interview.panel.all()] == [
        ("ada@example.org", True),
        ("ben@example.org", False),
    ]
    assert Client().login(email="ada@example.org", password="a password")
    assert links.find_interview(links.candidate_url(interview).rstrip("/").rsplit("/", 1)[1]) == interview


@pytest.mark.usefixtures("bank")
def test_asked_for_again_it_is_the_same_and_its_link_lasts_anew() -> None:
    interview = demonstration.prepare("a password", reset_passwords=True)
    url = links.candidate_url(interview)
    Interview.objects.update(link_expires_at=timezone.now() - timedelta(days=3))

    again = demonstration.prepare("another password", reset_passwords=False)

    assert (again, links.candidate_url(again)) == (interview, url)
    assert again.link_expires_at > timezone.now() + timedelta(hours=11)
    assert User.objects.get(email="ada@example.org").check_password("a password")
    assert (Kit.objects.count(), Interview.objects.count(), User.objects.count()) == (1, 1, 3)


@pytest.mark.usefixtures("bank")
def test_a_revoked_link_is_replaced_and_an_interview_that_is_over_followed_by_a_new_one() -> None:
    interview = demonstration.prepare("a password", reset_passwords=True)
    scheduling.revoke_link(interview)

    renewed = demonstration.prepare("a password", reset_passwords=False)
    assert renewed == interview
    assert renewed.link_revoked_at is None

    Interview.objects.update(status=InterviewStatus.ENDED)
    assert demonstration.prepare("a password", reset_passwords=False) != interview


@pytest.mark.usefixtures("bank")
def test_lost_passwords_are_set_anew() -> None:
    demonstration.prepare("a password", reset_passwords=True)
    demonstration.prepare("another password", reset_passwords=True)

    for email in ("ada@example.org", "ben@example.org", "hana@example.org"):
        assert User.objects.get(email=email).check_password("another password")


def test_the_command_tells_links_and_password_in_a_file_for_its_owner_alone(settings: Settings, tmp_path: Path) -> None:
    settings.DEBUG = True
    path = tmp_path / "sign-in.json"
    call_command("demo_data", path, stdout=StringIO())
    told = json.loads(path.read_text())

    assert Client().login(email=told["email"], password=told["password"])
    assert told["candidate_url"] == links.candidate_url(Interview.objects.get())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    call_command("demo_data", path, stdout=StringIO())
    assert json.loads(path.read_text()) == told


def test_the_command_refuses_to_run_in_production(settings: Settings, tmp_path: Path) -> None:
    settings.DEBUG = False

    with pytest.raises(CommandError, match="RENDEZVOUS_DEBUG"):
        call_command("demo_data", tmp_path / "sign-in.json")
    assert not User.objects.exists()
