"""The frames of the room's WebSocket; ``static/js/room/`` is the other end.

Binary: ``kind`` (1 byte), ``position`` of the question (2 bytes), ``epoch`` of its document (4 bytes), both big-endian,
then the message of y-protocols: a sync message, or an awareness update. The page opens a document by its state vector
(epoch 0 where it knows none); the server answers with what the page lacks and its own vector, which the page answers.

JSON, to everybody in the room: ``hello`` (who you are, the state), ``state`` (whenever it changed), ``presence``,
``saved`` (the first ``count`` updates of this connection are in the database), ``document`` (it has another epoch: drop
yours), ``error`` (with ``position`` and ``count``: that update was not taken), ``pong``, and what
``interviews.room_events`` publishes (``run``). To interviewers alone: ``waiting``, ``note``, ``note_saved``. To the lobby
nothing but ``lobby`` and, once, ``admitted``.

JSON, from the page: ``ping``; from interviewers ``admit``, ``remove``, ``start``, ``end``, ``open_question``, ``note``.

Close codes: 4404 for strangers, 4403 for somebody who was shown out or lost the right to be here.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from pycrdt import read_message, write_message

_HEAD = struct.Struct(">BHI")


class Kind(enum.IntEnum):
    SYNC = 0
    AWARENESS = 1


class SyncType(enum.IntEnum):
    #: A state vector: "send me what I lack".
    STEP_1 = 0
    #: The answer: one update with everything that was lacking.
    STEP_2 = 1
    #: What was just typed.
    UPDATE = 2


class FrameError(ValueError):
    """Bytes that are no frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    kind: Kind
    position: int
    epoch: int
    payload: bytes

    def encode(self) -> bytes:
        return _HEAD.pack(self.kind, self.position, self.epoch) + self.payload

    @classmethod
    def decode(cls, data: bytes) -> Frame:
        try:
            kind, position, epoch = _HEAD.unpack_from(data)
            return cls(kind=Kind(kind), position=position, epoch=epoch, payload=data[_HEAD.size :])
        except (struct.error, ValueError) as error:
            raise FrameError("not a frame of the room") from error

    def sync_message(self) -> tuple[SyncType, bytes]:
        """The type and the content of a sync message."""
        try:
            content = read_message(self.payload[1:])
            return SyncType(self.payload[0]), content
        except (AssertionError, IndexError, RuntimeError, ValueError) as error:
            raise FrameError("not a sync message") from error


def sync_frame(position: int, epoch: int, sync_type: SyncType, content: bytes) -> bytes:
    payload = bytes([sync_type]) + write_message(content)
    return Frame(kind=Kind.SYNC, position=position, epoch=epoch, payload=payload).encode()


def awareness_frame(position: int, epoch: int, update: bytes) -> bytes:
    return Frame(kind=Kind.AWARENESS, position=position, epoch=epoch, payload=update).encode()
