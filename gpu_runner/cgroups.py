"""The cgroup of a slot, on version 1 and version 2: its limits while a run is in it, and what the run used.

The OCI runtime makes the cgroup. The host only writes limits and reads counters, so that a run costs no call of the runtime.
"""

from __future__ import annotations

import errno
import os
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
#: The parent of every cgroup of ours.
ROOT_NAME = "rendezvous"

_UNLIMITED = 1 << 62
_REMOVAL_WAIT_S = 2.0


class CgroupError(RuntimeError):
    """The host has no cgroups that a run could be held with; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Counters of a cgroup at one moment."""

    memory_bytes: int
    cpu_s: float
    oom_kills: int


class SlotCgroup(ABC):
    """The cgroup at ``/rendezvous/<pool>/<slot>``."""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def limit(self, *, memory_bytes: int, pids: int) -> None:
        """Holds the slot to these from now on, swap included."""

    @abstractmethod
    def usage(self) -> Usage: ...

    @abstractmethod
    def reset_peak(self) -> None:
        """Starts ``peak_bytes`` anew, where the kernel can."""

    @abstractmethod
    def peak_bytes(self) -> int | None:
        """The most memory since ``reset_peak``; None where the kernel does not keep it."""

    @abstractmethod
    def pid_count(self) -> int: ...

    @abstractmethod
    def folders(self) -> list[Path]: ...

    def remove(self) -> None:
        """Removes the cgroup once it is empty. The kernel needs a moment after its last process."""
        deadline = time.monotonic() + _REMOVAL_WAIT_S
        for folder in self.folders():
            while not _removed(folder) and time.monotonic() < deadline:
                time.sleep(0.01)


class CgroupV1(SlotCgroup):
    """One folder under each controller."""

    CONTROLLERS = ("memory", "pids", "cpuacct", "cpu")

    def folders(self) -> list[Path]:
        mounted = sorted(path for path in MOUNT.iterdir() if path.is_dir() and not path.is_symlink())
        found = [mount / self.path.lstrip("/") for mount in mounted]
        return [folder for folder in found if folder.is_dir()]

    def _file(self, controller: str, name: str) -> Path:
        return MOUNT / controller / self.path.lstrip("/") / name

    def limit(self, *, memory_bytes: int, pids: int) -> None:
        memory = self._file("memory", "memory.limit_in_bytes")
        swap = self._file("memory", "memory.memsw.limit_in_bytes")
        # The limit with swap may never be below the one without, so the order depends on the direction.
        files = [memory, swap] if swap.exists() else [memory]
        if len(files) == 2 and memory_bytes > _number(memory):
            files.reverse()
        for file in files:
            file.write_text(str(memory_bytes))
        self._file("pids", "pids.max").write_text(str(pids))

    def usage(self) -> Usage:
        return Usage(
            memory_bytes=_number(self._file("memory", "memory.usage_in_bytes")),
            cpu_s=_number(self._file("cpuacct", "cpuacct.usage")) / 1e9,
            oom_kills=_fields(self._file("memory", "memory.oom_control")).get("oom_kill", 0),
        )

    def reset_peak(self) -> None:
        self._file("memory", "memory.max_usage_in_bytes").write_text("0")

    def peak_bytes(self) -> int | None:
        return _number(self._file("memory", "memory.max_usage_in_bytes"))

    def pid_count(self) -> int:
        return _number(self._file("pids", "pids.current"))


class CgroupV2(SlotCgroup):
    """One folder for all controllers."""

    CONTROLLERS = ("memory", "pids", "cpu")

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._peak_fd = -1

    def folders(self) -> list[Path]:
        folder = MOUNT / self.path.lstrip("/")
        return [folder] if folder.is_dir() else []

    def _file(self, name: str) -> Path:
        return MOUNT / self.path.lstrip("/") / name

    def limit(self, *, memory_bytes: int, pids: int) -> None:
        self._file("memory.max").write_text(str(memory_bytes))
        with suppress(FileNotFoundError):  # a kernel without swap accounting
            self._file("memory.swap.max").write_text("0")
        self._file("pids.max").write_text(str(pids))

    def usage(self) -> Usage:
        return Usage(
            memory_bytes=_number(self._file("memory.current")),
            cpu_s=_fields(self._file("cpu.stat")).get("usage_usec", 0) / 1e6,
            oom_kills=_fields(self._file("memory.events")).get("oom_kill", 0),
        )

    def reset_peak(self) -> None:
        # Since Linux 6.12 a write starts the peak anew for readers of the same open file. Before, there is no way.
        self._close_peak()
        try:
            self._peak_fd = os.open(self._file("memory.peak"), os.O_RDWR | os.O_CLOEXEC)
            os.write(self._peak_fd, b"reset\n")
        except OSError:
            self._close_peak()

    def peak_bytes(self) -> int | None:
        if self._peak_fd < 0:
            return None
        return int(os.pread(self._peak_fd, 64, 0))

    def _close_peak(self) -> None:
        if self._peak_fd >= 0:
            os.close(self._peak_fd)
            self._peak_fd = -1

    def pid_count(self) -> int:
        return _number(self._file("pids.current"))

    def remove(self) -> None:
        self._close_peak()
        super().remove()


def version() -> int:
    """1 or 2. Raises ``CgroupError`` where neither could hold a run."""
    controllers_file = MOUNT / "cgroup.controllers"
    if controllers_file.exists():
        missing = set(CgroupV2.CONTROLLERS) - set(controllers_file.read_text().split())
        if missing:
            raise CgroupError(f"cgroup v2 at {MOUNT} lacks the controllers {', '.join(sorted(missing))}")
        return 2
    missing = {name for name in CgroupV1.CONTROLLERS if not (MOUNT / name / "tasks").exists()}
    if missing:
        raise CgroupError(f"no cgroup v2 at {MOUNT}, and no cgroup v1 for {', '.join(sorted(missing))}")
    return 1


def prepare_root() -> None:
    """Makes the parent of our cgroups: all runs together weigh as much as a busy process of the host's on each core."""
    cores = os.cpu_count() or 1
    if version() == 1:
        folder, name, weight = MOUNT / "cpu" / ROOT_NAME, "cpu.shares", 1024 * cores
        folder.mkdir(exist_ok=True)
    else:
        _hand_down(MOUNT)
        folder, name, weight = MOUNT / ROOT_NAME, "cpu.weight", 100 * cores
        folder.mkdir(exist_ok=True)
        _hand_down(folder)
    (folder / name).write_text(str(weight))


def _hand_down(folder: Path) -> None:
    wanted = " ".join(f"+{name}" for name in CgroupV2.CONTROLLERS)
    control = folder / "cgroup.subtree_control"
    if set(CgroupV2.CONTROLLERS) <= set(control.read_text().split()):
        return
    try:
        control.write_text(wanted)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise CgroupError(f"{control}: {error.strerror}") from error
        # Inside a container the root has processes, and a cgroup has either processes or controllers to hand down.
        leaf = folder / "init"
        leaf.mkdir(exist_ok=True)
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(pid)
        control.write_text(wanted)


def slot_cgroup(path: str) -> SlotCgroup:
    return CgroupV2(path) if version() == 2 else CgroupV1(path)


def remove_leftovers(parent: str) -> None:
    """Kills and removes all cgroups below ``parent``: what a host process that was killed left behind."""
    kind = slot_cgroup(parent)
    for folder in kind.folders():
        for child in sorted(folder.rglob("*/"), reverse=True):
            _empty(child)
        _empty(folder)


def remove_root_if_empty() -> None:
    """Removes the parent of all our cgroups, unless another pool still has one in it."""
    for folder in slot_cgroup(f"/{ROOT_NAME}").folders():
        _removed(folder)


def _empty(folder: Path) -> None:
    deadline = time.monotonic() + _REMOVAL_WAIT_S
    while not _removed(folder) and time.monotonic() < deadline:
        with suppress(OSError):
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
        time.sleep(0.01)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
            return False
        raise
    return True


def _number(file: Path) -> int:
    text = file.read_text().strip()
    return _UNLIMITED if text == "max" else int(text)


def _fields(file: Path) -> dict[str, int]:
    pairs = (line.split() for line in file.read_text().splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
