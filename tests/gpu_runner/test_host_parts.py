"""The parts of the host side that need no container: settings, channels, cgroup files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_runner import cgroups
from gpu_runner.sandbox.channel import Channel, ChannelClosed
from gpu_runner.slots import ConfigError, HostConfig


def test_the_defaults_work_from_the_projects_root() -> None:
    config = HostConfig.from_environ({})
    assert config.venv == Path(".venv-sandbox").absolute()
    assert config.state_dir == Path("var/runner").absolute()
    assert (config.runtime, config.slots) == ("runc", 1)


def test_settings_come_from_the_environment() -> None:
    prefix = "RENDEZVOUS_RUNNER_"
    environ = {f"{prefix}SLOTS": "3", f"{prefix}RUNTIME": "crun", f"{prefix}STATE_DIR": "/srv/runner", "OTHER": "x"}
    config = HostConfig.from_environ(environ)
    assert (config.slots, config.runtime, config.state_dir) == (3, "crun", Path("/srv/runner"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("SLOTS", "0"), ("SLOTS", "many"), ("MEMORY_MB", "10"), ("RUNS_PER_SLOT", "-1"), ("SLOT", "2"), ("SPARES", "1.5")],
)
def test_a_setting_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"RENDEZVOUS_RUNNER_{name}"):
        HostConfig.from_environ({f"RENDEZVOUS_RUNNER_{name}": value})


def test_a_frame_carries_its_descriptors() -> None:
    ours, theirs = Channel.pair()
    read, write = os.pipe()
    ours.send({"text": "ä" * 10_000}, [write])
    ours.send({"next": 1})
    message, fds = theirs.receive()
    assert message == {"text": "ä" * 10_000}
    os.close(write)
    os.write(fds[0], b"through")
    assert os.read(read, 10) == b"through"
    assert theirs.receive() == ({"next": 1}, [])
    for fd in (read, *fds):
        os.close(fd)
    ours.close()
    with pytest.raises(ChannelClosed):
        theirs.receive()
    with pytest.raises(ChannelClosed):
        theirs.send({"too": "late"})
    theirs.close()


@pytest.fixture
def cgroup_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroups, "MOUNT", tmp_path)
    return tmp_path


def test_version_two_limits_and_counts(cgroup_mount: Path) -> None:
    (cgroup_mount / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    folder = cgroup_mount / "rendezvous" / "slot"
    folder.mkdir(parents=True)
    for name, text in {
        "memory.max": "max\n",
        "memory.swap.max": "max\n",
        "memory.current": "1048576\n",
        "memory.peak": "3145728\n",
        "memory.events": "low 0\nhigh 0\nmax 4\noom 2\noom_kill 1\n",
        "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\n",
        "pids.max": "max\n",
        "pids.current": "7\n",
    }.items():
        (folder / name).write_text(text)
    cgroup = cgroups.slot_cgroup("/rendezvous/slot")
    assert cgroup.usage() == cgroups.Usage(memory_bytes=1 << 20, cpu_s=2.5, oom_kills=1)
    assert cgroup.pid_count() == 7
    cgroup.limit(memory_bytes=1 << 30, pids=99)
    assert (folder / "memory.max").read_text() == str(1 << 30)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == "99"
    assert cgroup.folders() == [folder]


def test_version_two_hands_its_controllers_down(cgroup_mount: Path) -> None:
    (cgroup_mount / "cgroup.controllers").write_text("cpu memory pids\n")
    (cgroup_mount / "cgroup.subtree_control").write_text("")
    folder = cgroup_mount / "rendezvous"
    folder.mkdir()
    (folder / "cgroup.subtree_control").write_text("cpu memory pids")
    cgroups.prepare_root()
    assert (cgroup_mount / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert (folder / "cpu.weight").read_text() == str(100 * (os.cpu_count() or 1))


def test_a_host_without_a_needed_controller_says_which(cgroup_mount: Path) -> None:
    (cgroup_mount / "cgroup.controllers").write_text("cpu pids\n")
    with pytest.raises(cgroups.CgroupError, match="lacks the controllers memory"):
        cgroups.version()


def test_a_host_without_cgroups_says_so(cgroup_mount: Path) -> None:
    with pytest.raises(cgroups.CgroupError, match="no cgroup v2"):
        cgroups.version()
