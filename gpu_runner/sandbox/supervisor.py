"""The first process of a run's namespaces: it forks the ranks, says how they ended, and takes all of it along when it ends.

It is forked ahead of time and waits for one message on its channel. When the channel closes, because the host closed the
run or died, it exits, and the kernel kills whatever lives in its pid namespace. It never sees the checks.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from gpu_runner.protocol import SourceFile
from gpu_runner.sandbox import isolation
from gpu_runner.sandbox.channel import Channel, ChannelClosed
from gpu_runner.sandbox.orders import RankOrder
from gpu_runner.sandbox.ranks import RankFds, Walls, become_rank

#: The host keeps the time. This is for a host that has stalled.
_BACKSTOP_S = 10.0


def supervise(channel: Channel, seccomp: bytes) -> NoReturn:
    """The whole life of a supervisor's process."""
    code = 1
    try:
        proc = isolation.enter_namespaces()
        channel.send({"op": "ready"})
        message, fds = channel.receive()
        if message["op"] == "ranks":
            RankGroup(channel, seccomp, proc).run(RankOrder.from_message(message), fds)
        elif message["op"] == "checks":
            # Imported here, because the launch server's groups are supervised by this module again.
            from gpu_runner.sandbox.launch_server import LaunchServer

            LaunchServer(channel, seccomp, proc).run(message, fds)
        code = 0
    except ChannelClosed:
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may unwind into the code of the parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


class ChildWatch:
    """Turns SIGCHLD into something a selector can wait for, and reaps whoever ended, orphans of the ranks included."""

    def __init__(self) -> None:
        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._read

    def reap(self) -> list[tuple[int, int]]:
        """Pairs of pid and wait status."""
        with suppress(BlockingIOError):
            os.read(self._read, 4096)
        ended = []
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                ended.append((pid, status))
        return ended


def kill_everybody_else() -> None:
    """Ends all other processes of the pid namespace whose first process this is."""
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


class RankGroup:
    """Starts the ranks of one message and reports their ends on the channel."""

    def __init__(self, channel: Channel, seccomp: bytes, proc: int) -> None:
        self._channel = channel
        self._seccomp = seccomp
        self._proc = proc
        self._ranks: dict[int, int] = {}
        self._stopping = False

    def run(self, order: RankOrder, fds: list[int]) -> None:
        """Forks the ranks and stays until the last one's first process has ended."""
        watch = ChildWatch()
        isolation.size_mounts(order.limits)
        try:
            write_files(order.files)
        except OSError as error:
            # Too large, too long a name, one file where another wants a folder: the submission's fault, not the host's.
            self._refuse(order, fds, f"The files could not be put into the box: {error.strerror}.")
            return
        self._fork_all(order, fds, _stdin(order.stdin), Walls(self._proc, self._seccomp, order.limits))
        for fd in (*fds, self._proc):
            os.close(fd)
        deadline = time.monotonic() + order.wall_s + _BACKSTOP_S
        with selectors.DefaultSelector() as selector:
            selector.register(watch, selectors.EVENT_READ)
            selector.register(self._channel, selectors.EVENT_READ)
            while self._ranks and not self._stopping and time.monotonic() < deadline:
                ready = {key.fileobj for key, _ in selector.select(timeout=1.0)}
                if watch in ready:
                    self._report(watch.reap())
                if self._channel in ready:
                    self._obey(watch)
        kill_everybody_else()
        self._channel.send({"op": "done"})

    def _refuse(self, order: RankOrder, fds: list[int], reason: str) -> None:
        for rank in range(order.ranks):
            os.write(fds[rank * order.fds_each + 1], f"{reason}\n".encode())
            self._channel.send({"op": "exit", "rank": rank, "status": 1})
        for fd in fds:
            os.close(fd)
        self._channel.send({"op": "done"})

    def _fork_all(self, order: RankOrder, fds: list[int], stdin: str, walls: Walls) -> None:
        for rank in range(order.ranks):
            mine = RankFds(*fds[rank * order.fds_each : (rank + 1) * order.fds_each])
            pid = os.fork()
            if pid == 0:
                become_rank(rank=rank, fds=mine, stdin=stdin, walls=walls, order=order)
            self._ranks[pid] = rank

    def _report(self, ended: list[tuple[int, int]]) -> None:
        for pid, status in ended:
            rank = self._ranks.pop(pid, None)
            if rank is not None:
                self._channel.send({"op": "exit", "rank": rank, "status": os.waitstatus_to_exitcode(status)})

    def _obey(self, watch: ChildWatch) -> None:
        message, _ = self._channel.receive()
        if message["op"] == "stacks":
            for pid in self._ranks:
                os.kill(pid, signal.SIGUSR1)
        elif message["op"] == "stop":
            # Those that ended by themselves ended before this; the others say nothing of themselves.
            self._report(watch.reap())
            self._stopping = True


def write_files(files: Sequence[SourceFile]) -> None:
    """Puts the submission into the box, which belongs to the candidate. Names were checked by the contract."""
    for file in files:
        path = f"{isolation.BOX}/{file.path}"
        missing = []
        folder = os.path.dirname(path)
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            os.mkdir(folder)
            os.chown(folder, isolation.CANDIDATE_ID, isolation.CANDIDATE_ID)
        with open(path, "w", encoding="utf-8", newline="", errors="replace") as out:
            out.write(file.text)
        os.chown(path, isolation.CANDIDATE_ID, isolation.CANDIDATE_ID)


def _stdin(text: str) -> str:
    """A file that each rank opens anew, so that each reads it from its beginning."""
    if not text:
        return "/dev/null"
    fd = os.memfd_create("stdin")
    with open(fd, "w", encoding="utf-8", errors="replace", newline="", closefd=False) as out:
        out.write(text)
    return f"/proc/self/fd/{fd}"
