"""Slots that die, retire, are left behind or are closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gpu_runner import cgroups
from gpu_runner.protocol import Outcome, Output, RunEvent, Started
from gpu_runner.slots import ConfigError, HostConfig, SlotPool
from tests.gpu_runner.conftest import PROJECT, host_config
from tests.gpu_runner.runs import Ran, program, run

pytestmark = pytest.mark.container

FOREVER = "import time\nprint('on', flush=True)\ntime.sleep(60)"
SILENT = "import time\ntime.sleep(1.5)\nprint('done')"


@pytest.fixture
def make_pool(tmp_path: Path) -> Iterator[Callable[..., SlotPool]]:
    pools = []

    def make(**fields: int) -> SlotPool:
        pool = SlotPool(host_config(tmp_path / "state", **fields))
        pools.append(pool)
        pool.start()
        assert pool.wait_ready(60), pool.failure
        return pool

    yield make
    for pool in pools:
        pool.close()


def eventually(true: Callable[[], bool], within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


def traces(state_dir: Path) -> list[str]:
    """Everything on the machine that still speaks of this state folder: processes, mounts, cgroups, folders."""
    found = [f"folder {path}" for name in ("slots", "runtime") for path in (state_dir / name).glob("*")]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(state_dir) in (process / "mountinfo").read_text():
                found.append(f"process {process.name} {(process / 'cmdline').read_text()}")
    parent = SlotPool(HostConfig(state_dir=state_dir))._cgroup_parent
    found += [f"cgroup {path}" for path in cgroups.slot_cgroup(parent).folders()]
    return found


def first_pid(event: RunEvent, state_dir: Path) -> int:
    assert isinstance(event, Started)
    return int((state_dir / "slots" / event.slot / "pid").read_text())


def test_a_slot_whose_first_process_dies_before_anything_was_shown_is_replaced_and_the_run_done_again(
    make_pool: Callable[..., SlotPool], tmp_path: Path
) -> None:
    pool = make_pool(spares=1)
    events = []
    for event in pool.execute(program(SILENT)):
        if isinstance(event, Started):
            os.kill(first_pid(event, tmp_path / "state"), signal.SIGKILL)
        events.append(event)
    ran = Ran(events)
    assert ran.kinds.count("started") == 1
    assert ran.text() == "done\n"
    assert ran.result.outcome is Outcome.EXITED


def test_a_run_that_had_shown_something_is_not_done_twice(make_pool: Callable[..., SlotPool], tmp_path: Path) -> None:
    pool = make_pool()
    pid, events = 0, []
    for event in pool.execute(program(FOREVER)):
        if isinstance(event, Started):
            pid = first_pid(event, tmp_path / "state")
        if isinstance(event, Output):
            os.kill(pid, signal.SIGKILL)
            killed_s = time.monotonic()
        events.append(event)
    assert time.monotonic() - killed_s < 3
    ran = Ran(events)
    assert ran.kinds.count("finished") == 1
    assert ran.text() == "on\n"
    assert ran.result.outcome is Outcome.RUNNER_ERROR
    assert "no fault of the program" in ran.result.message
    assert run(pool, program("print('next')")).text() == "next\n"


def test_an_idle_slot_that_dies_is_replaced(make_pool: Callable[..., SlotPool], tmp_path: Path) -> None:
    pool = make_pool()
    (pid_file,) = (tmp_path / "state" / "slots").glob("*/pid")
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    ran = run(pool, program("print('works')"))
    assert ran.text() == "works\n"


def test_closing_the_iterator_kills_everything_of_the_run(make_pool: Callable[..., SlotPool], tmp_path: Path) -> None:
    pool = make_pool()
    events = pool.execute(program(f"import os\nfor _ in range(3):\n    os.fork()\n{FOREVER}", ranks=2))
    assert any(isinstance(event, Output) for event in events)
    (slot,) = pool._busy.values()
    assert eventually(lambda: slot.cgroup.pid_count() > 15)
    events.close()  # type: ignore[attr-defined]
    assert pool.ready_slots == 1
    # What stays are the first process and the supervisor of the next run.
    assert eventually(lambda: slot.cgroup.pid_count() == 2)
    assert run(pool, program("print('next')")).text() == "next\n"


def test_a_slot_retires_after_its_runs_and_the_next_is_warm_by_then(make_pool: Callable[..., SlotPool]) -> None:
    pool = make_pool(runs_per_slot=2)
    slots = []
    for _ in range(5):
        ran = run(pool, program("pass"))
        assert ran.result.card is not None
        slots.append(ran.result.card.slot)
    assert len(set(slots)) == 3
    assert slots[0] == slots[1] != slots[2] == slots[3] != slots[4]


def test_closing_the_pool_leaves_nothing(make_pool: Callable[..., SlotPool], tmp_path: Path) -> None:
    pool = make_pool(slots=2)
    before = traces(tmp_path / "state")
    assert any(trace.startswith("process") for trace in before)
    results: list[Ran] = []
    thread = threading.Thread(target=lambda: results.append(run(pool, program(FOREVER))))
    thread.start()
    assert eventually(lambda: bool(pool._busy))
    pool.close()
    thread.join(10)
    assert results[0].result.outcome is Outcome.RUNNER_ERROR
    assert traces(tmp_path / "state") == []


def test_a_host_that_is_killed_takes_its_containers_along_and_its_successor_clears_up(tmp_path: Path) -> None:
    state = tmp_path / "state"
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom gpu_runner.slots import HostConfig, SlotPool\n"
        "pool = SlotPool(HostConfig(state_dir=Path(sys.argv[1]), venv=Path(sys.argv[2]), spares=0))\n"
        "pool.start()\nassert pool.wait_ready(60)\nprint('warm', flush=True)\ntime.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(state), str(PROJECT / ".venv-sandbox")]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "warm\n"
        host.kill()
    assert eventually(lambda: not [trace for trace in traces(state) if trace.startswith("process")])
    assert traces(state) != []
    with SlotPool(host_config(state)) as pool:
        assert pool.wait_ready(60)
        assert len(list((state / "slots").iterdir())) == 1
    assert traces(state) == []


def test_two_hosts_may_not_share_a_state_folder(make_pool: Callable[..., SlotPool], tmp_path: Path) -> None:
    make_pool()
    with pytest.raises(ConfigError, match="another runner works in"):
        SlotPool(host_config(tmp_path / "state")).start()


def test_a_host_that_cannot_start_its_slots_says_so_in_the_result(tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "bin"
    broken.mkdir(parents=True)
    (broken / "python").symlink_to("/bin/false")
    with SlotPool(HostConfig(venv=broken.parent, state_dir=tmp_path / "state")) as pool:
        assert not pool.wait_ready(60)
        assert pool.failure
        ran = run(pool, program("pass"))
    assert ran.result.outcome is Outcome.RUNNER_ERROR
    assert ran.result.message == "The machine that was to run this cannot start its sandboxes."
