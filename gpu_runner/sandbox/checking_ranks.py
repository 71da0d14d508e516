"""The checker's end of the sockets: asks a group of the candidate's ranks and waits for all of them, but not for ever."""

from __future__ import annotations

import re
import secrets
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from gpu_runner.protocol import CheckStatus, RankExit
from gpu_runner.sandbox.checking_faults import Fault, LaunchError, clean, listed, ranks_listed
from gpu_runner.sandbox.checking_wire import FrameReader, Message, WireFault, pack_message
from gpu_runner.sandbox.launching import Group, Launcher

#: When one rank has failed, the others may still end by themselves; after this they are given up.
_GRACE_S = 0.3
#: A process closes its socket a moment before it can be seen to have ended.
_END_WAIT_S = 0.05
#: The candidate's group may wait longer in a collective than any check does, so that a hang is seen as one.
_GROUP_TIMEOUT_S = 600.0
_READ_BYTES = 1 << 20
_NAME = re.compile(r"[^\W\d]\w{0,99}")
_PLACE = re.compile(r"[^\x00-\x1f\x7f]{1,200}:\d{1,7}( in \w{1,100})?")


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception of the candidate's, as text."""

    rank: int
    type_name: str
    kinds: tuple[str, ...]
    text: str
    where: str

    def __str__(self) -> str:
        text = f": {self.text}" if self.text else ""
        return f"{self.type_name}{text}{f' ({self.where})' if self.where else ''}"


@dataclass(slots=True)
class _Conversation:
    """One rank's part of one exchange."""

    rank: int
    sock: socket.socket
    out: memoryview
    reader: FrameReader = field(default_factory=FrameReader)
    reply: Message | None = None
    lost: bool = False
    breach: str = ""
    standing: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        return self.reply is not None or self.lost or bool(self.breach)


@dataclass(frozen=True, slots=True)
class Ask:
    """What one rank is asked: an operation of ``candidate.serve`` with its values."""

    op: str
    fields: dict[str, Any]
    values: dict[str, object]


class RankGroup:
    """Fresh ranks that have loaded the submission. ``deadline`` is the monotonic time at which the check is over."""

    def __init__(self, launcher: Launcher, *, ranks: int, deadline: float) -> None:
        self.ranks = ranks
        self._deadline = deadline
        self._exits: tuple[RankExit, ...] | None = None
        self._doing = "being loaded"
        try:
            self._group: Group = launcher.launch(ranks=ranks)
        except Exception as error:
            raise LaunchError(str(error)) from error
        for sock in self._group.sockets:
            sock.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> tuple[RankExit, ...]:
        """Ends the ranks, once, and says how they ended and what they printed."""
        if self._exits is None:
            self._exits = self._group.stop()
        return self._exits

    def load(self) -> None:
        """Loads the submission in each rank. Raises ``Fault``."""
        conversations = self._ask([Ask("load", {}, {})] * self.ranks, doing="being loaded")
        raised = self._settle(conversations, "loaded")
        if raised:
            first = raised[0]
            status = CheckStatus.CRASHED
            raise Fault(f"Your file could not be loaded: {first}.", detail=_all_raised(raised), status=status)

    def join(self) -> None:
        """Makes a gloo process group of the ranks. Raises ``Fault``."""
        ask = Ask("join", {"group_timeout_s": _GROUP_TIMEOUT_S}, {})
        raised = self._settle(self._ask([ask] * self.ranks, doing="joining the process group"), "joined")
        if raised:
            words = f"{self.ranks - len(raised)} of {self.ranks} ranks joined the process group: {raised[0]}."
            raise Fault(words, detail=_all_raised(raised), status=CheckStatus.CRASHED)

    def call(self, function: str, asks: Sequence[Ask]) -> tuple[list[Message], list[Raised]]:
        """The replies of the ranks that returned and the exceptions of those that raised. Raises ``Fault`` for all else."""
        conversations = self._ask(asks, doing=f"running {function}")
        missing = [c for c in conversations if c.reply is not None and c.reply.fields.get("op") == "missing"]
        if missing:
            raise Fault(f"Your file has no function {function}.")
        raised = self._settle(conversations, "returned")
        return [c.reply for c in conversations if c.reply and c.reply.fields["op"] == "returned"], raised

    def who(self, rank: int) -> str:
        """How a sentence about a rank begins."""
        return "Your program" if self.ranks == 1 else f"Rank {rank}"

    def _ask(self, asks: Sequence[Ask], *, doing: str) -> list[_Conversation]:
        self._doing = doing
        # Fresh for each exchange, so that a late or an early answer is not taken for this one's.
        nonce = secrets.token_hex(8)
        limit_s = max(0.05, self._deadline - time.monotonic())
        conversations = []
        for rank, (sock, ask) in enumerate(zip(self._group.sockets, asks, strict=True)):
            frame = pack_message({"op": ask.op, "id": nonce, "limit_s": limit_s, **ask.fields}, ask.values)
            conversations.append(_Conversation(rank, sock, memoryview(frame)))
        _converse(conversations, nonce, self._deadline)
        return conversations

    def _settle(self, conversations: list[_Conversation], wanted: str) -> list[Raised]:
        """The exceptions, in the order of ranks. Raises ``Fault`` for ranks that broke the rules, ended or did not return."""
        for conversation in conversations:
            if conversation.reply is not None and conversation.reply.fields.get("op") not in (wanted, "raised"):
                conversation.breach = "it answers something else than it was asked"
        if breaches := [c for c in conversations if c.breach]:
            who = self.who(breaches[0].rank)
            words = f"{who} sent the checks something that is no answer."
            raise Fault(words, detail=f"What came: {breaches[0].breach}.", status=CheckStatus.CRASHED)
        if lost := [c.rank for c in conversations if c.lost]:
            raise self._end_fault(lost)
        raised = [_raised(c.rank, c.reply) for c in conversations if c.reply and c.reply.fields["op"] == "raised"]
        late = [c for c in conversations if c.reply is None]
        if late and not raised:
            raise self._hang_fault(late)
        return raised

    def _end_fault(self, lost: list[int]) -> Fault:
        time.sleep(_END_WAIT_S)
        exits = {ended.rank: ended for ended in self.stop()}
        said = [_ended(self.who(rank), exits.get(rank), self._doing) for rank in lost]
        others = f" {ranks_listed(lost[1:])} ended too." if len(lost) > 1 else ""
        return Fault(said[0] + others, detail="\n".join(said[1:]), status=CheckStatus.CRASHED)

    def _hang_fault(self, late: list[_Conversation]) -> Fault:
        who = "Your program" if self.ranks == 1 else ranks_listed([c.rank for c in late])
        places: dict[str, list[int]] = {}
        for conversation in late:
            if conversation.standing:
                places.setdefault(conversation.standing[0], []).append(conversation.rank)
        stands = [f"{_they_stand(ranks, of=self.ranks)} at {place}" for place, ranks in places.items()]
        words = f"{who} did not come back from {self._doing} in time."
        words += f" When last seen, {', '.join(stands)}." if stands else ""
        detail = "\n".join(f"Rank {c.rank}: {' < '.join(c.standing)}" for c in late if len(c.standing) > 1)
        return Fault(words, detail=detail, status=CheckStatus.TIMED_OUT)


def _they_stand(ranks: list[int], *, of: int) -> str:
    if of == 1:
        return "it stood"
    return f"rank {ranks[0]} stood" if len(ranks) == 1 else f"ranks {listed(ranks)} stood"


def _converse(conversations: list[_Conversation], nonce: str, deadline: float) -> None:
    """Sends and receives until every conversation is over, the time is, or one has failed and the grace is."""
    with selectors.DefaultSelector() as selector:
        for conversation in conversations:
            selector.register(conversation.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, conversation)
        while selector.get_map():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return
            for key, events in selector.select(left_s):
                conversation = key.data
                _advance(conversation, events, nonce)
                if conversation.over:
                    selector.unregister(conversation.sock)
                    if conversation.reply is None or conversation.reply.fields.get("op") == "raised":
                        deadline = min(deadline, time.monotonic() + _GRACE_S)
                elif not conversation.out:
                    selector.modify(conversation.sock, selectors.EVENT_READ, conversation)


def _advance(conversation: _Conversation, events: int, nonce: str) -> None:
    try:
        if events & selectors.EVENT_WRITE and conversation.out:
            sent = conversation.sock.send(conversation.out)
            conversation.out = conversation.out[sent:]
        if events & selectors.EVENT_READ:
            data = conversation.sock.recv(min(conversation.reader.wanted_bytes(), _READ_BYTES))
            if not data:
                conversation.lost = True
            elif message := conversation.reader.feed(data):
                _take(conversation, message, nonce)
    except (BlockingIOError, InterruptedError):
        return
    except OSError:
        conversation.lost = True
    except WireFault as fault:
        conversation.breach = str(fault)


def _take(conversation: _Conversation, message: Message, nonce: str) -> None:
    op, call = message.text("op"), message.text("id")
    if op == "standing":
        # One of an earlier call may come late; it is of no use and no harm.
        stack = message.fields.get("stack")
        if call == nonce and isinstance(stack, list):
            places = [place for place in stack[:20] if isinstance(place, str) and _PLACE.fullmatch(place)]
            conversation.standing = tuple(clean(place) for place in places)
        return
    if call != nonce:
        raise WireFault("it answers another question than was asked")
    conversation.reply = message


def _raised(rank: int, message: Message) -> Raised:
    try:
        name, text, where = (message.text(field_name) for field_name in ("type", "text", "where"))
    except WireFault:
        name = text = where = ""
    kinds = message.fields.get("kinds")
    kinds = [kind for kind in kinds if isinstance(kind, str)] if isinstance(kinds, list) else []
    name = name if _NAME.fullmatch(name) else "an exception"
    text = clean(text.strip(), 500)
    return Raised(rank, name, tuple(kinds[:50]), text, where if _PLACE.fullmatch(where) else "")


def _all_raised(raised: list[Raised]) -> str:
    return "\n".join(f"Rank {one.rank}: {one}" for one in raised) if len(raised) > 1 else ""


def _ended(who: str, ended: RankExit | None, doing: str) -> str:
    if ended is not None and ended.signal is not None:
        meaning = _SIGNAL_WORDS.get(ended.signal, "")
        return f"{who} was ended by {ended.signal}{meaning} while {doing}."
    if ended is not None and ended.exit_code is not None:
        return f"{who} ended itself with exit code {ended.exit_code} while {doing}, so there is no answer to check."
    return f"{who} closed its connection to the checks while {doing}, so there is no answer to check."


_SIGNAL_WORDS = {
    "SIGSEGV": " (it touched memory that is not its own)",
    "SIGBUS": " (it touched memory that is not there)",
    "SIGFPE": " (an integer division by zero or overflow)",
    "SIGKILL": " (killed, most often for too much memory)",
    "SIGABRT": " (it gave itself up)",
    "SIGXCPU": " (its processor time was used up)",
    "SIGSYS": " (it made a system call that is not allowed)",
}
