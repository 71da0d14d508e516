"""The binary frames of the room's WebSocket.

``kind`` (1 byte), ``position`` of the question (2 bytes), ``epoch`` of its document (4 bytes), both big-endian, then the
message of y-protocols: a sync message, or an awareness update. ``static/js/room/frames.js`` is the other end.
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
