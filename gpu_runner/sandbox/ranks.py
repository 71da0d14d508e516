"""What a forked rank does before the candidate's first line runs, and how it ends."""

from __future__ import annotations

import faulthandler
import fcntl
import io
import os
import signal
import socket
import sys
import traceback
from dataclasses import dataclass

from gpu_runner.sandbox import isolation, preload
from gpu_runner.sandbox.orders import RankOrder
from gpu_runner.sandbox.program import Record, run_entry

#: torchrun's default port. Each run has a network of its own, so it is always free.
_MASTER_PORT = 29500
#: An exit code of ours: the rank could not be set up, which is no fault of the program.
SETUP_FAILED = 119


@dataclass(frozen=True, slots=True)
class RankFds:
    """A rank's ends of its pipes. ``serve`` is the checker's socket, -1 where the rank runs a program."""

    stdout: int
    stderr: int
    record: int
    serve: int = -1


@dataclass(frozen=True, slots=True)
class Walls:
    """What the group's first process made ready for its ranks."""

    proc: int
    seccomp: bytes
    limits: isolation.Confinement


def environment_for(rank: int, ranks: int) -> dict[str, str]:
    """The whole environment of a rank: nothing of the host's is in it."""
    return {
        **preload.ENVIRONMENT,
        "HOME": isolation.BOX,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_MASTER_PORT),
    }


def become_rank(*, rank: int, fds: RankFds, stdin: str, walls: Walls, order: RankOrder) -> None:
    """The whole life of a rank's process. Never returns."""
    code = SETUP_FAILED
    try:
        _wire_up(fds, stdin, walls)
        os.environ.clear()
        os.environ.update(environment_for(rank, order.ranks))
        record = Record(_RECORD_FD)
        path = f"{isolation.BOX}/{order.entry}"
        os.chdir(isolation.BOX)
        sys.argv = [path]
        # At the end, so that a file named like a module of the standard library breaks nothing that imports it.
        sys.path.append(os.path.dirname(path))
        preload.seed_all(order.seed)
        faulthandler.register(signal.SIGUSR1, file=_RECORD_FD, all_threads=False)
        preload.prepare_rank(record, rehearse=order.rehearse, texts=[file.text for file in order.files])
        isolation.confine(identity=isolation.CANDIDATE_ID, proc=_PROC_FD, limits=walls.limits, seccomp=walls.seccomp)
        record.write(kind="started")
        if fds.serve >= 0:
            from gpu_runner.sandbox import candidate

            code = 1
            candidate.serve(socket.socket(fileno=_SERVE_FD), path)
            code = 0
        else:
            code = run_entry(path, record)
    except BaseException:  # noqa: BLE001 - nothing may unwind into the code of the parent
        traceback.print_exc()
    finally:
        # Not sys.exit: taking the interpreter apart deadlocks in gloo.
        os._exit(code)


_RECORD_FD = 3
_SERVE_FD = 4
_PROC_FD = 5


def _wire_up(fds: RankFds, stdin: str, walls: Walls) -> None:
    """Puts the descriptors where they belong and closes all others, those of the control channels first of all."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    source = os.open(stdin, os.O_RDONLY | os.O_CLOEXEC)
    wanted = [source, fds.stdout, fds.stderr, fds.record, fds.serve if fds.serve >= 0 else source, walls.proc]
    # Out of the way first: a source may lie where another one's target is.
    lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, len(wanted)) for fd in wanted]
    for target, fd in enumerate(lifted):
        os.dup2(fd, target, inheritable=target <= 2)
    os.closerange(len(wanted), 1 << 16)
    if fds.serve < 0:
        os.close(_SERVE_FD)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r", closefd=False)), encoding="utf-8")
    # By lines, so that a person sees what is printed while the program runs.
    sys.stdout = _text_writer(1, errors="strict")
    sys.stderr = _text_writer(2, errors="backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def _text_writer(fd: int, *, errors: str) -> io.TextIOWrapper:
    raw = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=errors, line_buffering=True)
