from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_runner.protocol import (
    CheckDone,
    CheckResult,
    CheckStarted,
    CheckStatus,
    Finished,
    Gauge,
    Heartbeat,
    Outcome,
    Output,
    RunEvent,
    RunResult,
    Started,
    Stream,
)
from grading.live import frame, visible_wire
from interviews.access import Role

VISIBLE = frozenset({"small"})
RESULT = RunResult(run_id="r", attempt=1, token="secret", outcome=Outcome.EXITED)


def output(check: str | None = None, hidden: bool = False) -> Output:
    return Output(run_id="r", rank=0, stream=Stream.STDOUT, text="words", check=check, hidden=hidden)


def done(name: str, hidden: bool) -> CheckDone:
    return CheckDone(
        run_id="r",
        check=CheckResult(name=name, hidden=hidden, status=CheckStatus.FAILED, message="m", detail="PRIVATE"),
    )


@pytest.mark.parametrize(
    "event",
    [
        output("large", hidden=True),
        # Said to be visible, and not known to be.
        output("large"),
        output(hidden=True),
        CheckStarted(run_id="r", name="large", hidden=True),
        CheckStarted(run_id="r", name="large", hidden=False),
        CheckStarted(run_id="r", name="small", hidden=True),
        done("large", hidden=True),
        done("large", hidden=False),
        done("small", hidden=True),
    ],
)
def test_nothing_of_a_hidden_check_is_for_the_candidate(event: RunEvent) -> None:
    assert visible_wire(event, Role.CANDIDATE, VISIBLE) is None
    assert visible_wire(event, Role.INTERVIEWER, VISIBLE) == event.to_wire()


@pytest.mark.parametrize(
    "event",
    [
        output(),
        output("small"),
        CheckStarted(run_id="r", name="small", hidden=False),
        Gauge(run_id="r", name="memory_mb", value=1.0),
        Heartbeat(run_id="r"),
    ],
)
def test_everything_else_is_for_both(event: RunEvent) -> None:
    for role in Role:
        assert visible_wire(event, role, VISIBLE) == event.to_wire()


def test_the_candidate_sees_a_visible_check_without_its_detail() -> None:
    wire = visible_wire(done("small", hidden=False), Role.CANDIDATE, VISIBLE)
    assert wire is not None
    assert (wire["check"]["message"], "detail" in wire["check"]) == ("m", False)


def test_the_candidate_does_not_learn_of_the_machine() -> None:
    event = Started(run_id="r", host="gpu-host-7", slot="slot-1", ranks=2, rehearsed=True)
    wire = visible_wire(event, Role.CANDIDATE, VISIBLE)
    assert wire is not None
    assert "gpu-host-7" not in json.dumps(wire)
    assert (wire["ranks"], wire["rehearsed"]) == (2, True)


def test_a_result_is_told_from_the_row_alone() -> None:
    for role in Role:
        assert visible_wire(Finished(run_id="r", result=RESULT), role, VISIBLE) is None


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "\u2028", "data: x\n\nevent: finished"])
def test_no_text_breaks_out_of_its_frame(text: str) -> None:
    wire: dict[str, Any] = {"text": text}
    lines = frame("output", json.dumps(wire), "1-0").split("\n")
    assert lines[:2] == ["id: 1-0", "event: output"]
    assert json.loads(lines[2].removeprefix("data: ")) == wire
    assert lines[3:] == ["", ""]
