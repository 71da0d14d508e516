"""What a supervisor is told: which ranks to fork, with what. Sent by the host for a program, by the checker for checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from gpu_runner.protocol import SourceFile
from gpu_runner.sandbox.isolation import Confinement


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOrder:
    """Fresh ranks of the submission. With ``serve`` they wait for calls on a socket in place of running the entry."""

    ranks: int
    serve: bool
    files: tuple[SourceFile, ...]
    entry: str
    stdin: str
    seed: int
    rehearse: bool
    limits: Confinement
    wall_s: float

    @property
    def fds_each(self) -> int:
        """stdout, stderr, record, and the socket to serve on."""
        return 4 if self.serve else 3

    def to_message(self) -> dict[str, Any]:
        return {"op": "ranks", **asdict(self)}

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Self:
        fields = {name: value for name, value in message.items() if name != "op"}
        fields["files"] = files_from(fields["files"])
        fields["limits"] = Confinement(**fields["limits"])
        return cls(**fields)

    def with_changes(self, **changes: Any) -> Self:
        return replace(self, **changes)


def files_from(wire: Sequence[dict[str, str]]) -> tuple[SourceFile, ...]:
    """The files again, their paths checked anew."""
    return tuple(SourceFile(path=file["path"], text=file["text"]) for file in wire)
