"""The people and the interview that ``make demo`` shows. Made once and kept; asked for again, they are what they were."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from interviews import links, scheduling
from interviews.models import Interview, InterviewStatus, Kit, KitQuestion, Question, QuestionKind, User
from interviews.rules import HIRING_ADMIN, INTERVIEWER
from interviews.scheduling import Arrangement

INTERVIEWER_EMAIL = "ada@example.org"
COLLEAGUE_EMAIL = "ben@example.org"
HIRING_ADMIN_EMAIL = "hana@example.org"
CANDIDATE_EMAIL = "cleo@example.org"
PEOPLE = (
    (INTERVIEWER_EMAIL, "Ada Moreau", INTERVIEWER),
    (COLLEAGUE_EMAIL, "Ben Okafor", INTERVIEWER),
    (HIRING_ADMIN_EMAIL, "Hana Sato", HIRING_ADMIN),
)
KIT_NAME = "AI infrastructure, first round"


@transaction.atomic
def prepare(password: str, *, reset_passwords: bool) -> Interview:
    """Makes what is missing of the demonstration and returns its open interview, whose link is good from now on.

    The password is for people who are made now, and for all of them with ``reset_passwords``. The bank must be loaded.
    """
    _make_people(password, reset_passwords=reset_passwords)
    ada, ben = User.objects.get(email=INTERVIEWER_EMAIL), User.objects.get(email=COLLEAGUE_EMAIL)
    kit = _kit(ada)
    interview = (
        Interview.objects.filter(kit=kit, created_by=ada, candidate__email=CANDIDATE_EMAIL)
        .exclude(status=InterviewStatus.ENDED)
        .first()
    )
    if interview is None:
        arrangement = Arrangement(
            candidate_name="Cleo Lindqvist",
            candidate_email=CANDIDATE_EMAIL,
            kit=kit,
            starts_at=timezone.now(),
            time_zone="UTC",
            duration_minutes=60,
            video_url="",
            panel=(ada, ben),
            lead=ada,
        )
        return scheduling.create_interview(arrangement, by=ada)
    if interview.link_revoked_at is not None:
        scheduling.renew_link(interview)
    interview.link_expires_at = max(interview.link_expires_at, timezone.now() + links.LINK_GRACE)
    interview.save(update_fields=["link_expires_at"])
    return interview


def _make_people(password: str, *, reset_passwords: bool) -> None:
    known = {user.email: user for user in User.objects.filter(email__in=[email for email, _, _ in PEOPLE])}
    if len(known) == len(PEOPLE) and not reset_passwords:
        return
    # Hashed once: it is slow on purpose.
    hashed = make_password(password)
    for email, name, role in PEOPLE:
        user = known.get(email) or User(email=email, name=name)
        if user.pk is None or reset_passwords:
            user.password = hashed
            user.save()
        user.groups.add(Group.objects.get(name=role))


def _kit(owner: User) -> Kit:
    """One question of each kind, from arithmetic to kernel."""
    kit, created = Kit.objects.get_or_create(
        name=KIT_NAME,
        defaults={"created_by": owner, "description": "One question of each kind, from arithmetic to a kernel."},
    )
    if created:
        questions = list(Question.objects.filter(retired_at=None))
        for position, kind in enumerate(QuestionKind.values, start=1):
            question = next((q for q in questions if q.latest.kind == kind), None)
            if question is None:
                raise Question.DoesNotExist(f"The bank has no question of the kind {kind!r}.")
            KitQuestion.objects.create(kit=kit, position=position, question=question)
    return kit
