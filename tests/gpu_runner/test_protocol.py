from __future__ import annotations

import json

import pytest

from gpu_runner.protocol import (
    CheckRef,
    CheckResult,
    CheckStatus,
    Finished,
    Heartbeat,
    Limits,
    Mode,
    Outcome,
    Output,
    RunCard,
    RunEvent,
    RunResult,
    RunSpec,
    SourceFile,
    Stream,
    WireError,
)

SPEC = RunSpec(
    run_id="r1",
    token="secret",
    mode=Mode.CHECKS,
    files=(SourceFile(path="main.py", text="x = 1\n"),),
    ranks=4,
    checks_source="...",
    checks=(CheckRef(name="small", hidden=False), CheckRef(name="large", hidden=True)),
)


def through_json(value: object) -> object:
    return json.loads(json.dumps(value))


def test_spec_survives_the_wire() -> None:
    assert RunSpec.from_wire(through_json(SPEC.to_wire())) == SPEC


@pytest.mark.parametrize(
    "event",
    [
        Heartbeat(run_id="r1", at_s=1.5),
        Output(run_id="r1", rank=3, stream=Stream.STDERR, text="no\n", check="large", hidden=True),
        Finished(
            run_id="r1",
            result=RunResult(
                run_id="r1",
                attempt=1,
                token="secret",
                outcome=Outcome.EXITED,
                checks=(CheckResult(name="small", hidden=False, status=CheckStatus.PASSED),),
                card=RunCard(host="h", runtime="runc", slot="s"),
            ),
        ),
    ],
)
def test_event_is_parsed_as_its_own_class(event: RunEvent) -> None:
    assert RunEvent.parse(through_json(event.to_wire())) == event


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"version": 2}, "version"),
        ({"mode": "shell"}, "RunSpec.mode"),
        ({"ranks": True}, "RunSpec.ranks"),
        ({"ranks": 9}, "ranks must be between"),
        ({"files": [{"path": "../x", "text": ""}]}, "not a path inside the box"),
        ({"files": [{"path": "main.py"}]}, "RunSpec.files[0].text"),
        ({"limits": {"wall_s": 0}}, "wall_s must be above zero"),
        ({"surprise": 1}, "surprise"),
        ({"entry": "other.py"}, "other.py"),
        ({"checks": []}, "needs checks"),
    ],
)
def test_malformed_spec_is_refused_with_the_field_named(change: dict[str, object], field: str) -> None:
    with pytest.raises(WireError, match=field.replace("[", r"\[").replace("]", r"\]")):
        RunSpec.from_wire({**SPEC.to_wire(), **change})


def test_limits_take_whole_numbers_for_seconds() -> None:
    assert Limits.from_wire({"version": 1, "wall_s": 3}).wall_s == 3.0
