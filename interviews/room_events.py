"""How anything outside the room's consumer tells the people in the room that something happened.

``grading`` publishes here ("run 5 started"); the room passes it on as a JSON frame. An event is a hint to look again: the
state itself is fetched, so a lost event loses nothing.
"""

from __future__ import annotations

import enum
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from interviews.models import Interview


class Audience(enum.StrEnum):
    ALL = "all"
    INTERVIEWERS = "interviewers"


def group_name(interview: Interview) -> str:
    return f"room.{interview.public_id.hex}"


def publish(interview: Interview, kind: str, *, audience: Audience = Audience.ALL, **fields: Any) -> None:
    """Sends ``{"type": kind, **fields}`` to every open page of the interview once the transaction commits.

    ``fields`` are plain JSON values. With ``Audience.INTERVIEWERS`` the candidate's page never receives it.
    """
    message = {"type": "room.event", "audience": audience.value, "event": {"type": kind, **fields}}
    layer = get_channel_layer()
    # Robust: what was committed stands, also when Redis is away at the moment.
    transaction.on_commit(lambda: async_to_sync(layer.group_send)(group_name(interview), message), robust=True)
