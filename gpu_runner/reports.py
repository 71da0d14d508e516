"""What a GPU host reports to the web side: that a run started, that it is alive, and its result.

Reports are Celery messages, sent by name from a thread of its own so that no run waits for Redis. A result is written to
disk before it is sent, and sent again until the web side confirms it, so that neither a dead worker on either side nor a
Redis that lost its memory loses it. Doubled reports do no harm: the web side takes each once.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from gpu_runner.protocol import (
    RECORD_EVENT_TASK,
    RECORD_RESULT_TASK,
    RESULTS_QUEUE,
    RunEvent,
    RunResult,
    RunSpec,
    WireError,
    recorded_key,
)

logger = logging.getLogger(__name__)

RETRY_S = 0.5
#: A result that was not confirmed is sent again after this time, then after twice that, and so on.
CONFIRM_S = 3.0
CONFIRM_LIMIT_S = 60.0
#: Nobody waits for a result of that age.
GIVE_UP_S = 3600.0
IDLE_S = 60.0
MAX_WAITING_EVENTS = 200
_AWAY = (redis.RedisError, OperationalError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventReport:
    event: RunEvent
    attempt: int
    token: str
    on_sent: Callable[[], None] | None


@dataclass(slots=True, kw_only=True)
class _Spooled:
    path: Path
    run_id: str
    attempt: int
    #: ``time.monotonic()`` after which it is sent (again).
    due_s: float = 0.0
    wait_s: float = CONFIRM_S


def _spooled(path: Path) -> _Spooled | None:
    """The entry for a file that a worker before us left, if it can be read."""
    try:
        result = RunResult.from_json(path.read_bytes())
    except (OSError, WireError):
        logger.exception("The result in %s cannot be read and is given up.", path)
        path.unlink(missing_ok=True)
        return None
    return _Spooled(path=path, run_id=result.run_id, attempt=result.attempt)


class Reporter:
    def __init__(self, app: Celery, client: redis.Redis, folder: Path) -> None:
        self._app = app
        self._client = client
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._events: queue.SimpleQueue[_EventReport | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        left = (_spooled(path) for path in sorted(folder.glob("*.json")))
        self._spool = {spooled.path.name: spooled for spooled in left if spooled is not None}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="reporter", daemon=True)
        self._thread.start()

    def event(self, spec: RunSpec, event: RunEvent, *, on_sent: Callable[[], None] | None = None) -> None:
        """Reports once that a run started or lives; dropped while Redis is away."""
        if self._events.qsize() >= MAX_WAITING_EVENTS:
            return
        self._events.put(_EventReport(event=event, attempt=spec.attempt, token=spec.token, on_sent=on_sent))

    def result(self, result: RunResult) -> None:
        """Reports a result until it is confirmed, if need be by the next worker on this machine."""
        # The run id came over the wire; it may be anything but must not name another folder.
        name = f"{result.run_id.encode().hex()[:120]}-{result.attempt}.json"
        path = self._folder / name
        draft = path.with_suffix(".draft")
        draft.write_text(result.to_json())
        os.replace(draft, path)
        with self._lock:
            self._spool[name] = _Spooled(path=path, run_id=result.run_id, attempt=result.attempt)
        self._wake()

    def send_all_again(self) -> None:
        """For when Redis came back without its memory."""
        with self._lock:
            for spooled in self._spool.values():
                spooled.due_s = 0.0
        self._wake()

    def close(self, timeout_s: float) -> None:
        """Sends what it can within this time. What remains lies on disk."""
        self._closing.set()
        self._wake()
        self._thread.join(timeout_s)

    def _wake(self) -> None:
        self._events.put(None)

    def _work(self) -> None:
        while True:
            self._send_events()
            waiting = self._send_results()
            if self._closing.is_set() and self._events.empty():
                return
            try:
                report = self._events.get(timeout=RETRY_S if waiting else IDLE_S)
            except queue.Empty:
                continue
            if report is not None:
                self._send_event(report)

    def _send_events(self) -> None:
        """Before any result, so that a start is heard of before its end."""
        while True:
            try:
                report = self._events.get_nowait()
            except queue.Empty:
                return
            if report is not None:
                self._send_event(report)

    def _send_event(self, report: _EventReport) -> None:
        arguments = {"event": report.event.to_wire(), "attempt": report.attempt, "token": report.token}
        if self._send(RECORD_EVENT_TASK, arguments) and report.on_sent is not None:
            report.on_sent()

    def _send_results(self) -> bool:
        """Sends what is new or was not confirmed in time, and forgets the rest; true if something remains."""
        with self._lock:
            spool = list(self._spool.values())
        for spooled in spool:
            if spooled.due_s == 0.0 and not self._send_result(spooled):
                return True
        for spooled in self._confirmed([spooled for spooled in spool if spooled.due_s]):
            self._forget(spooled)
        with self._lock:
            spool = list(self._spool.values())
        for spooled in spool:
            if 0.0 < spooled.due_s <= time.monotonic():
                logger.warning("The result of run %s was not confirmed and is sent again.", spooled.run_id)
                self._send_result(spooled)
        return bool(spool)

    def _confirmed(self, sent: list[_Spooled]) -> list[_Spooled]:
        """Those that the web side has dealt with, and those that nobody waits for any more."""
        if not sent:
            return []
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for spooled in sent:
                    pipeline.exists(recorded_key(spooled.run_id, spooled.attempt))
                answers = pipeline.execute()
        except (redis.RedisError, OSError) as error:
            logger.info("Results cannot be confirmed: %s", error)
            return []
        old_s = time.time() - GIVE_UP_S
        return [
            spooled
            for spooled, recorded in zip(sent, answers, strict=True)
            if recorded or not spooled.path.exists() or spooled.path.stat().st_mtime < old_s
        ]

    def _forget(self, spooled: _Spooled) -> None:
        with self._lock:
            self._spool.pop(spooled.path.name, None)
        spooled.path.unlink(missing_ok=True)

    def _send_result(self, spooled: _Spooled) -> bool:
        try:
            wire = json.loads(spooled.path.read_bytes())
        except (OSError, ValueError):
            logger.exception("The result in %s cannot be read and is given up.", spooled.path)
            self._forget(spooled)
            return True
        if not self._send(RECORD_RESULT_TASK, {"result": wire}):
            return False
        spooled.due_s = time.monotonic() + spooled.wait_s
        spooled.wait_s = min(2 * spooled.wait_s, CONFIRM_LIMIT_S)
        return True

    def _send(self, task: str, arguments: dict[str, object]) -> bool:
        try:
            self._app.send_task(
                task,
                kwargs=arguments,
                queue=RESULTS_QUEUE,
                retry=True,
                retry_policy={"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1},
            )
        except _AWAY as error:
            logger.warning("%s waits: Redis is away (%s).", task, error)
            return False
        return True
