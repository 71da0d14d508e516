"""The library for authors of questions: ``from checking import check`` in a question's ``checks.py``.

A check is a function marked with ``@check`` that is given a ``Candidate``. It calls the candidate's functions, which run in
other processes, and says what it expects of the answers. It passes when it expected something and nothing was wrong.
``docs/checks.md`` shows how.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_runner.protocol import CheckStatus, RankExit
from gpu_runner.sandbox.checking_answers import Answer, Call, EachRank, Notes, RankAnswers
from gpu_runner.sandbox.checking_faults import Fault, LaunchError, shown
from gpu_runner.sandbox.checking_ranks import Raised, RankGroup
from gpu_runner.sandbox.launching import Launcher
from gpu_runner.sandbox.tensors import FarApart, Placed, inside

if TYPE_CHECKING:
    from torch import Generator

__all__ = [
    "Answer",
    "Candidate",
    "Check",
    "EachRank",
    "FarApart",
    "Fault",
    "Notes",
    "Placed",
    "ProgramRun",
    "RankAnswers",
    "Ranks",
    "check",
    "inside",
]

DEFAULT_TIME_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Check:
    """A check as an author wrote it."""

    name: str
    title: str
    time_limit_s: float
    function: Callable[[Candidate], None]


def check(title: str, *, time_limit_s: float = DEFAULT_TIME_LIMIT_S) -> Callable[[Callable[[Candidate], None]], Check]:
    """Makes a check of a function. Its name is the name in ``question.toml``, its title what a person reads."""

    def mark(function: Callable[[Candidate], None]) -> Check:
        return Check(function.__name__, title, time_limit_s, function)

    return mark


class Ranks:
    """Ranks of the candidate that have loaded the submission and are joined in a gloo process group, as under torchrun."""

    def __init__(self, group: RankGroup, expecting: Callable[[], None]) -> None:
        self._group = group
        self._expecting = expecting

    def __len__(self) -> int:
        return self._group.ranks

    def call(self, function: str, *args: object, inputs_back: bool = False, **kwargs: object) -> RankAnswers:
        """Calls the function on every rank at once and waits for all. ``EachRank`` gives each its own argument.

        The check fails where a rank raises, ends or does not return.
        """
        call = self._new_call(function, args, kwargs, inputs_back)
        started_s = time.monotonic()
        replies, raised = self._group.call(function, call.asks(show_traceback=True))
        duration_s = time.monotonic() - started_s
        if raised:
            raise self._raised_fault(call, raised)
        return RankAnswers(call, [call.answer(rank, reply, duration_s) for rank, reply in enumerate(replies)])

    def expect_raises(self, exceptions: str | Sequence[str], function: str, *args: object, **kwargs: object) -> None:
        """Every rank must raise one of these exceptions, or one derived from it."""
        wanted = (exceptions,) if isinstance(exceptions, str) else tuple(exceptions)
        call = self._new_call(function, args, kwargs, inputs_back=False)
        replies, raised = self._group.call(function, call.asks(show_traceback=False))
        self._expecting()
        if replies or len(raised) < self._group.ranks:
            words = f"{function}: it should raise {' or '.join(wanted)} and does not."
            value = f"It returned {shown(call.answer(0, replies[0], 0.0).value)}. " if replies else ""
            raise Fault(words, shown=f"{value}The call was {call.text(0)}.")
        for one in raised:
            if not {one.type_name, *one.kinds} & set(wanted):
                words = f"{function}: it should raise {' or '.join(wanted)} and raises {one.type_name}."
                raise Fault(words, shown=f"It says: {one}. The call was {call.text(one.rank)}.")

    def _new_call(self, function: str, args: tuple[object, ...], kwargs: dict[str, object], inputs_back: bool) -> Call:
        return Call(function, args, kwargs, self._group.ranks, inputs_back, self._expecting)

    def _raised_fault(self, call: Call, raised: list[Raised]) -> Fault:
        first = raised[0]
        who = call.function if call.ranks == 1 else f"Rank {first.rank}"
        more = "" if len(raised) == 1 else f" So {'does' if len(raised) == 2 else 'do'} {len(raised) - 1} more."
        place = f" at {first.where}" if first.where else ""
        # The exception's text may hold the inputs of the check, so a hidden one does not tell it.
        detail = "\n".join(f"Rank {one.rank}: {one}" for one in raised) if call.ranks > 1 else ""
        return Fault(
            f"{who}: it raises {first.type_name}{place}.{more}",
            shown=f"It says: {first.text or '(nothing)'}. The call was {call.text(first.rank)}.",
            detail=detail,
        )


class ProgramRun:
    """The submission run as a program, and what is expected of it."""

    def __init__(self, exits: Sequence[RankExit], expecting: Callable[[], None]) -> None:
        self.exits = tuple(exits)
        self._expecting = expecting

    def output(self, rank: int = 0) -> str:
        """The last lines of a rank's standard output."""
        return self.exits[rank].stdout_tail

    def expect_success(self) -> None:
        """Every rank ended with exit code 0."""
        self._expecting()
        for ended in self.exits:
            if ended.exit_code != 0:
                how = f"ended by {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
                raise Fault(f"Run as a program, rank {ended.rank} fails: {how}.", detail=ended.stderr_tail[-1000:])

    def expect_printed(self, text: str, *, rank: int = 0) -> None:
        """This text stands in the output."""
        self._expecting()
        if text not in self.output(rank):
            raise Fault(
                f"Run as a program, rank {rank} does not print what it should.",
                shown=f"Looked for {text!r}.",
                detail=f"It prints: {self.output(rank)[-1000:]}",
            )


class Candidate:
    """The candidate's submission, in processes of its own. A new one for each check."""

    def __init__(self, launcher: Launcher, *, seed: str, time_limit_s: float) -> None:
        self._launcher = launcher
        self._deadline = time.monotonic() + time_limit_s
        self._single: Ranks | None = None
        self._groups: list[RankGroup] = []
        self._outputs: list[str] = []
        self.expectations = 0
        #: Random numbers that are others in each check and run, and the same again for the same seed.
        self.random = random.Random(hashlib.sha256(seed.encode()).digest())

    def generator(self) -> Generator:
        """As ``random``, for ``torch.randn(..., generator=...)``. Each call gives one in another state."""
        import torch

        made: Generator = torch.Generator().manual_seed(self.random.getrandbits(60))
        return made

    def call(self, function: str, *args: object, inputs_back: bool = False, **kwargs: object) -> Answer:
        """Calls a function of the submission in one process, which stays until the check ends."""
        return self._alone().call(function, *args, inputs_back=inputs_back, **kwargs)[0]

    def expect_raises(self, exceptions: str | Sequence[str], function: str, *args: object, **kwargs: object) -> None:
        """The call must raise one of these exceptions, or one derived from it."""
        self._alone().expect_raises(exceptions, function, *args, **kwargs)

    def require(self, holds: bool, words: str, *, shown: str = "", detail: str = "") -> None:
        """Anything else that must hold. ``words`` name the fault and no value."""
        self._expecting()
        if not holds:
            raise Fault(words, shown=shown, detail=detail)

    @contextmanager
    def ranks(self, count: int) -> Iterator[Ranks]:
        """Fresh ranks with a gloo process group, for as long as the ``with`` block."""
        group = self._start(count)
        group.join()
        yield Ranks(group, self._expecting)
        self._end(group)

    def run(self, *, ranks: int = 1, stdin: str = "", time_limit_s: float | None = None) -> ProgramRun:
        """Runs the submission as a program, to its end."""
        left_s = max(0.1, self._deadline - time.monotonic())
        wall_s = left_s if time_limit_s is None else min(left_s, time_limit_s)
        try:
            exits = self._launcher.run_program(ranks=ranks, stdin=stdin, wall_s=wall_s)
        except Exception as error:
            raise LaunchError(str(error)) from error
        self._outputs.append(_printed(exits))
        if any(ended.signal == "SIGKILL" for ended in exits) and time.monotonic() >= self._deadline - 0.1:
            raise Fault("Run as a program, it did not end in time.", status=CheckStatus.TIMED_OUT)
        return ProgramRun(exits, self._expecting)

    def close(self) -> str:
        """Ends all processes and gives what they printed."""
        for group in list(self._groups):
            self._end(group)
        return "".join(self._outputs)

    def _alone(self) -> Ranks:
        if self._single is None:
            self._single = Ranks(self._start(1), self._expecting)
        return self._single

    def _start(self, count: int) -> RankGroup:
        group = RankGroup(self._launcher, ranks=count, deadline=self._deadline)
        self._groups.append(group)
        group.load()
        return group

    def _end(self, group: RankGroup) -> None:
        if group in self._groups:
            self._groups.remove(group)
            self._outputs.append(_printed(group.stop()))

    def _expecting(self) -> None:
        self.expectations += 1


def _printed(exits: Sequence[RankExit]) -> str:
    """The output of all ranks, each line after its rank where there are several."""
    parts = []
    for ended in sorted(exits, key=lambda ended: ended.rank):
        text = ended.stdout_tail + ended.stderr_tail
        mark = f"[{ended.rank}] " if len(exits) > 1 else ""
        parts += [f"{mark}{line}\n" for line in text.splitlines()]
    return "".join(parts)
