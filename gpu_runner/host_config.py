"""The settings of a GPU host, from ``RENDEZVOUS_RUNNER_*``."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gpu_runner import cgroups


class ConfigError(ValueError):
    """A setting that is missing or makes no sense; the text names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """The settings of a GPU host. ``from_environ`` reads them from ``RENDEZVOUS_RUNNER_*``."""

    venv: Path = Path(".venv-sandbox")
    runtime: str = "runc"
    slots: int = 1
    #: Warm slots beyond those in use, so that a retired or lost one is replaced at once.
    spares: int = 1
    state_dir: Path = Path("var/runner")
    #: The most that a run may be given, whatever its limits say.
    memory_mb: int = 4096
    runs_per_slot: int = 200
    host: str = ""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Raises ``ConfigError`` with the variable's name. What is not set has a default that works from the project's root."""
        default = cls()
        prefix = "RENDEZVOUS_RUNNER_"
        known = {"VENV", "RUNTIME", "SLOTS", "SPARES", "STATE_DIR", "MEMORY_MB", "RUNS_PER_SLOT", "HOST"}

        def number(name: str, fallback: int, least: int) -> int:
            text = environ.get(prefix + name, "").strip()
            if not text:
                return fallback
            if not text.isdecimal() or int(text) < least:
                raise ConfigError(f"{prefix}{name} must be a whole number of at least {least}, not {text!r}")
            return int(text)

        def path(name: str, fallback: Path) -> Path:
            return Path(environ.get(prefix + name, "").strip() or fallback).absolute()

        unknown = sorted(name for name in environ if name.startswith(prefix) and name.removeprefix(prefix) not in known)
        if unknown:
            raise ConfigError(f"{unknown[0]} is not a setting of the runner")
        return cls(
            venv=path("VENV", default.venv),
            runtime=environ.get(f"{prefix}RUNTIME", "").strip() or default.runtime,
            slots=number("SLOTS", default.slots, 1),
            spares=number("SPARES", default.spares, 0),
            state_dir=path("STATE_DIR", default.state_dir),
            memory_mb=number("MEMORY_MB", default.memory_mb, 64),
            runs_per_slot=number("RUNS_PER_SLOT", default.runs_per_slot, 1),
            host=environ.get(f"{prefix}HOST", "").strip(),
        )

    def check(self) -> None:
        """Raises ``ConfigError`` with what is missing and what to do about it."""
        if os.geteuid() != 0:
            raise ConfigError("the runner makes containers, so it must be started by root")
        if shutil.which(self.runtime) is None:
            raise ConfigError(f"{self.runtime} is not installed (RENDEZVOUS_RUNNER_RUNTIME): apt-get install runc")
        python = self.venv / "bin" / "python"
        if not python.exists():
            raise ConfigError(f"no sandbox environment at {self.venv} (RENDEZVOUS_RUNNER_VENV): make sandbox-venv")
        if not python.stat().st_mode & stat.S_IXOTH or not self.venv.stat().st_mode & stat.S_IXOTH:
            raise ConfigError(
                f"{self.venv} may be read by its owner alone, but runs are made under another id: chmod -R o+rX"
            )
        try:
            cgroups.version()
        except cgroups.CgroupError as error:
            raise ConfigError(str(error)) from error
