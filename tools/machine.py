"""The system's side of set-up: which programs are here, and the packages that bring those which are not."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.console import Step, fail, say

OCI_RUNTIMES = ("runc", "crun", "runsc", "nvidia-container-runtime")
#: Where programs for administrators are, which not every user's PATH names.
ADMINISTRATORS_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
CHROMIUM_VARIABLE = "RENDEZVOUS_CHROMIUM"


@dataclass(frozen=True)
class SystemPackage:
    """Something that comes from the system; ``names`` are its Debian packages, the first that exists is taken."""

    names: tuple[str, ...]
    why: str
    is_present: Callable[[], bool]


def find_program(*names: str) -> str | None:
    """The path of the first of these programs that is installed."""
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *ADMINISTRATORS_FOLDERS])
    for name in names:
        path = shutil.which(name, path=search)
        if path is not None:
            return path
    return None


def find_redis() -> str | None:
    return find_program("redis-server", "valkey-server")


def find_chromium() -> str | None:
    """The browser that the tests drive."""
    named = os.environ.get(CHROMIUM_VARIABLE)
    return named or find_program("chromium", "google-chrome", "google-chrome-stable", "chromium-browser")


def find_postgres_folder() -> Path | None:
    """The folder with ``initdb`` and ``postgres``, of the newest version installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    program = find_program("initdb")
    return Path(program).resolve().parent if program else None


NEEDED = (
    SystemPackage(
        ("runc", "crun"), "starts the containers that code runs in", lambda: bool(find_program(*OCI_RUNTIMES))
    ),
    SystemPackage(
        ("redis-server", "valkey-server"), "carries messages and live output", lambda: find_redis() is not None
    ),
    SystemPackage(
        ("libseccomp2",), "filters the system calls of that code", lambda: bool(ctypes.util.find_library("seccomp"))
    ),
)
NEEDED_FOR_TESTS = (
    SystemPackage(("chromium", "chromium-browser"), "drives the pages in tests", lambda: find_chromium() is not None),
    SystemPackage(("postgresql",), "runs the tests on a second database", lambda: find_postgres_folder() is not None),
)


def ensure_packages(packages: Iterable[SystemPackage]) -> None:
    """Installs what is missing, named first; or says in one line what is missing and what to type."""
    missing = [package for package in packages if not package.is_present()]
    if not missing:
        return
    wanted = ", ".join(f"{package.names[0]} ({package.why})" for package in missing)
    if find_program("apt-get") is None:
        fail(f"Missing: {wanted}. Install them with your system's package manager, then try again.")
    prefix = root_prefix()
    if prefix is None:
        names = " ".join(package.names[0] for package in missing)
        fail(f"Missing: {wanted}. As root, type: apt-get update && apt-get install -y {names}")
    say(f"Missing on this machine: {wanted}.")
    with Step("Installing them with apt-get"):
        install_packages(prefix, [package.names for package in missing])
    absent = [package.names[0] for package in missing if not package.is_present()]
    if absent:
        fail(f"apt-get installed, and yet these are not found: {', '.join(absent)}.")


def root_prefix() -> list[str] | None:
    """What to put before a command to run it as root: nothing for root, ``sudo`` where there is one, else ``None``."""
    if os.geteuid() == 0:
        return []
    sudo = find_program("sudo")
    return [sudo] if sudo else None


def install_packages(prefix: list[str], wanted: list[tuple[str, ...]]) -> None:
    """Installs, of each tuple of names, the first that this system's archive has."""
    names = [_available(alternatives) for alternatives in wanted]
    if None in names:
        _run([*prefix, "apt-get", "update", "-q"])
        names = [_available(alternatives) for alternatives in wanted]
    for name, alternatives in zip(names, wanted, strict=True):
        if name is None:
            fail(f"This system's package archive has none of: {', '.join(alternatives)}. Install it by hand, please.")
    apt_get = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    install = [*apt_get, "install", "-y", "-q", "--no-install-recommends"]
    chosen = [name for name in names if name is not None]
    if subprocess.call([*install, *chosen]) != 0:
        # A list of packages from last month names files that are gone.
        _run([*prefix, "apt-get", "update", "-q"])
        _run([*install, *chosen])


def _available(names: tuple[str, ...]) -> str | None:
    for name in names:
        answer = subprocess.run(["apt-cache", "policy", name], stdout=subprocess.PIPE, check=False, text=True).stdout
        if "Candidate:" in answer and "Candidate: (none)" not in answer:
            return name
    return None


def _run(command: list[str]) -> None:
    if subprocess.call(command) != 0:
        fail(f"This failed: {' '.join(command)}")
