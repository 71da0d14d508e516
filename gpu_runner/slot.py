"""A warm container as the host sees it: the process that forks supervisors, and the supervisor that waits for a run."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from typing import Any

from gpu_runner.cgroups import SlotCgroup
from gpu_runner.oci import Container
from gpu_runner.sandbox.channel import Channel, ChannelClosed

#: Nothing that is asked of a warm parent or a supervisor takes longer than some milliseconds, unless the machine is drowning.
_ANSWER_WAIT_S = 5.0
_FORK_PAUSE_S = 0.02


class SlotLost(RuntimeError):
    """The slot's first process or a supervisor died under a run, or did not answer: a fault of the host's."""


def readable(fd: int, wait_s: float) -> bool:
    """Whether the descriptor becomes readable in that time. A pidfd does when its process has ended."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, wait_s) * 1000))


class Supervisor:
    """The first process of a run's namespaces, and the handle by which all of the run can be ended."""

    def __init__(self, channel: Channel, pidfd: int) -> None:
        self.channel = channel
        self.pidfd = pidfd

    def kill(self) -> None:
        """Ends the run's every process. They are gone when ``gone`` says so."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def gone(self, wait_s: float) -> bool:
        return readable(self.pidfd, wait_s)

    def close(self) -> None:
        self.channel.close()
        os.close(self.pidfd)


class Slot:
    """A container with a warm first process. One run at a time."""

    def __init__(self, *, name: str, index: int, container: Container, cgroup: SlotCgroup) -> None:
        self.name = name
        self.index = index
        self.container = container
        self.cgroup = cgroup
        self.versions: dict[str, str] = {}
        self.runs = 0
        #: Why it must not serve again; empty while nothing odd was seen.
        self.odd = ""
        self._channel = Channel(container.socket)
        self._forking = False
        self._leaving: Supervisor | None = None

    @property
    def alive(self) -> bool:
        return not readable(self.container.pidfd, 0)

    def wait_warm(self, wait_s: float) -> None:
        """Waits for the imports, then has the first supervisor forked. Raises ``SlotLost``."""
        self.versions = dict(self._answer(wait_s)[0]["versions"])
        self.fork_ahead()

    def fork_ahead(self) -> None:
        """Asks for the next supervisor and does not wait for it. A dead slot is found out by ``take``."""
        with suppress(ChannelClosed):
            self._channel.send({"op": "fork"})
        self._forking = True

    def take(self) -> Supervisor:
        """The supervisor for the next run, with the namespaces made and the last run gone. Raises ``SlotLost``."""
        if self._leaving is not None:
            if not self._leaving.gone(_ANSWER_WAIT_S):
                raise SlotLost("the last run's processes did not end")
            self._leaving.close()
            self._leaving = None
        deadline = time.monotonic() + _ANSWER_WAIT_S
        while True:
            if not self._forking:
                self.fork_ahead()
            self._forking = False
            message, fds = self._answer(deadline - time.monotonic())
            if message["op"] == "forked":
                break
            # The dying processes of the last run may still count against the limit.
            time.sleep(_FORK_PAUSE_S)
        supervisor = Supervisor(Channel.adopt(fds[0]), fds[1])
        try:
            if not readable(supervisor.channel.fileno(), _ANSWER_WAIT_S):
                raise SlotLost("a supervisor did not make its namespaces")
            supervisor.channel.receive()
        except (ChannelClosed, SlotLost) as error:
            supervisor.kill()
            supervisor.close()
            raise SlotLost(f"a supervisor did not come up: {error}\n{self.container.log_tail()}".strip()) from error
        return supervisor

    def give_back(self, supervisor: Supervisor) -> None:
        """Ends what may be left of a run and makes ready for the next, without waiting for either."""
        supervisor.kill()
        self._leaving = supervisor
        self.fork_ahead()

    def _answer(self, wait_s: float) -> tuple[dict[str, Any], list[int]]:
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        poll.register(self.container.pidfd, select.POLLIN)
        ready = poll.poll(max(0.0, wait_s) * 1000)
        if not ready:
            raise SlotLost(f"the slot did not answer within {wait_s:.0f} s\n{self.container.log_tail()}".strip())
        try:
            return self._channel.receive()
        except ChannelClosed as error:
            raise SlotLost(f"the slot's first process ended\n{self.container.log_tail()}".strip()) from error

    def remove(self) -> None:
        """Takes the container away with all that is in it."""
        if self._leaving is not None:
            self._leaving.close()
            self._leaving = None
        self.container.remove()
        self.cgroup.remove()
