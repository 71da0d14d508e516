"""The checker's process: it is confined like a rank, under another id, and talks with the host and with the launch server.

The checks come straight from the host and only after the fork, so no other process inside the container ever held them.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import traceback
from typing import NoReturn

from gpu_runner.protocol import CheckRef, CheckResult
from gpu_runner.sandbox import isolation, preload
from gpu_runner.sandbox.channel import Channel
from gpu_runner.sandbox.launcher import GroupLauncher, HostLine
from gpu_runner.sandbox.orders import RankOrder

_HOST_FD = 3
_SERVER_FD = 4
_PROC_FD = 5
#: The kernel takes the candidate's ranks first, then the checker, and the supervisor last.
_OOM_SCORE = 500


def become_checker(*, host: Channel, server: Channel, seccomp: bytes, limits: isolation.Confinement) -> NoReturn:
    """The whole life of the checker's process."""
    code = 1
    line = HostLine(host)
    try:
        proc = isolation.enter_namespaces()
        isolation.size_mounts(limits)
        host, server = _wire_up(host, server, proc)
        line = HostLine(host)
        message, _ = host.receive()
        os.environ.clear()
        os.environ.update(preload.ENVIRONMENT)
        os.chdir("/tmp")  # noqa: S108 - the checker's own
        seed = int(message["seed"])
        preload.seed_all(seed)
        isolation.confine(
            identity=isolation.CHECKER_ID, proc=_PROC_FD, limits=limits, seccomp=seccomp, oom_score=_OOM_SCORE
        )
        from gpu_runner.sandbox import checker

        refs = tuple(CheckRef(name=ref["name"], hidden=ref["hidden"]) for ref in message["refs"])
        launcher = GroupLauncher(
            server=server,
            line=line,
            order=RankOrder.from_message(message["order"]),
            output_bytes=int(message["output_bytes"]),
        )
        checker.run_checks(source=message["source"], refs=refs, launcher=launcher, report=Report(line), seed=seed)
        launcher.close()
        line.send(op="finished")
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it was, the host must hear of it
        line.send(op="crashed", trace=traceback.format_exc()[-4000:])
    finally:
        os._exit(code)


class Report:
    """Tells the host which check goes on and how it ended."""

    def __init__(self, line: HostLine) -> None:
        self._line = line

    def started(self, ref: CheckRef) -> None:
        """The output of the candidate's code belongs to this check from here on."""
        self._line.check = ref
        self._line.send(op="check_started", name=ref.name, hidden=ref.hidden)

    def done(self, result: CheckResult) -> None:
        self._line.send(op="check_done", result=result.to_wire())
        self._line.check = None


def _wire_up(host: Channel, server: Channel, proc: int) -> tuple[Channel, Channel]:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open("/dev/null", os.O_RDWR)
    wanted = [nothing, nothing, nothing, host.fileno(), server.fileno(), proc]
    lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, len(wanted)) for fd in wanted]
    host.detach()
    server.detach()
    for target, fd in enumerate(lifted):
        os.dup2(fd, target, inheritable=target <= 2)
    os.closerange(len(wanted), 1 << 16)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return Channel.adopt(_HOST_FD), Channel.adopt(_SERVER_FD)
