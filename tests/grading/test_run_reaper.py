from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, cast

import pytest
import redis
from django.conf import settings
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from gpu_runner.protocol import HostPresence, cancel_key, claim_key, hosts_key, queue_for
from grading import runs
from grading.hosts import LISTENING_KEY
from grading.models import Run, RunState
from grading.reaper import MAX_ATTEMPTS, reap_runs
from interviews.access import Participant

MakeRun = Callable[..., Run]


@pytest.fixture
def server() -> Iterator[redis.Redis]:
    """The tests' Redis, emptied, with a reaper that has been listening for long."""
    client = redis.Redis.from_url(settings.REDIS_URL, decode_responses=True)
    client.flushdb()
    client.set(LISTENING_KEY, redis_time_s(client) - 100)
    yield client
    client.flushdb()


def redis_time_s(client: redis.Redis) -> int:
    return cast("tuple[int, int]", client.time())[0]


@pytest.fixture
def reap(django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> Callable[[], None]:
    def reap() -> None:
        with django_capture_on_commit_callbacks(execute=True):
            reap_runs()

    return reap


def add_host(server: redis.Redis, host_id: str, *, free: int = 1, seen_ago_s: int = 0) -> None:
    presence = HostPresence(host="h", slots=1, free=free, seen_s=redis_time_s(server) - seen_ago_s)
    server.hset(hosts_key("cpu"), host_id, presence.to_json())


def ago(seconds: float) -> Any:
    return timezone.now() - timedelta(seconds=seconds)


def messages(server: redis.Redis) -> int:
    return cast("int", server.llen(queue_for(0)))


def running(make_run: MakeRun, **columns: Any) -> Run:
    return make_run(state=RunState.RUNNING, started_at=ago(30), **columns)


def test_a_silent_host_ends_its_run_once(server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]) -> None:
    run = running(make_run, heartbeat_at=ago(9))
    reap()
    reap()
    run.refresh_from_db()
    assert (run.outcome, run.message) == ("runner_error", runs.HOST_SILENT)
    assert run.interview.timeline.filter(kind="run_finished").count() == 1
    # Should the host live after all, it is told to stop.
    assert server.exists(cancel_key(str(run.public_id)))


def test_a_host_that_speaks_is_left_alone(server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]) -> None:
    run = running(make_run, heartbeat_at=timezone.now())
    reap()
    run.refresh_from_db()
    assert run.state == RunState.RUNNING


@pytest.mark.parametrize("listened_s", [0, 7])
def test_nobody_is_called_silent_just_after_a_break_of_our_own(
    server: redis.Redis, make_run: MakeRun, reap: Callable[[], None], listened_s: int
) -> None:
    if listened_s:
        server.set(LISTENING_KEY, redis_time_s(server) - listened_s)
    else:
        server.flushdb()
    run = running(make_run, heartbeat_at=ago(20))
    reap()
    run.refresh_from_db()
    assert run.state == RunState.RUNNING


def test_a_stop_that_no_host_answers_ends_the_run(
    server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]
) -> None:
    columns = {"heartbeat_at": timezone.now(), "message": "Stopped by Ada."}
    run = running(make_run, cancel_requested_at=ago(1), **columns)
    reap()
    run.refresh_from_db()
    assert run.state == RunState.RUNNING
    Run.objects.update(cancel_requested_at=ago(5))
    reap()
    run.refresh_from_db()
    assert (run.outcome, run.message) == ("cancelled", "Stopped by Ada.")


class TestQueued:
    def test_what_never_reached_redis_is_sent(
        self, server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]
    ) -> None:
        add_host(server, "a", free=0)
        run = make_run(requested_at=ago(2))
        reap()
        run.refresh_from_db()
        assert run.enqueued_at is not None
        assert messages(server) == 1

    def test_a_busy_host_is_waited_for(self, server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]) -> None:
        add_host(server, "a", free=0)
        run = make_run(requested_at=ago(300), enqueued_at=ago(300))
        reap()
        run.refresh_from_db()
        assert (run.state, messages(server)) == (RunState.QUEUED, 0)

    def test_what_a_free_host_does_not_take_was_lost_and_is_sent_again(
        self, server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]
    ) -> None:
        add_host(server, "a", free=1)
        run = make_run(requested_at=ago(5), enqueued_at=ago(5))
        reap()
        reap()
        run.refresh_from_db()
        assert (run.state, run.attempt, messages(server)) == (RunState.QUEUED, 1, 1)

    def test_what_a_present_host_took_is_left_to_it(
        self, server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]
    ) -> None:
        add_host(server, "a", free=1)
        run = make_run(requested_at=ago(60), enqueued_at=ago(60))
        server.set(claim_key(str(run.public_id), 1), "a")
        reap()
        assert messages(server) == 0

    def test_what_a_vanished_host_took_goes_to_another_as_a_new_attempt(
        self, server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]
    ) -> None:
        add_host(server, "b", free=1)
        run = make_run(requested_at=ago(60), enqueued_at=ago(60))
        server.set(claim_key(str(run.public_id), 1), "a")
        old_token = run.token
        reap()
        run.refresh_from_db()
        assert (run.attempt, messages(server)) == (2, 1)
        assert run.token != old_token

    def test_attempts_have_an_end(self, server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]) -> None:
        add_host(server, "b", free=1)
        run = make_run(requested_at=ago(60), enqueued_at=ago(60), attempt=MAX_ATTEMPTS)
        server.set(claim_key(str(run.public_id), MAX_ATTEMPTS), "a")
        reap()
        run.refresh_from_db()
        assert (run.outcome, run.message) == ("runner_error", runs.CANNOT_START)

    def test_without_hosts_a_run_waits_a_little_and_then_ends(
        self, server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]
    ) -> None:
        add_host(server, "gone", seen_ago_s=8)
        run = make_run(requested_at=ago(60), enqueued_at=ago(60))
        reap()
        run.refresh_from_db()
        assert run.state == RunState.QUEUED
        add_host(server, "gone", seen_ago_s=12)
        reap()
        run.refresh_from_db()
        assert (run.outcome, run.message) == ("runner_error", runs.NO_HOST)

    def test_with_no_host_ever_seen_a_run_ends_too(
        self, server: redis.Redis, make_run: MakeRun, reap: Callable[[], None]
    ) -> None:
        run = make_run(requested_at=ago(11), enqueued_at=ago(11))
        reap()
        run.refresh_from_db()
        assert (run.outcome, run.message) == ("runner_error", runs.NO_HOST)

    def test_a_run_that_was_just_asked_for_is_not_touched(
        self, server: redis.Redis, make_run: MakeRun, candidate: Participant, reap: Callable[[], None]
    ) -> None:
        make_run()
        reap()
        assert messages(server) == 0


def test_without_redis_nothing_breaks(
    make_run: MakeRun, reap: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from grading import hosts

    nowhere = redis.Redis.from_url("unix:///nowhere/redis.sock")
    monkeypatch.setattr(hosts, "_redis", lambda: nowhere)
    run = running(make_run, heartbeat_at=ago(100), cancel_requested_at=ago(100))
    reap()
    run.refresh_from_db()
    assert run.outcome == "cancelled"
    assert settings.REDIS_URL
