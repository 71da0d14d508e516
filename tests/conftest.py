"""The cast of people and things that tests share. The environment and a real Redis come from ``tests/settings.py``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from interviews.models import Interview, Kit, User


@pytest.fixture
def make_user(db: None) -> Callable[..., User]:
    from django.contrib.auth.models import Group

    from interviews.models import User

    def make(name: str = "Ada Interviewer", role: str = "interviewer") -> User:
        email = f"{name.lower().replace(' ', '.')}@example.org"
        user = User.objects.create_user(email, "correct horse battery", name=name)
        # A test with real transactions empties every table, the roles of the migration too.
        user.groups.add(Group.objects.get_or_create(name=role)[0])
        return user

    return make


@pytest.fixture
def interviewer(make_user: Callable[..., User]) -> User:
    """Leads the panel of ``interview``."""
    return make_user("Ada Interviewer")


@pytest.fixture
def colleague(make_user: Callable[..., User]) -> User:
    """Sits on the panel too."""
    return make_user("Ben Colleague")


@pytest.fixture
def stranger(make_user: Callable[..., User]) -> User:
    """Interviews here as well, but not in this interview, and must see nothing of it."""
    return make_user("Sam Stranger")


@pytest.fixture
def hiring_admin(make_user: Callable[..., User]) -> User:
    return make_user("Hana Admin", "hiring admin")


@pytest.fixture
def kit(db: None) -> Kit:
    """Two small questions with every private part marked by the word PRIVATE."""
    from interviews.models import (
        Anchor,
        Check,
        Criterion,
        FollowUp,
        Kit,
        KitQuestion,
        Outline,
        Question,
        QuestionVersion,
        Rubric,
        WrongAnswer,
    )

    kit = Kit.objects.create(name="Small kit")
    for position, slug in enumerate(["adding", "sharding"], start=1):
        question = Question.objects.create(slug=slug)
        version = QuestionVersion.objects.create(
            question=question,
            number=1,
            content_hash=slug,
            title=slug.capitalize(),
            summary=f"About {slug}.",
            kind="arithmetic",
            difficulty="core",
            minutes=15,
            ranks=1,
            max_ranks=4,
            prompt=f"Write `{slug}(a, b)`.",
            starter=f"def {slug}(a, b):\n    return 0\n",
            reference=f"def {slug}(a, b):\n    return a + b  # PRIVATE reference\n",
            checks_source="# PRIVATE checks\n",
        )
        Outline.objects.create(version=version, text=f"PRIVATE outline of {slug}")
        FollowUp.objects.create(version=version, position=1, title=f"PRIVATE follow-up {slug}", text="PRIVATE answer")
        Check.objects.create(version=version, position=1, name="small", title="Small numbers", hidden=False)
        Check.objects.create(version=version, position=2, name="large", title="PRIVATE large numbers", hidden=True)
        WrongAnswer.objects.create(
            version=version, file="zero.py", title="PRIVATE zero", misconception="PRIVATE", source="PRIVATE"
        )
        rubric = Rubric.objects.create(version=version)
        criterion = Criterion.objects.create(
            rubric=rubric, position=1, slug="correctness", name="PRIVATE correctness", tells="PRIVATE tells"
        )
        for level in range(1, 5):
            Anchor.objects.create(criterion=criterion, level=level, text=f"PRIVATE anchor {level}")
        KitQuestion.objects.create(kit=kit, position=position, question=question)
    return kit


@pytest.fixture
def interview(kit: Kit, interviewer: User, colleague: User) -> Interview:
    from django.utils import timezone

    from interviews import links
    from interviews.models import Candidate, Interview, InterviewQuestion, PanelMember

    interview = Interview(
        candidate=Candidate.objects.create(name="Cleo Candidate", email="cleo@example.org"),
        kit=kit,
        starts_at=timezone.now() + timedelta(minutes=5),
        time_zone="Europe/Berlin",
        created_by=interviewer,
    )
    links.issue(interview)
    interview.save()
    PanelMember.objects.create(interview=interview, user=interviewer, lead=True)
    PanelMember.objects.create(interview=interview, user=colleague)
    for entry in kit.entries.all():
        InterviewQuestion.objects.create(interview=interview, position=entry.position, version=entry.question.latest)
    return interview
