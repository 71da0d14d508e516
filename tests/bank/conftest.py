"""A real slot for the questions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_runner.slots import SlotPool
from tests.gpu_runner.conftest import host_config, why_no_containers


@pytest.fixture(scope="session")
def bank_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlotPool]:
    if reason := why_no_containers():
        pytest.skip(reason)
    with SlotPool(host_config(tmp_path_factory.mktemp("bank-runner"))) as pool:
        assert pool.wait_ready(90), pool.failure
        yield pool
