"""Which interviews concern somebody: now, next, and those that wait for their scorecard."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q
from django.utils import timezone

from interviews.models import Interview, InterviewStatus, User
from interviews.models.interviews import InterviewQuerySet

#: How many interviews home lists of each sort; the rest stand in the list of interviews.
HOME_LIMIT = 8


class Show(enum.StrEnum):
    """Which interviews a list shows."""

    UPCOMING = "upcoming"
    LIVE = "live"
    ENDED = "ended"

    @classmethod
    def of(cls, text: str) -> Show:
        return cls(text) if text in set(cls) else cls.UPCOMING

    @property
    def status(self) -> InterviewStatus:
        return _STATUS_SHOWN[self]


_STATUS_SHOWN = {
    Show.UPCOMING: InterviewStatus.SCHEDULED,
    Show.LIVE: InterviewStatus.LIVE,
    Show.ENDED: InterviewStatus.ENDED,
}


def search(interviews: InterviewQuerySet, text: str) -> InterviewQuerySet:
    """Those whose candidate's name or address contains ``text``."""
    if not text:
        return interviews
    return interviews.filter(Q(candidate__name__icontains=text) | Q(candidate__email__icontains=text))


def shown(interviews: InterviewQuerySet, show: Show) -> InterviewQuerySet:
    """What comes first is what one looks for: the next of the upcoming, the latest of the ended."""
    order = "starts_at" if show is Show.UPCOMING else "-starts_at"
    return interviews.filter(status=show.status).order_by(order, "pk")


def counts(interviews: InterviewQuerySet) -> dict[str, int]:
    """How many interviews each choice of ``Show`` would list."""
    return interviews.aggregate(
        **{show.value: Count("pk", filter=Q(status=show.status), distinct=True) for show in Show}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """What home shows to one person."""

    now: datetime
    live: list[Interview]
    today: list[Interview]
    later: list[Interview]
    #: Interviews that ended and of which the person, being on the panel, has submitted no scorecard.
    unscored: list[Interview]
    #: Primary keys of those in ``unscored`` for which a scorecard was begun.
    drafts: frozenset[int]

    @property
    def is_empty(self) -> bool:
        return not (self.live or self.today or self.later or self.unscored)

    @property
    def greeting(self) -> str:
        """In the reader's own time of day."""
        hour = timezone.localtime(self.now).hour
        if 5 <= hour < 12:
            return "Good morning"
        return "Good afternoon" if 12 <= hour < 18 else "Good evening"


def for_user(user: User) -> Agenda:
    now = timezone.now()
    midnight = (timezone.localtime(now) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    mine = Interview.objects.visible_to(user).with_people()
    upcoming = shown(mine, Show.UPCOMING)
    cards = user.scorecards
    unscored = (
        Interview.objects.filter(status=InterviewStatus.ENDED, panel__user=user)
        .exclude(pk__in=cards.filter(submitted_at__isnull=False).values("interview"))
        .with_people()
        .order_by("-starts_at")
    )
    return Agenda(
        now=now,
        live=list(shown(mine, Show.LIVE)[:HOME_LIMIT]),
        today=list(upcoming.filter(starts_at__lt=midnight, starts_at__gte=now - timedelta(hours=12))[:HOME_LIMIT]),
        later=list(upcoming.filter(starts_at__gte=midnight)[:HOME_LIMIT]),
        unscored=list(unscored[:HOME_LIMIT]),
        drafts=frozenset(cards.filter(submitted_at=None).values_list("interview_id", flat=True)),
    )
