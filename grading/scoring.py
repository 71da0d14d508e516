"""Scorecards: drafts that save themselves, the lock, and who may read whose.

A scorecard is its author's alone until submitted. Everything that changes one first takes its row by an UPDATE that only
matches while it is not submitted, so that a save and a submission never overtake each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from grading.cleaning import clean_text
from grading.models import Rating, Recommendation, Scorecard
from interviews import room_events, timeline
from interviews.access import Participant, Role
from interviews.models import Criterion, EntryKind, Interview, InterviewQuestion, PanelMember, TimelineEntry, User
from interviews.room_events import Audience

LEVELS = (1, 2, 3, 4)
EVIDENCE_LIMIT = 5_000
SUMMARY_LIMIT = 10_000
CITES_LIMIT = 50


class ScoringRefused(Exception):
    """Something that is not done; the text is for the person who asked."""


class NotOnPanel(ScoringRefused):
    """Only members of the panel rate."""


class NotRateable(ScoringRefused):
    """There is nothing to rate yet."""


class ScorecardLocked(ScoringRefused):
    """It was submitted."""

    def __init__(self) -> None:
        super().__init__("This scorecard is submitted, so it no longer changes.")


class StaleDraft(ScoringRefused):
    """Something newer was saved elsewhere; nothing of it is overwritten."""

    def __init__(self) -> None:
        super().__init__("A newer version was saved in another window.")


class ScorecardIncomplete(ScoringRefused):
    """It cannot be submitted yet."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        super().__init__("Something is still missing from this scorecard.")
        self.missing = missing


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingDraft:
    """What its author thinks of one criterion so far. ``cites`` are sequences of the interview's timeline."""

    level: int | None = None
    not_assessed: bool = False
    evidence: str = ""
    cites: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.level is not None and (self.level not in LEVELS or self.not_assessed):
            raise ValueError("a rating is one of the four levels, or not assessed")

    @classmethod
    def of(cls, rating: Rating) -> Self:
        return cls(
            level=rating.level,
            not_assessed=rating.not_assessed,
            evidence=rating.evidence,
            cites=tuple(sorted(entry.sequence for entry in rating.cites.all())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryDraft:
    """What its author recommends so far."""

    recommendation: str = ""
    summary: str = ""

    def __post_init__(self) -> None:
        if self.recommendation and self.recommendation not in Recommendation.values:
            raise ValueError("not a recommendation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Something that a scorecard still needs, and the id of its place on the page."""

    place: str
    where: str
    words: str


# Who reads what -----------------------------------------------------------------------------------------------------


def may_read(reader: User, scorecard: Scorecard, own: Scorecard | None) -> bool:
    """Whether ``reader`` may read this scorecard; ``own`` is the reader's own one in the same interview, if there is one.

    A draft is its author's alone, whoever asks. A submitted scorecard is open to those who may see the report, but anybody
    who is to give an opinion of their own gives it first: members of the panel, and whoever began a scorecard.
    """
    if scorecard.author_id == reader.pk:
        return True
    if not scorecard.is_submitted or not reader.has_perm("interviews.see_report", scorecard.interview):
        return False
    if own is not None:
        return own.is_submitted
    return not scorecard.interview.has_panel_member(reader)


def readable(reader: User, interview: Interview, scorecards: Iterable[Scorecard]) -> list[Scorecard]:
    """Those of an interview's scorecards that ``reader`` may read. They must share one ``interview`` object with its panel."""
    scorecards = list(scorecards)
    own = next((scorecard for scorecard in scorecards if scorecard.author_id == reader.pk), None)
    for scorecard in scorecards:
        scorecard.interview = interview
    return [scorecard for scorecard in scorecards if may_read(reader, scorecard, own)]


def readable_anywhere(reader: User) -> QuerySet[Scorecard]:
    """What ``may_read`` says, as rows, for a reader who may see every report."""
    own = Scorecard.objects.filter(interview=OuterRef("interview"), author=reader)
    seat = PanelMember.objects.filter(interview=OuterRef("interview"), user=reader)
    gave_opinion = Exists(own.exclude(submitted_at=None))
    gives_none = ~Exists(own) & ~Exists(seat)
    return Scorecard.objects.filter(Q(author=reader) | (Q(submitted_at__isnull=False) & (gave_opinion | gives_none)))


# Drafts -------------------------------------------------------------------------------------------------------------


def open_scorecard(interview: Interview, author: User) -> Scorecard:
    """The author's scorecard, made on the first call. Raises ``NotOnPanel``, and ``NotRateable`` before the start."""
    if not interview.has_panel_member(author):
        raise NotOnPanel("Only members of the panel rate an interview.")
    if interview.started_at is None:
        # A scorecard would also keep an interview from being called off.
        raise NotRateable("The interview has not started, so there is nothing to rate yet.")
    scorecard, _ = Scorecard.objects.get_or_create(interview=interview, author=author)
    return scorecard


def version_of(row: Rating | Scorecard | None) -> str:
    """Names the state of a draft. Whoever saves says which state they started from; empty: there was none."""
    return row.updated_at.isoformat() if row is not None and row.pk else ""


def save_rating(
    interview: Interview,
    author: User,
    question: InterviewQuestion,
    criterion: Criterion,
    draft: RatingDraft,
    *,
    version: str,
) -> Rating:
    """Keeps the author's draft for one criterion. Raises ``ScoringRefused``; ``StaleDraft`` where ``version`` is outdated.

    Saying again what is saved already is never stale: the answer to the first time may have been lost on its way.
    """
    if question.opened_at is None:
        raise NotRateable("This question was not opened in the interview.")
    with transaction.atomic():
        scorecard = _hold(open_scorecard(interview, author))
        known = Rating.objects.filter(scorecard=scorecard, question=question, criterion=criterion).first()
        cited = TimelineEntry.objects.filter(interview=interview, sequence__in=draft.cites[:CITES_LIMIT])
        draft = RatingDraft(
            level=draft.level,
            not_assessed=draft.not_assessed,
            evidence=clean_text(draft.evidence, EVIDENCE_LIMIT),
            cites=tuple(sorted(entry.sequence for entry in cited)),
        )
        if known is not None and draft == RatingDraft.of(known):
            return known
        if version_of(known) != version:
            raise StaleDraft
        rating = known or Rating(scorecard=scorecard, question=question, criterion=criterion)
        rating.level = draft.level
        rating.not_assessed = draft.not_assessed
        rating.evidence = draft.evidence
        rating.save()
        rating.cites.set(cited)
        return rating


def save_summary(interview: Interview, author: User, draft: SummaryDraft, *, version: str) -> Scorecard:
    """Keeps the author's recommendation and summary, on the same terms as ``save_rating``."""
    with transaction.atomic():
        scorecard = _hold(open_scorecard(interview, author))
        draft = SummaryDraft(recommendation=draft.recommendation, summary=clean_text(draft.summary, SUMMARY_LIMIT))
        saved = SummaryDraft(recommendation=scorecard.recommendation, summary=scorecard.summary)
        if draft == saved:
            return scorecard
        # A scorecard that its ratings alone have made so far says nothing that could be overwritten.
        if saved != SummaryDraft() and version_of(scorecard) != version:
            raise StaleDraft
        scorecard.recommendation = draft.recommendation
        scorecard.summary = draft.summary
        scorecard.save(update_fields=["recommendation", "summary", "updated_at"])
        return scorecard


def _hold(scorecard: Scorecard) -> Scorecard:
    """Within a transaction: the scorecard's row is ours until it ends. Raises ``ScorecardLocked``."""
    if Scorecard.objects.filter(pk=scorecard.pk, submitted_at=None).update(submitted_at=None) != 1:
        raise ScorecardLocked
    scorecard.refresh_from_db()
    return scorecard


# Submitting ---------------------------------------------------------------------------------------------------------


def wants(rating: Rating | None) -> str:
    """What a rating still needs, in words; empty when it is complete."""
    if rating is None or (rating.level is None and not rating.not_assessed):
        return "a level, or “not assessed”"
    if rating.level is not None and not rating.evidence.strip():
        return "an evidence note"
    return ""


def missing_from(interview: Interview, scorecard: Scorecard) -> list[Missing]:
    """What has to be there before the scorecard can be submitted, in the order of the page."""
    opened = (
        interview.questions.exclude(opened_at=None)
        .select_related("version")
        .only("position", "version__title")
        .order_by("position")
    )
    criteria: dict[int, list[Criterion]] = {}
    rubrics = Criterion.objects.filter(rubric__version__in=[question.version_id for question in opened])
    for criterion in rubrics.select_related("rubric").order_by("position"):
        criteria.setdefault(criterion.rubric.version_id, []).append(criterion)
    ratings: dict[tuple[int, int], Rating] = {}
    if scorecard.pk:
        ratings = {(rating.question_id, rating.criterion_id): rating for rating in scorecard.ratings.all()}
    missing = [
        Missing(
            place=rating_place(question, criterion),
            where=f"{question.position}. {question.version.title}, {criterion.name}",
            words=f"needs {words}",
        )
        for question in opened
        for criterion in criteria.get(question.version_id, [])
        if (words := wants(ratings.get((question.pk, criterion.pk))))
    ]
    if not scorecard.recommendation:
        missing.append(Missing(place="recommendation", where="Recommendation", words="has to be chosen"))
    return missing


def rating_place(question: InterviewQuestion, criterion: Criterion) -> str:
    return f"rating-{question.position}-{criterion.pk}"


def progress(interview: Interview, scorecard: Scorecard) -> tuple[int, int]:
    """How many criteria are rated completely, of how many that have to be."""
    total = Criterion.objects.filter(
        rubric__version__uses__interview=interview, rubric__version__uses__opened_at__isnull=False
    ).count()
    open_ratings = sum(item.place != "recommendation" for item in missing_from(interview, scorecard))
    return total - open_ratings, total


def submit(interview: Interview, author: User) -> Scorecard:
    """Locks the author's scorecard and opens the panel's others to them. Raises ``ScoringRefused``."""
    with transaction.atomic():
        # The interview's row comes first, as everywhere.
        timeline.take_turn(interview)
        # Held before anything is looked at, so that no save comes between the look and the lock.
        scorecard = _hold(open_scorecard(interview, author))
        missing = missing_from(interview, scorecard)
        if missing:
            raise ScorecardIncomplete(missing)
        _lock(scorecard)
        by = Participant(interview=interview, role=Role.INTERVIEWER, user=author)
        timeline.append(interview, EntryKind.SCORECARD, by=by, private=True)
        room_events.publish(interview, "scorecard", audience=Audience.INTERVIEWERS, author=author.name)
    return scorecard


def _lock(scorecard: Scorecard) -> None:
    if Scorecard.objects.filter(pk=scorecard.pk, submitted_at=None).update(submitted_at=timezone.now()) != 1:
        raise ScorecardLocked
    scorecard.refresh_from_db()
