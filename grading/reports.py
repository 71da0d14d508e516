"""The report of an interview: the facts of what happened, with their sources, and what the panel made of them.

Everything is read in a number of queries that does not grow with runs, raters, ratings or notes; only the code of each
question, which is rebuilt from its edits, costs one query a question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, Max, Prefetch

from gpu_runner.protocol import Mode
from grading import combination, evidence, scoring, sheets
from grading.charts import LevelChart, level_chart, mean_chart
from grading.combination import CriterionResult
from grading.evidence import Citation
from grading.models import Rating, Recommendation, Run, Scorecard
from grading.schemas import RunOut, run_out, shown_runs
from interviews import documents
from interviews.access import Role
from interviews.models import ActorKind, EntryKind, Interview, InterviewQuestion, TimelineEntry, User

#: What the report's timeline tells; edits are in the code, and coming and going says nothing of the answer.
TOLD = (
    EntryKind.STARTED,
    EntryKind.QUESTION,
    EntryKind.NOTE,
    EntryKind.RUN_REQUESTED,
    EntryKind.ENDED,
    EntryKind.SCORECARD,
)
#: The parts of a run card that are the same for many runs, with their words.
CARD_WORDS = {
    "host": "Host",
    "runtime": "Container runtime",
    "gpu_names": "GPUs",
    "driver": "Driver",
    "clocks": "Clocks",
    "python": "Python",
    "torch": "PyTorch",
    "triton": "Triton",
    "backend": "Communication",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelLine:
    """A member of the panel and, once submitted, when that was."""

    user: User
    lead: bool
    submitted_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingLine:
    """One rater's view of a criterion, with what the anchor of that level says."""

    rating: Rating
    anchor_words: str
    cites: Sequence[Citation]

    @property
    def rater(self) -> User:
        return self.rating.scorecard.author


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionReport:
    result: CriterionResult
    lines: Sequence[RatingLine]
    chart: LevelChart


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """A run at its time since the start of the interview."""

    run: RunOut
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine and the versions behind some runs: rows of words and value."""

    runs: str
    rehearsed: bool
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The code at the end, and where it comes from."""

    text: str
    edits: int
    last_edit: str
    #: The newest run, and whether it ran exactly this code.
    run_number: int | None
    same_as_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionReport:
    question: InterviewQuestion
    opened: str
    code: Code
    runs: Sequence[RunLine]
    machines: Sequence[Machine]
    last_check: RunLine | None
    criteria: Sequence[CriterionReport]
    mean: Decimal | None
    chart: LevelChart
    #: The mean of each rater alone, in the order of the report's scorecards.
    rater_means: Sequence[tuple[Decimal | None, User]]

    @property
    def was_asked(self) -> bool:
        return self.question.opened_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the timeline."""

    place: str
    at: datetime
    clock: str
    kind: str
    who: str
    words: str
    position: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``scorecards`` are those that the reader may read; ``withheld`` is how many more are submitted."""

    interview: Interview
    panel: Sequence[PanelLine]
    scorecards: Sequence[Scorecard]
    withheld: int
    reader_on_panel: bool
    recommendations: Sequence[tuple[str, int]]
    questions: Sequence[QuestionReport]
    mean: Decimal | None
    events: Sequence[Event]
    rule: str = combination.RULE

    @property
    def actual_minutes(self) -> int | None:
        """How long it really took; unknown while it goes on."""
        interview = self.interview
        if interview.started_at is None or interview.ended_at is None:
            return None
        return round((interview.ended_at - interview.started_at).total_seconds() / 60)

    @property
    def submitted(self) -> int:
        return len(self.scorecards) + self.withheld


def report(interview: Interview, reader: User) -> Report:
    """The report as ``reader`` may read it. Load the interview by ``with_people``."""
    all_scorecards = list(
        Scorecard.objects.filter(interview=interview).select_related("author").order_by("author__name")
    )
    submitted = [scorecard for scorecard in all_scorecards if scorecard.is_submitted]
    open_to_reader = {scorecard.pk for scorecard in scoring.readable(reader, interview, all_scorecards)}
    scorecards = [scorecard for scorecard in submitted if scorecard.pk in open_to_reader]
    questions = _questions(interview, scorecards)
    return Report(
        interview=interview,
        panel=_panel(interview, submitted),
        scorecards=scorecards,
        withheld=len(submitted) - len(scorecards),
        reader_on_panel=interview.has_panel_member(reader),
        recommendations=[
            (choice.label, count)
            for choice in reversed(Recommendation)
            if (count := sum(scorecard.recommendation == choice for scorecard in scorecards))
        ],
        questions=questions,
        mean=combination.combine_interview([question.mean for question in questions]),
        events=_events(interview, questions),
    )


def _panel(interview: Interview, submitted: Sequence[Scorecard]) -> list[PanelLine]:
    """The panel, and after it whoever submitted a scorecard and left the panel since."""
    times = {scorecard.author_id: scorecard.submitted_at for scorecard in submitted}
    members = [
        PanelLine(user=member.user, lead=member.lead, submitted_at=times.get(member.user_id))
        for member in interview.panel.all()
    ]
    present = {line.user.pk for line in members}
    former = [scorecard for scorecard in submitted if scorecard.author_id not in present]
    return members + [
        PanelLine(user=scorecard.author, lead=False, submitted_at=scorecard.submitted_at) for scorecard in former
    ]


# Questions ----------------------------------------------------------------------------------------------------------


def _questions(interview: Interview, scorecards: Sequence[Scorecard]) -> list[QuestionReport]:
    ratings: dict[tuple[int, int], list[Rating]] = {}
    cited = TimelineEntry.objects.select_related("user").defer("update").order_by("sequence")
    rows = Rating.objects.filter(scorecard__in=scorecards).select_related("scorecard__author")
    for rating in rows.prefetch_related(Prefetch("cites", cited)).order_by("scorecard__author__name"):
        ratings.setdefault((rating.question_id, rating.criterion_id), []).append(rating)
    runs: dict[int, list[RunLine]] = {}
    for run in shown_runs().filter(interview=interview).order_by("number"):
        line = RunLine(run=run_out(run, Role.INTERVIEWER), at=evidence.since_start(interview, run.requested_at))
        runs.setdefault(run.question_id, []).append(line)
    codes = _codes(interview)
    return [
        _question(
            interview,
            question,
            code=codes[question.pk],
            runs=runs.get(question.pk, []),
            ratings=ratings,
            scorecards=scorecards,
        )
        for question in sheets.questions_with_rubrics(interview)
    ]


def _question(
    interview: Interview,
    question: InterviewQuestion,
    *,
    code: Code,
    runs: list[RunLine],
    ratings: dict[tuple[int, int], list[Rating]],
    scorecards: Sequence[Scorecard],
) -> QuestionReport:
    results = [
        CriterionResult(criterion=criterion, ratings=ratings.get((question.pk, criterion.pk), []))
        for criterion in sheets.criteria_of(question)
    ]
    mean = combination.combine_question(results)
    return QuestionReport(
        question=question,
        opened=evidence.since_start(interview, question.opened_at) if question.opened_at else "",
        code=code,
        runs=runs,
        machines=_machines(runs),
        last_check=next((line for line in reversed(runs) if line.run.mode is Mode.CHECKS and line.run.outcome), None),
        criteria=[
            CriterionReport(
                result=result,
                lines=[_rating_line(interview, rating, result) for rating in result.ratings],
                chart=level_chart(result),
            )
            for result in results
        ],
        mean=mean,
        chart=mean_chart(mean),
        rater_means=[
            (combination.combine_question(_by_one(results, scorecard)), scorecard.author) for scorecard in scorecards
        ],
    )


def _by_one(results: Sequence[CriterionResult], scorecard: Scorecard) -> list[CriterionResult]:
    return [
        CriterionResult(
            criterion=result.criterion,
            ratings=[rating for rating in result.ratings if rating.scorecard_id == scorecard.pk],
        )
        for result in results
    ]


def _rating_line(interview: Interview, rating: Rating, result: CriterionResult) -> RatingLine:
    return RatingLine(
        rating=rating,
        anchor_words=next(
            (anchor.text for anchor in result.criterion.anchors.all() if anchor.level == rating.level), ""
        ),
        cites=[evidence.citation(interview, entry) for entry in rating.cites.all()],
    )


def _codes(interview: Interview) -> dict[int, Code]:
    """The code of each question as its shared document ended, by the question's primary key."""
    questions = interview.questions.select_related("version").defer(
        "version__prompt", "version__reference", "version__checks_source"
    )
    edits = (
        TimelineEntry.objects.filter(interview=interview, kind=EntryKind.EDIT)
        # The starter text is written by the system.
        .exclude(actor_kind=ActorKind.SYSTEM)
        .order_by()
        .values("question")
        .annotate(count=Count("pk"), last=Max("at"))
    )
    edited = {row["question"]: row for row in edits}
    newest = Run.objects.filter(interview=interview).order_by().values("question").annotate(newest=Max("number"))
    submissions = Run.objects.filter(interview=interview, number__in=newest.values("newest"))
    ran = {
        question: (number, text)
        for question, number, text in submissions.values_list("question", "number", "submission__text")
    }
    codes = {}
    for question in questions:
        text = documents.text_at(question)
        row = edited.get(question.pk)
        number, submitted_text = ran.get(question.pk, (None, None))
        codes[question.pk] = Code(
            text=text,
            edits=row["count"] if row else 0,
            last_edit=evidence.since_start(interview, row["last"]) if row else "",
            run_number=number,
            same_as_run=submitted_text == text,
        )
    return codes


def _machines(runs: Sequence[RunLine]) -> list[Machine]:
    """Runs that had the same machine and versions share an entry."""
    groups: dict[tuple[bool, tuple[tuple[str, str], ...]], list[int]] = {}
    for line in runs:
        if line.run.card is None:
            continue
        rows = tuple(
            (words, _card_value(line.run.card[name])) for name, words in CARD_WORDS.items() if line.run.card.get(name)
        )
        groups.setdefault((line.run.rehearsed, rows), []).append(line.run.number)
    return [Machine(runs=_numbers(numbers), rehearsed=key[0], rows=key[1]) for key, numbers in groups.items()]


def _card_value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _numbers(numbers: Sequence[int]) -> str:
    """``[1, 2, 3, 5]`` → "Runs 1–3, 5"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    words = [str(span[0]) if len(span) == 1 else f"{span[0]}–{span[-1]}" for span in spans]
    return f"{'Run' if len(numbers) == 1 else 'Runs'} {', '.join(words)}"


# The timeline -------------------------------------------------------------------------------------------------------


def _events(interview: Interview, questions: Sequence[QuestionReport]) -> list[Event]:
    entries = (
        TimelineEntry.objects.filter(interview=interview, kind__in=TOLD)
        .select_related("user", "candidate_session")
        .defer("update")
        .order_by("sequence")
    )
    runs = {line.run.number: line.run for question in questions for line in question.runs}
    places = {question.question.pk: question.question for question in questions}
    return [_event(interview, entry, runs, places) for entry in entries]


def _event(
    interview: Interview, entry: TimelineEntry, runs: dict[int, RunOut], questions: dict[int, InterviewQuestion]
) -> Event:
    question = questions.get(entry.question_id) if entry.question_id else None
    match entry.kind:
        case EntryKind.NOTE:
            words = str(entry.payload.get("text", ""))
        case EntryKind.QUESTION:
            words = f"Opened question {question}" if question else "Opened a question"
        case EntryKind.RUN_REQUESTED:
            run = runs.get(entry.payload.get("run", 0))
            words = f"Run {run.number}: {evidence.run_words(run)}" if run else entry.get_kind_display()
        case _:
            words = entry.get_kind_display()
    return Event(
        place=f"note-{entry.sequence}" if entry.kind == EntryKind.NOTE else f"entry-{entry.sequence}",
        at=entry.at,
        clock=evidence.since_start(interview, entry.at),
        kind=entry.kind,
        who=_who(entry),
        words=words,
        position=question.position if question else None,
    )


def _who(entry: TimelineEntry) -> str:
    if entry.user is not None:
        return entry.user.name
    return entry.candidate_session.display_name if entry.candidate_session is not None else ""
