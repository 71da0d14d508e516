"""The room's WebSocket. Binary frames carry the shared documents, JSON frames everything else.

The channel layer is a wake-up and never trusted: every connection knows up to which edit its page has each document, sees
gaps by the sequence numbers, and looks at the database again every few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qs
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from redis.exceptions import RedisError

from interviews import documents, room_events, room_state, rooms
from interviews.awareness import AwarenessError, Cursor, read_cursor
from interviews.documents import Edit, LiveDocument, Reason, Refused
from interviews.pacing import Pace
from interviews.room_actions import INTERVIEWER_ACTIONS
from interviews.room_frames import Frame, FrameError, Kind, SyncType, awareness_frame, sync_frame
from interviews.room_state import Look

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: Close codes that tell the page not to try again.
CLOSE_STRANGER = 4404
CLOSE_REMOVED = 4403

TEXT_FRAME_LIMIT = 64 * 1024
#: How often a connection compares what it knows with the database.
CHECK_EVERY_S = 3.0
#: How often it tells the others that it is here, and after which silence they believe it gone.
HERE_EVERY_S = 9.0
GONE_AFTER_S = 25.0

#: Events after which the room looks different; the others are passed on as they are.
_ROOM_CHANGES = {"admitted", "removed", "question", "started", "ended", "changed"}


@dataclass(slots=True)
class _OpenDocument:
    """A document that this connection's page has open."""

    document: LiveDocument
    epoch: int
    #: The page has every edit up to this one.
    sequence: int
    #: Updates the page sent on this connection, accepted or not; ``saved`` frames count them.
    received: int = 0
    cursor: Cursor | None = None


@dataclass(slots=True)
class _Person:
    """Somebody's connection, as it announced itself."""

    key: str
    name: str
    role: str
    colour: int
    lobby: bool
    seen_at: float = field(default_factory=time.monotonic)


class RoomConsumer(AsyncWebsocketConsumer):
    """One page in the room."""

    look: Look | None = None

    async def connect(self) -> None:
        self.public_id: UUID = self.scope["url_route"]["kwargs"]["public_id"]
        self.as_candidate = parse_qs(self.scope["query_string"].decode("ascii", "replace")).get("as") == ["candidate"]
        # One thing at a time: frames of the page, messages of the others, and the regular look at the database.
        self.turn = asyncio.Lock()
        self.opened: dict[int, _OpenDocument] = {}
        self.people: dict[str, _Person] = {}
        self.sent: dict[str, Any] = {}
        self.pulse: tuple[Any, ...] | None = None
        self.pace = Pace(filled_at=time.monotonic())
        self.checking: asyncio.Task[None] | None = None
        # Accepted before anything is known, because a browser tells a refused connection from a lost one only by
        # the code that closes an open one.
        await self.accept()
        look = await self._ask(room_state.look)
        if look is None:
            await self.close(CLOSE_STRANGER)
            return
        self.look = look
        self.group = room_events.group_name(look.participant.interview)
        async with self.turn:
            await self.channel_layer.group_add(self.group, self.channel_name)
            # Again, now that no event can be missed.
            self.look = None
            await self._refresh()
            await self._announce(ask=True)
        self.checking = asyncio.create_task(self._check_regularly())

    async def disconnect(self, code: int) -> None:
        await self._leave()

    async def _leave(self) -> None:
        """Gives back what this connection holds and tells the others. From then on it takes part in nothing."""
        if self.checking is not None and self.checking is not asyncio.current_task():
            self.checking.cancel()
        look, self.look = self.look, None
        if look is None:
            return
        with contextlib.suppress(RedisError, OSError):
            await self.channel_layer.group_discard(self.group, self.channel_name)
        for position, opened in self.opened.items():
            documents.let_go(opened.document)
            if opened.cursor is not None:
                await self._broadcast_cursor(look, position, opened, opened.cursor.left())
        self.opened.clear()
        await self._broadcast({"type": "room.gone", "channel": self.channel_name})
        by = look.participant
        elsewhere = any(person.key == by.key for channel, person in self.people.items() if channel != self.channel_name)
        if by.may_enter and not elsewhere:
            await database_sync_to_async(rooms.note_presence)(by.interview, by=by, here=False)

    # Frames of the page ---------------------------------------------------------------------------------------------

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        async with self.turn:
            if self.look is None:
                return
            if bytes_data is not None:
                await self._receive_binary(self.look, bytes_data)
            elif text_data is not None:
                await self._receive_json(self.look, text_data)
        await asyncio.sleep(self.pace.delay_s(len(bytes_data or text_data or ""), now=time.monotonic()))

    async def _receive_binary(self, look: Look, data: bytes) -> None:
        if len(data) > documents.CATCH_UP_LIMIT_BYTES + TEXT_FRAME_LIMIT:
            await self._error(Reason.UPDATE_TOO_LARGE.value, "The frame is too large.")
            return
        try:
            frame = Frame.decode(data)
            if frame.position not in look.documents:
                await self._error("not_open", "This document is not open to you.", position=frame.position)
            elif frame.kind is Kind.AWARENESS:
                await self._receive_cursor(look, frame)
            else:
                sync_type, content = frame.sync_message()
                if sync_type is SyncType.STEP_1:
                    await self._receive_vector(look, frame, content)
                else:
                    await self._receive_update(look, frame, sync_type, content)
        except (FrameError, AwarenessError) as error:
            await self._error(Reason.MALFORMED.value, f"The frame could not be read: {error}.")

    async def _receive_vector(self, look: Look, frame: Frame, vector: bytes) -> None:
        """The page opens a document, or looks whether it lacks something."""
        position = frame.position
        opened = self.opened.get(position)
        document = opened.document if opened else documents.hold(look.documents[position])
        if opened is None:
            self.opened[position] = opened = _OpenDocument(document=document, epoch=0, sequence=0)
        try:
            answer = await document.answer(vector)
        except Refused as refusal:
            await self._error(refusal.reason.value, str(refusal), position=position)
            return
        if frame.epoch not in (0, answer.epoch):
            self._drop(position)
            await self._send({"type": "document", "position": position, "epoch": answer.epoch})
            return
        opened.epoch = answer.epoch
        opened.sequence = answer.sequence
        await self.send(bytes_data=sync_frame(position, answer.epoch, SyncType.STEP_2, answer.update))
        await self.send(bytes_data=sync_frame(position, answer.epoch, SyncType.STEP_1, answer.vector))
        await self._broadcast({"type": "room.cursors_wanted", "position": position, "channel": self.channel_name})

    async def _receive_update(self, look: Look, frame: Frame, sync_type: SyncType, update: bytes) -> None:
        position = frame.position
        opened = self.opened.get(position)
        if opened is None:
            await self._error("not_open", "Open the document first.", position=position)
            return
        opened.received += 1
        try:
            limit = documents.CATCH_UP_LIMIT_BYTES if sync_type is SyncType.STEP_2 else documents.UPDATE_LIMIT_BYTES
            if len(update) > limit:
                raise Refused(Reason.UPDATE_TOO_LARGE)
            edit = await opened.document.accept(update, epoch=frame.epoch, by=look.participant)
        except Refused as refusal:
            await self._error(
                refusal.reason.value, str(refusal), position=position, epoch=frame.epoch, count=opened.received
            )
            return
        if edit is None and sync_type is SyncType.UPDATE:
            # It builds on something that never arrived: ask for everything.
            answer = await opened.document.answer(b"\x00")
            await self.send(bytes_data=sync_frame(position, answer.epoch, SyncType.STEP_1, answer.vector))
            return
        if edit is not None:
            if edit.previous == opened.sequence:
                opened.sequence = edit.sequence
            else:
                await self._catch_up(position, opened)
        await self._send({"type": "saved", "position": position, "epoch": frame.epoch, "count": opened.received})
        if edit is not None:
            await self._broadcast(
                {
                    "type": "room.edit",
                    "position": position,
                    "epoch": frame.epoch,
                    "sequence": edit.sequence,
                    "previous": edit.previous,
                    "update": edit.update,
                    "sender": self.channel_name,
                }
            )

    async def _receive_cursor(self, look: Look, frame: Frame) -> None:
        opened = self.opened.get(frame.position)
        if opened is None or opened.epoch != frame.epoch:
            return
        cursor = read_cursor(frame.payload)
        if opened.cursor is not None and opened.cursor.client != cursor.client:
            await self._broadcast_cursor(look, frame.position, opened, opened.cursor.left())
        opened.cursor = cursor
        await self._broadcast_cursor(look, frame.position, opened, cursor)

    async def _receive_json(self, look: Look, text: str) -> None:
        try:
            message = json.loads(text) if len(text) <= TEXT_FRAME_LIMIT else None
        except ValueError:
            message = None
        if not isinstance(message, dict):
            await self._error(Reason.MALFORMED.value, "The message could not be read.")
            return
        if message.get("type") == "ping":
            await self._send({"type": "pong"})
            return
        action = INTERVIEWER_ACTIONS.get(str(message.get("type")))
        # The candidate is not told which actions there are.
        if action is None or not look.participant.is_interviewer:
            await self._error("unknown", "There is no such message.")
            return
        try:
            await database_sync_to_async(action)(look.participant, message)
        except (KeyError, TypeError, ValueError):
            await self._error(Reason.MALFORMED.value, "The message could not be read.")
            return
        if message["type"] == "note":
            await self._send({"type": "note_saved", "id": str(message["id"])})
        await self._refresh()

    # Messages of the others -----------------------------------------------------------------------------------------

    async def room_event(self, message: dict[str, Any]) -> None:
        """Something was published with ``room_events.publish``."""
        async with self.turn:
            if self.look is None:
                return
            event = message["event"]
            if event["type"] in _ROOM_CHANGES:
                await self._refresh()
                return
            participant = self.look.participant
            private = message["audience"] == room_events.Audience.INTERVIEWERS.value
            if participant.may_enter and (participant.is_interviewer or not private):
                await self._send(event)

    async def room_edit(self, message: dict[str, Any]) -> None:
        async with self.turn:
            opened = self.opened.get(message["position"])
            if self.look is None or opened is None or message["sequence"] <= opened.sequence:
                return
            edit = Edit(sequence=message["sequence"], previous=message["previous"], update=message["update"])
            if message["epoch"] != opened.epoch or edit.previous != opened.sequence:
                await self._catch_up(message["position"], opened)
                return
            await opened.document.follow(edit)
            opened.sequence = edit.sequence
            if message["sender"] != self.channel_name:
                frame = sync_frame(message["position"], opened.epoch, SyncType.UPDATE, edit.update)
                await self.send(bytes_data=frame)

    async def room_cursor(self, message: dict[str, Any]) -> None:
        async with self.turn:
            opened = self.opened.get(message["position"])
            if self.look is not None and opened is not None and message["sender"] != self.channel_name:
                frame = awareness_frame(message["position"], message["epoch"], message["update"])
                await self.send(bytes_data=frame)

    async def room_cursors_wanted(self, message: dict[str, Any]) -> None:
        """Somebody has just opened a document and does not see the cursors yet."""
        async with self.turn:
            opened = self.opened.get(message["position"])
            if self.look is None or opened is None or opened.cursor is None:
                return
            if message["channel"] != self.channel_name:
                wire = self._cursor_wire(self.look, message["position"], opened, opened.cursor)
                await self._tell(message["channel"], wire)

    async def room_here(self, message: dict[str, Any]) -> None:
        async with self.turn:
            if self.look is None:
                return
            known = self.people.get(message["channel"])
            person = _Person(**message["person"])
            self.people[message["channel"]] = person
            if message["ask"] and message["channel"] != self.channel_name:
                await self._tell(message["channel"], self._here(self.look, ask=False))
            if person.lobby and known is None and self.look.participant.is_interviewer:
                await self._refresh()
            await self._send_people(self.look)

    async def room_gone(self, message: dict[str, Any]) -> None:
        async with self.turn:
            self.people.pop(message["channel"], None)
            if self.look is not None:
                await self._send_people(self.look)

    # What the page is told ------------------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        """Looks at the room again and tells the page what is new in it."""
        before = self.look
        look = await self._ask(room_state.look)
        if look is None:
            await self._leave()
            await self.close(CLOSE_REMOVED)
            return
        self.look = look
        me = look.participant
        entered = me.may_enter and (before is None or not before.participant.may_enter)
        if not me.may_enter:
            await self._send_new("lobby", {"type": "lobby", "you": _you(look), "state": look.state})
            if before is None:
                await database_sync_to_async(rooms.note_waiting)(me)
        elif entered:
            if before is not None and not before.participant.may_enter:
                await self._send({"type": "admitted"})
            await self._send({"type": "hello", "you": _you(look), "state": look.state})
            self.sent["state"] = {"type": "state", "state": _timeless(look.state)}
            await database_sync_to_async(rooms.note_presence)(me.interview, by=me, here=True)
            if before is not None:
                await self._announce(ask=True)
        else:
            wire = {"type": "state", "state": _timeless(look.state)}
            if self.sent.get("state") != wire:
                self.sent["state"] = wire
                await self._send({"type": "state", "state": look.state})
        for position in [position for position in self.opened if position not in look.documents]:
            self._drop(position)
        await self._send_people(look)

    async def _send_people(self, look: Look) -> None:
        """Who is here (to everybody in the room) and who waits (to interviewers)."""
        if not look.participant.may_enter:
            return
        here = {person.key: person for person in self.people.values() if not person.lobby}
        people = [
            {"key": person.key, "name": person.name, "role": person.role, "colour": person.colour}
            for person in sorted(here.values(), key=lambda person: (person.role, person.name, person.key))
        ]
        await self._send_new("presence", {"type": "presence", "people": people})
        if look.participant.is_interviewer:
            knocking = {person.key for person in self.people.values() if person.lobby}
            waiting = [one for one in look.waiting if one["key"] in knocking]
            await self._send_new("waiting", {"type": "waiting", "waiting": waiting})

    async def _catch_up(self, position: int, opened: _OpenDocument) -> None:
        """Sends the page what it missed of a document."""
        log = await opened.document.since(opened.sequence, epoch=opened.epoch)
        if log.epoch != opened.epoch:
            self._drop(position)
            await self._send({"type": "document", "position": position, "epoch": log.epoch})
            return
        for edit in log.edits:
            await opened.document.follow(edit)
            await self.send(bytes_data=sync_frame(position, opened.epoch, SyncType.UPDATE, edit.update))
            opened.sequence = edit.sequence

    async def _check_regularly(self) -> None:
        """What the channel layer lost is found here."""
        announced_at = time.monotonic()
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            try:
                async with self.turn:
                    if self.look is None:
                        return
                    pulse = await self._ask(room_state.pulse)
                    if pulse is None or pulse != self.pulse:
                        self.pulse = pulse
                        await self._refresh()
                    if self.look is None:
                        return
                    for position, opened in list(self.opened.items()):
                        if opened.epoch:
                            await self._catch_up(position, opened)
                    now = time.monotonic()
                    if now - announced_at > HERE_EVERY_S:
                        announced_at = now
                        await self._announce(ask=False)
                        self.people = {
                            channel: person
                            for channel, person in self.people.items()
                            if now - person.seen_at < GONE_AFTER_S
                        }
                        await self._send_people(self.look)
            except Exception:
                # The next round may do better; ending here would leave the page without its safety net.
                logger.exception("A room connection could not compare itself with the database")

    async def _ask(self, question: Callable[..., T]) -> T:
        """Asks ``interviews.room_state`` on behalf of this connection."""
        answer: T = await database_sync_to_async(question)(
            self.public_id, self.scope.get("user"), self.scope.get("cookies", {}), as_candidate=self.as_candidate
        )
        return answer

    # Small things ---------------------------------------------------------------------------------------------------

    async def _announce(self, *, ask: bool) -> None:
        if self.look is not None:
            here = self._here(self.look, ask=ask)
            # Known to ourselves also while the layer is away.
            self.people[self.channel_name] = _Person(**here["person"])
            await self._broadcast(here)

    def _here(self, look: Look, *, ask: bool) -> dict[str, Any]:
        me = look.participant
        person = {
            "key": me.key,
            "name": me.name,
            "role": me.role.value,
            "colour": look.colour,
            "lobby": not me.may_enter,
        }
        return {"type": "room.here", "channel": self.channel_name, "person": person, "ask": ask}

    async def _broadcast_cursor(self, look: Look, position: int, opened: _OpenDocument, cursor: Cursor) -> None:
        await self._broadcast(self._cursor_wire(look, position, opened, cursor))

    def _cursor_wire(self, look: Look, position: int, opened: _OpenDocument, cursor: Cursor) -> dict[str, Any]:
        user = {"name": look.participant.name, "colour": look.colour, "role": look.participant.role.value}
        return {
            "type": "room.cursor",
            "position": position,
            "epoch": opened.epoch,
            "update": cursor.encode(user),
            "sender": self.channel_name,
        }

    def _drop(self, position: int) -> None:
        documents.let_go(self.opened.pop(position).document)

    async def _broadcast(self, message: dict[str, Any]) -> None:
        await self._through_layer(self.channel_layer.group_send(self.group, message))

    async def _tell(self, channel: str, message: dict[str, Any]) -> None:
        await self._through_layer(self.channel_layer.send(channel, message))

    async def _through_layer(self, sending: Awaitable[None]) -> None:
        try:
            await sending
        except (RedisError, OSError) as error:
            # What matters is in the database, where the others find it at their next look.
            logger.warning("The room's channel layer is away: %s", error)

    async def _send_new(self, name: str, message: dict[str, Any]) -> None:
        """Sends what differs from the last of its name."""
        if self.sent.get(name) != message:
            self.sent[name] = message
            await self._send(message)

    async def _send(self, message: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(message))

    async def _error(self, code: str, words: str, **fields: Any) -> None:
        await self._send({"type": "error", "code": code, "message": words, **fields})


def _you(look: Look) -> dict[str, Any]:
    me = look.participant
    return {"key": me.key, "name": me.name, "role": me.role.value, "colour": look.colour}


def _timeless(state: dict[str, Any]) -> dict[str, Any]:
    """The state without the moment at which it was taken, to see whether something changed."""
    return {name: value for name, value in state.items() if name != "now"}
