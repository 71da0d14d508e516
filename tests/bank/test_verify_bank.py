"""The program that verifies the bank sees what is wrong with a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_runner.bench.verify_bank import read_question, run_on, verify
from gpu_runner.slots import SlotPool

pytestmark = pytest.mark.container

TABLE = """
slug = "double"
[[checks]]
name = "three"
title = "Three"
hidden = false
[[checks]]
name = "four"
title = "Four"
hidden = true
[[wrong]]
file = "always_six.py"
fails = ["four"]
"""
CHECKS = """
from checking import check

@check("Three")
def three(candidate):
    candidate.call("double", 3).expect_int(6)

@check("Four")
def four(candidate):
    candidate.call("double", 4).expect_int(8)
"""
FILES = {
    "question.toml": TABLE,
    "checks.py": CHECKS,
    "reference.py": "def double(x):\n    return 2 * x\n",
    "starter.py": "def double(x):\n    return 0\n\nif __name__ == '__main__':\n    print(double(3))\n",
    "wrong/always_six.py": "def double(x):\n    return 6\n",
}


def short_of(pool: SlotPool, folder: Path, **changes: str) -> list[str]:
    """What falls short in the question with these files changed."""
    (folder / "wrong").mkdir(parents=True)
    named = {name.replace("__", "/").replace("_py", ".py").replace("_toml", ".toml"): t for name, t in changes.items()}
    assert set(named) <= set(FILES)
    for name, text in {**FILES, **named}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return verify([read_question(folder)], run_on(pool)).short


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "double"


def test_a_good_question_holds(bank_pool: SlotPool, folder: Path) -> None:
    assert short_of(bank_pool, folder) == []


def test_a_reference_that_fails_is_found_with_its_reason(bank_pool: SlotPool, folder: Path) -> None:
    short = short_of(bank_pool, folder, reference_py="def double(x):\n    return x + 3\n")
    assert len(short) == 1
    assert short[0].startswith("double/reference.py does not pass four: double: the number is not right. It is 7")
    assert short[0].endswith("(1, 2)")


def test_a_wrong_answer_that_passes_its_check_is_found(bank_pool: SlotPool, folder: Path) -> None:
    table = TABLE.replace('fails = ["four"]', 'fails = ["three", "four"]')
    assert short_of(bank_pool, folder, question_toml=table) == ["double/wrong/always_six.py passes three (1 failed, 2)"]


def test_a_starter_that_does_not_run_or_passes_all_is_found(bank_pool: SlotPool, folder: Path) -> None:
    short = short_of(
        bank_pool, folder, starter_py="def double(x):\n    return 2 * x\n\nif __name__ == '__main__':\n    1 / 0\n"
    )
    assert short == [
        "double/starter.py as a program does not run: The program raised ZeroDivisionError at main.py:5. ([1], [0])",
        "double/starter.py fails no check (0, at least 1)",
        "double/three is failed by no submission (0, at least 1)",
    ]


def test_a_broken_check_and_two_titles_are_found(bank_pool: SlotPool, folder: Path) -> None:
    short = short_of(bank_pool, folder, checks_py=CHECKS.replace("expect_int(8)", "expect_eight()"))
    assert any("finds four broken" in words and "expect_eight" in words for words in short)


def test_a_title_that_differs_is_found(bank_pool: SlotPool, folder: Path) -> None:
    short = short_of(bank_pool, folder, checks_py=CHECKS.replace('"Four"', '"Fuor"'))
    assert short == ["double/reference.py four has two titles ('Fuor', 'Four')"]
