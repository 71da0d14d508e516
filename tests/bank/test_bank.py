"""The questions themselves: complete, and right about what passes and what fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_runner.bench.verify_bank import BANK, read_question, run_on, verify
from gpu_runner.slots import SlotPool
from interviews.bank_schema import read_folder

FOLDERS = sorted(path for path in BANK.iterdir() if (path / "question.toml").is_file())
BY_SLUG = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@BY_SLUG
def test_a_question_is_complete(folder: Path) -> None:
    question = read_folder(folder)
    checks = question.table.checks
    assert sum(not check.hidden for check in checks) >= 2
    assert sum(check.hidden for check in checks) >= 3
    assert len(question.table.wrong) >= 4
    assert len(question.follow_ups) >= 2
    assert len(question.rubric.criteria) >= 3


@BY_SLUG
def test_what_the_candidate_gets_holds_nothing_of_the_answer(folder: Path) -> None:
    question = read_folder(folder)
    given = _lines(question.prompt) | _lines(question.starter)
    hidden = {check.title for check in question.table.checks if check.hidden}
    private = _lines(question.outline) | hidden
    for section in question.follow_ups:
        private |= _lines(section.text)
    assert not given & private
    # The starter shares its frame with the reference, and none of the lines that do the work.
    work = _lines(question.reference) - _lines(question.starter)
    assert len(work) >= 5
    assert not _lines(question.prompt) & work


def _lines(text: str) -> set[str]:
    """Lines that say something: a table's head or a lone word is no secret."""
    return {line.strip() for line in text.splitlines() if len(re.findall(r"\w+", line)) >= 6}


@pytest.mark.container
@pytest.mark.timeout(400)
@BY_SLUG
def test_reference_passes_and_each_wrong_answer_fails_where_it_should(folder: Path, bank_pool: SlotPool) -> None:
    verification = verify([read_question(folder)], run_on(bank_pool))
    assert verification.short == []
    assert verification.verdict() == "verify-bank: holds"
