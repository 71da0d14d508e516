"""What the checker may ask of the trusted supervisor of its run: fresh processes of the candidate's.

Each group is forked anew into namespaces of its own, so that nothing of one check reaches the next: no stale message, no
cached result, no patched module. The checker holds one socket for each rank and nothing else of the candidate's.
"""

from __future__ import annotations

import socket
from typing import Protocol

from gpu_runner.protocol import RankExit


class Group(Protocol):
    """The candidate's ranks, alive until ``stop``."""

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """A connected ``SOCK_STREAM`` socket for each rank, in rank order, whose other end ``candidate.serve`` reads."""
        ...

    def stop(self) -> tuple[RankExit, ...]:
        """Kills what still lives and says how each rank ended, with the tails of its output. May be called twice."""
        ...


class Launcher(Protocol):
    """Given to the checker by the supervisor."""

    def launch(self, *, ranks: int) -> Group:
        """A fresh group that has loaded nothing of the submission yet; ``torchrun``'s variables are set in each rank."""
        ...

    def run_program(self, *, ranks: int, stdin: str, wall_s: float) -> tuple[RankExit, ...]:
        """The entry file run as a program on fresh ranks, until it ends or ``wall_s`` is over (signal ``SIGKILL`` then)."""
        ...
