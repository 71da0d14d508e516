"""The host beside its slots, on a real Redis: what it takes, what it reports, what it keeps."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from celery import Celery
from django.conf import settings

from gpu_runner import broker
from gpu_runner.host import Host, NotTaken
from gpu_runner.protocol import (
    RECORD_EVENT_TASK,
    RECORD_RESULT_TASK,
    RESULTS_QUEUE,
    Finished,
    HostPresence,
    Mode,
    Outcome,
    RunEvent,
    RunResult,
    RunSpec,
    SourceFile,
    Started,
    cancel_key,
    claim_key,
    hosts_key,
    recorded_key,
)
from tests.grading.stack import wait_for


class ShortExecutor:
    """Starts and finishes at once, with a given wall time."""

    def __init__(self, wall_s: float = 0.1) -> None:
        self.wall_s = wall_s
        self.executed: list[str] = []

    def execute(self, spec: RunSpec, *, cancel: threading.Event | None = None) -> Iterator[RunEvent]:
        self.executed.append(spec.run_id)
        yield Started(run_id=spec.run_id, host="h", slot="s", ranks=1)
        result = RunResult(
            run_id=spec.run_id, attempt=spec.attempt, token=spec.token, outcome=Outcome.EXITED, wall_s=self.wall_s
        )
        yield Finished(run_id=spec.run_id, result=result)


class Bench:
    """A host with its surroundings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.redis = redis.Redis.from_url(settings.REDIS_URL, decode_responses=True)
        self.redis.flushdb()
        self.app = Celery(broker=broker.celery_url(settings.REDIS_URL), set_as_current=False)
        self.executor = ShortExecutor()
        self.hosts: list[Host] = []

    def host(self) -> Host:
        host = Host(self.app, self.executor, self.redis, name="h", slots=2, queues=["cpu"], state_dir=self.folder)
        self.hosts.append(host)
        return host

    def sent(self, task: str) -> list[dict[str, Any]]:
        """The arguments of every message of this task that waits for the web side."""
        messages = [json.loads(text) for text in cast("list[str]", self.redis.lrange(RESULTS_QUEUE, 0, -1))]
        return [
            json.loads(base64.b64decode(message["body"]))[1]
            for message in reversed(messages)
            if message["headers"]["task"] == task
        ]

    def results(self) -> list[dict[str, Any]]:
        wait_for(lambda: bool(self.sent(RECORD_RESULT_TASK)), 5, "a result")
        return [arguments["result"] for arguments in self.sent(RECORD_RESULT_TASK)]

    def spooled(self) -> list[Path]:
        return list((self.folder / "results").glob("*.json"))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for host in bench.hosts:
        host.close()
    bench.redis.flushdb()


def spec(**fields: Any) -> RunSpec:
    given: dict[str, Any] = {
        "run_id": "r1",
        "token": "t",
        "mode": Mode.PROGRAM,
        "files": (SourceFile(path="main.py", text=""),),
    }
    return RunSpec(**{**given, **fields})


def test_a_run_is_claimed_executed_and_reported(bench: Bench) -> None:
    host = bench.host()
    host.take(spec().to_wire())
    (result,) = bench.results()
    assert (result["run_id"], result["attempt"], result["token"], result["outcome"]) == ("r1", 1, "t", "exited")
    (start,) = bench.sent(RECORD_EVENT_TASK)
    assert (start["event"]["kind"], start["attempt"], start["token"]) == ("started", 1, "t")
    assert bench.redis.get(claim_key("r1", 1)) == host.id


def test_a_message_that_comes_again_is_not_executed_again(bench: Bench) -> None:
    host = bench.host()
    host.take(spec().to_wire())
    host.take(spec().to_wire())
    bench.redis.delete(claim_key("r1", 1))
    host.take(spec().to_wire())
    assert bench.executor.executed == ["r1"]
    host.take(spec(attempt=2).to_wire())
    assert bench.executor.executed == ["r1", "r1"]


def test_of_two_hosts_one_executes(bench: Bench) -> None:
    for host in (bench.host(), bench.host()):
        host.take(spec().to_wire())
    assert bench.executor.executed == ["r1"]


def test_a_run_that_was_stopped_before_is_not_executed(bench: Bench) -> None:
    bench.redis.set(cancel_key("r1"), "1")
    bench.host().take(spec().to_wire())
    (result,) = bench.results()
    assert (result["outcome"], bench.executor.executed) == ("cancelled", [])


@pytest.mark.parametrize("fault", [{"mode": "dance"}, {"version": 9}, {"files": []}, {"new_field": 1}])
def test_a_run_that_cannot_be_read_is_reported_so(bench: Bench, fault: dict[str, Any]) -> None:
    bench.host().take({**spec(attempt=2).to_wire(), **fault})
    (result,) = bench.results()
    assert (result["run_id"], result["attempt"], result["token"]) == ("r1", 2, "t")
    assert result["outcome"] == "runner_error"


@pytest.mark.parametrize("wire", [None, 7, [], {}, {"run_id": "r1"}, {"run_id": 1, "token": "t"}])
def test_what_names_no_run_is_only_logged(bench: Bench, wire: object, caplog: pytest.LogCaptureFixture) -> None:
    bench.host().take(wire)
    assert "could not be read" in caplog.text
    assert not bench.spooled()


def test_a_host_that_stops_takes_nothing(bench: Bench) -> None:
    host = bench.host()
    host.stop()
    with pytest.raises(NotTaken):
        host.take(spec().to_wire())
    assert bench.redis.get(claim_key("r1", 1)) is None


def test_a_number_that_json_cannot_say_still_ends_the_run(bench: Bench) -> None:
    bench.executor.wall_s = float("nan")
    bench.host().take(spec().to_wire())
    (result,) = bench.results()
    assert result["outcome"] == "runner_error"


def test_a_result_is_kept_until_it_is_confirmed(bench: Bench) -> None:
    bench.host().take(spec().to_wire())
    bench.results()
    assert len(bench.spooled()) == 1
    bench.redis.set(recorded_key("r1", 1), "1")
    wait_for(lambda: not bench.spooled(), 5, "the file to go")


def test_the_next_worker_sends_what_the_last_one_could_not(bench: Bench) -> None:
    first = bench.host()
    first.take(spec(run_id="../../escape").to_wire())
    bench.results()
    first.close()
    (path,) = bench.spooled()
    assert path.parent == bench.folder / "results"
    (path.parent / "broken.json").write_text("{")
    bench.redis.delete(RESULTS_QUEUE)
    bench.host()
    assert [result["run_id"] for result in bench.results()] == ["../../escape"]
    assert bench.spooled() == [path]


def test_a_host_says_that_it_is_there_and_when_it_leaves(bench: Bench) -> None:
    host = bench.host()
    host.open()
    wait_for(lambda: bool(bench.redis.hexists(hosts_key("cpu"), host.id)), 5, "presence")
    presence = HostPresence.from_json(cast("str", bench.redis.hget(hosts_key("cpu"), host.id)))
    assert (presence.host, presence.slots, presence.free) == ("h", 2, 2)
    host.close()
    assert not bench.redis.hexists(hosts_key("cpu"), host.id)
