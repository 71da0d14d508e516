"""Real slots for the tests of this package. Where no container can be made, the tests say why they were skipped."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_runner.slots import HostConfig, SlotPool

PROJECT = Path(__file__).resolve().parents[2]


def why_no_containers() -> str:
    """Empty where containers can be made."""
    if os.geteuid() != 0:
        return "containers need root"
    if shutil.which("runc") is None:
        return "no OCI runtime: runc is not installed"
    if not (PROJECT / ".venv-sandbox" / "bin" / "python").exists():
        return "no sandbox environment at .venv-sandbox"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_no_containers()
    if reason:
        for item in items:
            if item.get_closest_marker("container"):
                item.add_marker(pytest.mark.skip(reason=reason))


def host_config(state_dir: Path, *, slots: int = 1, spares: int = 0, runs_per_slot: int = 500) -> HostConfig:
    return HostConfig(
        venv=PROJECT / ".venv-sandbox",
        state_dir=state_dir,
        slots=slots,
        spares=spares,
        runs_per_slot=runs_per_slot,
        host="test-host",
    )


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlotPool]:
    """Two slots for all tests that do not harm them."""
    with SlotPool(host_config(tmp_path_factory.mktemp("runner"), slots=2)) as shared:
        deadline = time.monotonic() + 60
        while shared.ready_slots < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert shared.ready_slots == 2, shared.failure
        yield shared
