"""One run on one slot, as the host sees it: it sends the submission in, reads what comes out and holds the limits."""

from __future__ import annotations

import os
import selectors
import signal
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass

from gpu_runner import endings
from gpu_runner.cgroups import Usage
from gpu_runner.endings import Ending
from gpu_runner.protocol import Limits, Outcome, Output, Rehearse, RunEvent, RunResult, RunSpec, Stream
from gpu_runner.sandbox.channel import ChannelClosed
from gpu_runner.sandbox.isolation import Confinement
from gpu_runner.sandbox.orders import RankOrder
from gpu_runner.sandbox.rank_output import EVENT_GAP_S, RankReader, open_rank_pipes
from gpu_runner.sandbox.ranks import SETUP_FAILED
from gpu_runner.slot import Slot, SlotLost, Supervisor

#: The other ranks get this long to fail by themselves, so that their words are kept, once one has failed.
_GRACE_S = 2.0
#: How often limits are looked at. A stop takes at most this and the time it takes to kill.
TICK_S = 0.05
_KILL_WAIT_S = 10.0
_STACK_WAIT_S = 1.0
_MB = 1 << 20

#: What an execution yields: an event without its time yet, or None when nothing happened for a tick.
Tick = RunEvent | None


@dataclass(frozen=True, slots=True)
class Readings:
    """What the run took, by the cgroup's account."""

    wall_s: float
    cpu_s: float
    peak_memory_mb: float | None


class Execution:
    """The limits of one run and the means to end it. Subclasses say what happens in between."""

    #: What the run may use beyond the limit that it was given.
    EXTRA_MEMORY_MB = 0

    def __init__(self, slot: Slot, spec: RunSpec, *, seed: int, memory_cap_mb: int, cancel: threading.Event) -> None:
        self.spec = spec
        self.seed = seed
        #: Something of the run was shown, so it cannot be started over unnoticed.
        self.shown = False
        self.rehearsed = False
        self._slot = slot
        self._cancel = cancel
        self._supervisor: Supervisor = slot.take()
        self._memory_mb = min(spec.limits.memory_mb, memory_cap_mb)
        try:
            self._before = self._hold()
        except OSError as error:
            self._supervisor.kill()
            self._supervisor.close()
            raise SlotLost(f"the slot's cgroup could not be set: {error}") from error
        self._started_s = time.monotonic()
        self._ended_s: float | None = None
        self._peak_seen_bytes = 0
        self._next_look_s = 0.0

    def _hold(self) -> Usage:
        """Sets the slot's cgroup for this run, on top of what the warm parent itself takes."""
        cgroup = self._slot.cgroup
        before = cgroup.usage()
        cgroup.limit(
            memory_bytes=before.memory_bytes + (self._memory_mb + self.EXTRA_MEMORY_MB) * _MB,
            pids=cgroup.pid_count() + self.spec.limits.pids,
        )
        cgroup.reset_peak()
        return before

    def order(self) -> RankOrder:
        """What the run's supervisor is told."""
        spec, limits = self.spec, self.spec.limits
        return RankOrder(
            ranks=spec.ranks,
            serve=False,
            files=spec.files,
            entry=spec.entry,
            stdin=spec.stdin,
            seed=self.seed,
            rehearse=spec.rehearse is Rehearse.AUTO,
            limits=Confinement(cpu_s=limits.cpu_s, memory_mb=self._memory_mb, file_mb=limits.file_mb),
            wall_s=limits.wall_s,
        )

    def overrun(self) -> Ending | None:
        """The limit that the run has met, or the stop that was asked for."""
        now = time.monotonic()
        if self._cancel.is_set():
            return endings.CANCELLED
        limits: Limits = self.spec.limits
        if now - self._started_s >= limits.wall_s:
            return endings.of_wall_time(limits)
        if now < self._next_look_s:
            return None
        self._next_look_s = now + TICK_S
        return self.overuse()

    def overuse(self) -> Ending | None:
        """The same by the counters of the cgroup alone."""
        usage = self._slot.cgroup.usage()
        self._peak_seen_bytes = max(self._peak_seen_bytes, usage.memory_bytes)
        if usage.oom_kills > self._before.oom_kills:
            return endings.of_memory(self._memory_mb)
        if usage.cpu_s - self._before.cpu_s > self.spec.limits.cpu_s:
            return endings.of_cpu_time(self.spec.limits)
        return None

    def kill(self) -> None:
        """Ends all processes of the run and waits until they are gone. Raises ``SlotLost`` if they will not go."""
        self._supervisor.kill()
        if not self._supervisor.gone(_KILL_WAIT_S):
            raise SlotLost("the processes of a run would not end")

    def readings(self) -> Readings:
        usage = self._slot.cgroup.usage()
        peak = max(self._slot.cgroup.peak_bytes() or 0, self._peak_seen_bytes, usage.memory_bytes)
        return Readings(
            wall_s=round((self._ended_s or time.monotonic()) - self._started_s, 4),
            cpu_s=round(usage.cpu_s - self._before.cpu_s, 4),
            peak_memory_mb=round(max(0, peak - self._before.memory_bytes) / _MB, 1),
        )

    def lost(self) -> SlotLost:
        """What to raise when the supervisor ended before the run did."""
        if not self._slot.alive:
            return SlotLost("the slot's first process ended")
        return SlotLost(f"the run's supervisor ended\n{self._slot.container.log_tail()}".strip())

    def close(self) -> None:
        """Ends whatever is left and gives the slot back. Safe at any point."""
        self._slot.runs += 1
        self._slot.give_back(self._supervisor)

    def events(self) -> Generator[Tick, None, None]:
        """Runs it. The result is in ``result`` afterwards."""
        raise NotImplementedError

    def result(self) -> RunResult:
        raise NotImplementedError


class ProgramExecution(Execution):
    """The entry file as a program on one or more ranks."""

    def __init__(self, slot: Slot, spec: RunSpec, *, seed: int, memory_cap_mb: int, cancel: threading.Event) -> None:
        super().__init__(slot, spec, seed=seed, memory_cap_mb=memory_cap_mb, cancel=cancel)
        self._selector = selectors.DefaultSelector()
        self._readers: list[RankReader] = []
        self._done = False
        self._ending: Ending | None = None
        self._first_failed: RankReader | None = None
        self._failed_at_s: float | None = None
        self._diagnosis: dict[str, object] | None = None
        self._readings: Readings | None = None

    def close(self) -> None:
        for reader in self._readers:
            reader.close()
        self._selector.close()
        super().close()

    def events(self) -> Generator[Tick, None, None]:
        self._send()
        while not self._done and self._ending is None:
            yield from self._pump(TICK_S)
            self._ending = self._flood() or self.overrun()
            if self._ending is None and self._grace_is_over():
                break
        self._ended_s = time.monotonic()
        if not self._done:
            if self._ending is not None and self._ending.outcome is Outcome.TIMED_OUT:
                yield from self._ask_for_stacks()
            self.kill()
        self._selector.unregister(self._supervisor.channel)
        self._readings = self.readings()
        yield from self._drain()
        self._conclude()

    def _send(self) -> None:
        spec = self.spec
        self._readers, theirs = open_rank_pipes(spec.ranks, spec.limits.output_bytes)
        try:
            self._supervisor.channel.send(self.order().to_message(), theirs)
        except ChannelClosed as error:
            raise self.lost() from error
        finally:
            for fd in theirs:
                os.close(fd)
        self._started_s = time.monotonic()
        self._selector.register(self._supervisor.channel, selectors.EVENT_READ)
        for reader in self._readers:
            for name, stream in reader.streams.items():
                self._selector.register(stream.fd, selectors.EVENT_READ, (reader, name))
            self._selector.register(reader.record_reader.fd, selectors.EVENT_READ, (reader, None))

    def _pump(self, wait_s: float) -> Generator[Tick, None, None]:
        """Waits for the next things to happen, at most for ``wait_s``."""
        if any(stream.waiting for reader in self._readers for stream in reader.streams.values()):
            wait_s = min(wait_s, EVENT_GAP_S)
        for key, _ in self._selector.select(wait_s):
            if key.data is None:
                self._hear()
            else:
                yield from self._read(*key.data)
        for reader in self._readers:
            for name, stream in reader.streams.items():
                if stream.waiting and (text := stream.overdue()):
                    yield self._output(reader, name, text)
        yield None

    def _read(self, reader: RankReader, name: Stream | None) -> Generator[Tick, None, None]:
        if name is None:
            self._read_record(reader)
            return
        stream = reader.streams[name]
        fd = stream.fd
        text = stream.read()
        if not stream.open:
            self._selector.unregister(fd)
        if text:
            yield self._output(reader, name, text)

    def _read_record(self, reader: RankReader) -> None:
        record = reader.record_reader
        if record.open:
            fd = record.fd
            record.read()
            if not record.open:
                self._selector.unregister(fd)

    def _output(self, reader: RankReader, name: Stream, text: str) -> Output:
        self.shown = True
        return Output(run_id=self.spec.run_id, rank=reader.rank, stream=name, text=text)

    def _hear(self) -> None:
        try:
            message, _ = self._supervisor.channel.receive()
        except ChannelClosed as error:
            if self.overuse() is None or not self._slot.alive:
                raise self.lost() from error
            self._ending = endings.of_memory(self._memory_mb)
            return
        if message["op"] == "done":
            self._done = True
            return
        reader = self._readers[int(message["rank"])]
        reader.status = int(message["status"])
        reader.ended_at_s = time.monotonic()
        self._read_record(reader)
        if reader.failed and self._failed_at_s is None:
            self._failed_at_s = reader.ended_at_s

    def _grace_is_over(self) -> bool:
        return self._failed_at_s is not None and time.monotonic() - self._failed_at_s > _GRACE_S

    def _flood(self) -> Ending | None:
        for reader in self._readers:
            if any(stream.flooding for stream in reader.streams.values()):
                return endings.of_flood(reader, several=len(self._readers) > 1)
        return None

    def _ask_for_stacks(self) -> Generator[Tick, None, None]:
        try:
            self._supervisor.channel.send({"op": "stacks"})
        except ChannelClosed:
            return
        deadline = time.monotonic() + _STACK_WAIT_S
        while time.monotonic() < deadline and not self._done:
            if all(reader.status is not None or reader.record_reader.has_stack for reader in self._readers):
                return
            yield from self._pump(0.01)

    def _drain(self) -> Generator[Tick, None, None]:
        """Reads to the ends of all pipes. All writers are dead, so the ends are near."""
        deadline = time.monotonic() + _KILL_WAIT_S
        while self._selector.get_map() and time.monotonic() < deadline:
            for key, _ in self._selector.select(TICK_S):
                yield from self._read(*key.data)

    def _conclude(self) -> None:
        for reader in self._readers:
            if reader.status == SETUP_FAILED and not reader.record.started:
                raise SlotLost(f"a rank could not be set up: {reader.exit().stderr_tail}")
        self.rehearsed = any(reader.record.rehearsed for reader in self._readers)
        self._first_failed = endings.first_failed(self._readers)
        if self._ending is None or self._ending.outcome is Outcome.EXITED:
            self._ending = (
                self.overuse() or self._by_cpu_signal() or endings.of_ranks(self._readers, self._first_failed)
            )
        if self._ending.outcome is Outcome.TIMED_OUT:
            self._diagnosis = endings.diagnosis_of_stacks(self._readers, self._ending)

    def _by_cpu_signal(self) -> Ending | None:
        if self._first_failed is not None and self._first_failed.signal_number == signal.SIGXCPU:
            return endings.of_cpu_time(self.spec.limits)
        return None

    def result(self) -> RunResult:
        if self._ending is None or self._readings is None:
            raise SlotLost("a run without an ending")
        return RunResult(
            run_id=self.spec.run_id,
            attempt=self.spec.attempt,
            token=self.spec.token,
            outcome=self._ending.outcome,
            message=self._ending.message,
            ranks=tuple(reader.exit() for reader in self._readers),
            first_failed_rank=None if self._first_failed is None else self._first_failed.rank,
            wall_s=self._readings.wall_s,
            cpu_s=self._readings.cpu_s,
            peak_memory_mb=self._readings.peak_memory_mb,
            diagnosis=self._diagnosis,
        )
