"""The live view of a run: Server-Sent Events from its Redis stream, filtered by role, closed by the row.

The stream is a view and may be lost at any moment. What counts is read from the database about every second, and ``finished``
is always the row, sent once and last.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import redis.asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import close_old_connections
from django.http import HttpRequest, StreamingHttpResponse
from django.views.decorators.http import require_GET
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gpu_runner.protocol import (
    CheckDone,
    CheckStarted,
    Finished,
    Output,
    Queued,
    RunEvent,
    Started,
    Stream,
    WireError,
    stream_key,
)
from grading.api import places_in_queue, run_or_404
from grading.hosts import ENDED_FIELD
from grading.models import Run, RunState
from grading.schemas import run_out, shown_runs, to_json
from interviews.access import Participant, Role
from interviews.models import CandidateSession, Check

logger = logging.getLogger(__name__)

#: How often the row is looked at while the stream is silent.
LOOK_S = 1.0
_STREAM_ID = re.compile(r"\d{1,20}-\d{1,20}")
_BEGINNING = "0-0"


@require_GET
async def run_events(request: HttpRequest, run_id: UUID) -> StreamingHttpResponse:
    """The events of a run as they happen, resumed after ``Last-Event-ID``."""
    view = await sync_to_async(_open_view)(request, run_id)
    last_id = request.headers.get("Last-Event-ID", "")
    return StreamingHttpResponse(
        view.events(last_id if _STREAM_ID.fullmatch(last_id) else None),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-cache, no-store", "X-Accel-Buffering": "no"},
    )


def _open_view(request: HttpRequest, run_id: UUID) -> RunView:
    participant, run = run_or_404(request, run_id)
    checks = Check.objects.filter(version=run.question.version_id, hidden=False)
    return RunView(participant, run, frozenset(checks.values_list("name", flat=True)))


def visible_wire(event: RunEvent, role: Role, visible_checks: frozenset[str]) -> dict[str, Any] | None:
    """The event as this role may see it, or ``None``.

    For a candidate a check is hidden unless its name is known to be visible, whatever the event itself says.
    """
    wire = event.to_wire()
    if isinstance(event, Finished):
        # Said from the row alone.
        return None
    if role is Role.INTERVIEWER:
        return wire
    match event:
        case Started():
            return {**wire, "host": "", "slot": ""}
        case Output(hidden=hidden, check=name) if hidden or (name is not None and name not in visible_checks):
            return None
        case CheckStarted(hidden=hidden, name=name) if hidden or name not in visible_checks:
            return None
        case CheckDone(check=check) if check.hidden or check.name not in visible_checks:
            return None
        case CheckDone():
            return {**wire, "check": {key: value for key, value in wire["check"].items() if key != "detail"}}
        case _:
            return wire


def frame(kind: str, data: str, event_id: str | None = None) -> str:
    """One event on the wire. ``data`` is JSON and has no line break."""
    text = f"event: {kind}\ndata: {data}\n\n"
    return text if event_id is None else f"id: {event_id}\n{text}"


class RunView:
    """One participant watching one run."""

    def __init__(self, participant: Participant, run: Run, visible_checks: frozenset[str]) -> None:
        self._participant = participant
        self._run = run
        self._visible_checks = visible_checks
        self._place: int | None = None
        self._place_said: int | None = None
        self._saw_started = False
        self._saw_output = False

    async def events(self, resume_after: str | None) -> AsyncIterator[str]:
        """The frames of the event stream, ``finished`` last."""
        tail = _StreamTail(stream_key(str(self._run.public_id)), resume_after or _BEGINNING)
        yield "retry: 1000\n\n"
        try:
            looked_at = time.monotonic()
            await sync_to_async(self._look)()
            while not self._run.is_finished:
                if self._place is not None and self._place != self._place_said:
                    yield self._queued_frame(self._place)
                was_running = self._run.state == RunState.RUNNING
                entries = await tail.read(wait_s=LOOK_S)
                for text in self._frames(entries):
                    yield text
                if was_running and not self._saw_started and resume_after is None:
                    yield self._started_frame()
                if tail.ended or time.monotonic() - looked_at >= LOOK_S:
                    looked_at = time.monotonic()
                    if not await sync_to_async(self._look)():
                        return
            while entries := await tail.read(wait_s=0):
                for text in self._frames(entries):
                    yield text
            if resume_after is None and not self._saw_output:
                for text in self._frames(self._stored_output()):
                    yield text
            yield frame("finished", to_json(run_out(self._run, self._participant.role)))
        finally:
            await tail.close()

    def _look(self) -> bool:
        """Reads the row again; false when the candidate was removed from the room meanwhile."""
        try:
            session = self._participant.session
            if session is not None and not CandidateSession.objects.filter(pk=session.pk, removed_at=None).exists():
                return False
            self._run.refresh_from_db(fields=["state", "attempt", "host", "slot", "rehearsed"])
            self._place = places_in_queue([self._run]).get(self._run.pk)
            if self._run.is_finished:
                self._run = shown_runs().get(pk=self._run.pk)
            return True
        finally:
            # A view lives long; between two looks it holds no connection of the pool.
            close_old_connections()

    def _frames(self, entries: list[tuple[str | None, RunEvent]]) -> list[str]:
        frames = []
        for event_id, event in entries:
            wire = visible_wire(event, self._participant.role, self._visible_checks)
            # The queue is told from the database, with the place in it.
            if wire is None or isinstance(event, Queued):
                continue
            self._saw_started |= isinstance(event, Started)
            self._saw_output |= isinstance(event, Output)
            frames.append(frame(event.kind, json.dumps(wire), event_id))
        return frames

    def _queued_frame(self, place: int) -> str:
        self._place_said = place
        return frame("queued", json.dumps({**Queued(run_id=str(self._run.public_id)).to_wire(), "place": place}))

    def _started_frame(self) -> str:
        """For a run whose stream was lost after it started."""
        run = self._run
        event = Started(
            run_id=str(run.public_id), host=run.host, slot=run.slot, ranks=run.ranks, rehearsed=run.rehearsed
        )
        return "".join(self._frames([(None, event)]))

    def _stored_output(self) -> list[tuple[str | None, RunEvent]]:
        """What the row kept of the output, for when the stream is gone."""
        events: list[tuple[str | None, RunEvent]] = []
        for rank_exit in self._run.rank_exits:
            for stream in Stream:
                text = rank_exit[f"{stream.value}_tail"]
                if text:
                    run_id = str(self._run.public_id)
                    events.append((None, Output(run_id=run_id, rank=rank_exit["rank"], stream=stream, text=text)))
        return events


class _StreamTail:
    """Reads on in a Redis stream. While Redis is away there is simply nothing new."""

    def __init__(self, key: str, last_id: str) -> None:
        self._key = key
        self._last_id = last_id
        self._client: redis.asyncio.Redis | None = None
        #: Whether an entry said that the row is finished.
        self.ended = False

    async def read(self, *, wait_s: float) -> list[tuple[str | None, RunEvent]]:
        """The events since the last call; waits for the first of them, ``wait_s`` at most."""
        # XREAD takes 0 for "wait for ever".
        block_ms = round(wait_s * 1000) or None
        try:
            async with asyncio.timeout(wait_s + 2):
                if self._client is None:
                    self._client = redis.asyncio.Redis.from_url(
                        settings.REDIS_URL, decode_responses=True, retry=Retry(NoBackoff(), 0)
                    )
                answer = await self._client.xread({self._key: self._last_id}, count=200, block=block_ms)
        except (redis.RedisError, OSError) as error:
            logger.info("The stream %s cannot be read: %s", self._key, error)
            await self.close()
            await asyncio.sleep(wait_s)
            return []
        events: list[tuple[str | None, RunEvent]] = []
        for _, entries in answer:
            for entry_id, fields in entries:
                self._last_id = entry_id
                self.ended |= ENDED_FIELD in fields
                if "event" in fields:
                    events += self._parse(entry_id, fields["event"])
        return events

    def _parse(self, entry_id: str, text: str) -> list[tuple[str | None, RunEvent]]:
        try:
            return [(entry_id, RunEvent.parse(json.loads(text)))]
        except (ValueError, WireError) as error:
            logger.warning("An event in %s was malformed: %s", self._key, error)
            return []

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            try:
                await client.aclose()
            except (redis.RedisError, OSError) as error:
                logger.info("Closing the connection of %s: %s", self._key, error)
