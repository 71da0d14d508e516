"""What people do in a test interview, in one line each."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.utils import timezone

from gpu_runner.protocol import CheckStatus, Mode, Outcome
from grading import scoring
from grading.models import CheckResult, Run, RunState, Submission
from grading.scoring import RatingDraft, SummaryDraft
from interviews import rooms, timeline
from interviews.access import Participant, Role
from interviews.models import Criterion, EntryKind, Interview, InterviewQuestion, TimelineEntry, User

CARD: dict[str, Any] = {
    "host": "host-1",
    "runtime": "runc",
    "slot": "slot-1",
    "gpu_names": [],
    "driver": None,
    "clocks": None,
    "python": "3.11.2",
    "torch": "2.13.0",
    "triton": "3.7.1",
    "backend": "gloo",
    "seed": 7,
    "rehearsed": True,
}


def seated(interview: Interview, user: User) -> Participant:
    return Participant(interview=interview, role=Role.INTERVIEWER, user=user)


def begin(interview: Interview, by: User, *, positions: tuple[int, ...] = (1, 2), minutes_ago: int = 30) -> Interview:
    """Starts the interview and opens these questions."""
    rooms.start(interview, by=seated(interview, by))
    for position in positions:
        rooms.open_question(interview, position, by=seated(interview, by))
    Interview.objects.filter(pk=interview.pk).update(started_at=timezone.now() - timedelta(minutes=minutes_ago))
    return Interview.objects.with_people().get(pk=interview.pk)


def criterion_of(question: InterviewQuestion) -> Criterion:
    return Criterion.objects.get(rubric__version=question.version)


def rate(
    interview: Interview,
    by: User,
    *,
    level: int | None = 3,
    evidence: str = "Saw it.",
    positions: tuple[int, ...] = (1, 2),
) -> None:
    """Gives every criterion of these questions the same level; ``None``: not assessed."""
    for question in interview.questions.filter(position__in=positions).select_related("version"):
        draft = RatingDraft(level=level, not_assessed=level is None, evidence=evidence)
        scoring.save_rating(interview, by, question, criterion_of(question), draft, version="")


def submit(
    interview: Interview, by: User, *, level: int | None = 3, recommendation: str = "yes", evidence: str = "Saw it."
) -> None:
    """Rates every criterion of the opened questions, recommends and submits."""
    opened = interview.questions.exclude(opened_at=None).values_list("position", flat=True)
    rate(interview, by, level=level, evidence=evidence, positions=tuple(opened))
    scoring.save_summary(
        interview, by, SummaryDraft(recommendation=recommendation, summary=f"Summary of {by.name}."), version=""
    )
    scoring.submit(interview, by)


def write_note(interview: Interview, by: User, text: str, *, position: int = 1) -> TimelineEntry:
    return rooms.add_note(interview, uuid.uuid4(), text, position=position, by=seated(interview, by))


def finished_run(
    interview: Interview, by: User, *, position: int = 1, mode: Mode = Mode.CHECKS, text: str = "x = 1\n", **fields: Any
) -> Run:
    """A run that has ended, with its timeline entry and, for checks, one visible that passed and one hidden that failed."""
    question = interview.questions.get(position=position)
    now = timezone.now()
    run = Run.objects.create(
        interview=interview,
        question=question,
        submission=Submission.objects.create(question=question, text=text),
        number=Run.objects.filter(interview=interview).count() + 1,
        mode=mode.value,
        requested_by_user=by,
        state=RunState.FINISHED,
        started_at=now,
        finished_at=now,
        outcome=Outcome.EXITED.value,
        wall_s=0.42,
        rehearsed=True,
        card=CARD,
        rank_exits=[],
        **fields,
    )
    payload = {"run": run.number, "run_id": str(run.public_id), "mode": run.mode, "ranks": run.ranks}
    timeline.append(interview, EntryKind.RUN_REQUESTED, by=seated(interview, by), question=question, payload=payload)
    if mode is Mode.CHECKS:
        CheckResult.objects.create(
            run=run,
            position=1,
            name="small",
            title="Small numbers",
            hidden=False,
            status=CheckStatus.PASSED.value,
            message="All 10 cases agree.",
            duration_s=0.01,
        )
        CheckResult.objects.create(
            run=run,
            position=2,
            name="large",
            title="PRIVATE large numbers",
            hidden=True,
            status=CheckStatus.FAILED.value,
            message="A case differs.",
            detail="PRIVATE expected 3, got 4",
            output="PRIVATE output",
            duration_s=0.02,
        )
    return run
