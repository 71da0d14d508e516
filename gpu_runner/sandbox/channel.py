"""Framed JSON over a stream socket, with file descriptors riding along.

A frame is a four-byte big-endian length and that much JSON. Descriptors travel with the first byte of their frame, so a
reader that takes the length with ``recvmsg`` cannot miss them or get those of another frame.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

_LENGTH = struct.Struct(">I")
_MAX_FRAME_BYTES = 64 * 1024 * 1024
_MAX_FDS = 64


class ChannelClosed(ConnectionError):
    """The other side is gone."""


class Channel:
    """One end of a connected ``SOCK_STREAM`` socket pair. Not for use by two threads at once."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(ours), cls(theirs)

    @classmethod
    def adopt(cls, fd: int) -> Channel:
        """Takes over a descriptor that was received or inherited."""
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self._sock.fileno()

    def detach(self) -> int:
        """Gives the descriptor up without closing it."""
        return self._sock.detach()

    def close(self) -> None:
        self._sock.close()

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Sends one frame. The descriptors stay open here. Raises ``ChannelClosed``."""
        payload = json.dumps(message).encode()
        data = memoryview(_LENGTH.pack(len(payload)) + payload)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            sent = self._sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)
            # Not for nothing: by now the other side may have done all that was asked of it, and be gone.
            if sent < len(data):
                self._sock.sendall(data[sent:], socket.MSG_NOSIGNAL)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """Waits for one frame. The descriptors now belong to the caller. Raises ``ChannelClosed``."""
        header, fds = self._read_header()
        (length,) = _LENGTH.unpack(header)
        if length > _MAX_FRAME_BYTES:
            raise ChannelClosed(f"a frame of {length} bytes was announced")
        message = json.loads(self._read_exactly(length))
        if not isinstance(message, dict):
            raise ChannelClosed("a frame that is not an object came in")
        return message, fds

    def _read_header(self) -> tuple[bytes, list[int]]:
        room = socket.CMSG_SPACE(_MAX_FDS * array.array("i").itemsize)
        try:
            header, ancillary, _, _ = self._sock.recvmsg(_LENGTH.size, room, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        fds = array.array("i")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        if len(header) < _LENGTH.size:
            try:
                header += self._read_exactly(_LENGTH.size - len(header)) if header else b""
            finally:
                if len(header) < _LENGTH.size:
                    for fd in fds:
                        os.close(fd)
        if not header:
            raise ChannelClosed("the other side closed the channel")
        return header, list(fds)

    def _read_exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self._sock.recv(min(count - len(parts), 1 << 20))
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not part:
                raise ChannelClosed("the other side closed the channel in mid-frame")
            parts += part
        return bytes(parts)
