"""A GPU host whose slots are a script: the real worker, with an executor that does what the submission's lines say.

Lines: ``print WORDS``, ``rank N print WORDS``, ``sleep SECONDS``, ``exit CODE``, ``hang``, ``fail`` (the executor breaks),
``vanish`` (it ends without a result). A checks run reports the visible check ``small`` as passed and the hidden check
``large`` as failed, with PRIVATE words.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator

from gpu_runner.protocol import (
    CheckDone,
    CheckResult,
    CheckStarted,
    CheckStatus,
    Finished,
    Heartbeat,
    Mode,
    Outcome,
    Output,
    RankExit,
    RunEvent,
    RunResult,
    RunSpec,
    Started,
    Stream,
)
from gpu_runner.worker import serve


class ScriptedExecutor:
    def execute(self, spec: RunSpec, *, cancel: threading.Event | None = None) -> Iterator[RunEvent]:
        stop = cancel or threading.Event()
        yield Started(run_id=spec.run_id, host="scripted", slot="slot-0", ranks=spec.ranks)
        printed: dict[int, str] = {}
        exit_code = 0
        outcome = Outcome.EXITED
        for line in spec.files[0].text.splitlines():
            if stop.is_set():
                outcome = Outcome.CANCELLED
                break
            match line.split(" "):
                case ["print", *words]:
                    yield self._output(spec, printed, 0, words)
                case ["rank", rank, "print", *words]:
                    yield self._output(spec, printed, int(rank), words)
                case ["sleep", seconds]:
                    yield from self._wait(spec, float(seconds), stop)
                case ["hang"]:
                    yield from self._wait(spec, 1e6, stop)
                case ["exit", code]:
                    exit_code = int(code)
                case ["fail"]:
                    raise RuntimeError("the script says so")
                case ["vanish"]:
                    return
        if stop.is_set():
            outcome = Outcome.CANCELLED
        if spec.mode is Mode.CHECKS and outcome is Outcome.EXITED:
            yield from self._check_events(spec)
        yield Finished(
            run_id=spec.run_id,
            result=RunResult(
                run_id=spec.run_id,
                attempt=spec.attempt,
                token=spec.token,
                outcome=outcome,
                wall_s=0.01,
                ranks=tuple(
                    RankExit(rank=rank, exit_code=exit_code, stdout_tail=printed.get(rank, ""))
                    for rank in range(spec.ranks)
                )
                if spec.mode is Mode.PROGRAM
                else (),
                checks=tuple(self._checks(spec)),
            ),
        )

    def _output(self, spec: RunSpec, printed: dict[int, str], rank: int, words: list[str]) -> Output:
        text = f"{' '.join(words)}\n"
        printed[rank] = printed.get(rank, "") + text
        return Output(run_id=spec.run_id, rank=rank, stream=Stream.STDOUT, text=text)

    def _wait(self, spec: RunSpec, seconds: float, stop: threading.Event) -> Iterator[RunEvent]:
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0 and not stop.wait(min(1.0, left_s)):
            yield Heartbeat(run_id=spec.run_id)

    def _checks(self, spec: RunSpec) -> Iterator[CheckResult]:
        for check in spec.checks:
            yield CheckResult(
                name=check.name,
                hidden=check.hidden,
                status=CheckStatus.FAILED if check.hidden else CheckStatus.PASSED,
                message="PRIVATE message" if check.hidden else "as it should be",
                detail="PRIVATE detail",
                output="PRIVATE output\n" if check.hidden else "small output\n",
            )

    def _check_events(self, spec: RunSpec) -> Iterator[RunEvent]:
        for result in self._checks(spec):
            yield CheckStarted(run_id=spec.run_id, name=result.name, hidden=result.hidden)
            yield Output(
                run_id=spec.run_id,
                rank=0,
                stream=Stream.STDOUT,
                text=result.output,
                check=result.name,
                hidden=result.hidden,
            )
            yield CheckDone(run_id=spec.run_id, check=result)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s host %(name)s: %(message)s")
    serve(ScriptedExecutor())
