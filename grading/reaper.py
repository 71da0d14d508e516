"""Sees to it that every run ends, whatever became of its host, its messages or Redis. Runs every two seconds."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from gpu_runner.protocol import Outcome
from grading import hosts, runs
from grading.hosts import Hosts, Watch
from grading.models import Run, RunQuerySet, RunState

logger = logging.getLogger(__name__)

#: A host stops a run within a second; after this long it will not.
STOP_ANSWER_S = 4.0
#: A queued run that a free host did not take for this long was lost on the way.
LOST_MESSAGE_S = 4.0
#: With no host at all for this long a queued run ends: long enough for a host to start again.
NO_HOST_S = 10.0
MAX_ATTEMPTS = 3


def reap_runs() -> None:
    """One look at all open runs."""
    now = timezone.now()
    watch = hosts.keep_watch()
    rows = Run.objects.select_related("interview", "question__version", "submission")
    _end_silent(rows, now, watch)
    _end_unanswered_stops(rows, now)
    _see_to_queued(rows, now, watch)


def _end_silent(rows: RunQuerySet, now: datetime, watch: Watch | None) -> None:
    if watch is None or watch.listened_s < settings.HOST_SILENCE_S:
        return
    since = now - timedelta(seconds=settings.HOST_SILENCE_S)
    for run in rows.filter(state=RunState.RUNNING, heartbeat_at__lt=since):
        outcome, words = (
            (Outcome.CANCELLED, run.message) if run.cancel_requested_at else (Outcome.RUNNER_ERROR, runs.HOST_SILENT)
        )
        if runs.end_run(run, outcome, words):
            logger.warning("Run %s: host %s fell silent.", run.public_id, run.host)
            # Should the host still be there, it works for nobody.
            hosts.ask_to_stop(str(run.public_id))


def _end_unanswered_stops(rows: RunQuerySet, now: datetime) -> None:
    for run in rows.filter(state=RunState.RUNNING, cancel_requested_at__isnull=False):
        # Said again each time: the first word may have been lost with Redis.
        hosts.ask_to_stop(str(run.public_id))
        if run.cancel_requested_at is None or run.cancel_requested_at > now - timedelta(seconds=STOP_ANSWER_S):
            continue
        if runs.end_run(run, Outcome.CANCELLED, run.message):
            logger.warning("Run %s: host %s did not answer a stop.", run.public_id, run.host)


def _see_to_queued(rows: RunQuerySet, now: datetime, watch: Watch | None) -> None:
    if watch is None:
        return
    seen: dict[int, Hosts | None] = {}
    waiting = rows.annotate(since=Coalesce("enqueued_at", "requested_at")).filter(
        Q(since__lt=now - timedelta(seconds=LOST_MESSAGE_S))
        | Q(enqueued_at=None, requested_at__lt=now - timedelta(seconds=1)),
        state=RunState.QUEUED,
    )
    for run in waiting.order_by(F("requested_at"), "pk"):
        if run.gpus not in seen:
            seen[run.gpus] = hosts.look(run.gpus, watch)
        there = seen[run.gpus]
        if there is not None:
            _see_to(run, there, now)


def _see_to(run: Run, there: Hosts, now: datetime) -> None:
    claim = hosts.claimed_by(str(run.public_id), run.attempt)
    age_s = (now - run.requested_at).total_seconds()
    if claim in there.present:
        return
    try:
        if not there.present and there.unseen_s > NO_HOST_S and age_s > NO_HOST_S:
            runs.end_run(run, Outcome.RUNNER_ERROR, runs.NO_HOST, only_in=RunState.QUEUED)
        elif claim is not None and run.attempt >= MAX_ATTEMPTS:
            runs.end_run(run, Outcome.RUNNER_ERROR, runs.CANNOT_START, only_in=RunState.QUEUED)
        elif claim is not None:
            logger.warning("Run %s: host %s took it and is gone.", run.public_id, claim)
            runs.send_again(run, new_attempt=True)
        elif run.enqueued_at is None or there.free > 0:
            logger.warning("Run %s: sent again.", run.public_id)
            runs.send_again(run)
    except runs.InvalidRun as error:
        logger.exception("Run %s cannot be sent.", run.public_id)
        runs.end_run(run, Outcome.RUNNER_ERROR, f"{runs.CANNOT_START} ({error})")
