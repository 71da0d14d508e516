"""``make demo`` as a person uses it: started, stopped, started twice, with parts killed in between."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.stacks import ROOT, RunningStack, demo_command, demo_environment, start_stack

pytestmark = [pytest.mark.container, pytest.mark.timeout(240)]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[RunningStack]:
    running = start_stack(tmp_path / "demo")
    yield running
    if running.process.poll() is None:
        running.stop()


def descendants(pid: int) -> dict[int, str]:
    """The pids and command lines of all processes below this one, those in containers included."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            waiting.append(child)
            with suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def pid_of(stack: RunningStack, words: str) -> int:
    (pid,) = (pid for pid, command in descendants(stack.process.pid).items() if words in command)
    return pid


def cgroups_of(pids: dict[int, str]) -> set[Path]:
    """The folders of the cgroups that these are in and that are ours."""
    found: set[Path] = set()
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
                _, controllers, path = line.split(":", 2)
                if path.startswith("/rendezvous/"):
                    mounts = [Path("/sys/fs/cgroup"), *(Path("/sys/fs/cgroup") / c for c in controllers.split(","))]
                    found |= {mount / path.lstrip("/") for mount in mounts if (mount / path.lstrip("/")).is_dir()}
    return found


def assert_nothing_left(stack: RunningStack, pids: dict[int, str], cgroups: set[Path]) -> None:
    assert [command for pid, command in pids.items() if Path(f"/proc/{pid}").exists()] == []
    assert cgroups, "the worker's containers were in no cgroup of ours"
    assert [path for path in cgroups if path.exists()] == []
    runtime = stack.folder / "runner" / "runtime"
    assert not runtime.exists() or list(runtime.iterdir()) == []
    assert str(stack.folder) not in Path("/proc/mounts").read_text()
    assert not (stack.folder / "redis.sock").exists()


def health(stack: RunningStack) -> int:
    with suppress(OSError), urllib.request.urlopen(f"{stack.base_url}/healthz", timeout=5) as answer:  # noqa: S310
        return int(answer.status)
    return 0


def wait_until_healthy(stack: RunningStack) -> None:
    deadline_s = time.monotonic() + 20
    while health(stack) != 200:
        assert time.monotonic() < deadline_s, stack.output
        time.sleep(0.05)


def wait_until_worker_is_ready(stack: RunningStack, *, otherwise_than: str) -> None:
    """Waits until a worker says so that is another than the one that said so first."""
    path = stack.folder / "worker-is-ready"
    deadline_s = time.monotonic() + 60
    while not path.exists() or path.read_text() in ("", otherwise_than):
        assert time.monotonic() < deadline_s, stack.output
        time.sleep(0.05)


def test_it_prints_the_links_and_stopping_leaves_nothing(stack: RunningStack) -> None:
    assert stack.interviewer_url in stack.output
    assert stack.candidate_url in stack.output
    assert f"sign in as {stack.email} with the password {stack.password}" in stack.output
    assert health(stack) == 200
    pids = descendants(stack.process.pid)
    cgroups = cgroups_of(pids)

    assert stack.stop() == 0

    assert_nothing_left(stack, pids, cgroups)


def test_killed_parts_come_back_and_stopping_still_leaves_nothing(stack: RunningStack) -> None:
    told = (stack.folder / "worker-is-ready").read_text()
    pids = descendants(stack.process.pid)
    cgroups = cgroups_of(pids)
    for words in ("redis-server", "uvicorn", "celery", "gpu_runner.worker"):
        for pid in [pid for pid, command in descendants(stack.process.pid).items() if words in command]:
            os.kill(pid, signal.SIGKILL)
    wait_until_healthy(stack)
    wait_until_worker_is_ready(stack, otherwise_than=told)
    pids |= descendants(stack.process.pid)
    cgroups |= cgroups_of(pids)

    assert stack.stop(signal.SIGTERM) == 0

    assert_nothing_left(stack, pids, cgroups)


def test_stopping_while_the_worker_is_dead_leaves_nothing(stack: RunningStack) -> None:
    pids = descendants(stack.process.pid)
    cgroups = cgroups_of(pids)
    os.kill(pid_of(stack, "gpu_runner.worker"), signal.SIGKILL)

    assert stack.stop() == 0

    assert_nothing_left(stack, pids, cgroups)


def test_a_second_start_tells_the_links_of_the_first(stack: RunningStack) -> None:
    second = subprocess.run(
        demo_command(stack.folder),
        cwd=ROOT,
        env=demo_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "A demo runs already." in second.stdout
    assert stack.candidate_url in second.stdout
    assert health(stack) == 200


def test_the_data_is_kept_and_a_busy_port_gives_way(tmp_path: Path) -> None:
    first = start_stack(tmp_path / "demo")
    first.stop()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        busy = holder.getsockname()[1]

        second = start_stack(tmp_path / "demo", port=busy)
        second.stop()

    assert f"Port {busy} is busy, so it is port" in second.output
    assert f":{busy}/" not in second.candidate_url
    # The same interview and the same token, at another port.
    assert second.candidate_url.rpartition("/j/")[2] == first.candidate_url.rpartition("/j/")[2]
    assert second.password == first.password
