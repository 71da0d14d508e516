"""A page in the room without a browser: the WebSocket, a Yjs document, and everything that was received."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.contrib.auth.models import AnonymousUser
from pycrdt import Doc, Text

from interviews import links
from interviews.models import CandidateSession, Interview, User
from interviews.room_frames import Frame, Kind, SyncType, sync_frame
from interviews.routing import websocket_urlpatterns

PATIENCE_S = 10.0


class Page:
    """One browser tab. Frames that arrive are kept in ``json_frames`` and ``binary_frames``; edits are applied."""

    def __init__(
        self, interview: Interview, *, user: User | None = None, cookie: str = "", as_candidate: bool = False
    ) -> None:
        # ``channels.testing`` wants the daphne server; this is all that it would add.
        self.communicator = ApplicationCommunicator(
            URLRouter(websocket_urlpatterns),
            {
                "type": "websocket",
                "path": f"/ws/rooms/{interview.public_id}/",
                "query_string": b"as=candidate" if as_candidate else b"",
                "headers": [],
                "subprotocols": [],
                "user": user or AnonymousUser(),
                "cookies": {links.cookie_name(interview): cookie} if cookie else {},
            },
        )
        self.json_frames: list[dict[str, Any]] = []
        self.binary_frames: list[Frame] = []
        self.close_code: int | None = None
        self.doc: Doc[Text] = Doc()
        self.text = self.doc.get("text", type=Text)
        self.epoch = 0

    async def open(self) -> Page:
        await self.communicator.send_input({"type": "websocket.connect"})
        accepted = await self.communicator.receive_output(PATIENCE_S)
        assert accepted["type"] == "websocket.accept"
        return self

    async def leave(self) -> None:
        await self.communicator.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.communicator.wait(PATIENCE_S)

    async def say(self, **message: Any) -> None:
        await self.communicator.send_input({"type": "websocket.receive", "text": json.dumps(message)})

    async def send_bytes(self, data: bytes) -> None:
        await self.communicator.send_input({"type": "websocket.receive", "bytes": data})

    async def take_one(self, timeout_s: float = PATIENCE_S) -> None:
        """Receives one frame."""
        output = await self.communicator.receive_output(timeout_s)
        if output["type"] == "websocket.close":
            self.close_code = output["code"]
        elif output.get("text") is not None:
            self.json_frames.append(json.loads(output["text"]))
        else:
            self._take_bytes(Frame.decode(output["bytes"]))

    def _take_bytes(self, frame: Frame) -> None:
        self.binary_frames.append(frame)
        if frame.kind is Kind.SYNC:
            sync_type, content = frame.sync_message()
            if sync_type is not SyncType.STEP_1:
                self.doc.apply_update(content)
                self.epoch = frame.epoch

    async def until(self, condition: Any) -> None:
        """Receives frames until the condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            remaining_s = deadline - time.monotonic()
            assert remaining_s > 0, f"not so after {PATIENCE_S} s; received {self.kinds()}"
            # A communicator is cancelled by a timeout, so look first whether anything is there.
            if self.communicator.output_queue.empty():
                await asyncio.sleep(0.01)
            else:
                await self.take_one()

    async def frame(self, kind: str) -> dict[str, Any]:
        """The newest frame of this type, waited for if there is none."""
        await self.until(lambda: any(frame["type"] == kind for frame in self.json_frames) or self.close_code)
        return [frame for frame in self.json_frames if frame["type"] == kind][-1]

    async def fresh_frame(self, kind: str) -> dict[str, Any]:
        """The next frame of this type after those received so far."""
        seen = len(self.json_frames)
        await self.until(lambda: any(frame["type"] == kind for frame in self.json_frames[seen:]))
        return next(frame for frame in self.json_frames[seen:] if frame["type"] == kind)

    async def settle(self) -> None:
        """Everything that was on its way when this was called has arrived."""
        pongs = sum(frame["type"] == "pong" for frame in self.json_frames)
        await self.say(type="ping")
        await self.until(lambda: sum(frame["type"] == "pong" for frame in self.json_frames) > pongs)

    def kinds(self) -> list[str]:
        return [frame["type"] for frame in self.json_frames]

    async def open_document(self, position: int = 1) -> None:
        before = len(self.binary_frames)
        await self.send_bytes(sync_frame(position, self.epoch, SyncType.STEP_1, self.doc.get_state()))
        await self.until(lambda: len(self.binary_frames) >= before + 2)

    async def type(self, words: str, *, at: int | None = None, position: int = 1) -> None:
        """Types into the document and sends it; does not wait for anything."""
        state = self.doc.get_state()
        if at is None:
            self.text += words
        else:
            self.text.insert(at, words)
        await self.send_bytes(sync_frame(position, self.epoch, SyncType.UPDATE, self.doc.get_update(state)))

    async def saved(self, count: int) -> None:
        await self.until(
            lambda: any(frame["type"] == "saved" and frame["count"] == count for frame in self.json_frames)
        )


def interviewer_page(interview: Interview, user: User) -> Page:
    return Page(interview, user=user)


async def candidate_page(interview: Interview) -> tuple[Page, CandidateSession]:
    session, cookie = await database_sync_to_async(links.open_session)(interview)
    return Page(interview, cookie=cookie), session


async def both_in_room(interview: Interview, user: User) -> tuple[Page, Page]:
    """An interviewer and an admitted candidate, both with the first question's document open."""
    host = await interviewer_page(interview, user).open()
    await host.frame("hello")
    guest, session = await candidate_page(interview)
    await guest.open()
    await guest.frame("lobby")
    await host.say(type="admit", session=session.pk)
    await guest.frame("hello")
    await host.open_document()
    await guest.open_document()
    return host, guest
