"""Runs from the request to the final row.

The row is the truth. Every change of it is a conditional UPDATE whose row count is looked at, so that a late, doubled or
forged message changes nothing. Writers that need more than the row of the run (a number, the timeline) first take the row
of the interview, in this order everywhere, so that they take turns and never wait for each other in a circle.
"""

from __future__ import annotations

import logging
import math
import secrets
import uuid
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from gpu_runner import protocol
from gpu_runner.protocol import (
    CHECKS_WALL_S,
    CheckRef,
    CheckStatus,
    Heartbeat,
    Limits,
    Mode,
    Outcome,
    RunEvent,
    RunResult,
    RunSpec,
    SourceFile,
    Started,
    WireError,
)
from grading import hosts
from grading.cleaning import clean_json, clean_number, clean_text
from grading.models import CheckResult, Run, RunState, Submission, new_token
from interviews import room_events, timeline
from interviews.access import Participant
from interviews.models import Check, EntryKind, Interview, InterviewQuestion, QuestionVersion

logger = logging.getLogger(__name__)

ENTRY = "main.py"
MAX_TEXT_BYTES = 200_000

HOST_SILENT = "The machine that ran this stopped answering. This does not count against you; please run it again."
HOST_UNCLEAR = "The machine sent a result that makes no sense. This does not count against you; please run it again."
NO_HOST = "No machine is taking runs at the moment. This does not count against you; please try again in a minute."
CANNOT_START = "This run could not be started. This does not count against you; please run it again."


class RunRefused(Exception):
    """A run that was not started; the text is for the person who asked."""


class InvalidRun(RunRefused):
    """The request itself does not fit."""


class RunNotPossible(RunRefused):
    """Not now: the interview is over, or a run of the question is still open."""


class TooManyRuns(RunRefused):
    """The interview started many runs in a short time."""


def start_run(participant: Participant, question: InterviewQuestion, *, mode: Mode, ranks: int, text: str) -> Run:
    """Takes the code as a submission and asks the hosts to run it. Raises ``RunRefused``."""
    version = question.version
    _require_valid(version, mode=mode, ranks=ranks, text=text)
    with transaction.atomic():
        interview = Interview.objects.select_for_update(no_key=True).get(pk=question.interview_id)
        if interview.is_over:
            raise RunNotPossible("This interview has ended.")
        if Run.objects.open().filter(question=question).exists():
            raise RunNotPossible("A run of this question is still going on. Wait until it ends, or stop it.")
        _require_within_rate(interview)
        newest = Run.objects.filter(interview=interview).aggregate(newest=Max("number"))["newest"]
        run = Run(
            interview=interview,
            question=question,
            submission=Submission.objects.create(
                question=question, text=text, timeline_sequence=interview.timeline_length
            ),
            number=(newest or 0) + 1,
            mode=mode.value,
            ranks=ranks,
            gpus=version.gpus,
            seed=secrets.randbelow(2**31),
            requested_by_user=participant.user,
            requested_by_candidate=participant.session,
        )
        spec = spec_of(run)
        run.save(force_insert=True)
        timeline.append(
            interview,
            EntryKind.RUN_REQUESTED,
            by=participant,
            question=question,
            payload={"run": run.number, "run_id": str(run.public_id), "mode": run.mode, "ranks": run.ranks},
        )
        _tell_room(run)
        transaction.on_commit(partial(_send, run, spec))
    return run


def _require_valid(version: QuestionVersion, *, mode: Mode, ranks: int, text: str) -> None:
    if not 1 <= ranks <= version.max_ranks:
        raise InvalidRun(f"This question runs on 1 to {version.max_ranks} ranks.")
    if "\0" in text:
        raise InvalidRun("The code contains a NUL character, which no Python file may hold.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidRun("The code contains half a character (a lone surrogate).") from None
    if size > MAX_TEXT_BYTES:
        raise InvalidRun(f"The code is larger than {MAX_TEXT_BYTES // 1000} kB.")
    if mode is Mode.CHECKS and not version.checks.exists():
        raise InvalidRun("This question has no checks.")


def _require_within_rate(interview: Interview) -> None:
    since = timezone.now() - timedelta(minutes=1)
    recent = Run.objects.filter(interview=interview, requested_at__gt=since)
    times = list(recent.order_by("-requested_at").values_list("requested_at", flat=True)[: settings.RUNS_PER_MINUTE])
    if len(times) >= settings.RUNS_PER_MINUTE:
        wait_s = math.ceil((times[-1] - since).total_seconds())
        seconds = "1 second" if wait_s <= 1 else f"{wait_s} seconds"
        raise TooManyRuns(f"That were {len(times)} runs in a minute. Please wait {seconds}, then run again.")


def limits_of(run: Run) -> Limits:
    """What this run may use, by its question and mode. Raises ``WireError`` where the question names a limit wrongly."""
    version = run.question.version
    named = dict(version.limits)
    if run.mode == Mode.CHECKS:
        named = {**named, "wall_s": CHECKS_WALL_S, **version.check_limits}
    return Limits.from_wire({"version": protocol.VERSION, **named})


def spec_of(run: Run) -> RunSpec:
    """What the host needs to know of this attempt. Raises ``InvalidRun`` where the question's own settings do not fit."""
    version = run.question.version
    checks = run.mode == Mode.CHECKS
    try:
        limits = limits_of(run)
        return RunSpec(
            run_id=str(run.public_id),
            attempt=run.attempt,
            token=run.token,
            mode=Mode(run.mode),
            files=(SourceFile(path=ENTRY, text=run.submission.text),),
            entry=ENTRY,
            ranks=run.ranks,
            gpus=run.gpus,
            limits=limits,
            seed=run.seed,
            checks_source=version.checks_source if checks else "",
            checks=tuple(CheckRef(name=c.name, hidden=c.hidden) for c in version.checks.all()) if checks else (),
        )
    except ValueError as error:
        raise InvalidRun(f"The question cannot be run as it is set up: {error}") from error


def _send(run: Run, spec: RunSpec) -> None:
    if hosts.enqueue(spec):
        Run.objects.filter(pk=run.pk, state=RunState.QUEUED).update(enqueued_at=timezone.now())


def send_again(run: Run, *, new_attempt: bool = False) -> None:
    """Asks the hosts once more for a queued run; as a new attempt where the former may have begun on a host now gone.

    Of one attempt only one host runs anything, and only the newest attempt's result counts, so this is always safe.
    """
    if new_attempt:
        changed = Run.objects.filter(pk=run.pk, state=RunState.QUEUED, attempt=run.attempt).update(
            attempt=run.attempt + 1, token=new_token(), enqueued_at=None
        )
        if changed != 1:
            return
        run.refresh_from_db(fields=["attempt", "token"])
    _send(run, spec_of(run))


def request_stop(run: Run, by: Participant) -> None:
    """Ends a queued run at once; asks the host to stop a running one. The reaper ends it where the host does not answer."""
    words = f"Stopped by {by.name}."
    if end_run(run, Outcome.CANCELLED, words, only_in=RunState.QUEUED):
        # A host may have taken it a moment ago.
        transaction.on_commit(partial(hosts.ask_to_stop, str(run.public_id)))
        return
    asked = Run.objects.filter(pk=run.pk, state=RunState.RUNNING, cancel_requested_at=None).update(
        cancel_requested_at=timezone.now(), message=words
    )
    if asked == 1:
        transaction.on_commit(partial(hosts.ask_to_stop, str(run.public_id)))


def record_event(wire: object, *, attempt: int, token: str) -> None:
    """Takes in that a run started or that its host still works on it. What does not fit is logged and changes nothing."""
    try:
        event = RunEvent.parse(wire)
        rows = Run.objects.filter(public_id=uuid.UUID(event.run_id), attempt=attempt, token=token, finished_at=None)
    except ValueError as error:
        logger.warning("An event was malformed: %s", error)
        return
    now = timezone.now()
    match event:
        case Started():
            changed = rows.filter(state=RunState.QUEUED).update(
                state=RunState.RUNNING,
                started_at=now,
                heartbeat_at=now,
                host=clean_text(event.host, 200),
                slot=clean_text(event.slot, 120),
                rehearsed=event.rehearsed,
            )
            if changed == 1:
                _tell_room(Run.objects.select_related("interview", "question").get(public_id=event.run_id))
        case Heartbeat():
            changed = rows.filter(state=RunState.RUNNING).update(heartbeat_at=now)
            if changed != 1 and not Run.objects.open().filter(public_id=event.run_id).exists():
                # Its host works for nobody.
                hosts.ask_to_stop(event.run_id)
        case _:
            logger.warning("An event of kind %r is not kept.", event.kind)
            return
    if changed != 1:
        logger.info("The event %r of run %s came late, twice or from nowhere.", event.kind, event.run_id)


def record_result(wire: object) -> None:
    """Takes in a run's result, once, and only from the attempt that is current. Anything else is logged.

    The host sends it until it is told that it was dealt with, whichever way.
    """
    try:
        result = RunResult.from_wire(wire)
    except WireError as error:
        _record_malformed(wire, error)
        return
    run = _find(result.run_id, result.attempt, result.token)
    if run is None or not _finish(run, result):
        logger.info("A result of run %s came late, twice or from nowhere.", result.run_id)
    transaction.on_commit(partial(hosts.confirm_result, result.run_id, result.attempt))


def _record_malformed(wire: object, error: WireError) -> None:
    """Nothing may stay open because its result cannot be read: the run ends if the message can prove which one it is."""
    logger.error("A result was malformed: %s", error)
    match wire:
        case {"run_id": str(run_id), "attempt": int(attempt), "token": str(token)}:
            run = _find(run_id, attempt, token)
            if run is not None:
                end_run(run, Outcome.RUNNER_ERROR, HOST_UNCLEAR)
            transaction.on_commit(partial(hosts.confirm_result, run_id, attempt))


def _find(run_id: str, attempt: int, token: str) -> Run | None:
    """The open run to which somebody with this attempt and token may speak."""
    try:
        public_id = uuid.UUID(run_id)
    except ValueError:
        return None
    return (
        Run.objects.open()
        .select_related("interview", "question__version")
        .filter(public_id=public_id, attempt=attempt, token=token)
        .first()
    )


def end_run(run: Run, outcome: Outcome, message: str, *, only_in: RunState | None = None) -> bool:
    """Ends a run without a result of its host; false if it ended otherwise meanwhile (or is not in that state)."""
    result = RunResult(
        run_id=str(run.public_id), attempt=run.attempt, token=run.token, outcome=outcome, message=message
    )
    return _finish(run, result, only_in=only_in)


def _finish(run: Run, result: RunResult, *, only_in: RunState | None = None) -> bool:
    now = timezone.now()
    rows = Run.objects.filter(pk=run.pk, attempt=result.attempt, token=result.token, finished_at=None)
    if only_in is not None:
        rows = rows.filter(state=only_in)
    with transaction.atomic():
        Interview.objects.select_for_update(no_key=True).only("pk").get(pk=run.interview_id)
        if rows.update(state=RunState.FINISHED, finished_at=now, **_columns(run, result)) != 1:
            return False
        run.refresh_from_db(fields=["state", "outcome", "started_at"])
        if run.started_at is None and only_in is None and result.wall_s > 0:
            # The word of the start came later than the result, or never.
            Run.objects.filter(pk=run.pk).update(started_at=now - timedelta(seconds=min(result.wall_s, 86_400)))
        checks = CheckResult.objects.bulk_create(_check_rows(run, result)) if run.mode == Mode.CHECKS else []
        payload: dict[str, Any] = {"run": run.number, "run_id": str(run.public_id), "outcome": run.outcome}
        if run.mode == Mode.CHECKS:
            # The candidate may see this entry: hidden checks are not even counted in it.
            visible = [check for check in checks if not check.hidden]
            payload |= {"visible_passed": count_passed(visible), "visible_checks": len(visible)}
        timeline.append(run.interview, EntryKind.RUN_FINISHED, question=run.question, payload=payload)
        _tell_room(run)
        transaction.on_commit(partial(hosts.tell_readers_it_ended, str(run.public_id)))
    return True


def _columns(run: Run, result: RunResult) -> dict[str, Any]:
    wire = result.to_wire()
    exits = {rank_exit["rank"]: rank_exit for rank_exit in wire["ranks"] if rank_exit["rank"] in range(run.ranks)}
    first_failed = result.first_failed_rank
    columns: dict[str, Any] = {
        "outcome": result.outcome.value,
        "message": clean_text(result.message, 10_000),
        # What never ran took no time that anybody should read.
        "wall_s": clean_number(result.wall_s) if result.wall_s > 0 else None,
        "cpu_s": clean_number(result.cpu_s),
        "peak_memory_mb": clean_number(result.peak_memory_mb),
        "rank_exits": [clean_json(exits[rank]) for rank in sorted(exits)],
        "first_failed_rank": first_failed if first_failed in range(run.ranks) else None,
        "diagnosis": clean_json(wire["diagnosis"]),
        "card": clean_json(wire["card"]),
    }
    if result.outcome is Outcome.CANCELLED and run.cancel_requested_at is not None:
        # Who stopped it was written down when they did.
        del columns["message"]
    if result.card is not None:
        columns["rehearsed"] = result.card.rehearsed
    return columns


def _check_rows(run: Run, result: RunResult) -> Iterable[CheckResult]:
    """A row for every check that was asked for. What did not report did not pass."""
    reported = {check.name: check for check in result.checks}
    for asked in Check.objects.filter(version=run.question.version_id):
        check = reported.get(asked.name)
        yield CheckResult(
            run=run,
            position=asked.position,
            name=asked.name,
            title=asked.title,
            hidden=asked.hidden,
            status=check.status.value if check else CheckStatus.NOT_REPORTED.value,
            message=clean_text(check.message, 20_000) if check else "",
            detail=clean_text(check.detail, 100_000) if check else "",
            output=clean_text(check.output) if check else "",
            duration_s=clean_number(check.duration_s) if check else None,
        )


def count_passed(checks: Iterable[CheckResult]) -> int:
    return sum(check.status == CheckStatus.PASSED for check in checks)


def _tell_room(run: Run) -> None:
    room_events.publish(
        run.interview,
        "run",
        id=str(run.public_id),
        number=run.number,
        position=run.question.position,
        state=run.state,
    )
