"""Runs through the real programs: web, Redis, Celery, the GPU host's worker (with scripted slots), results worker, scheduler."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from celery import Celery
from django.utils import timezone

from gpu_runner.protocol import (
    RECORD_RESULT_TASK,
    RESULTS_QUEUE,
    Outcome,
    RunResult,
    cancel_key,
    queue_for,
    recorded_key,
    stream_key,
)
from interviews.models import CandidateSession, Interview
from tests.grading.stack import (
    SCRIPTED_HOST,
    Browser,
    Stack,
    database_url,
    finished_entries,
    row,
    wait_finished,
    wait_for,
    wait_running,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def stack(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("stack"), database_url(), SCRIPTED_HOST)
    # Shorter than in earnest, so that the tests of silent hosts need not wait so long.
    stack.web_environment["RENDEZVOUS_HOST_SILENCE_S"] = "4"
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()


def test_a_program_runs_and_its_output_arrives_live(candidate_browser: Browser, room: Interview) -> None:
    run = candidate_browser.run(room, "print hello\nsleep 0.2\nrank 1 print there", ranks=2)
    assert (run["state"], run["number"], run["place"]) == ("queued", 1, 1)
    events = list(candidate_browser.events(run))
    assert [kind for kind, _, _ in events if kind not in ("queued", "heartbeat")] == [
        "started",
        "output",
        "output",
        "finished",
    ]
    texts = [(data["rank"], data["text"]) for kind, _, data in events if kind == "output"]
    assert texts == [(0, "hello\n"), (1, "there\n")]
    finished = events[-1][2]
    assert (finished["state"], finished["outcome"], finished["outcome_title"]) == ("finished", "exited", "Finished")
    assert [rank_exit["stdout_tail"] for rank_exit in finished["rank_exits"]] == ["hello\n", "there\n"]
    assert finished_entries(run) == 1


def test_a_broken_stream_goes_on_where_it_was(candidate_browser: Browser, room: Interview) -> None:
    run = candidate_browser.run(room, "print one\nsleep 0.1\nprint two\nsleep 0.1\nprint three")
    wait_finished(run)
    whole = list(candidate_browser.events(run))
    ids = [event_id for _, event_id, _ in whole if event_id]
    for position, event_id in enumerate(ids):
        rest = list(candidate_browser.events(run, after=event_id))
        assert [i for _, i, _ in rest if i] == ids[position + 1 :]
        assert [kind for kind, _, _ in rest].count("finished") == 1


def test_a_lost_stream_is_made_again_from_the_row(candidate_browser: Browser, room: Interview, stack: Stack) -> None:
    run = candidate_browser.run(room, "print kept")
    wait_finished(run)
    time.sleep(0.1)
    stack.redis.delete(stream_key(run["id"]))
    events = list(candidate_browser.events(run))
    assert [(kind, data.get("text")) for kind, _, data in events] == [("output", "kept\n"), ("finished", None)]


def test_nothing_of_a_hidden_check_reaches_the_candidate(
    candidate_browser: Browser, room: Interview, stack: Stack, interviewer: Any
) -> None:
    run = candidate_browser.run(room, "", mode="checks")
    events = list(candidate_browser.events(run))
    answer = candidate_browser.http.get(f"/api/runs/{run['id']}").text
    answers = candidate_browser.http.get(f"/api/interviews/{room.public_id}/runs?position=1").text
    for text in (json.dumps(events), answer, answers):
        assert "PRIVATE" not in text
        assert "large" not in text
        assert "detail" not in text
    assert "small output" in answer
    assert events[-1][2]["checks_label"] == "1 of 1 visible checks passed"
    interviewer_browser = Browser(stack, {"sessionid": _session_of(interviewer)})
    seen = list(interviewer_browser.events(run))
    assert "PRIVATE detail" in json.dumps(seen)
    assert seen[-1][2]["checks_label"] == "1 of 1 visible checks passed, hidden: 0 of 1"


def _session_of(user: Any) -> str:
    from django.test import Client

    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


def test_a_candidate_who_is_removed_sees_no_more(candidate_browser: Browser, room: Interview) -> None:
    run = candidate_browser.run(room, "print x\nhang")
    kinds = []
    for kind, _, _ in candidate_browser.events(run):
        kinds.append(kind)
        if kind == "output":
            CandidateSession.objects.update(removed_at=timezone.now())
    assert "finished" not in kinds
    CandidateSession.objects.update(removed_at=None)


def test_a_running_run_stops_within_a_second(candidate_browser: Browser, room: Interview) -> None:
    run = candidate_browser.run(room, "print x\nhang")
    wait_running(run)
    assert candidate_browser.stop(run)["cancel_requested"] is True
    took_s = wait_for(lambda: row(run).is_finished, 5)
    assert took_s < 1.5
    assert (row(run).outcome, row(run).message) == ("cancelled", "Stopped by Cleo Candidate.")


@pytest.fixture
def busy(candidate_browser: Browser, room: Interview, stack: Stack) -> dict[str, Any]:
    """A run that keeps the only slot, so that messages wait in Redis; question 2 is open for another run."""
    room.questions.filter(position=2).update(opened_at=timezone.now())
    run = candidate_browser.run(room, "hang")
    wait_running(run)
    return run


def waiting_messages(stack: Stack) -> list[str]:
    return cast("list[str]", stack.redis.lrange(queue_for(0), 0, -1))


def starts_of(run: dict[str, Any], stack: Stack) -> int:
    entries = cast("list[tuple[str, dict[str, str]]]", stack.redis.xrange(stream_key(run["id"])))
    return sum('"kind":"started"' in fields.get("event", "") for _, fields in entries)


def test_a_queued_run_stops_at_once_and_is_never_run(
    candidate_browser: Browser, room: Interview, stack: Stack, busy: dict[str, Any]
) -> None:
    queued = candidate_browser.run(room, "print no", position=2)
    wait_for(lambda: len(waiting_messages(stack)) == 1, 5)
    assert candidate_browser.stop(queued)["outcome"] == "cancelled"
    candidate_browser.stop(busy)
    wait_finished(busy)
    wait_finished(candidate_browser.run(room, "print yes"))
    assert not waiting_messages(stack)
    assert starts_of(queued, stack) == 0


def test_a_run_tells_its_place_in_the_queue(candidate_browser: Browser, room: Interview, busy: dict[str, Any]) -> None:
    queued = candidate_browser.run(room, "print me", position=2)
    assert queued["place"] == 1
    seen: list[tuple[str, str | None, dict[str, Any]]] = []
    reader = threading.Thread(target=lambda: seen.extend(candidate_browser.events(queued)))
    reader.start()
    wait_for(lambda: bool(seen), 5)
    candidate_browser.stop(busy)
    reader.join(timeout=10)
    assert (seen[0][0], seen[0][2]["place"]) == ("queued", 1)
    assert [kind for kind, _, _ in seen if kind not in ("queued", "heartbeat")] == ["started", "output", "finished"]


def test_a_message_that_comes_twice_is_run_once(
    candidate_browser: Browser, room: Interview, stack: Stack, busy: dict[str, Any]
) -> None:
    run = candidate_browser.run(room, "print once", position=2)
    wait_for(lambda: len(waiting_messages(stack)) == 1, 5)
    stack.redis.lpush(queue_for(0), waiting_messages(stack)[0])
    candidate_browser.stop(busy)
    wait_finished(run)
    wait_finished(candidate_browser.run(room, "print next"))
    assert starts_of(run, stack) == 1
    assert finished_entries(run) == 1


def test_a_message_that_was_lost_is_sent_again(
    candidate_browser: Browser, room: Interview, stack: Stack, busy: dict[str, Any]
) -> None:
    run = candidate_browser.run(room, "print found", position=2)
    wait_for(lambda: len(waiting_messages(stack)) == 1, 5)
    stack.redis.delete(queue_for(0))
    candidate_browser.stop(busy)
    assert wait_finished(run).outcome == "exited"


@pytest.mark.parametrize("script", ["print x\nfail", "vanish"])
def test_a_host_that_breaks_still_ends_the_run(candidate_browser: Browser, room: Interview, script: str) -> None:
    run = wait_finished(candidate_browser.run(room, script), 5)
    assert run.outcome == "runner_error"
    assert "does not count against you" in run.message


def test_a_result_counts_once_and_only_with_its_token(
    candidate_browser: Browser, room: Interview, stack: Stack
) -> None:
    sender = Celery(broker=stack.redis_url.replace("unix://", "redis+socket://"), set_as_current=False)
    run = candidate_browser.run(room, "print x\nhang")
    wait_running(run)

    def send(**fields: Any) -> None:
        true: dict[str, Any] = {"run_id": run["id"], "attempt": 1, "token": row(run).token, "outcome": Outcome.EXITED}
        wire = RunResult(**{**true, **fields}).to_wire()
        sender.send_task(RECORD_RESULT_TASK, kwargs={"result": wire, "unknown": 1}, queue=RESULTS_QUEUE)

    send(token="guess", message="forged")
    send(attempt=2, message="of another attempt")
    send(message="true")
    wait_finished(run)
    send(message="doubled", outcome=Outcome.TIMED_OUT)
    wait_for(lambda: stack.redis.llen(RESULTS_QUEUE) == 0, 5)
    time.sleep(0.3)
    assert (row(run).outcome, row(run).message) == ("exited", "true")
    assert finished_entries(run) == 1
    # The host, which works for nobody now, is told to stop.
    wait_for(lambda: stack.redis.exists(cancel_key(run["id"])) == 1, 5)
    wait_for(lambda: stack.redis.exists(recorded_key(run["id"], 1)) == 1, 5)


def test_a_killed_host_ends_its_run_once_and_the_next_run_works(
    candidate_browser: Browser, room: Interview, stack: Stack
) -> None:
    run = candidate_browser.run(room, "print x\nhang")
    wait_running(run)
    stack.kill("host")
    ended = wait_finished(run)
    assert ended.outcome == "runner_error"
    assert "stopped answering" in ended.message
    stack.start_host()
    assert wait_finished(candidate_browser.run(room, "print y")).outcome == "exited"
    assert finished_entries(run) == 1


def test_a_run_that_a_killed_host_had_taken_is_given_to_the_next(
    candidate_browser: Browser, room: Interview, stack: Stack
) -> None:
    with stack.paused("host"):
        run = candidate_browser.run(room, "print y")
        time.sleep(0.2)
        stack.kill("host")
    stack.start_host()
    assert wait_finished(run, 20).outcome == "exited"


def test_a_host_told_to_end_says_so(candidate_browser: Browser, room: Interview, stack: Stack) -> None:
    run = candidate_browser.run(room, "hang")
    wait_running(run)
    stack.kill("host", signal.SIGTERM)
    ended = wait_finished(run, 5)
    stack.start_host()
    assert ended.outcome == "runner_error"
    assert "shut down" in ended.message


def test_redis_killed_in_mid_run_loses_no_result(candidate_browser: Browser, room: Interview, stack: Stack) -> None:
    run = candidate_browser.run(room, "print before\nsleep 3\nprint after")
    wait_running(run)
    seen: list[tuple[str, str | None, dict[str, Any]]] = []
    reader = threading.Thread(target=lambda: seen.extend(candidate_browser.events(run)))
    reader.start()
    time.sleep(0.3)
    stack.kill("redis")
    time.sleep(1)
    stack.start_redis()
    ended = wait_finished(run)
    assert ended.outcome == "exited"
    assert ended.rank_exits[0]["stdout_tail"] == "before\nafter\n"
    reader.join(timeout=10)
    assert [kind for kind, _, _ in seen].count("finished") == 1
    assert seen[-1][0] == "finished"
    assert wait_finished(candidate_browser.run(room, "print y")).outcome == "exited"
    assert finished_entries(run) == 1


def spooled(stack: Stack) -> list[Path]:
    return list((stack.folder / "runner" / "results").glob("*.json"))


def test_a_result_that_redis_lost_is_sent_again(candidate_browser: Browser, room: Interview, stack: Stack) -> None:
    run = candidate_browser.run(room, "sleep 1")
    wait_running(run)
    with stack.paused("results"):
        wait_for(lambda: bool(spooled(stack)), 5)
        time.sleep(0.5)
        stack.kill("redis")
        stack.start_redis()
    assert wait_finished(run).outcome == "exited"
    wait_for(lambda: not spooled(stack), 5, "the confirmation")


def test_a_result_lost_with_the_results_worker_is_sent_again(
    candidate_browser: Browser, room: Interview, stack: Stack
) -> None:
    run = candidate_browser.run(room, "sleep 1")
    wait_running(run)
    with stack.paused("results"):
        wait_for(lambda: bool(spooled(stack)), 5)
        # As if the worker had taken it and died.
        wait_for(lambda: stack.redis.delete(RESULTS_QUEUE) == 1, 5)
        stack.kill("results")
    stack.start_results()
    assert wait_finished(run).outcome == "exited"


def test_a_host_with_a_free_slot_outlives_redis(candidate_browser: Browser, room: Interview, stack: Stack) -> None:
    stack.kill("host")
    stack.host_environment["RENDEZVOUS_RUNNER_SLOTS"] = "2"
    stack.start_host()
    run = candidate_browser.run(room, "print before\nsleep 3\nprint after")
    wait_running(run)
    stack.kill("redis")
    time.sleep(1)
    stack.start_redis()
    ended = wait_finished(run)
    assert (ended.outcome, ended.rank_exits[0]["stdout_tail"]) == ("exited", "before\nafter\n")
    assert stack.is_alive("host")
    assert stack.is_alive("results")
    stack.kill("host")
    del stack.host_environment["RENDEZVOUS_RUNNER_SLOTS"]
    stack.start_host()


def test_a_run_asked_for_while_redis_is_away_runs_when_it_is_back(
    candidate_browser: Browser, room: Interview, stack: Stack
) -> None:
    stack.kill("redis")
    asked_s = time.monotonic()
    run = candidate_browser.run(room, "print y")
    assert time.monotonic() - asked_s < 5
    stack.start_redis()
    assert wait_finished(run).outcome == "exited"
