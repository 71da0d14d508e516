"""A whole Rendezvous for a test, started by the program behind ``make demo`` in a folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[1]
START_LIMIT_S = 90.0
STOP_LIMIT_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStack:
    """What ``make demo`` prints, and the process that keeps it running."""

    process: subprocess.Popen[bytes]
    folder: Path
    base_url: str
    email: str
    password: str
    interviewer_url: str
    candidate_url: str

    @property
    def output(self) -> str:
        return (self.folder / "output.txt").read_text(errors="replace")

    def log(self, part: str) -> str:
        return (self.folder / "logs" / f"{part}.log").read_text(errors="replace")

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Stops it as Ctrl-C does; returns the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=STOP_LIMIT_S)


def demo_command(folder: Path, port: int = 0) -> list[str]:
    return [sys.executable, "-m", "tools.demo", "--folder", str(folder), "--port", str(port), "--verbose"]


def demo_environment() -> dict[str, str]:
    """Ours without the settings of the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RENDEZVOUS_")}


def start_stack(folder: Path, port: int = 0) -> RunningStack:
    """Starts one on the folder and waits until it has printed its links."""
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "output.txt"
    with open(output, "wb") as sink:
        process = subprocess.Popen(
            demo_command(folder, port),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=demo_environment(),
        )
    deadline_s = time.monotonic() + START_LIMIT_S
    while "Ready after" not in output.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline_s:
            process.terminate()
            process.wait(timeout=STOP_LIMIT_S)
            pytest.fail(f"The stack did not start:\n{output.read_text(errors='replace')}")
        time.sleep(0.05)
    told = json.loads((folder / "sign-in.json").read_text())
    parts = urlsplit(told["interviewer_url"])
    return RunningStack(process=process, folder=folder, base_url=f"{parts.scheme}://{parts.netloc}", **told)
