"""Each limit holds, says so, and leaves the slot fit for the next run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_runner.protocol import Outcome, Stream
from gpu_runner.slots import SlotPool
from tests.gpu_runner.runs import Ran, program, run

pytestmark = pytest.mark.container


@pytest.fixture(autouse=True)
def _the_next_run_works(pool: SlotPool) -> Iterator[None]:
    yield
    assert run(pool, program("print('honest')")).text() == "honest\n"


def timed_run(pool: SlotPool, source: str, **fields: Any) -> tuple[Ran, float]:
    started_s = time.monotonic()
    return run(pool, program(source, **fields)), time.monotonic() - started_s


def test_wall_time(pool: SlotPool) -> None:
    ran, took_s = timed_run(pool, "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(60)", wall_s=1)
    assert ran.result.outcome is Outcome.TIMED_OUT
    assert took_s < 3


def test_processor_time_of_one_process(pool: SlotPool) -> None:
    ran, took_s = timed_run(pool, "while True: pass", cpu_s=1)
    assert ran.result.outcome is Outcome.TIMED_OUT
    assert ran.result.message == "Stopped after 1 s of processor time."
    assert took_s < 4


def test_processor_time_of_many_processes(pool: SlotPool) -> None:
    source = "import os\nfor _ in range(6):\n    os.fork()\nwhile True: pass"
    ran, _ = timed_run(pool, source, cpu_s=1, pids=80)
    assert ran.result.outcome is Outcome.TIMED_OUT
    assert ran.result.cpu_s is not None
    assert 1 <= ran.result.cpu_s < 4


def test_memory_of_one_process(pool: SlotPool) -> None:
    ran, _ = timed_run(pool, "kept = []\nwhile True: kept.append(bytearray(10_000_000))", memory_mb=200)
    assert ran.result.outcome is Outcome.OUT_OF_MEMORY
    assert ran.result.message == "Stopped for using more than 200 MB of memory."
    assert ran.result.peak_memory_mb is not None
    assert 150 < ran.result.peak_memory_mb <= 201


def test_memory_spread_over_children(pool: SlotPool) -> None:
    source = (
        "import os, time\n"
        "for _ in range(20):\n"
        "    if os.fork() == 0:\n"
        "        kept = b'x' * 30_000_000\n"
        "        time.sleep(60)\n"
        "time.sleep(60)"
    )
    ran, _ = timed_run(pool, source, memory_mb=300)
    assert ran.result.outcome is Outcome.OUT_OF_MEMORY


@pytest.mark.parametrize("place", ["/dev/shm", "memfd"])
def test_memory_in_files_without_a_disk(pool: SlotPool, place: str) -> None:
    opened = "os.fdopen(os.memfd_create('m'), 'wb')" if place == "memfd" else f"open(f'{place}/{{len(files)}}', 'wb')"
    source = f"import os\nfiles = []\nwhile True:\n    files.append({opened})\n    files[-1].write(b'x' * 50_000_000)"
    ran, _ = timed_run(pool, source, memory_mb=200)
    assert ran.result.outcome is Outcome.OUT_OF_MEMORY


def test_memory_within_the_limit_is_granted(pool: SlotPool) -> None:
    ran, _ = timed_run(pool, "kept = b'x' * 250_000_000\nprint(len(kept))", memory_mb=300)
    assert ran.text() == "250000000\n"
    assert ran.result.peak_memory_mb is not None
    assert 230 < ran.result.peak_memory_mb < 300


def test_a_fork_bomb(pool: SlotPool) -> None:
    source = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    ran, took_s = timed_run(pool, source, wall_s=2, pids=100)
    assert ran.result.outcome is Outcome.TIMED_OUT
    assert took_s < 10


def test_processes_and_threads_count_together(pool: SlotPool) -> None:
    source = (
        "import threading, time\nstarted = 0\ntry:\n    while True:\n"
        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n        started += 1\n"
        "except RuntimeError:\n    print(started)"
    )
    ran, _ = timed_run(pool, source, pids=40)
    assert 30 <= int(ran.text()) <= 40
    assert ran.result.outcome is Outcome.EXITED


@pytest.mark.parametrize("stream", list(Stream))
def test_a_flood_ends_the_run_and_keeps_head_and_tail(pool: SlotPool, stream: Stream) -> None:
    source = f"import sys\nout = sys.{stream.value}\nout.write('head\\n')\nwhile True:\n    out.write('x' * 99 + '\\n')"
    ran, _ = timed_run(pool, source, output_bytes=20_000)
    assert ran.result.outcome is Outcome.OUTPUT_LIMIT
    assert ran.result.message == "Stopped because it wrote far more than may be shown."
    shown = ran.text(stream)
    assert shown.startswith("head\n")
    assert "bytes left out …]" in shown
    assert len(shown) < 25_000
    assert ran.result.ranks[0].cut


def test_output_over_the_limit_is_cut_in_the_middle(pool: SlotPool) -> None:
    ran, _ = timed_run(pool, "for i in range(5000):\n    print('line', i)", output_bytes=20_000)
    shown = ran.text()
    assert ran.result.outcome is Outcome.EXITED
    assert ran.result.ranks[0].cut
    assert shown.startswith("line 0\n")
    assert shown.endswith("line 4999\n")
    assert ran.result.ranks[0].stdout_tail.endswith("line 4999\n")
    assert "bytes left out …]" in shown


@pytest.mark.parametrize("folder", ["/tmp", "/box"])
def test_the_room_for_files(pool: SlotPool, folder: str) -> None:
    source = f"with open('{folder}/big', 'wb') as file:\n    while True:\n        file.write(b'x' * 1_000_000)"
    ran, _ = timed_run(pool, source, file_mb=8)
    assert "No space left on device" in ran.text(Stream.STDERR)


def test_the_number_of_files(pool: SlotPool) -> None:
    source = (
        "count = 0\ntry:\n    while True:\n        open(f'/tmp/{count}', 'w').close()\n        count += 1\n"
        "except OSError:\n    print(count)"
    )
    ran, _ = timed_run(pool, source, file_mb=8)
    assert int(ran.text()) < 10_000


def test_a_sparse_file_has_a_size_limit(pool: SlotPool) -> None:
    ran, _ = timed_run(pool, "open('/box/sparse', 'wb').truncate(1 << 40)")
    assert "File too large" in ran.text(Stream.STDERR)


def test_a_daemon_does_not_outlive_the_run(pool: SlotPool) -> None:
    source = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        print('daemon', flush=True)\n        time.sleep(60)\n    os._exit(0)\ntime.sleep(0.2)\nprint('main')"
    )
    ran, took_s = timed_run(pool, source)
    assert ran.text() == "daemon\nmain\n"
    assert ran.result.outcome is Outcome.EXITED
    assert took_s < 5


def test_a_program_that_kills_all_it_can_reach_ends_itself_at_most(pool: SlotPool) -> None:
    source = "import os\nif os.fork() == 0:\n    os.kill(-1, 9)\n    os._exit(0)\nos.wait()\nprint('alive')"
    ran, _ = timed_run(pool, source)
    assert ran.result.outcome is Outcome.SIGNALLED
    assert ran.result.ranks[0].signal == "SIGKILL"
