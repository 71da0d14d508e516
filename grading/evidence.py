"""What a rating can point to: runs, their checks and notes, each at its time since the start of the interview."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from grading.models import Run
from grading.schemas import RunOut, run_out, shown_runs
from interviews.access import Role
from interviews.models import EntryKind, Interview, InterviewQuestion, TimelineEntry

#: More than this nobody looks through while a candidate waits.
NEWEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A timeline entry as evidence. ``label`` is how a note names it; ``place`` is its id on the report's page."""

    sequence: int
    label: str
    words: str = ""
    place: str = ""
    #: One for each check of a checks run: how a note names it, and what it found.
    checks: tuple[tuple[str, str], ...] = ()


def since_start(interview: Interview, at: datetime) -> str:
    """The clock of the interview: "12:41" is 12 minutes and 41 seconds after its start, "1:02:41" an hour later."""
    if interview.started_at is None or at < interview.started_at:
        return "before the start"
    total_s = int((at - interview.started_at).total_seconds())
    hours, rest_s = divmod(total_s, 3600)
    minutes, seconds = divmod(rest_s, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def citation(interview: Interview, entry: TimelineEntry, runs: dict[int, Run] | None = None) -> Citation:
    """The entry as evidence. A note's author must be fetched along; ``runs`` by number add what they showed."""
    clock = since_start(interview, entry.at)
    if entry.kind == EntryKind.NOTE:
        author = entry.user.name if entry.user else "nobody"
        words = str(entry.payload.get("text", ""))
        return Citation(
            sequence=entry.sequence, label=f"{clock}, note by {author}", words=words, place=f"note-{entry.sequence}"
        )
    number = entry.payload.get("run")
    if number is None:
        return Citation(sequence=entry.sequence, label=f"{clock}, {entry.get_kind_display().lower()}")
    label = f"{clock}, run {number}"
    run = (runs or {}).get(number)
    shown = run_out(run, Role.INTERVIEWER) if run is not None else None
    return Citation(
        sequence=entry.sequence,
        label=label,
        words=run_words(shown) if shown else "",
        place=f"run-{number}",
        checks=tuple(
            (f"{label}, check {place}", f"{check.title}: {status_words(check.status)}")
            for place, check in enumerate(shown.checks if shown else [], start=1)
        ),
    )


def run_words(run: RunOut) -> str:
    """What a run showed, in a few words."""
    if run.outcome is None:
        return "still going on"
    return f"{run.outcome_title}; {run.checks_label}" if run.checks_label else run.outcome_title


def status_words(status: str) -> str:
    """How a check ended: "timed out"."""
    return status.replace("_", " ")


def citable(interview: Interview, question: InterviewQuestion) -> list[Citation]:
    """What there is to point to for a question, newest first: its runs, and the notes made meanwhile."""
    entries = list(
        question.timeline.filter(kind__in=[EntryKind.RUN_REQUESTED, EntryKind.NOTE])
        .select_related("user")
        .defer("update")
        .order_by("-sequence")[:NEWEST]
    )
    numbers = [entry.payload["run"] for entry in entries if entry.kind == EntryKind.RUN_REQUESTED]
    runs = runs_by_number(shown_runs().filter(interview=interview, number__in=numbers))
    return [citation(interview, entry, runs) for entry in entries]


def runs_by_number(runs: Iterable[Run]) -> dict[int, Run]:
    return {run.number: run for run in runs}
