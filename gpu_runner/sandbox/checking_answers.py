"""What the candidate returned from a call, and what an author may expect of it. Part of the library ``checking``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from gpu_runner.protocol import CheckStatus
from gpu_runner.sandbox import tensors
from gpu_runner.sandbox.checking_compare import (
    Known,
    compare_close,
    compare_equal,
    compare_int,
    compare_tensor,
    tensors_equal,
)
from gpu_runner.sandbox.checking_faults import Fault, call_text, clean, listed, shown
from gpu_runner.sandbox.checking_ranks import Ask
from gpu_runner.sandbox.checking_wire import Message, RawPlacement, RawTensor, WireFault
from gpu_runner.sandbox.tensors import FarApart, Placed

if TYPE_CHECKING:
    from torch import Tensor

_NO_KNOWN: Known = {}


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

    def __init__(self, call: Call, rank: int, value: Any, after: list[Any], notes: Notes, duration_s: float) -> None:
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

    def __init__(self, call: Call, answers: Sequence[Answer]) -> None:
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
class Call:
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
