"""What an interviewer's page may ask for over the room's WebSocket.

Each takes the message as it came; ``KeyError``, ``TypeError`` or ``ValueError`` means that it was malformed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from interviews import rooms
from interviews.access import Participant


def _admit(by: Participant, message: dict[str, Any]) -> None:
    rooms.admit(by.interview, int(message["session"]), by=by)


def _remove(by: Participant, message: dict[str, Any]) -> None:
    rooms.remove(by.interview, int(message["session"]), by=by)


def _start(by: Participant, _message: dict[str, Any]) -> None:
    rooms.start(by.interview, by=by)


def _end(by: Participant, _message: dict[str, Any]) -> None:
    rooms.end_interview(by.interview, by=by)


def _open_question(by: Participant, message: dict[str, Any]) -> None:
    rooms.open_question(by.interview, int(message["position"]), by=by)


def _note(by: Participant, message: dict[str, Any]) -> None:
    text = str(message["text"])
    if text.strip():
        rooms.add_note(by.interview, UUID(str(message["id"])), text, position=int(message["position"]), by=by)


INTERVIEWER_ACTIONS: dict[str, Callable[[Participant, dict[str, Any]], None]] = {
    "admit": _admit,
    "remove": _remove,
    "start": _start,
    "end": _end,
    "open_question": _open_question,
    "note": _note,
}
