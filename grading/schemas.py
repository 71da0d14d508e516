"""What the API and the event stream say of a run, each role in its own measure.

What a candidate may see is decided here for rows, as it is in ``grading.live`` for events. Fields that are for interviewers
alone are not set for a candidate, and what is not set is not sent.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import BaseModel, Field

from gpu_runner.protocol import Mode, Outcome
from grading.models import CheckResult, Run, RunQuerySet, RunState
from grading.runs import count_passed, limits_of
from interviews.access import Role


class RunIn(Schema):
    """A wish to run the code of a question. Without ``ranks``, the question's own number."""

    position: int = Field(ge=1, le=1000)
    mode: Mode
    ranks: int | None = None
    text: str


class Refusal(Schema):
    """Why not, in words for a person."""

    error: str


# Pydantic's own class: Ninja's would validate parts once more and forget which fields were not set.


class RankExitOut(BaseModel):
    rank: int
    exit_code: int | None
    signal: str | None
    stdout_tail: str
    stderr_tail: str
    cut: bool


class CheckOut(BaseModel):
    name: str
    title: str
    hidden: bool
    status: str
    message: str
    detail: str = Field("", description="Interviewers only.")
    output: str
    duration_s: float | None


class RunOut(BaseModel):
    id: UUID
    number: int
    position: int
    mode: Mode
    ranks: int
    state: RunState
    place: int | None = Field(description="Place in the queue, 1 = next; only while queued.")
    requested_by: str
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested: bool
    outcome: Outcome | None
    outcome_title: str
    message: str
    wall_s: float | None
    cpu_s: float | None
    peak_memory_mb: float | None
    rehearsed: bool
    rank_exits: list[RankExitOut]
    first_failed_rank: int | None
    checks: list[CheckOut]
    checks_label: str
    diagnosis: dict[str, Any] | None
    card: dict[str, Any] | None = Field(None, description="Interviewers only.")
    text: str = Field("", description="The code; only where one run is asked for.")


class RunsOut(BaseModel):
    runs: list[RunOut]


def shown_runs() -> RunQuerySet:
    """Runs with all that ``run_out`` reads, and without the long texts of the question."""
    texts = ("prompt", "starter", "reference", "checks_source")
    return (
        Run.objects.select_related("question__version", "requested_by_user", "requested_by_candidate")
        .defer(*(f"question__version__{name}" for name in texts))
        .prefetch_related("checks")
    )


def to_json(schema: BaseModel) -> str:
    """JSON of the fields that were set."""
    return schema.model_dump_json(exclude_unset=True)


def run_out(run: Run, role: Role, *, place: int | None = None, with_text: bool = False) -> RunOut:
    """The run as this role may see it. Reads ``question``, who requested it, and ``checks``: fetch them along."""
    for_interviewer = role is Role.INTERVIEWER
    in_checks = run.mode == Mode.CHECKS
    checks = list(run.checks.all())
    visible = [check for check in checks if not check.hidden]
    hidden = [check for check in checks if check.hidden]
    # A sentence, an output or a diagnosis of a checks run may speak of a hidden check.
    whole = for_interviewer or not in_checks
    fields: dict[str, Any] = {
        "id": run.public_id,
        "number": run.number,
        "position": run.question.position,
        "mode": Mode(run.mode),
        "ranks": run.ranks,
        "state": RunState(run.state),
        "place": place,
        "requested_by": _requested_by(run),
        "requested_at": run.requested_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "cancel_requested": run.cancel_requested_at is not None,
        "outcome": Outcome(run.outcome) if run.outcome else None,
        "outcome_title": outcome_title(run),
        "message": run.message if whole or not _names_any(run.message, hidden) else "",
        "wall_s": run.wall_s,
        "cpu_s": run.cpu_s,
        "peak_memory_mb": run.peak_memory_mb,
        "rehearsed": run.rehearsed,
        "rank_exits": [RankExitOut(**rank_exit) for rank_exit in run.rank_exits] if whole else [],
        "first_failed_rank": run.first_failed_rank if whole else None,
        "checks": [_check_out(check, for_interviewer) for check in (checks if for_interviewer else visible)],
        "checks_label": _checks_label(visible, hidden if for_interviewer else []),
        "diagnosis": run.diagnosis if whole else None,
    }
    if for_interviewer:
        fields["card"] = run.card
    if with_text:
        fields["text"] = run.submission.text
    return RunOut(**fields)


def _check_out(check: CheckResult, for_interviewer: bool) -> CheckOut:
    fields: dict[str, Any] = {
        "name": check.name,
        "title": check.title,
        "hidden": check.hidden,
        "status": check.status,
        "message": check.message,
        "output": check.output,
        "duration_s": check.duration_s,
    }
    if for_interviewer:
        fields["detail"] = check.detail
    return CheckOut(**fields)


def _checks_label(visible: list[CheckResult], hidden: list[CheckResult]) -> str:
    parts = []
    if visible:
        parts.append(f"{count_passed(visible)} of {len(visible)} visible checks passed")
    if hidden:
        parts.append(f"hidden: {count_passed(hidden)} of {len(hidden)}")
    return ", ".join(parts)


def _names_any(text: str, checks: list[CheckResult]) -> bool:
    return any(check.name in text or (check.title and check.title in text) for check in checks)


def _requested_by(run: Run) -> str:
    if run.requested_by_user is not None:
        return run.requested_by_user.name
    return run.requested_by_candidate.display_name if run.requested_by_candidate is not None else ""


def outcome_title(run: Run) -> str:
    """How a run ended, in a few words that a candidate understands; empty while it is open."""
    match run.outcome:
        case Outcome.EXITED:
            return _exit_title(run)
        case Outcome.SIGNALLED:
            return f"Crashed{_by_rank(run)}: {_signal(run)}"
        case Outcome.TIMED_OUT:
            return f"Stopped: took longer than {limits_of(run).wall_s:g} s"
        case Outcome.OUT_OF_MEMORY:
            return "Out of memory"
        case Outcome.OUTPUT_LIMIT:
            return "Stopped: printed too much"
        case Outcome.CANCELLED:
            return "Stopped on request"
        case Outcome.RUNNER_ERROR:
            return "The machine failed"
        case _:
            return ""


def _exit_title(run: Run) -> str:
    if run.mode == Mode.CHECKS:
        return "Checks finished"
    failed = [rank_exit for rank_exit in run.rank_exits if rank_exit["exit_code"] or rank_exit["signal"]]
    if not failed:
        return "Finished"
    first = next((rank_exit for rank_exit in failed if rank_exit["rank"] == run.first_failed_rank), failed[0])
    if run.ranks > 1:
        return f"Rank {first['rank']} failed with exit code {first['exit_code']}"
    return f"Ended with exit code {first['exit_code']}"


def _by_rank(run: Run) -> str:
    return f" in rank {run.first_failed_rank}" if run.ranks > 1 and run.first_failed_rank is not None else ""


_SIGNAL_WORDS = {
    "SIGSEGV": "segmentation fault",
    "SIGABRT": "aborted",
    "SIGFPE": "arithmetic fault",
    "SIGBUS": "bus error",
    "SIGILL": "illegal instruction",
    "SIGKILL": "killed",
    "SIGSYS": "a system call that is not allowed here",
}


def _signal(run: Run) -> str:
    signals = {rank_exit["rank"]: rank_exit["signal"] for rank_exit in run.rank_exits if rank_exit["signal"]}
    name = signals.get(run.first_failed_rank) or next(iter(signals.values()), "")
    return _SIGNAL_WORDS.get(name, name or "a signal")
