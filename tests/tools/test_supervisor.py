"""The supervisor with real processes: a stack in a process of its own, looked at from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Runs the parts of a file, writes READY and every line of every part to standard output.
STACK = """
import json, sys
from pathlib import Path
from tools.supervisor import Part, StartFailed, Supervisor

def say(text):
    print(text, flush=True)

folder = Path(sys.argv[1])
parts = []
for fields in json.loads((folder / "parts.json").read_text()):
    flag = fields.pop("ready_file", None)
    is_ready = (folder / flag).exists if flag else None
    fields["after"] = tuple(fields.get("after", ()))
    parts.append(Part(is_ready=is_ready, **fields))
try:
    leftovers = Supervisor(parts, folder / "logs", lambda name, line: say(f"{name}: {line}")).run(lambda: say("READY"))
except StartFailed as error:
    say(f"FAILED {error}")
    sys.exit(1)
say(f"STOPPED {leftovers}")
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-u", "-c", textwrap.dedent(code)]


#: Says its pid, then waits.
STEADY = "import os, time; print('pid', os.getpid()); time.sleep(600)"
#: Takes SIGTERM for no reason to end.
STUBBORN = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('pid', os.getpid()); time.sleep(600)"
)


class Stack:
    """A running supervisor and what it has printed so far."""

    def __init__(self, folder: Path, parts: list[dict[str, object]]) -> None:
        (folder / "parts.json").write_text(json.dumps(parts))
        self.folder = folder
        self.output = folder / "output"
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", STACK, str(folder)], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def lines(self) -> list[str]:
        return self.output.read_text().splitlines()

    def wait_for(self, condition: Callable[[list[str]], bool]) -> list[str]:
        deadline_s = time.monotonic() + 20
        while not condition(self.lines):
            assert time.monotonic() < deadline_s, self.lines
            time.sleep(0.01)
        return self.lines

    def wait_for_line(self, line: str) -> list[str]:
        return self.wait_for(lambda lines: line in lines)

    def pids(self, name: str) -> list[int]:
        """Every pid that a part has said, oldest first."""
        start = f"{name}: pid "
        return [int(line.removeprefix(start)) for line in self.lines if line.startswith(start)]

    def wait_for_pids(self, name: str, count: int) -> list[int]:
        self.wait_for(lambda lines: len(self.pids(name)) >= count)
        return self.pids(name)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=20)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Stack]]:
    stacks: list[Stack] = []

    def start(*parts: dict[str, object]) -> Stack:
        stacks.append(Stack(tmp_path, list(parts)))
        return stacks[-1]

    yield start
    for stack in stacks:
        stack.process.kill()
        stack.process.wait()


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until_gone(pid: int) -> None:
    deadline_s = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_killed_part_comes_back(start: Callable[..., Stack]) -> None:
    stack = start({"name": "web", "command": python(STEADY)})
    (first,) = stack.wait_for_pids("web", 1)
    stack.wait_for_line("READY")
    os.kill(first, signal.SIGKILL)

    _, second = stack.wait_for_pids("web", 2)

    assert is_alive(second)
    assert "web: [was killed by SIGKILL; starting it again in 0.1 s]" in stack.lines
    assert stack.stop() == 0
    assert not is_alive(second)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopping_ends_every_part(start: Callable[..., Stack], number: signal.Signals) -> None:
    stack = start({"name": "web", "command": python(STEADY)}, {"name": "worker", "command": python(STEADY)})
    pids = stack.wait_for_pids("web", 1) + stack.wait_for_pids("worker", 1)

    assert stack.stop(number) == 0
    assert stack.lines[-1] == "STOPPED []"
    assert not any(map(is_alive, pids))


def test_a_part_that_ignores_the_request_is_killed(start: Callable[..., Stack]) -> None:
    stack = start({"name": "web", "command": python(STUBBORN), "stop_limit_s": 0.2})
    (pid,) = stack.wait_for_pids("web", 1)

    assert stack.stop() == 0
    assert not is_alive(pid)


def test_a_second_request_ends_the_patience(start: Callable[..., Stack]) -> None:
    stack = start({"name": "web", "command": python(STUBBORN), "stop_limit_s": 600})
    (pid,) = stack.wait_for_pids("web", 1)
    stack.process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    stack.process.send_signal(signal.SIGINT)
    time.sleep(0.7)
    assert is_alive(pid), "two at once are one"

    assert stack.stop(signal.SIGINT) == 0
    assert not is_alive(pid)


def test_later_waves_outlive_earlier_ones(start: Callable[..., Stack]) -> None:
    says_goodbye = """
        import os, signal, sys, time
        def leave(number, frame):
            time.sleep(0.2)
            print("gone")
            sys.exit(0)
        signal.signal(signal.SIGTERM, leave)
        print("pid", os.getpid())
        time.sleep(600)
    """
    stack = start(
        {"name": "redis", "command": python(says_goodbye), "stop_wave": 1},
        {"name": "web", "command": python(says_goodbye), "stop_wave": 0},
    )
    stack.wait_for_pids("redis", 1)
    stack.wait_for_pids("web", 1)

    assert stack.stop() == 0
    assert [line for line in stack.lines if line.endswith("gone")] == ["web: gone", "redis: gone"]


def test_what_a_killed_part_leaves_behind_is_ended_with_the_rest(start: Callable[..., Stack]) -> None:
    # A daemon, as a container's first process is: its own session, its parent gone.
    leaves_a_daemon = f"""
        import os, subprocess, sys, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                {STEADY}
            os._exit(0)
        os.wait()
        time.sleep(600)
    """
    stack = start({"name": "worker", "command": python(leaves_a_daemon)})
    (daemon,) = stack.wait_for_pids("worker", 1)
    assert os.getsid(daemon) != os.getsid(stack.process.pid)

    assert stack.stop() == 0
    assert stack.lines[-1].startswith("STOPPED ['python")
    assert not is_alive(daemon)


def test_the_children_of_a_killed_part_go_with_it(start: Callable[..., Stack]) -> None:
    has_a_child = (
        f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-uc', {STEADY!r}]); time.sleep(600)"
    )
    stack = start({"name": "worker", "command": python(has_a_child)})
    (child,) = stack.wait_for_pids("worker", 1)
    stack.wait_for_line("READY")
    os.kill(int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)

    wait_until_gone(child)

    stack.wait_for_pids("worker", 2)
    assert stack.stop() == 0


def test_the_parts_end_when_the_supervisor_is_killed(start: Callable[..., Stack]) -> None:
    stack = start({"name": "web", "command": python(STEADY)})
    (pid,) = stack.wait_for_pids("web", 1)
    stack.stop(signal.SIGKILL)

    wait_until_gone(pid)


def test_a_part_waits_for_those_it_needs(start: Callable[..., Stack]) -> None:
    stack = start(
        {"name": "web", "command": python(STEADY), "after": ["prepare", "redis"]},
        {"name": "prepare", "command": python("print('prepared')"), "one_shot": True},
        {"name": "redis", "command": python(STEADY), "ready_file": "redis-is-ready"},
    )
    stack.wait_for_pids("redis", 1)
    stack.wait_for_line("prepare: prepared")
    time.sleep(0.3)
    assert stack.pids("web") == []
    (stack.folder / "redis-is-ready").touch()

    stack.wait_for_pids("web", 1)
    stack.wait_for_line("READY")
    assert stack.stop() == 0


def test_a_one_shot_part_that_fails_ends_the_start_with_its_last_words(start: Callable[..., Stack]) -> None:
    stack = start(
        {"name": "redis", "command": python(STEADY)},
        {"name": "prepare", "command": python("raise SystemExit('no such table')"), "one_shot": True},
    )

    assert stack.process.wait(timeout=20) == 1
    assert "FAILED prepare ended with status 1. Its last lines:" in stack.lines
    assert "no such table" in stack.lines
    assert not any(map(is_alive, stack.pids("redis")))


def test_a_part_that_never_stays_up_ends_the_start(start: Callable[..., Stack]) -> None:
    stack = start({"name": "web", "command": python("raise SystemExit(3)"), "ready_file": "never"})

    assert stack.process.wait(timeout=20) == 1
    assert "FAILED web ended with status 3. Its last lines:" in stack.lines


def test_every_part_has_its_log(start: Callable[..., Stack]) -> None:
    stack = start({"name": "web", "command": python(STEADY)}, {"name": "worker", "command": python(STEADY)})
    (web,), (worker,) = stack.wait_for_pids("web", 1), stack.wait_for_pids("worker", 1)
    stack.stop()

    logs = {path.name: path.read_text() for path in (stack.folder / "logs").iterdir()}
    assert logs == {"web.log": f"pid {web}\n", "worker.log": f"pid {worker}\n"}
