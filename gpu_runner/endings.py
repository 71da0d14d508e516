"""How a run ended, in one word of the contract and one sentence for a person."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runner.protocol import Limits, Outcome
from gpu_runner.sandbox.rank_output import RankReader, signal_name

#: A rank that takes others along by its death does so within this time.
_UNHEARD_S = 0.2

_SIGNAL_WORDS = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGBUS: "bus error",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction",
    signal.SIGABRT: "abort",
    signal.SIGKILL: "killed",
    signal.SIGXFSZ: "file too large",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the host ends a run, or why it ended by itself."""

    outcome: Outcome
    message: str = ""


def of_wall_time(limits: Limits) -> Ending:
    return Ending(Outcome.TIMED_OUT, f"Stopped after {limits.wall_s:g} s.")


def of_cpu_time(limits: Limits) -> Ending:
    return Ending(Outcome.TIMED_OUT, f"Stopped after {limits.cpu_s:g} s of processor time.")


def of_memory(memory_mb: int) -> Ending:
    return Ending(Outcome.OUT_OF_MEMORY, f"Stopped for using more than {memory_mb} MB of memory.")


def of_flood(reader: RankReader, several: bool) -> Ending:
    who = f"rank {reader.rank}" if several else "it"
    return Ending(Outcome.OUTPUT_LIMIT, f"Stopped because {who} wrote far more than may be shown.")


#: Whatever the trusted side trips over is never held against the candidate.
CHECKER_FAILED = "The checks themselves failed to run. It was no fault of the program."
CANCELLED = Ending(Outcome.CANCELLED, "Stopped on request.")


def of_ranks(readers: Sequence[RankReader], first_failed: RankReader | None) -> Ending:
    """The ending of ranks that nobody but perhaps their first failing one stopped."""
    if first_failed is None:
        return Ending(Outcome.EXITED)
    several = len(readers) > 1
    outcome = Outcome.EXITED if first_failed.signal_number is None else Outcome.SIGNALLED
    sentence = f"{'Rank ' + str(first_failed.rank) if several else 'The program'} {_fault(first_failed)}"
    stopped = [reader.rank for reader in readers if reader.status is None]
    if stopped:
        word = "rank" if len(stopped) == 1 else "ranks"
        sentence += f"; {word} {_listing(stopped)} {'was' if len(stopped) == 1 else 'were'} stopped"
    return Ending(outcome, sentence + ".")


def _fault(reader: RankReader) -> str:
    number = reader.signal_number
    if number is not None:
        words = _SIGNAL_WORDS.get(signal.Signals(number)) if number in set(signal.Signals) else None
        return f"was ended by {signal_name(number)}" + (f" ({words})" if words else "")
    record = reader.record
    if record.error and record.error != "SystemExit":
        return f"raised {record.error}" + (f" at {record.where}" if record.where else "")
    return f"ended with exit code {reader.exit_code}"


def _listing(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return str(ranks[0])
    return ", ".join(str(rank) for rank in ranks[:-1]) + f" and {ranks[-1]}"


def first_failed(readers: Sequence[RankReader]) -> RankReader | None:
    """The rank whose failure came first, by its own word where it has one: one failure takes others along within a blink."""
    failed = [reader for reader in readers if reader.failed]
    return min(failed, key=_failed_at_s, default=None)


def _failed_at_s(reader: RankReader) -> float:
    if reader.record.failed_at_s is not None:
        return reader.record.failed_at_s
    # It died without a word. Its peers saw their sockets close, and raised, before the host heard of its end.
    return (reader.ended_at_s or 0.0) - _UNHEARD_S


def diagnosis_of_stacks(readers: Sequence[RankReader], ending: Ending) -> dict[str, Any] | None:
    """Where each rank was when the time was over; None if no rank could say."""
    rows = [
        {"rank": reader.rank, "where": stack[0], "stack": list(stack)}
        for reader in readers
        if (stack := reader.record.stack)
    ]
    if not rows:
        return None
    by_place: dict[str, list[int]] = {}
    for row in rows:
        by_place.setdefault(str(row["where"]), []).append(int(str(row["rank"])))
    if len(readers) == 1:
        sentence = f"When it was stopped it was at {rows[0]['where']}."
    else:
        parts = [
            f"{'rank' if len(ranks) == 1 else 'ranks'} {_listing(ranks)} at {where}"
            for where, ranks in by_place.items()
        ]
        sentence = f"When the run was stopped: {'; '.join(parts)}."
    return {"sentence": sentence, "outcome": ending.outcome.value, "ranks": rows}
