"""What a GPU host reports to the web side: that a run started, that it is alive, and its result.

Reports are Celery messages, sent by name from a thread of its own so that no run waits for Redis. A result is written to
disk before it is sent and kept for a while after, so that neither a dead worker nor a Redis that lost its memory loses it.
Doubled reports do no harm: the web side takes each once.
"""

from __future__ import annotations

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
)

logger = logging.getLogger(__name__)

RETRY_S = 0.5
#: How long a sent result is kept, should Redis lose it before the web side read it.
KEEP_SENT_S = 60.0
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
    #: ``time.monotonic()`` of the sending; ``None`` as long as it was not.
    sent_at_s: float | None = None


class Reporter:
    def __init__(self, app: Celery, folder: Path) -> None:
        self._app = app
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._events: queue.SimpleQueue[_EventReport | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        # Left by a worker before us: sent again.
        self._spool = {path.name: _Spooled(path=path) for path in sorted(folder.glob("*.json"))}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="reporter", daemon=True)
        self._thread.start()

    def event(self, spec: RunSpec, event: RunEvent, *, on_sent: Callable[[], None] | None = None) -> None:
        """Reports once that a run started or lives; dropped while Redis is away."""
        if self._events.qsize() >= MAX_WAITING_EVENTS:
            return
        self._events.put(_EventReport(event=event, attempt=spec.attempt, token=spec.token, on_sent=on_sent))

    def result(self, result: RunResult) -> None:
        """Reports a result until it is sent, also by the next worker on this machine."""
        # The run id came over the wire; it may be anything but must not name another folder.
        name = f"{result.run_id.encode().hex()[:120]}-{result.attempt}.json"
        path = self._folder / name
        draft = path.with_suffix(".draft")
        draft.write_text(result.to_json())
        os.replace(draft, path)
        with self._lock:
            self._spool[name] = _Spooled(path=path)
        self._wake()

    def send_recent_again(self) -> None:
        """For when Redis came back without its memory."""
        with self._lock:
            for spooled in self._spool.values():
                spooled.sent_at_s = None
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
                report = self._events.get(timeout=RETRY_S if waiting else KEEP_SENT_S)
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
        """Sends what was not sent yet; true if something remains."""
        now_s = time.monotonic()
        with self._lock:
            old = [
                name for name, s in self._spool.items() if s.sent_at_s is not None and now_s - s.sent_at_s > KEEP_SENT_S
            ]
            for name in old:
                self._spool.pop(name).path.unlink(missing_ok=True)
            unsent = [spooled for spooled in self._spool.values() if spooled.sent_at_s is None]
        for spooled in unsent:
            try:
                wire = RunResult.from_json(spooled.path.read_bytes()).to_wire()
            except (OSError, WireError):
                logger.exception("The result in %s cannot be read and is given up.", spooled.path)
                with self._lock:
                    self._spool.pop(spooled.path.name, None)
                spooled.path.unlink(missing_ok=True)
                continue
            if not self._send(RECORD_RESULT_TASK, {"result": wire}):
                return True
            spooled.sent_at_s = time.monotonic()
        return False

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
