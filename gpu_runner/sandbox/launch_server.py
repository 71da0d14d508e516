"""The supervisor of a checks run: it forks the checker, and groups of the candidate's ranks when the checker asks.

All of them are siblings in pid, mount, network and IPC namespaces of their own. This process never sees the checks: the
host sends them to the checker over a channel that only passes through here, so nothing that is forked here can know them.
"""

from __future__ import annotations

import os
import selectors
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from gpu_runner.sandbox import isolation
from gpu_runner.sandbox.channel import Channel, ChannelClosed
from gpu_runner.sandbox.checks_process import become_checker
from gpu_runner.sandbox.supervisor import ChildWatch, kill_everybody_else, supervise


class LaunchServer:
    """Serves one checker until it ends."""

    def __init__(self, host: Channel, seccomp: bytes, proc: int) -> None:
        self._host = host
        self._seccomp = seccomp
        self._namespaces = isolation.PidNamespaces()
        os.close(proc)

    def run(self, message: dict[str, Any], fds: list[int]) -> None:
        """Forks the checker with the descriptor that the host sent for it, and serves its requests."""
        watch = ChildWatch()
        requests, checker_end = Channel.pair()
        pid = self._namespaces.fork()
        if pid == 0:
            self._host.close()
            requests.close()
            become_checker(
                host=Channel.adopt(fds[0]),
                server=checker_end,
                seccomp=self._seccomp,
                limits=isolation.Confinement(**message["limits"]),
            )
        checker_end.close()
        os.close(fds[0])
        with selectors.DefaultSelector() as selector:
            for waitable in (watch, requests, self._host):
                selector.register(waitable, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                ended = dict(watch.reap()) if watch in ready else {}
                if pid in ended:
                    status = os.waitstatus_to_exitcode(ended[pid])
                    break
                if self._host in ready:
                    self._host.receive()  # says nothing to us: it raises when the host is gone
                if requests in ready:
                    try:
                        requests.receive()
                    except ChannelClosed:
                        selector.unregister(requests)  # the checker is about to end
                    else:
                        self._launch(requests)
        kill_everybody_else()
        self._host.send({"op": "checker_ended", "status": status})

    def _launch(self, requests: Channel) -> None:
        theirs, ours = Channel.pair()
        pid = self._namespaces.fork()
        if pid == 0:
            self._supervise_group(requests, theirs, ours)
        ours.close()
        # A checker that died meanwhile is noticed by its end.
        with suppress(ChannelClosed):
            requests.send({"op": "group"}, [theirs.fileno()])
        theirs.close()

    def _supervise_group(self, requests: Channel, theirs: Channel, ours: Channel) -> NoReturn:
        try:
            self._host.close()
            requests.close()
            theirs.close()
            supervise(ours, self._seccomp)
        except BaseException:  # noqa: BLE001 - nothing may unwind into the code of the parent
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)
