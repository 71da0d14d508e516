"""One GPU host at work: takes runs, executes them on its slots, and says what becomes of them.

The host has no database. It believes a message only once (a claim in Redis and its own memory), and the web side believes
its result only while the attempt and the token are the current ones.
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

import redis
from celery import Celery

from gpu_runner.events import LiveStreams
from gpu_runner.protocol import (
    CANCEL_CHANNEL,
    Finished,
    Heartbeat,
    HostPresence,
    Outcome,
    RunEvent,
    RunResult,
    RunSpec,
    Started,
    WireError,
    cancel_key,
    claim_key,
    hosts_key,
)
from gpu_runner.reports import Reporter

logger = logging.getLogger(__name__)

PULSE_S = 1.0
#: Longer than Celery keeps a message that nobody acknowledged before it hands it out once more.
CLAIM_S = 7200
#: How long a claim is tried for while Redis is away.
CLAIM_PATIENCE_S = 5.0
#: Attempts that are remembered, so that a message that comes twice starts nothing.
MEMORY = 10_000

STOPPED_FOR_HOST = "The machine that ran this was shut down. This does not count against you; please run it again."
LOST = "The machine that ran this failed. This does not count against you; please run it again."
UNREADABLE = "The machine could not read what it was asked to run. This does not count against you."


class Executor(Protocol):
    """What runs the runs: ``gpu_runner.slots.SlotPool``."""

    def execute(self, spec: RunSpec, *, cancel: threading.Event | None = None) -> Iterator[RunEvent]: ...


class NotTaken(Exception):
    """The run was not begun here and its message should go to another host."""


@dataclass(slots=True, kw_only=True)
class _Active:
    """A run that is going on here."""

    spec: RunSpec
    cancel: threading.Event = field(default_factory=threading.Event)
    #: Somebody asked for it; otherwise a cancelled run was stopped with the host.
    stop_asked: bool = False
    started: Started | None = None
    start_reported: bool = False


class Host:
    """Everything that happens on this machine beside the slots themselves."""

    def __init__(
        self,
        app: Celery,
        executor: Executor,
        client: redis.Redis,
        *,
        name: str,
        slots: int,
        queues: Sequence[str],
        state_dir: Path,
    ) -> None:
        self._executor = executor
        self._client = client
        self._slots = slots
        self._queues = tuple(queues)
        self._name = name
        #: Of this process: a worker that was started anew is another host.
        self.id = f"{name}-{secrets.token_hex(4)}"
        self._streams = LiveStreams(client)
        self._reporter = Reporter(app, client, state_dir / "results")
        self._lock = threading.Lock()
        self._active: dict[str, _Active] = {}
        self._taken: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._stopping = threading.Event()
        self._closed = threading.Event()
        self._redis_run_id = ""
        self._threads = [
            threading.Thread(target=self._pulse, name="pulse", daemon=True),
            threading.Thread(target=self._listen, name="cancel-listener", daemon=True),
        ]

    def open(self) -> None:
        """From here on this host counts as present. Call it when it can take runs."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Takes no further run and ends those that go on. Returns at once; safe in a signal handler."""
        self._stopping.set()

    def close(self) -> None:
        """Says the last words. Call it when no run goes on any more."""
        self._stopping.set()
        self._closed.set()
        self._streams.close()
        self._reporter.close(timeout_s=5)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=3)
        try:
            for queue in self._queues:
                self._client.hdel(hosts_key(queue), self.id)
        except (redis.RedisError, OSError) as error:
            logger.info("Could not sign off: %s", error)

    def take(self, wire: object) -> None:
        """Executes a run, whatever the message says, and reports its result. Raises ``NotTaken``."""
        try:
            spec = RunSpec.from_wire(wire)
        except WireError as error:
            self._refuse(wire, error)
            return
        if self._stopping.is_set():
            raise NotTaken
        active = self._remember(spec)
        if active is None:
            logger.info("Run %s, attempt %d, came again and is not run again.", spec.run_id, spec.attempt)
            return
        result: RunResult | None = None
        try:
            if not self._claim(spec):
                logger.info("Run %s, attempt %d, belongs to another host.", spec.run_id, spec.attempt)
                return
            result = self._result_of(active)
            self._streams.flush(timeout_s=0.3)
        finally:
            with self._lock:
                del self._active[spec.run_id]
        self._report(result)

    def _refuse(self, wire: object, error: WireError) -> None:
        """Nobody waits for a run that cannot be read, if it says at least which one it is."""
        logger.error("A run could not be read: %s", error)
        match wire:
            case {"run_id": str(run_id), "token": str(token), **rest}:
                attempt = rest.get("attempt", 1)
                self._report(
                    RunResult(
                        run_id=run_id,
                        attempt=attempt if isinstance(attempt, int) else 1,
                        token=token,
                        outcome=Outcome.RUNNER_ERROR,
                        message=UNREADABLE,
                    )
                )

    def _remember(self, spec: RunSpec) -> _Active | None:
        key = (spec.run_id, spec.attempt)
        with self._lock:
            if key in self._taken or spec.run_id in self._active:
                return None
            self._taken[key] = None
            while len(self._taken) > MEMORY:
                self._taken.popitem(last=False)
            active = self._active[spec.run_id] = _Active(spec=spec)
            return active

    def _forget(self, spec: RunSpec) -> None:
        with self._lock:
            self._taken.pop((spec.run_id, spec.attempt), None)

    def _claim(self, spec: RunSpec) -> bool:
        """Whether this attempt is ours. Looks for a stop in the same breath."""
        give_up_s = time.monotonic() + CLAIM_PATIENCE_S
        while True:
            try:
                with self._client.pipeline(transaction=False) as pipeline:
                    pipeline.set(claim_key(spec.run_id, spec.attempt), self.id, nx=True, ex=CLAIM_S)
                    pipeline.exists(cancel_key(spec.run_id))
                    ours, stopped = pipeline.execute()
            except (redis.RedisError, OSError) as error:
                if time.monotonic() > give_up_s or self._stopping.is_set():
                    self._forget(spec)
                    raise NotTaken from error
                time.sleep(0.2)
                continue
            if stopped:
                self.cancel(spec.run_id)
            return bool(ours)

    def _result_of(self, active: _Active) -> RunResult:
        spec = active.spec
        result: RunResult | None = None
        try:
            if active.stop_asked:
                return _without_evidence(spec, Outcome.CANCELLED, "Stopped before it started.")
            if self._stopping.is_set():
                active.cancel.set()
            with closing(cast("_Closable", self._executor.execute(spec, cancel=active.cancel))) as events:
                for event in events:
                    if isinstance(event, Finished):
                        result = event.result
                        break
                    self._pass_on(active, event)
        except Exception:
            logger.exception("Run %s failed on this host.", spec.run_id)
        if result is None:
            result = _without_evidence(spec, Outcome.RUNNER_ERROR, LOST)
        if result.outcome is Outcome.CANCELLED and not active.stop_asked:
            result = dataclasses.replace(result, outcome=Outcome.RUNNER_ERROR, message=STOPPED_FOR_HOST)
        return result

    def _pass_on(self, active: _Active, event: RunEvent) -> None:
        self._streams.publish(event)
        if isinstance(event, Started):
            active.started = event
            self._report_start(active, event)

    def _report_start(self, active: _Active, event: Started) -> None:
        def mark() -> None:
            active.start_reported = True

        self._reporter.event(active.spec, event, on_sent=mark)

    def _report(self, result: RunResult) -> None:
        try:
            self._reporter.result(result)
        except ValueError:
            # A number that JSON cannot say. Which one matters less than that the run ends.
            logger.exception("The result of run %s cannot be written.", result.run_id)
            self._reporter.result(
                dataclasses.replace(
                    result,
                    outcome=Outcome.RUNNER_ERROR,
                    message=LOST,
                    wall_s=0.0,
                    cpu_s=None,
                    peak_memory_mb=None,
                    checks=(),
                    diagnosis=None,
                )
            )

    def cancel(self, run_id: str) -> None:
        """Stops a run of ours because somebody asked for it."""
        with self._lock:
            active = self._active.get(run_id)
        if active is not None:
            active.stop_asked = True
            active.cancel.set()

    # The threads

    def _pulse(self) -> None:
        """Every second: we are here, these runs are alive. Looks for stops too, should the listener have missed one."""
        while not self._closed.is_set():
            if self._stopping.is_set():
                self._end_all()
            self._beat()
            (self._closed if self._stopping.is_set() else self._stopping).wait(PULSE_S)

    def _beat(self) -> None:
        with self._lock:
            active = list(self._active.values())
        for run in active:
            if run.started is not None and not run.start_reported:
                self._report_start(run, run.started)
            elif run.started is not None:
                self._reporter.event(run.spec, Heartbeat(run_id=run.spec.run_id))
        try:
            self._say_present(len(active))
            self._look_for_stops(active)
        except (redis.RedisError, OSError) as error:
            logger.warning("Redis is away: %s", error)

    def _end_all(self) -> None:
        with self._lock:
            for active in self._active.values():
                active.cancel.set()

    def _say_present(self, busy: int) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.info("server")
            (now_s, _), server = pipeline.execute()
        if self._redis_run_id not in ("", server["run_id"]):
            self._remind(server["run_id"])
        self._redis_run_id = server["run_id"]
        free = 0 if self._stopping.is_set() else max(0, self._slots - busy)
        presence = HostPresence(host=self._name, slots=self._slots, free=free, seen_s=int(now_s))
        with self._client.pipeline(transaction=False) as pipeline:
            for queue in self._queues:
                pipeline.hset(hosts_key(queue), self.id, presence.to_json())
                pipeline.expire(hosts_key(queue), CLAIM_S)
            pipeline.execute()

    def _remind(self, redis_run_id: str) -> None:
        """Redis was started anew and may have lost everything: says again what is ours, what started, what ended."""
        logger.warning("Redis was started anew (%s): saying everything again.", redis_run_id)
        with self._lock:
            active = list(self._active.values())
        with self._client.pipeline(transaction=False) as pipeline:
            for run in active:
                pipeline.set(claim_key(run.spec.run_id, run.spec.attempt), self.id, ex=CLAIM_S)
            pipeline.execute()
        for run in active:
            if run.started is not None:
                self._report_start(run, run.started)
        self._reporter.send_all_again()

    def _look_for_stops(self, active: Sequence[_Active]) -> None:
        keys = [cancel_key(run.spec.run_id) for run in active]
        found = cast("list[str | None]", self._client.mget(keys)) if keys else []
        for run, stop in zip(active, found, strict=True):
            if stop is not None:
                self.cancel(run.spec.run_id)

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                with self._client.pubsub(ignore_subscribe_messages=True) as subscription:  # type: ignore[no-untyped-call]
                    subscription.subscribe(CANCEL_CHANNEL)
                    while not self._closed.is_set():
                        message = subscription.get_message(timeout=0.5)
                        if message is not None:
                            self.cancel(message["data"])
            except (redis.RedisError, OSError) as error:
                logger.warning("Stops are looked for every second only: %s", error)
                self._closed.wait(0.5)


class _Closable(Iterator[RunEvent], Protocol):
    def close(self) -> None: ...


def _without_evidence(spec: RunSpec, outcome: Outcome, message: str) -> RunResult:
    return RunResult(run_id=spec.run_id, attempt=spec.attempt, token=spec.token, outcome=outcome, message=message)
