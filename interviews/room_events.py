"""How anything outside the room's consumer tells the people in the room that something happened.

``grading`` publishes here ("run 5 started"); the room passes it on as a JSON frame. An event is a hint to look again: the
state itself is fetched, so a lost event loses nothing.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from typing import Any

import redis
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from interviews.models import Interview

logger = logging.getLogger(__name__)

SEND_LIMIT_S = 2.0


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
    transaction.on_commit(lambda: _send(group_name(interview), message), robust=True)


def _send(group: str, message: dict[str, Any]) -> None:
    try:
        async_to_sync(_send_soon)(group, message)
    except (redis.RedisError, OSError) as error:
        # What was committed stands. The pages look by themselves when they are connected again.
        logger.warning("An event of %s was not sent: %s", group, error)


async def _send_soon(group: str, message: dict[str, Any]) -> None:
    # A Redis that does not answer must not hold up who waits for the answer to a request.
    async with asyncio.timeout(SEND_LIMIT_S):
        await get_channel_layer().group_send(group, message)
