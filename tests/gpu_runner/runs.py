"""Short ways to ask for a run and to look at what came of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpu_runner.protocol import (
    CheckDone,
    CheckRef,
    Finished,
    Limits,
    Mode,
    Output,
    RunEvent,
    RunResult,
    RunSpec,
    SourceFile,
    Stream,
)
from gpu_runner.slots import SlotPool


def program(source: str, *, files: dict[str, str] | None = None, **fields: Any) -> RunSpec:
    """A program with the entry ``main.py``. Names of limits may stand among the fields."""
    limits = {name: fields.pop(name) for name in list(fields) if name in Limits.__dataclass_fields__}
    texts = {"main.py": source, **(files or {})}
    values: dict[str, Any] = {"run_id": "run-1", "token": "token-1", "mode": Mode.PROGRAM, **fields}
    return RunSpec(
        files=tuple(SourceFile(path=path, text=text) for path, text in texts.items()),
        limits=Limits(**{"wall_s": 20.0, **limits}),
        **values,
    )


def checks(
    source: str, checks_source: str, names: Iterable[str], *, hidden: Iterable[str] = (), **fields: Any
) -> RunSpec:
    """Checks on a submission."""
    refs = tuple(CheckRef(name=name, hidden=name in set(hidden)) for name in names)
    return program(source, mode=Mode.CHECKS, checks_source=checks_source, checks=refs, **fields)


@dataclass(frozen=True)
class Ran:
    """The events of a run, taken apart."""

    events: list[RunEvent]

    @property
    def result(self) -> RunResult:
        finished = self.events[-1]
        assert isinstance(finished, Finished)
        return finished.result

    def text(self, stream: Stream = Stream.STDOUT, rank: int = 0) -> str:
        return "".join(event.text for event in self.outputs if event.stream is stream and event.rank == rank)

    @property
    def outputs(self) -> list[Output]:
        return [event for event in self.events if isinstance(event, Output)]

    @property
    def checks(self) -> list[CheckDone]:
        return [event for event in self.events if isinstance(event, CheckDone)]

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


def run(pool: SlotPool, spec: RunSpec, *, cancel: threading.Event | None = None) -> Ran:
    return Ran(list(pool.execute(spec, cancel=cancel)))
