"""The checks of a question on a submission, as the host sees them: the checker reports, the host believes the checker alone."""

from __future__ import annotations

import logging
import selectors
import threading
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from gpu_runner import endings
from gpu_runner.endings import Ending
from gpu_runner.executions import TICK_S, Execution, Readings, Tick
from gpu_runner.protocol import (
    CheckDone,
    CheckResult,
    CheckStarted,
    CheckStatus,
    Outcome,
    Output,
    RunResult,
    RunSpec,
    Stream,
)
from gpu_runner.sandbox.channel import Channel, ChannelClosed
from gpu_runner.slot import Slot, SlotLost

log = logging.getLogger(__name__)

#: Beside the candidate's own memory: the checker's reference values and its fork of the warm parent.
_CHECKER_MEMORY_MB = 512
_KEPT_OUTPUT_CHARS = 20_000


class ChecksExecution(Execution):
    """Named checks, one after the other, each on fresh ranks."""

    EXTRA_MEMORY_MB = _CHECKER_MEMORY_MB

    def __init__(self, slot: Slot, spec: RunSpec, *, seed: int, memory_cap_mb: int, cancel: threading.Event) -> None:
        super().__init__(slot, spec, seed=seed, memory_cap_mb=memory_cap_mb, cancel=cancel)
        self._checker, self._checker_end = Channel.pair()
        self._ending: Ending | None = None
        self._readings: Readings | None = None
        self._results: dict[str, CheckResult] = {}
        self._output: dict[str, str] = {}
        self._current: str | None = None

    def close(self) -> None:
        self._checker.close()
        self._checker_end.close()
        super().close()

    def events(self) -> Generator[Tick, None, None]:
        self._send()
        with selectors.DefaultSelector() as selector:
            selector.register(self._checker, selectors.EVENT_READ)
            selector.register(self._supervisor.channel, selectors.EVENT_READ)
            while self._ending is None:
                ready = {key.fileobj for key, _ in selector.select(TICK_S)}
                if self._checker in ready:
                    yield from self._hear_checker(selector)
                elif self._supervisor.channel in ready:
                    self._hear_supervisor()
                yield None
                self._ending = self._ending or self.overrun()
        self._ended_s = time.monotonic()
        self.kill()
        self._readings = self.readings()

    def _send(self) -> None:
        order = self.order()
        try:
            self._supervisor.channel.send(
                {"op": "checks", "limits": order.to_message()["limits"]}, [self._checker_end.fileno()]
            )
            self._checker_end.close()
            # Not by way of the supervisor: what it knows, its forks know, and the candidate's ranks are among them.
            self._checker.send(
                {
                    "source": self.spec.checks_source,
                    "refs": [{"name": ref.name, "hidden": ref.hidden} for ref in self.spec.checks],
                    "seed": self.seed,
                    "output_bytes": self.spec.limits.output_bytes,
                    "order": order.to_message(),
                }
            )
        except ChannelClosed as error:
            raise self.lost() from error

    def _hear_supervisor(self) -> None:
        try:
            message, _ = self._supervisor.channel.receive()
        except ChannelClosed as error:
            self._ending = self.overuse()
            if self._ending is None or not self._slot.alive:
                raise self.lost() from error
            return
        # A checker that says "finished" does so before it ends, and its words are read first.
        self._ending = self.overuse() or _of_checker(f"it ended with {message['status']}")

    def _hear_checker(self, selector: selectors.BaseSelector) -> Generator[Tick, None, None]:
        try:
            message, _ = self._checker.receive()
        except ChannelClosed:
            selector.unregister(self._checker)  # the supervisor says how it ended
            return
        match message["op"]:
            case "check_started":
                self._current = str(message["name"])
                yield CheckStarted(run_id=self.spec.run_id, name=self._current, hidden=bool(message["hidden"]))
            case "check_done":
                yield self._take_result(CheckResult.from_wire(message["result"]))
            case "output":
                yield self._take_output(message)
            case "rehearsed":
                self.rehearsed = True
            case "finished":
                self._ending = Ending(Outcome.EXITED)
            case "crashed":
                log.error("run %s: the checker failed: %s", self.spec.run_id, message["trace"])
                self._ending = _of_checker("its code raised an exception")

    def _take_result(self, result: CheckResult) -> CheckDone:
        self.shown = True
        self._current = None
        if not result.output:
            result = replace(result, output=self._output.get(result.name, ""))
        self._results[result.name] = result
        return CheckDone(run_id=self.spec.run_id, check=result)

    def _take_output(self, message: dict[str, Any]) -> Output:
        self.shown = True
        text = str(message["text"])
        name = message["check"]
        if name is not None:
            self._output[name] = (self._output.get(name, "") + text)[-_KEPT_OUTPUT_CHARS:]
        return Output(
            run_id=self.spec.run_id,
            rank=int(message["rank"]),
            stream=Stream(message["stream"]),
            text=text,
            check=name,
            hidden=bool(message["hidden"]),
        )

    def _result_of(self, name: str, *, hidden: bool) -> CheckResult:
        """A check that did not report did not pass."""
        if name in self._results:
            return self._results[name]
        missing = CheckResult(name=name, hidden=hidden, status=CheckStatus.NOT_REPORTED)
        if name == self._current and self._ending is not None and self._ending.outcome is Outcome.TIMED_OUT:
            return replace(missing, status=CheckStatus.TIMED_OUT, message=self._ending.message)
        return missing

    def result(self) -> RunResult:
        if self._ending is None or self._readings is None:
            raise SlotLost("a run without an ending")
        return RunResult(
            run_id=self.spec.run_id,
            attempt=self.spec.attempt,
            token=self.spec.token,
            outcome=self._ending.outcome,
            message=self._ending.message,
            wall_s=self._readings.wall_s,
            cpu_s=self._readings.cpu_s,
            peak_memory_mb=self._readings.peak_memory_mb,
            checks=tuple(self._result_of(ref.name, hidden=ref.hidden) for ref in self.spec.checks),
        )


def _of_checker(what: str) -> Ending:
    log.warning("a checker failed: %s", what)
    return Ending(Outcome.RUNNER_ERROR, endings.CHECKER_FAILED)
