"""The walls around a group of processes: namespaces and mounts for the whole, identity, limits and seccomp for each.

``fork_into_new_pids`` makes the group's first process, ``enter_namespaces`` gives it a world of its own,
``confine`` turns one of its children into an unprivileged rank.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from dataclasses import dataclass

from gpu_runner.sandbox import kernel

#: Ids inside the user namespace of the container; on the host they are unused, unprivileged ones.
CANDIDATE_ID = 1000
CHECKER_ID = 1001

#: Where the staged code of the runner lies, until a run hides it.
CODE_DIR = "/opt/rendezvous"
BOX = "/box"

#: Ranks are the first that the kernel takes when memory runs out.
RANK_OOM_SCORE = 1000
_RANK_NICENESS = 10
_SHM_FLOOR_MB = 64


@dataclass(frozen=True, slots=True)
class Confinement:
    """What holds for each process of a run."""

    cpu_s: float
    memory_mb: int
    file_mb: int


class PidNamespaces:
    """Forks children that are each the first process of a new pid namespace.

    ``unshare`` decides where *future* children go and cannot be called twice in a row, so the process returns to its own
    namespace after each fork. That saves the middle process of the usual double fork, and forking is what costs.
    """

    def __init__(self) -> None:
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def fork(self) -> int:
        """As ``os.fork``."""
        kernel.unshare(kernel.CLONE_NEWPID)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                kernel.setns(self._own, kernel.CLONE_NEWPID)
        if pid == 0:
            os.close(self._own)
        return pid


def enter_namespaces() -> int:
    """Called by the first process of a new pid namespace. Returns a descriptor for ``confine``.

    Everything that a run can write to is made here, so it goes away with the process.
    """
    kernel.unshare(
        kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWCGROUP
    )
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    with suppress(FileNotFoundError):
        if os.listdir(CODE_DIR):
            kernel.unmount(CODE_DIR)
    owner = f"uid={CANDIDATE_ID},gid={CANDIDATE_ID}"
    for target, options in (("/tmp", "mode=1777"), (BOX, f"mode=755,{owner}"), ("/dev/shm", "mode=1777")):  # noqa: S108
        kernel.mount("tmpfs", target, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"{options},size=1m")
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("proc", "/proc", "proc", flags, "hidepid=invisible")
    # The ranks write their oom_score_adj through this descriptor; what they see at /proc is the read-only bind above it.
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    kernel.mount("/proc", "/proc", None, kernel.MS_BIND)
    kernel.mount(None, "/proc", None, flags | kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY)
    kernel.bring_loopback_up()
    kernel.drop_bounding_capabilities()
    return proc


def size_mounts(limits: Confinement) -> None:
    """Gives the temporary file systems of ``enter_namespaces`` the sizes of this run."""
    shm_mb = max(_SHM_FLOOR_MB, limits.memory_mb)
    for target, size_mb in (("/tmp", limits.file_mb), (BOX, limits.file_mb), ("/dev/shm", shm_mb)):  # noqa: S108
        # Even an empty file costs the kernel about a KiB.
        inodes = max(4096, size_mb * 256)
        options = f"size={size_mb}m,nr_inodes={inodes}"
        kernel.mount("tmpfs", target, "tmpfs", kernel.MS_REMOUNT | kernel.MS_NOSUID | kernel.MS_NODEV, options)


def confine(*, identity: int, proc: int, limits: Confinement, seccomp: bytes, oom_score: int = RANK_OOM_SCORE) -> None:
    """Turns this process into an unprivileged one for good. The order matters: each step takes away what the last needed."""
    adjust = os.open("self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
    os.write(adjust, str(oom_score).encode())
    os.close(adjust)
    os.close(proc)
    os.setsid()
    # Behind the supervisor and the warm parent, which must get a word in while a program forks without end.
    os.nice(_RANK_NICENESS)
    os.umask(0o022)
    cpu_s = int(limits.cpu_s) + 1
    memory_bytes = limits.memory_mb << 20
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 1024),
        # Also the size of a file in /dev/shm, so not below what shared tensors need.
        (resource.RLIMIT_FSIZE, memory_bytes),
        (resource.RLIMIT_MEMLOCK, 64 << 10),
        (resource.RLIMIT_MSGQUEUE, 64 << 10),
        (resource.RLIMIT_SIGPENDING, 1024),
    ):
        resource.setrlimit(kind, (value, value))
    # SIGXCPU first, SIGKILL for a program that ignores it.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    kernel.become(identity, identity)
    kernel.forbid_new_privileges()
    kernel.load_seccomp(seccomp)
