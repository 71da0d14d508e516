"""The library for authors of questions: ``from checking import check`` in a question's ``checks.py``.

A check is a function marked with ``@check`` that is given a ``Candidate``. It calls the candidate's functions, which run in
other processes, and says what it expects of the answers. It passes when it expected something and nothing was wrong.
``docs/checks.md`` shows how.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from gpu_runner.protocol import CheckStatus, RankExit
from gpu_runner.sandbox import tensors
from gpu_runner.sandbox.checking_compare import (
    Known,
    compare_close,
    compare_equal,
    compare_int,
    compare_tensor,
    tensors_equal,
)
from gpu_runner.sandbox.checking_faults import Fault, LaunchError, call_text, clean, kind_of, listed, shown
from gpu_runner.sandbox.checking_ranks import Ask, Raised, RankGroup
from gpu_runner.sandbox.checking_wire import ITEM_BYTES, Message, RawPlacement, RawTensor, WireFault
from gpu_runner.sandbox.launching import Launcher
from gpu_runner.sandbox.tensors import FarApart, Placed, inside

if TYPE_CHECKING:
    from torch import Generator, Tensor

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
_NO_KNOWN: Known = {}


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


class EachRank:
    """An argument that is another one on each rank: ``EachRank([x0, x1, x2, x3])``."""

    def __init__(self, values: Sequence[object]) -> None:
        self.values = tuple(values)


@dataclass(frozen=True, slots=True)
class Sent:
    """One point-to-point operation of a rank. ``peer`` is -1 where the program did not say it plainly."""

    operation: str
    peer: int
    items: int


@dataclass(frozen=True, slots=True)
class Notes:
    """What a rank did in ``torch.distributed`` and how many Triton kernels it launched in one call, by its own notes.

    Evidence that a determined cheat can forge: never let it decide alone, see that the values are right too.
    """

    sends: tuple[Sent, ...] = ()
    receives: tuple[Sent, ...] = ()
    collectives: tuple[str, ...] = ()
    kernel_launches: int = 0


class Answer:
    """What one rank returned from one call, and what is expected of it."""

    def __init__(self, call: _Call, rank: int, value: Any, after: list[Any], notes: Notes, duration_s: float) -> None:
        self._call = call
        self.rank = rank
        self.value = value
        self.notes = notes
        #: From asking to having the answer, on the checker's clock.
        self.duration_s = duration_s
        self._after = after

    @property
    def _subject(self) -> str:
        """How a sentence about this answer begins."""
        return self._call.function if self._call.ranks == 1 else f"Rank {self.rank}"

    def expect_int(self, expected: int, *, known: Known = _NO_KNOWN) -> None:
        """Exactly this int. A bool or a float of the same value is not one."""
        self._expecting(lambda: compare_int(self.value, expected, subject=self._subject, known=known))

    def expect_close(
        self, expected: float, *, rel_tol: float = 1e-9, abs_tol: float = 0.0, known: Known = _NO_KNOWN
    ) -> None:
        """An int or a float within the tolerance."""
        self._expecting(
            lambda: compare_close(
                self.value, expected, rel_tol=rel_tol, abs_tol=abs_tol, subject=self._subject, known=known
            )
        )

    def expect_equal(self, expected: object, *, known: Known = _NO_KNOWN) -> None:
        """The same plain value, types included: ``1`` is not ``True``, a list is not a tuple. Tensors bit for bit."""
        self._expecting(lambda: compare_equal(self.value, expected, subject=self._subject, known=known))

    def expect_tensor(
        self,
        expected: Tensor,
        *,
        dtype: Any = None,
        rel_tol: float = 0.0,
        abs_tol: float = 0.0,
        known: Known = _NO_KNOWN,
    ) -> None:
        """A tensor of this shape and ``dtype`` (that of ``expected`` unless given), each element within
        ``abs_tol + rel_tol × the largest magnitude expected``. Integers are compared exactly."""
        self._expecting(
            lambda: compare_tensor(
                self.value, expected, dtype=dtype, rel_tol=rel_tol, abs_tol=abs_tol, subject=self._subject, known=known
            )
        )

    def expect_none(self) -> None:
        """``None``."""
        self.expect_equal(None)

    def require(self, holds: bool, words: str, *, shown: str = "", detail: str = "") -> None:
        """Anything else. ``words`` name the fault and no value; ``shown`` and ``detail`` as in ``Fault``."""

        def look() -> None:
            if not holds:
                raise Fault(f"{self._subject}: {words}", shown=shown, detail=detail)

        self._expecting(look)

    def expect_inputs_unchanged(self) -> None:
        """No tensor argument was written to. The call must have been made with ``inputs_back=True``."""
        if not self._call.given[self.rank]:
            raise LookupError("the call did not ask for its inputs back: inputs_back=True")
        for given in self._call.given[self.rank]:
            self.expect_unchanged(given.argument)

    def expect_unchanged(self, argument: Tensor | Placed | FarApart) -> None:
        """Neither this tensor argument nor the buffer it lies in was written to."""

        def look() -> None:
            before = argument.buffer if isinstance(argument, Placed) else argument
            before = before.values if isinstance(before, FarApart) else before
            after = self.after(argument)
            if not tensors_equal(before.reshape(-1), after.reshape(-1)):
                values = f"It was {shown(before)} and is {shown(after)} after the call." if before.numel() <= 8 else ""
                raise Fault(f"{self._subject}: an input was changed, it should be left as it was.", shown=values)

        self._expecting(look)

    def after(self, argument: Tensor | Placed | FarApart) -> Tensor:
        """The buffer of an argument as it was after the call: of ``Placed`` the whole of it, else just the tensor."""
        for given, back in zip(self._call.given[self.rank], self._after, strict=True):
            if given.argument is argument:
                return back
        raise LookupError("the call did not ask for this argument back: inputs_back=True")

    def expect_outside_unchanged(self, argument: Placed) -> None:
        """Nothing of the buffer around the tensor was written to."""

        def look() -> None:
            before, after = (argument.outside_of(buffer) for buffer in (argument.buffer, self.after(argument)))
            if tensors_equal(before, after):
                return
            import torch

            sides = [side.view(torch.uint8).reshape(side.numel(), -1) for side in (before, after)]
            count = int((sides[0] != sides[1]).any(dim=1).sum())
            raise Fault(
                f"{self._subject}: it wrote to memory outside the tensor it was given.",
                detail=f"{count:,} of the {before.numel():,} elements around it have changed.",
            )

        self._expecting(look)

    def _expecting(self, look: Callable[[], None]) -> None:
        self._call.expecting()
        try:
            look()
        except Fault as fault:
            fault.shown = f"{fault.shown} The call was {self._call.text(self.rank)}.".strip()
            raise


class RankAnswers(Sequence[Answer]):
    """The answers of all ranks to one call, in rank order."""

    def __init__(self, call: _Call, answers: Sequence[Answer]) -> None:
        self._call = call
        self._answers = tuple(answers)

    @overload
    def __getitem__(self, index: int) -> Answer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Answer]: ...
    def __getitem__(self, index: int | slice) -> Answer | Sequence[Answer]:
        return self._answers[index]

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def values(self) -> list[Any]:
        return [answer.value for answer in self._answers]

    def expect_tensors(
        self,
        expected: Sequence[Tensor],
        *,
        dtype: Any = None,
        rel_tol: float = 0.0,
        abs_tol: float = 0.0,
        known: Mapping[str, Sequence[Tensor]] | None = None,
    ) -> None:
        """On each rank its own tensor. ``known`` names wrong outcomes by what each rank then holds; a name is given only
        where it fits every rank."""
        try:
            for answer, one in zip(self._answers, expected, strict=True):
                answer.expect_tensor(one, dtype=dtype, rel_tol=rel_tol, abs_tol=abs_tol)
        except Fault as fault:
            fitting = [words for words, outcome in (known or {}).items() if self._are(outcome, rel_tol, abs_tol)]
            named = f"This is what comes out when {' or '.join(fitting)}." if fitting else ""
            table = [
                f"Rank {a.rank}: got {shown(a.value)}, expected {shown(e)}."
                for a, e in zip(self._answers, expected, strict=True)
            ]
            fault.detail = "\n".join(part for part in (named, fault.detail, *table) if part)
            raise

    def _are(self, outcome: Sequence[Tensor], rel_tol: float, abs_tol: float) -> bool:
        try:
            for answer, one in zip(self._answers, outcome, strict=True):
                compare_tensor(
                    answer.value, one, dtype=None, rel_tol=rel_tol, abs_tol=abs_tol, subject="", known=_NO_KNOWN
                )
        except Fault:
            return False
        return True

    def expect_inputs_unchanged(self) -> None:
        for answer in self._answers:
            answer.expect_inputs_unchanged()

    def expect_no_collectives(self) -> None:
        """No rank called a collective, as far as its own notes say."""
        used = sorted({name for answer in self._answers for name in answer.notes.collectives})
        self._call.expecting()
        if used:
            raise Fault(
                "Your ranks call a collective, this is to be done with point-to-point messages.",
                shown=f"Called: {listed(used)}.",
            )

    def expect_messages(self, *, messages: Sequence[int], items: Sequence[int]) -> None:
        """How many messages each rank sends, and how many elements in all of them, as far as its own notes say."""
        self._call.expecting()
        for answer, wanted, wanted_items in zip(self._answers, messages, items, strict=True):
            sends = answer.notes.sends
            sent_items = sum(sent.items for sent in sends)
            told = f"Rank {answer.rank} sends {len(sends)} messages with {sent_items} elements"
            if len(sends) != wanted:
                few = "too few" if len(sends) < wanted else "more messages than needed"
                raise Fault(f"Rank {answer.rank} sends {few}.", shown=f"{told}; {wanted} messages are needed.")
            if sent_items != wanted_items:
                words = (
                    f"Rank {answer.rank} sends {'fewer' if sent_items < wanted_items else 'more'} elements than needed."
                )
                raise Fault(words, shown=f"{told}; {wanted_items} elements are needed.")


@dataclass(frozen=True, slots=True)
class _Given:
    """A tensor argument that comes back after the call."""

    argument: Any
    raw: RawPlacement


@dataclass(slots=True)
class _Call:
    """One call on every rank of a group: what was given, and how to say it."""

    function: str
    args: tuple[object, ...]
    kwargs: dict[str, object]
    ranks: int
    inputs_back: bool
    expecting: Callable[[], None]
    given: list[list[_Given]] = field(default_factory=list)

    def text(self, rank: int) -> str:
        args, kwargs = self._of_rank(rank)
        return call_text(self.function, args, kwargs)

    def asks(self, *, show_traceback: bool) -> list[Ask]:
        """One for each rank, with its own arguments."""
        asks = []
        for rank in range(self.ranks):
            given: list[_Given] = []
            args, kwargs = self._of_rank(rank)
            values = {"args": self._packed(list(args), given), "kwargs": self._packed(dict(kwargs), given)}
            asks.append(Ask("call", {"function": self.function, "show_traceback": show_traceback}, values))
            self.given.append(given)
        return asks

    def _of_rank(self, rank: int) -> tuple[tuple[object, ...], dict[str, object]]:
        def own(value: object) -> object:
            return value.values[rank] if isinstance(value, EachRank) else value

        return tuple(map(own, self.args)), {name: own(value) for name, value in self.kwargs.items()}

    def _packed(self, value: Any, given: list[_Given]) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self._packed(item, given) for item in value)
        if isinstance(value, dict):
            return {name: self._packed(item, given) for name, item in value.items()}
        import torch

        if not isinstance(value, (torch.Tensor, Placed, FarApart)):
            return value
        placed = tensors.contiguous(value) if isinstance(value, torch.Tensor) else value
        raw = placed.to_raw(back=self.inputs_back or isinstance(value, Placed))
        if raw.back:
            given.append(_Given(value, raw))
        return raw

    def answer(self, rank: int, reply: Message, duration_s: float) -> Answer:
        """Raises ``Fault`` where the reply is not one."""
        try:
            value = reply.value("value", _unpack)
            after = _after(reply.value("after", _unpack), self.given[rank])
            notes = _notes(reply.fields.get("notes"))
        except WireFault as fault:
            who = "Your program" if self.ranks == 1 else f"Rank {rank}"
            words = f"{who} sent the checks something that is no answer."
            raise Fault(words, detail=f"What came: {fault}.", status=CheckStatus.CRASHED) from None
        return Answer(self, rank, value, after, notes, duration_s)


def _unpack(raw: RawTensor | RawPlacement) -> object:
    if isinstance(raw, RawPlacement):
        raise WireFault("a placement is no result")
    return tensors.from_raw(raw)


def _after(value: object, given: list[_Given]) -> list[Any]:
    import torch

    if not isinstance(value, list) or len(value) != len(given):
        raise WireFault("not every input came back")
    for back, one in zip(value, given, strict=True):
        shape = one.raw.shape if one.raw.buffer is None else (one.raw.buffer_items,)
        if not isinstance(back, torch.Tensor) or tuple(back.shape) != shape:
            raise WireFault("an input came back as another one")
        if tensors.dtype_name(back.dtype) != one.raw.dtype:
            raise WireFault("an input came back in another dtype")
    return value


def _notes(notes: object) -> Notes:
    match notes:
        case {
            "messages": list(messages),
            "collectives": list(collectives),
            "kernel_launches": int(launches),
            "unnoted": int(unnoted),
        }:
            pass
        case _:
            raise WireFault("its notes are not as they should be")
    if unnoted or len(messages) + len(collectives) > 1 << 16:
        raise WireFault("it sent more messages than can be noted")
    found: dict[str, list[Sent]] = {"send": [], "receive": []}
    for message in messages:
        match message:
            case [("send" | "receive") as way, str(operation), int(peer), int(items)]:
                found[way].append(Sent(clean(operation, 40), peer, items))
            case _:
                raise WireFault("its notes are not as they should be")
    if not all(isinstance(name, str) and name.isidentifier() for name in collectives):
        raise WireFault("its notes are not as they should be")
    return Notes(
        tuple(found["send"]), tuple(found["receive"]), tuple(clean(name, 40) for name in collectives), launches
    )


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

    def _new_call(self, function: str, args: tuple[object, ...], kwargs: dict[str, object], inputs_back: bool) -> _Call:
        return _Call(function, args, kwargs, self._group.ranks, inputs_back, self._expecting)

    def _raised_fault(self, call: _Call, raised: list[Raised]) -> Fault:
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


def describe(value: object) -> str:
    """A value and its kind in words, for an author's own messages."""
    return f"{shown(value)} ({kind_of(value)})"


#: Bytes of one element, by the name of its dtype: for questions that count traffic.
ELEMENT_BYTES: Mapping[str, int] = ITEM_BYTES
