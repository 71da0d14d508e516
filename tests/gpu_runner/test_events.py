from __future__ import annotations

import json
import time
from typing import cast

import pytest
import redis
from django.conf import settings

from gpu_runner.events import MAX_ENTRY_CHARS, LiveStreams, coalesced
from gpu_runner.protocol import CheckStarted, Heartbeat, Output, RunEvent, Stream, stream_key


def output(text: str, rank: int = 0, stream: Stream = Stream.STDOUT, run_id: str = "r") -> Output:
    return Output(run_id=run_id, rank=rank, stream=stream, text=text)


def texts(events: list[RunEvent]) -> list[tuple[int, str]]:
    return [(event.rank, event.text) for event in events if isinstance(event, Output)]


def test_output_of_a_rank_is_joined_across_other_ranks() -> None:
    events = coalesced([output("a"), output("x", rank=1), output("b"), output("y", rank=1)])
    assert texts(events) == [(0, "ab"), (1, "xy")]


def test_the_order_of_both_streams_of_a_rank_is_kept() -> None:
    events = coalesced([output("a"), output("e", stream=Stream.STDERR), output("b")])
    assert texts(events) == [(0, "a"), (0, "e"), (0, "b")]


def test_nothing_is_joined_across_another_event_of_the_run() -> None:
    events = coalesced([output("a"), CheckStarted(run_id="r", name="c", hidden=False), output("b")])
    assert [event.kind for event in events] == ["output", "check_started", "output"]


def test_runs_do_not_meet() -> None:
    events = coalesced([output("a"), Heartbeat(run_id="other"), output("x", run_id="other"), output("b")])
    assert texts(events) == [(0, "ab"), (0, "x")]


def test_an_entry_stays_below_its_limit() -> None:
    half = "x" * (MAX_ENTRY_CHARS // 2 + 1)
    assert len(coalesced([output(half), output(half)])) == 2


def test_what_was_published_is_in_the_stream_after_a_flush() -> None:
    client = redis.Redis.from_url(settings.REDIS_URL, decode_responses=True)
    streams = LiveStreams(client)
    for number in range(100):
        streams.publish(output(f"{number}\n", run_id="flushed"))
    assert streams.flush(timeout_s=5)
    entries = cast("list[tuple[str, dict[str, str]]]", client.xrange(stream_key("flushed")))
    events = [RunEvent.parse(json.loads(fields["event"])) for _, fields in entries]
    text = "".join(event.text for event in events if isinstance(event, Output))
    assert text == "".join(f"{number}\n" for number in range(100))
    assert 0 < cast("int", client.ttl(stream_key("flushed"))) <= 3600
    streams.close()


def test_without_redis_nothing_waits(caplog: pytest.LogCaptureFixture) -> None:
    streams = LiveStreams(redis.Redis.from_url("unix:///nowhere/redis.sock"))
    start_s = time.monotonic()
    for _ in range(1000):
        streams.publish(output("x"))
    assert time.monotonic() - start_s < 1
    assert streams.flush(timeout_s=5)
    streams.close()
    assert "dropped" in caplog.text
