"""The examples of ``docs/checks.md`` do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_runner.protocol import CheckStatus
from gpu_runner.slots import SlotPool
from tests.gpu_runner.runs import checks, run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "checks.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.container
def test_all_examples_pass_for_the_submission_of_the_page(pool: SlotPool) -> None:
    submission, *examples = BLOCKS
    assert submission.startswith("# main.py")
    assert len(examples) == 4
    for example in examples:
        names = re.findall(r"^def (\w+)\(candidate\)", example, flags=re.MULTILINE)
        results = run(pool, checks(submission, example, names)).result.checks
        assert [(result.name, result.status, result.detail) for result in results] == [
            (name, CheckStatus.PASSED, "") for name in names
        ]
