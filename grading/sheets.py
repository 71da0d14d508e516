"""The scorecard as its author fills it in: the rubric of each question, what was saved, and what the checks suggest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Max, Prefetch

from gpu_runner.protocol import Mode
from grading import evidence, scoring
from grading.evidence import Citation
from grading.models import Rating, Run, RunState, Scorecard
from grading.schemas import RunOut, run_out, shown_runs
from interviews.access import Role
from interviews.models import Anchor, Criterion, Interview, InterviewQuestion, TimelineEntry, User


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One criterion with its anchors, and the author's rating of it so far."""

    place: str
    criterion: Criterion
    anchors: Sequence[Anchor]
    rating: Rating | None
    cites: Sequence[Citation]

    @property
    def choice(self) -> str:
        """The value of the chosen radio button."""
        if self.rating is None:
            return ""
        return "not_assessed" if self.rating.not_assessed else str(self.rating.level or "")

    @property
    def version(self) -> str:
        return scoring.version_of(self.rating)

    @property
    def wants(self) -> str:
        return scoring.wants(self.rating)

    @property
    def anchor_words(self) -> str:
        """What the anchor of the chosen level says."""
        level = self.rating.level if self.rating else None
        return next((anchor.text for anchor in self.anchors if anchor.level == level), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSheet:
    """One question's criteria. ``last_check`` is its newest finished run of the checks."""

    question: InterviewQuestion
    lines: Sequence[Line]
    last_check: RunOut | None

    @property
    def is_open(self) -> bool:
        """Whether it was put before the candidate; only then it is rated."""
        return self.question.opened_at is not None

    @property
    def rated(self) -> int:
        return sum(not line.wants for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A whole scorecard, or the part of it that belongs to one question."""

    interview: Interview
    scorecard: Scorecard
    questions: Sequence[QuestionSheet]

    @property
    def can_change(self) -> bool:
        return not self.scorecard.is_submitted and self.interview.started_at is not None

    @property
    def version(self) -> str:
        return scoring.version_of(self.scorecard)

    @property
    def rated(self) -> int:
        return sum(sheet.rated for sheet in self.questions if sheet.is_open)

    @property
    def total(self) -> int:
        return sum(len(sheet.lines) for sheet in self.questions if sheet.is_open)


def sheet(interview: Interview, author: User, *, position: int | None = None) -> Sheet:
    """The author's scorecard for reading and writing; looking at it writes nothing. With ``position``, one question only."""
    scorecard = Scorecard.objects.filter(interview=interview, author=author).first()
    if scorecard is None:
        scorecard = Scorecard(interview=interview, author=author)
    questions = list(questions_with_rubrics(interview, position=position))
    ratings: dict[tuple[int, int], Rating] = {}
    if scorecard.pk:
        cited = TimelineEntry.objects.select_related("user").defer("update").order_by("sequence")
        rows = scorecard.ratings.prefetch_related(Prefetch("cites", cited))
        ratings = {(rating.question_id, rating.criterion_id): rating for rating in rows}
    last_checks = _last_checks(interview, questions)
    return Sheet(
        interview=interview,
        scorecard=scorecard,
        questions=[
            QuestionSheet(
                question=question,
                lines=[_line(interview, question, criterion, ratings) for criterion in criteria_of(question)],
                last_check=last_checks.get(question.pk),
            )
            for question in questions
        ],
    )


def _line(
    interview: Interview,
    question: InterviewQuestion,
    criterion: Criterion,
    ratings: dict[tuple[int, int], Rating],
) -> Line:
    rating = ratings.get((question.pk, criterion.pk))
    return Line(
        place=scoring.rating_place(question, criterion),
        criterion=criterion,
        anchors=list(criterion.anchors.all()),
        rating=rating,
        cites=[evidence.citation(interview, entry) for entry in rating.cites.all()] if rating else [],
    )


def questions_with_rubrics(interview: Interview, *, position: int | None = None) -> list[InterviewQuestion]:
    """The interview's questions in order; version, rubric, criteria and anchors of all cost no query of their own."""
    criteria = Criterion.objects.order_by("position").prefetch_related(
        Prefetch("anchors", Anchor.objects.order_by("level"))
    )
    questions = (
        interview.questions.select_related("version__question", "version__rubric")
        .defer("version__starter", "version__reference", "version__checks_source")
        .prefetch_related(Prefetch("version__rubric__criteria", criteria))
        .order_by("position")
    )
    return list(questions if position is None else questions.filter(position=position))


def criteria_of(question: InterviewQuestion) -> list[Criterion]:
    """None where the question has no rubric."""
    rubric = getattr(question.version, "rubric", None)
    return list(rubric.criteria.all()) if rubric is not None else []


def _last_checks(interview: Interview, questions: Sequence[InterviewQuestion]) -> dict[int, RunOut]:
    """The newest finished run of the checks of each question, by the question's primary key."""
    finished = Run.objects.filter(
        interview=interview, question__in=questions, mode=Mode.CHECKS.value, state=RunState.FINISHED
    )
    newest = finished.order_by().values("question").annotate(newest=Max("number")).values("newest")
    runs = shown_runs().filter(interview=interview, number__in=newest)
    return {run.question_id: run_out(run, Role.INTERVIEWER) for run in runs}
