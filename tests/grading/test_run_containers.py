"""Runs through the real programs on real slots, and the parts of it killed in mid-run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from interviews.models import Interview
from tests.grading.stack import (
    END_S,
    REAL_HOST,
    Browser,
    Stack,
    database_url,
    finished_entries,
    row,
    wait_finished,
    wait_for,
    wait_running,
)

pytestmark = [pytest.mark.container, pytest.mark.django_db(transaction=True)]

TORCH = "import torch\n\nprint(torch.arange(10.0).sum().item())\n"
HANG = "import time\n\nprint('here', flush=True)\ntime.sleep(1000)\n"
ALL_REDUCE = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.full((4,), float(dist.get_rank()))
dist.all_reduce(x)
print(x.tolist())
"""


@pytest.fixture(scope="module")
def stack(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("stack"), database_url(), REAL_HOST)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()


def the_next_run_works(browser: Browser, room: Interview) -> None:
    run = wait_finished(browser.run(room, TORCH))
    assert (run.outcome, run.rank_exits[0]["stdout_tail"]) == ("exited", "45.0\n")


def slot_processes(stack: Stack) -> set[int]:
    """The first processes of this stack's slots, as the OCI runtime wrote them down."""
    states = (stack.folder / "runner" / "runtime").glob("*/state.json")
    return {json.loads(path.read_text())["init_process_pid"] for path in states}


def children_of(pid: int) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found.add(int(path.parent.name))
    return found


def test_a_torch_program_runs(candidate_browser: Browser, room: Interview) -> None:
    the_next_run_works(candidate_browser, room)


def test_four_ranks_print_side_by_side(candidate_browser: Browser, room: Interview) -> None:
    run = candidate_browser.run(room, ALL_REDUCE, ranks=4)
    events = list(candidate_browser.events(run))
    texts = {data["rank"]: data["text"] for kind, _, data in events if kind == "output" and data["stream"] == "stdout"}
    assert texts == dict.fromkeys(range(4), "[6.0, 6.0, 6.0, 6.0]\n")
    assert events[-1][2]["outcome"] == "exited"


def test_a_stop_ends_the_program_within_a_second(candidate_browser: Browser, room: Interview) -> None:
    run = candidate_browser.run(room, HANG)
    wait_running(run)
    candidate_browser.stop(run)
    assert wait_for(lambda: row(run).is_finished, 5) < 1.5
    assert row(run).outcome == "cancelled"
    the_next_run_works(candidate_browser, room)


def test_the_worker_killed_in_mid_run(candidate_browser: Browser, room: Interview, stack: Stack) -> None:
    run = candidate_browser.run(room, HANG)
    wait_running(run)
    slots = slot_processes(stack)
    assert slots
    stack.kill("host")
    ended = wait_finished(run, END_S)
    assert (ended.outcome, finished_entries(run)) == ("runner_error", 1)
    stack.start_host()
    # What the dead worker left was cleared away by the new one.
    assert not slots & slot_processes(stack)
    assert not any(Path(f"/proc/{pid}").exists() for pid in slots)
    the_next_run_works(candidate_browser, room)


def test_the_first_process_of_a_slot_killed_in_mid_run(
    candidate_browser: Browser, room: Interview, stack: Stack
) -> None:
    run = candidate_browser.run(room, HANG)
    wait_for(lambda: bool(_busy_slots(stack)), 10, "a slot at work")
    (slot,) = _busy_slots(stack)
    wait_running(run)
    os.kill(slot, signal.SIGKILL)
    ended = wait_finished(run, END_S)
    assert (ended.outcome, finished_entries(run)) == ("runner_error", 1)
    the_next_run_works(candidate_browser, room)


def _busy_slots(stack: Stack) -> set[int]:
    return {pid for pid in slot_processes(stack) if children_of(pid)}


def test_redis_killed_in_mid_run(candidate_browser: Browser, room: Interview, stack: Stack) -> None:
    run = candidate_browser.run(room, "import time\n\nprint('before', flush=True)\ntime.sleep(4)\nprint('after')\n")
    wait_running(run)
    stack.kill("redis")
    stack.start_redis()
    ended = wait_finished(run, END_S)
    assert (ended.outcome, finished_entries(run)) == ("exited", 1)
    assert ended.rank_exits[0]["stdout_tail"] == "before\nafter\n"
    the_next_run_works(candidate_browser, room)
