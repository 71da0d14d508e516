"""Live events of runs, into one Redis stream a run.

A stream is a view, never the truth: while Redis is away events are dropped, and neither the run nor its result waits.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Iterable

import redis

from gpu_runner.protocol import Output, RunEvent, stream_key

logger = logging.getLogger(__name__)

#: A page is repainted no more often than this; output in between goes out together.
COALESCE_S = 0.03
#: Text in one entry of a stream.
MAX_ENTRY_CHARS = 64_000
MAX_STREAM_ENTRIES = 10_000
MAX_PENDING_EVENTS = 5_000
KEEP_S = 3600


def coalesced(events: Iterable[RunEvent]) -> list[RunEvent]:
    """The events with the output of each rank joined where nothing else of that rank came between.

    Events that are no output keep their place among all of their run.
    """
    joined: list[RunEvent] = []
    newest: dict[tuple[str, int], int] = {}
    for event in events:
        if not isinstance(event, Output):
            newest = {key: index for key, index in newest.items() if key[0] != event.run_id}
            joined.append(event)
            continue
        key = (event.run_id, event.rank)
        index = newest.get(key)
        before = joined[index] if index is not None else None
        if (
            index is not None
            and isinstance(before, Output)
            and (before.stream, before.check, before.hidden) == (event.stream, event.check, event.hidden)
            and len(before.text) + len(event.text) <= MAX_ENTRY_CHARS
        ):
            joined[index] = dataclasses.replace(before, text=before.text + event.text)
        else:
            newest[key] = len(joined)
            joined.append(event)
    return joined


class LiveStreams:
    """Writes events from a thread of its own, about every ``COALESCE_S``."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._pending: list[RunEvent] = []
        self._dropped = 0
        self._published = 0
        self._settled = 0
        self._flushing = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="live-streams", daemon=True)
        self._thread.start()

    def publish(self, event: RunEvent) -> None:
        """Takes an event; never waits."""
        with self._changed:
            if len(self._pending) >= MAX_PENDING_EVENTS:
                self._dropped += 1
                return
            self._pending.append(event)
            self._published += 1
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Waits until everything published so far was written (or dropped); false after ``timeout_s``."""
        with self._changed:
            until = self._published
            self._flushing += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: self._settled >= until, timeout_s)
            finally:
                self._flushing -= 1

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout=5)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closed)
                events, self._pending = self._pending, []
                if not events and self._closed:
                    return
            self._write(coalesced(events))
            with self._changed:
                self._settled += len(events)
                self._changed.notify_all()
                # The first event after a pause goes out at once, the next ones wait for company.
                self._changed.wait_for(lambda: self._flushing or self._closed, COALESCE_S)

    def _write(self, events: list[RunEvent]) -> None:
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for event in events:
                    pipeline.xadd(
                        stream_key(event.run_id),
                        {"event": event.to_json()},
                        maxlen=MAX_STREAM_ENTRIES,
                        approximate=True,
                    )
                for run_id in {event.run_id for event in events}:
                    pipeline.expire(stream_key(run_id), KEEP_S)
                pipeline.execute()
        except (redis.RedisError, OSError, ValueError) as error:
            self._dropped += len(events)
            logger.warning("%d live events were dropped so far: %s", self._dropped, error)
