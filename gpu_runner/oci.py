"""The OCI container of a slot: its configuration, its start and its removal, by the runtime's own command line.

The root file system is made of read-only binds: the host's ``/usr`` and the sandbox's virtual environment. Nothing of the
project, its settings or its state is in it but a staged copy of ``gpu_runner.sandbox``, which each run hides again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpu_runner
from gpu_runner.sandbox import isolation, parent, preload

#: What the first process needs to build the walls of a run. The ranks get none of it.
_CAPABILITIES = (
    "CAP_SYS_ADMIN",
    "CAP_NET_ADMIN",
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_KILL",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_SYS_RESOURCE",
)
_IDS_PER_SLOT = 1 << 16
_FIRST_HOST_ID = 1 << 20
_COMMAND_WAIT_S = 20.0
#: Debian's ``cc``, ``c++`` and ``awk`` are links into this folder.
_ALTERNATIVES = Path("/etc/alternatives")
_STAGED = ("__init__.py", "protocol.py", "sandbox")


class ContainerError(RuntimeError):
    """A container that did not start; the text is for the host's log and its page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """What is the same for all slots of a pool."""

    runtime: str
    runtime_root: Path
    rootfs: Path
    venv: Path
    memory_mb: int
    pids: int


class Container:
    """A running container whose first process holds one end of ``channel``."""

    def __init__(self, *, name: str, settings: ContainerSettings, bundle: Path, pid: int, sock: socket.socket) -> None:
        self.name = name
        self.socket = sock
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self._settings = settings
        self._bundle = bundle

    @classmethod
    def start(cls, *, name: str, settings: ContainerSettings, bundle: Path, cgroup: str, index: int) -> Container:
        """Creates and starts the container. It is up when this returns, though not yet warm."""
        stage_code(bundle / "code")
        config = container_config(settings, code=bundle / "code", cgroup=cgroup, index=index)
        (bundle / "config.json").write_text(json.dumps(config))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pid_file = bundle / "pid"
        command = [
            settings.runtime,
            f"--root={settings.runtime_root}",
            "run",
            "--detach",
            f"--bundle={bundle}",
            f"--pid-file={pid_file}",
            "--preserve-fds=1",
            name,
        ]
        try:
            _spawn(command, log=bundle / "log", handed_on=theirs.fileno())
            pid = int(pid_file.read_text())
            return cls(name=name, settings=settings, bundle=bundle, pid=pid, sock=ours)
        except (OSError, ValueError, ContainerError) as error:
            ours.close()
            delete(settings, name)
            raise ContainerError(f"{error}\n{log_tail(bundle)}".strip()) from error
        finally:
            theirs.close()

    def kill(self) -> None:
        """Ends the first process, and with it everything in the container."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def remove(self) -> None:
        """Kills the container and takes away all that it had."""
        self.kill()
        self.socket.close()
        delete(self._settings, self.name)
        os.close(self.pidfd)
        shutil.rmtree(self._bundle, ignore_errors=True)

    def log_tail(self) -> str:
        return log_tail(self._bundle)


def log_tail(bundle: Path) -> str:
    """The last words of the container's first process."""
    with suppress(OSError):
        return (bundle / "log").read_text(errors="replace")[-2000:].strip()
    return ""


def delete(settings: ContainerSettings, name: str) -> None:
    """Removes a container with its cgroups, whatever state it is in."""
    subprocess.run(
        [settings.runtime, f"--root={settings.runtime_root}", "delete", "--force", name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_COMMAND_WAIT_S,
        check=False,
    )


def container_names(settings: ContainerSettings) -> list[str]:
    """All containers that the runtime knows below this pool's root."""
    if not settings.runtime_root.is_dir():
        return []
    return sorted(entry.name for entry in settings.runtime_root.iterdir() if entry.is_dir())


def _spawn(command: list[str], *, log: Path, handed_on: int) -> None:
    """Runs the runtime with ``handed_on`` as descriptor 3, which it passes to the container's first process."""
    program = shutil.which(command[0])
    if program is None:
        raise ContainerError(f"{command[0]} is not installed")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_DUP2, handed_on, parent.CONTROL_FD),
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(program, command, {"PATH": os.environ.get("PATH", os.defpath)}, file_actions=actions)
    deadline = time.monotonic() + _COMMAND_WAIT_S
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise ContainerError(f"{command[0]} did not come back within {_COMMAND_WAIT_S:g} s")
        time.sleep(0.005)
    if status != 0:
        raise ContainerError(f"{command[0]} run ended with {os.waitstatus_to_exitcode(status)}")


def stage_code(target: Path) -> None:
    """Copies what runs inside the container: the contract and ``gpu_runner.sandbox``, nothing else of the project."""
    package = Path(gpu_runner.__file__).parent
    into = target / "gpu_runner"
    shutil.rmtree(target, ignore_errors=True)
    into.mkdir(parents=True)
    for name in _STAGED:
        source = package / name
        if source.is_dir():
            shutil.copytree(source, into / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, into / name)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def build_rootfs(rootfs: Path, mount_points: list[str]) -> None:
    """The skeleton that the binds are mounted on. It is shared by all slots and never written by any."""
    rootfs.mkdir(parents=True, exist_ok=True)
    for point in ("/usr", "/etc", "/proc", "/dev", "/tmp", isolation.BOX, *mount_points):  # noqa: S108
        (rootfs / point.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        host = Path("/") / name
        link = rootfs / name
        if host.is_symlink() and not link.is_symlink():
            link.symlink_to(os.readlink(host))
        elif host.is_dir() and not host.is_symlink():
            link.mkdir(exist_ok=True)
    commands = rootfs / preload.COMMANDS_DIR.lstrip("/")
    commands.mkdir(parents=True, exist_ok=True)
    # The environment's own script names the interpreter by its path on the host.
    (commands / "torchrun").write_text('#!/bin/sh\nexec /venv/bin/python -m torch.distributed.run "$@"\n')
    (commands / "torchrun").chmod(0o755)
    candidate, checker = isolation.CANDIDATE_ID, isolation.CHECKER_ID
    files = {
        "hosts": "127.0.0.1 localhost sandbox\n",
        "passwd": "root:x:0:0::/:/bin/false\n"
        f"candidate:x:{candidate}:{candidate}::/box:/bin/sh\nchecker:x:{checker}:{checker}::/:/bin/false\n",
        "group": f"root:x:0:\ncandidate:x:{candidate}:\nchecker:x:{checker}:\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "resolv.conf": "",
    }
    for name, text in files.items():
        (rootfs / "etc" / name).write_text(text)
    with suppress(FileNotFoundError):  # only quickens the look-up of libraries
        shutil.copyfile("/etc/ld.so.cache", rootfs / "etc" / "ld.so.cache")
    for path in (rootfs, *(p for p in rootfs.rglob("*") if p.is_dir() and not p.is_symlink())):
        path.chmod(0o755)


def interpreter_prefix(venv: Path) -> Path | None:
    """The folder of the interpreter that the environment was made with, where the bind of ``/usr`` does not bring it along."""
    prefix = Path(os.path.realpath(venv / "bin" / "python")).parent.parent
    return None if prefix.is_relative_to("/usr") else prefix


def container_config(settings: ContainerSettings, *, code: Path, cgroup: str, index: int) -> dict[str, Any]:
    """The OCI runtime's ``config.json``."""
    binds = {"/usr": Path("/usr"), "/venv": settings.venv, isolation.CODE_DIR: code}
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        host = Path("/") / name
        if host.is_dir() and not host.is_symlink():
            binds[f"/{name}"] = host
    if _ALTERNATIVES.is_dir():
        binds[str(_ALTERNATIVES)] = _ALTERNATIVES
    prefix = interpreter_prefix(settings.venv)
    if prefix is not None:
        binds[str(prefix)] = prefix
    start = (
        f"import sys; sys.path.insert(0, {isolation.CODE_DIR!r}); from gpu_runner.sandbox.parent import main; main()"
    )
    host_id = _FIRST_HOST_ID + index * _IDS_PER_SLOT
    ids = [{"containerID": 0, "hostID": host_id, "size": _IDS_PER_SLOT}]
    kept = list(_CAPABILITIES)
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": ["/venv/bin/python", "-P", "-s", "-c", start],
            "env": [f"{name}={value}" for name, value in preload.ENVIRONMENT.items()],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {"bounding": kept, "effective": kept, "permitted": kept},
            "rlimits": [
                {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
                {"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 4096},
            ],
        },
        "root": {"path": str(settings.rootfs), "readonly": True},
        "hostname": "sandbox",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
            _tmpfs("/dev", "mode=755", "size=64k", "noexec"),
            _tmpfs("/dev/shm", "mode=1777", "size=1m", "noexec", "nodev"),  # noqa: S108
            _tmpfs("/tmp", "mode=1777", "size=16m", "nodev"),  # noqa: S108
            _tmpfs(isolation.BOX, "mode=755", "size=1m", "nodev"),
            *(
                {
                    "destination": target,
                    "type": "bind",
                    "source": str(source),
                    "options": ["rbind", "ro", "nosuid", "nodev"],
                }
                for target, source in binds.items()
            ),
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network", "cgroup", "user")],
            "uidMappings": ids,
            "gidMappings": ids,
            "cgroupsPath": cgroup,
            "resources": {
                "memory": {"limit": settings.memory_mb << 20},
                "pids": {"limit": settings.pids},
                "devices": [{"allow": False, "access": "rwm"}],
            },
        },
    }


def mount_points(settings: ContainerSettings) -> list[str]:
    """Where the binds of ``container_config`` go."""
    prefix = interpreter_prefix(settings.venv)
    return ["/venv", isolation.CODE_DIR, str(_ALTERNATIVES), *([] if prefix is None else [str(prefix)])]


def _tmpfs(target: str, *options: str) -> dict[str, Any]:
    return {"destination": target, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", *options]}


def runtime_version(runtime: str) -> str:
    """The runtime's name and version for the run card."""
    answer = subprocess.run(
        [runtime, "--version"], capture_output=True, text=True, timeout=_COMMAND_WAIT_S, check=False
    )
    first = answer.stdout.splitlines()[:1]
    return first[0].replace(" version", "") if first else runtime
