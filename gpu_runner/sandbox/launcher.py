"""The checker's side of launching: fresh groups of the candidate's ranks, their output and their ends."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from contextlib import suppress

from gpu_runner.protocol import CheckRef, RankExit, Stream
from gpu_runner.sandbox.channel import Channel, ChannelClosed
from gpu_runner.sandbox.orders import RankOrder
from gpu_runner.sandbox.rank_output import EVENT_GAP_S, RankReader, open_rank_pipes

_END_WAIT_S = 5.0


class HostLine:
    """The checker's channel to the host, for the thread that checks and the one that reads output."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        #: The check that goes on.
        self.check: CheckRef | None = None

    def send(self, **fields: object) -> None:
        """A host that is gone takes this process along, so there is nothing to do about it here."""
        with self._lock, suppress(ChannelClosed):
            self._channel.send(fields)


class GroupLauncher:
    """``launching.Launcher``. One thread of it reads the output of all groups, so that no rank ever waits for the checker."""

    def __init__(self, *, server: Channel, line: HostLine, order: RankOrder, output_bytes: int) -> None:
        self._server = server
        self._order = order
        self._output_bytes = output_bytes
        self._output = OutputThread(line)

    def launch(self, *, ranks: int) -> RankGroupHandle:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(ranks)]
        try:
            return self._start(
                self._order.with_changes(ranks=ranks, serve=True),
                sockets=tuple(ours for ours, _ in pairs),
                handed_on=[theirs.fileno() for _, theirs in pairs],
            )
        finally:
            for _, theirs in pairs:
                theirs.close()

    def run_program(self, *, ranks: int, stdin: str, wall_s: float) -> tuple[RankExit, ...]:
        order = self._order.with_changes(ranks=ranks, serve=False, stdin=stdin, wall_s=wall_s)
        group = self._start(order, sockets=(), handed_on=[])
        return group.wait(wall_s)

    def close(self) -> None:
        """Sends on what is still in the pipes of stopped groups."""
        self._output.close()

    def _start(self, order: RankOrder, *, sockets: tuple[socket.socket, ...], handed_on: list[int]) -> RankGroupHandle:
        self._server.send({"op": "launch"})
        _, (channel_fd,) = self._server.receive()
        channel = Channel.adopt(channel_fd)
        channel.receive()  # its namespaces are made
        readers, theirs = open_rank_pipes(order.ranks, self._output_bytes)
        fds = []
        for rank in range(order.ranks):
            fds += theirs[rank * 3 : rank * 3 + 3] + handed_on[rank : rank + 1]
        try:
            channel.send(order.to_message(), fds)
        finally:
            for fd in theirs:
                os.close(fd)
        self._output.add(readers)
        return RankGroupHandle(channel, sockets, readers, self._output)


class RankGroupHandle:
    """``launching.Group``."""

    def __init__(
        self, channel: Channel, sockets: tuple[socket.socket, ...], readers: list[RankReader], output: OutputThread
    ) -> None:
        self._channel = channel
        self._sockets = sockets
        self._readers = readers
        self._output = output
        self._exits: tuple[RankExit, ...] | None = None

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return self._sockets

    def stop(self) -> tuple[RankExit, ...]:
        if self._exits is None:
            with suppress(ChannelClosed):
                self._channel.send({"op": "stop"})
            self._hear_out(time.monotonic() + _END_WAIT_S)
            self._finish()
        return self._exits or ()

    def wait(self, wall_s: float) -> tuple[RankExit, ...]:
        """The ends of ranks that end by themselves, or by SIGKILL when the time is over."""
        if not self._hear_out(time.monotonic() + wall_s):
            with suppress(ChannelClosed):
                self._channel.send({"op": "stop"})
            self._hear_out(time.monotonic() + _END_WAIT_S)
            for reader in self._readers:
                if reader.status is None:
                    reader.status = -signal.SIGKILL
        self._finish()
        return self._exits or ()

    def _hear_out(self, deadline: float) -> bool:
        """Takes in the ranks' ends; whether all have ended by the deadline."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            while (left_s := deadline - time.monotonic()) > 0:
                if not selector.select(left_s):
                    continue
                try:
                    message, _ = self._channel.receive()
                except ChannelClosed:
                    return True
                if message["op"] == "done":
                    return True
                self._readers[int(message["rank"])].status = int(message["status"])
        return False

    def _finish(self) -> None:
        # Closing it ends the group's supervisor, and the kernel then ends all that is left of the group.
        self._channel.close()
        for sock in self._sockets:
            sock.close()
        self._output.wait_for(self._readers)
        self._exits = tuple(reader.exit() for reader in self._readers)


class OutputThread:
    """Reads the pipes of all groups and passes their text on to the host."""

    def __init__(self, line: HostLine) -> None:
        self._line = line
        self._selector = selectors.DefaultSelector()
        self._readers: list[RankReader] = []
        self._changed = threading.Condition()
        self._closing = False
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def add(self, readers: list[RankReader]) -> None:
        with self._changed:
            self._readers += readers
            for reader in readers:
                for name, stream in reader.streams.items():
                    self._selector.register(stream.fd, selectors.EVENT_READ, (reader, name))
                self._selector.register(reader.record_reader.fd, selectors.EVENT_READ, (reader, None))
        os.write(self._wake_write, b"+")

    def wait_for(self, readers: list[RankReader]) -> None:
        """Waits until these ranks' pipes were read to their ends. Their writers are dead, so that is soon."""
        with self._changed:
            self._changed.wait_for(lambda: not any(_is_open(reader) for reader in readers), _END_WAIT_S)
            self._readers = [reader for reader in self._readers if reader not in readers]

    def close(self) -> None:
        self._closing = True
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"x")
        self._thread.join(_END_WAIT_S)

    def _run(self) -> None:
        while not self._closing:
            ready = self._selector.select(EVENT_GAP_S if self._unfinished() else None)
            with self._changed:
                for key, _ in ready:
                    if key.data is None:
                        os.read(self._wake_read, 4096)
                    else:
                        self._read(*key.data)
                for reader in self._readers:
                    for name, stream in reader.streams.items():
                        if stream.waiting:
                            self._pass_on(reader, name, stream.overdue())
                self._changed.notify_all()

    def _unfinished(self) -> bool:
        with self._changed:
            return any(stream.waiting for reader in self._readers for stream in reader.streams.values())

    def _read(self, reader: RankReader, name: Stream | None) -> None:
        if name is None:
            record = reader.record_reader
            fd = record.fd
            record.read()
            if not record.open:
                self._selector.unregister(fd)
                if reader.record.rehearsed:
                    self._line.send(op="rehearsed")
            return
        stream = reader.streams[name]
        fd = stream.fd
        text = stream.read()
        if stream.open and stream.flooding:
            # The writer gets a broken pipe: enough is enough.
            text += stream.give_up()
        if not stream.open:
            self._selector.unregister(fd)
        self._pass_on(reader, name, text)

    def _pass_on(self, reader: RankReader, name: Stream, text: str) -> None:
        if text:
            check = self._line.check
            self._line.send(
                op="output",
                rank=reader.rank,
                stream=name.value,
                text=text,
                check=None if check is None else check.name,
                hidden=check is None or check.hidden,
            )


def _is_open(reader: RankReader) -> bool:
    return reader.record_reader.open or any(stream.open for stream in reader.streams.values())
