"""Rows for the walk through the pages. Run on the site's database by ``test_pages.py``."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import Group
from django.utils import timezone

from interviews.bank_loader import load_bank
from interviews.models import Interview, InterviewStatus, Kit, Question, User
from interviews.scheduling import Arrangement, create_interview

PASSWORD = "correct horse battery"


def _person(name: str, *roles: str, **fields: object) -> User:
    email = f"{name.split()[0].lower()}@example.org"
    user = User.objects.create_user(email, PASSWORD, name=name, time_zone="Europe/Berlin", **fields)
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


def _kit(name: str, description: str, slugs: list[str], by: User) -> Kit:
    kit = Kit.objects.create(name=name, description=description, created_by=by)
    kit.set_questions([Question.objects.get(slug=slug) for slug in slugs])
    return kit


def seed() -> dict[str, str]:
    """Fills an empty database. Returns what the test needs to find its way."""
    load_bank()
    slugs = list(Question.objects.values_list("slug", flat=True))
    ada = _person("Ada Okafor", "interviewer", "hiring admin", is_staff=True, is_superuser=True)
    ben = _person("Ben Lindqvist", "interviewer")
    chiara = _person("Chiara Moretti", "interviewer")
    _person("Nora Newcomer")
    infrastructure = _kit("GPU infrastructure, senior", "For platform roles: memory, collectives, a kernel.", slugs, ada)
    _kit("Kernels, first round", "", slugs[:2], ben)

    now = timezone.now().replace(second=0, microsecond=0)

    def arrange(candidate: str, starts_in: timedelta, panel: tuple[User, ...] = (ada, ben)) -> Interview:
        arrangement = Arrangement(
            candidate_name=candidate,
            candidate_email=f"{candidate.split()[0].lower()}@mail.example",
            kit=infrastructure,
            starts_at=now + starts_in,
            time_zone="America/New_York",
            duration_minutes=60,
            video_url="https://meet.example.org/abc-defg",
            panel=panel,
            lead=panel[0],
        )
        return create_interview(arrangement, by=ada)

    live = arrange("Mei-Ling Zhao", timedelta(minutes=-12), (ada, ben, chiara))
    Interview.objects.filter(pk=live.pk).update(
        status=InterviewStatus.LIVE, started_at=now - timedelta(minutes=11), timeline_length=5
    )
    for days, candidate in enumerate(["Jonas Weber", "Priya Raghunathan"], start=1):
        ended = arrange(candidate, -timedelta(days=days))
        Interview.objects.filter(pk=ended.pk).update(
            status=InterviewStatus.ENDED,
            started_at=ended.starts_at,
            ended_at=ended.ends_at,
            timeline_length=40,
        )
    soon = arrange("Cleo Candidate", timedelta(minutes=25))
    arrange("Tomás Herrera", timedelta(minutes=50), (ben,))
    for days, candidate in [(1, "Amara Diallo"), (2, "Sven Ólafsson"), (6, "Yuki Tanaka-Fitzgerald")]:
        arrange(candidate, timedelta(days=days, hours=2), (ada, chiara))
    revoked = arrange("Robin Revoked", timedelta(days=9))
    Interview.objects.filter(pk=revoked.pk).update(link_revoked_at=now)
    return {
        "live": str(live.public_id),
        "soon": str(soon.public_id),
        "revoked": str(revoked.public_id),
        "ended": str(ended.public_id),
        "kit": str(infrastructure.pk),
        "question": slugs[0],
    }
