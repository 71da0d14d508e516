"""Checks, as the host sees them: their order, their output, and what becomes of those that do not report."""

from __future__ import annotations

import pytest

from gpu_runner.protocol import CheckDone, CheckStarted, CheckStatus, Outcome, Output
from gpu_runner.slots import SlotPool
from tests.gpu_runner.runs import Ran, checks, program, run

pytestmark = pytest.mark.container

ADDS = """
from checking import check

@check("Adds two numbers")
def adds(candidate):
    candidate.call("add", 2, 3).expect_equal(5)

@check("Adds large numbers")
def adds_large(candidate):
    candidate.call("add", 2**40, 17_171_717).expect_equal(2**40 + 17_171_717)
"""
NAMES = ("adds", "adds_large")


def statuses(ran: Ran) -> dict[str, CheckStatus]:
    return {check.name: check.status for check in ran.result.checks}


def test_checks_are_reported_as_they_begin_and_end(pool: SlotPool) -> None:
    ran = run(pool, checks("def add(a, b):\n    return a + b\n", ADDS, NAMES, hidden=["adds_large"]))
    assert ran.kinds == ["started", "check_started", "check_done", "check_started", "check_done", "finished"]
    assert [(e.name, e.hidden) for e in ran.events if isinstance(e, CheckStarted)] == [
        ("adds", False),
        ("adds_large", True),
    ]
    assert tuple(event.check for event in ran.checks) == ran.result.checks
    assert statuses(ran) == dict.fromkeys(NAMES, CheckStatus.PASSED)
    assert ran.result.outcome is Outcome.EXITED
    assert ran.result.checks[0].title == "Adds two numbers"


def test_a_wrong_answer_fails(pool: SlotPool) -> None:
    ran = run(pool, checks("def add(a, b):\n    return a - b\n", ADDS, NAMES))
    assert statuses(ran) == dict.fromkeys(NAMES, CheckStatus.FAILED)
    assert ran.result.outcome is Outcome.EXITED


def test_output_belongs_to_its_check_and_is_hidden_with_it(pool: SlotPool) -> None:
    ran = run(
        pool, checks("def add(a, b):\n    print('adding', a)\n    return a + b\n", ADDS, NAMES, hidden=["adds_large"])
    )
    assert [(out.check, out.hidden, out.text) for out in ran.outputs] == [
        ("adds", False, "adding 2\n"),
        ("adds_large", True, f"adding {2**40}\n"),
    ]
    assert [check.output for check in ran.result.checks] == ["adding 2\n", f"adding {2**40}\n"]
    output, done = (
        ran.events.index(next(e for e in ran.events if isinstance(e, kind))) for kind in (Output, CheckDone)
    )
    assert output < done


def test_a_program_that_ends_itself_passes_nothing(pool: SlotPool) -> None:
    ran = run(pool, checks("import os\nos._exit(0)\n", ADDS, NAMES))
    assert CheckStatus.PASSED not in statuses(ran).values()


def test_each_check_finds_fresh_processes_and_files(pool: SlotPool) -> None:
    source = (
        "import os, torch\nfresh = not os.path.exists('/tmp/left') and not hasattr(torch, 'left')\n"
        "open('/tmp/left', 'w').close()\ntorch.left = True\n"
        "def add(a, b):\n    return a + b if fresh else None\n"
    )
    assert statuses(run(pool, checks(source, ADDS, NAMES))) == dict.fromkeys(NAMES, CheckStatus.PASSED)


def test_the_candidate_finds_the_checks_nowhere(pool: SlotPool) -> None:
    # 17_171_717 stands in the source of the checks: whoever held them would have it in memory. The pattern is not it.
    source = """
import os, re
def scan():
    needle = re.compile(rb"17_171_71[7]")
    found = []
    for line in open("/proc/self/maps"):
        bounds, permissions, *_ = line.split()
        if "r" not in permissions or "[v" in line:
            continue
        start, end = (int(part, 16) for part in bounds.split("-"))
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            try:
                memory.seek(start)
                if needle.search(memory.read(end - start)):
                    found.append(line)
            except OSError:
                pass
    return found
def add(a, b):
    found = scan()
    print("visible:", found, [p for p in os.listdir("/proc") if p.isdigit() and p != str(os.getpid())])
    return a + b
"""
    ran = run(pool, checks(source, ADDS, ["adds"]))
    assert ran.outputs[0].text == "visible: [] []\n"


def test_a_hang_ends_with_the_wall_time_and_what_was_not_reported_did_not_pass(pool: SlotPool) -> None:
    ran = run(pool, checks("import time\ndef add(a, b):\n    time.sleep(60)\n", ADDS, NAMES, wall_s=1.5))
    assert ran.result.outcome is Outcome.TIMED_OUT
    assert statuses(ran) == {"adds": CheckStatus.TIMED_OUT, "adds_large": CheckStatus.NOT_REPORTED}


def test_too_much_memory_ends_the_run(pool: SlotPool) -> None:
    source = "def add(a, b):\n    kept = []\n    while True:\n        kept.append(bytearray(10_000_000))\n"
    ran = run(pool, checks(source, ADDS, NAMES, memory_mb=200))
    assert ran.result.outcome is Outcome.OUT_OF_MEMORY
    assert CheckStatus.PASSED not in statuses(ran).values()


def test_broken_checks_are_not_held_against_anybody(pool: SlotPool) -> None:
    ran = run(pool, checks("def add(a, b):\n    return 5\n", "import nonsense_module\n", NAMES))
    assert statuses(ran) == dict.fromkeys(NAMES, CheckStatus.NOT_REPORTED)


def test_a_checker_that_dies_is_a_fault_of_the_host(pool: SlotPool) -> None:
    source = "import os\nos._exit(3)\n"
    ran = run(pool, checks("def add(a, b):\n    return 5\n", source, NAMES))
    assert ran.result.outcome is Outcome.RUNNER_ERROR
    assert ran.result.message == "The checks themselves failed to run. It was no fault of the program."
    assert statuses(ran) == dict.fromkeys(NAMES, CheckStatus.NOT_REPORTED)
    assert run(pool, program("print('next')")).text() == "next\n"


def test_a_flood_in_a_check_does_not_fill_the_host(pool: SlotPool) -> None:
    source = "def add(a, b):\n    while True:\n        print('x' * 1000)\n"
    ran = run(pool, checks(source, ADDS, ["adds"], output_bytes=20_000))
    assert sum(len(out.text) for out in ran.outputs) < 25_000
    assert CheckStatus.PASSED not in statuses(ran).values()
