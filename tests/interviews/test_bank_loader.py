from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from gpu_runner.protocol import Limits
from interviews.bank_loader import load_bank
from interviews.bank_schema import BankError, LimitsTable, read_folder
from interviews.models import Question, QuestionVersion

QUESTION_TOML = """\
slug = "adding"
title = "Adding"
summary = "Adds two numbers."
kind = "arithmetic"
difficulty = "warm-up"
minutes = 10
topics = ["numbers"]
ranks = 1
max_ranks = 2

[limits]
wall_s = 5

[check_limits]
wall_s = 20

[[checks]]
name = "small_numbers"
title = "Small numbers"
hidden = false

[[checks]]
name = "large_numbers"
title = "Large numbers"
hidden = true

[[wrong]]
file = "zero.py"
title = "Returns zero"
misconception = "Nothing is added."
fails = ["small_numbers"]

[[wrong]]
file = "minus.py"
title = "Subtracts"
misconception = "The sign."
fails = ["small_numbers", "large_numbers"]

[[wrong]]
file = "wraps.py"
title = "Wraps at 32 bits"
misconception = "Python's integers are taken for C's."
fails = ["large_numbers"]
"""

RUBRIC_TOML = (
    '[[criteria]]\nslug = "correctness"\nname = "Correctness"\ntells = "Whether it adds."\nweight = 2\n'
    + "".join(f'\n[[criteria.anchors]]\nlevel = {level}\ntext = "Level {level}."\n' for level in range(1, 5))
)


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    folder = tmp_path / "adding"
    (folder / "wrong").mkdir(parents=True)
    (folder / "question.toml").write_text(QUESTION_TOML)
    (folder / "rubric.toml").write_text(RUBRIC_TOML)
    (folder / "prompt.md").write_text("Write `add`.\n")
    (folder / "outline.md").write_text("Five minutes each.\n")
    (folder / "follow_ups.md").write_text("## Why?\n\nBecause.\n\n## How fast?\n\nVery.\n")
    (folder / "starter.py").write_text("def add(a, b):\n    return 0\n")
    (folder / "reference.py").write_text("def add(a, b):\n    return a + b\n")
    (folder / "checks.py").write_text("def small_numbers(c):\n    pass\n\n\ndef large_numbers(c):\n    pass\n")
    for name in ("zero", "minus", "wraps"):
        (folder / "wrong" / f"{name}.py").write_text(f"# {name}\n")
    return tmp_path


def faults(bank: Path) -> list[str]:
    with pytest.raises(BankError) as caught:
        read_folder(bank / "adding")
    return [str(fault).removeprefix(f"{bank}/") for fault in caught.value.faults]


@pytest.mark.django_db
def test_a_question_is_loaded_whole(bank: Path) -> None:
    (loaded,) = load_bank(bank)
    version = loaded.version
    assert (version.number, version.title, version.minutes, version.limits) == (1, "Adding", 10, {"wall_s": 5.0})
    assert version.check_limits == {"wall_s": 20.0}
    assert [(c.name, c.hidden) for c in version.checks.all()] == [("small_numbers", False), ("large_numbers", True)]
    assert [f.title for f in version.follow_ups.all()] == ["Why?", "How fast?"]
    assert version.outline.text == "Five minutes each.\n"
    assert {w.file: w.fails for w in version.wrong_answers.all()}["wraps.py"] == ["large_numbers"]
    (criterion,) = version.rubric.criteria.all()
    assert (int(criterion.weight), [a.level for a in criterion.anchors.all()]) == (2, [1, 2, 3, 4])


@pytest.mark.django_db
def test_loading_twice_makes_one_version(bank: Path) -> None:
    load_bank(bank)
    (again,) = load_bank(bank)
    assert not again.created
    assert QuestionVersion.objects.count() == 1


@pytest.mark.django_db
def test_an_edited_question_becomes_a_new_version_and_the_old_one_stays(bank: Path) -> None:
    load_bank(bank)
    (bank / "adding" / "prompt.md").write_text("Write `add`, please.\n")
    load_bank(bank)
    (bank / "adding" / "prompt.md").write_text("Write `add`.\n")
    load_bank(bank)
    question = Question.objects.get()
    prompts = [version.prompt for version in question.versions.order_by("number")]
    assert prompts == ["Write `add`.\n", "Write `add`, please.\n", "Write `add`.\n"]
    assert question.latest.number == 3


@pytest.mark.django_db
def test_nothing_is_loaded_when_one_folder_is_bad(bank: Path) -> None:
    (bank / "broken").mkdir()
    with pytest.raises(CommandError, match=r"broken/question\.toml:1: the file is missing"):
        call_command("load_bank", str(bank))
    assert not Question.objects.exists()


def test_a_missing_bank_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no question's folder"):
        call_command("load_bank", str(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("minutes = 10", "minutes = 0", "question.toml:6: minutes: Input should be greater than or equal to 1"),
        ("minutes = 10", 'minutes = "10"', "question.toml:6: minutes: Input should be a valid integer"),
        ("minutes = 10\n", "", "question.toml:1: minutes: Field required"),
        ("wall_s = 5", "walls = 5", "question.toml:12: limits.walls: Extra inputs are not permitted"),
        (
            'name = "large_numbers"',
            'name = "huge"',
            "question.toml:23: checks.2.name: checks.py has no function 'huge'",
        ),
        ("hidden = true", "hidden = 1", "question.toml:25: checks.2.hidden: Input should be a valid boolean"),
        (
            'fails = ["small_numbers"]',
            'fails = ["other"]',
            "question.toml:31: wrong.1.fails: 'other' is not among the checks",
        ),
        ('file = "minus.py"', 'file = "plus.py"', "question.toml:34: wrong.2.file: no file wrong/plus.py"),
        ("max_ranks = 2", "max_ranks = ", "question.toml:9: not TOML: Invalid value"),
        ('slug = "adding"', 'slug = "addition"', "question.toml:1: slug: 'addition' is not the folder's name 'adding'"),
        ("ranks = 1\nmax_ranks", "ranks = 3\nmax_ranks", "question.toml:1: ranks is above max_ranks"),
    ],
)
def test_a_fault_is_named_with_its_file_and_line(bank: Path, old: str, new: str, fault: str) -> None:
    path = bank / "adding" / "question.toml"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    assert f"adding/{fault}" in faults(bank)


def test_a_rubric_needs_four_levels(bank: Path) -> None:
    path = bank / "adding" / "rubric.toml"
    path.write_text(path.read_text().replace("level = 3", "level = 4"))
    assert faults(bank) == ["adding/rubric.toml:1: criteria.1: anchors must be the levels 1, 2, 3, 4 in order"]


def test_every_fault_of_a_folder_is_listed(bank: Path) -> None:
    folder = bank / "adding"
    (folder / "outline.md").unlink()
    (folder / "starter.py").write_text("x = 1\ndef add(:\n")
    (folder / "follow_ups.md").write_text("## Why?\n\n## How?\n\nSo.\n")
    (folder / "wrong" / "extra.py").write_text("# extra\n")
    (folder / "prompt.md").write_bytes(b"one\ntwo \xff\n")
    assert faults(bank) == [
        "adding/follow_ups.md:1: nothing stands under 'Why?'",
        "adding/outline.md:1: the file is missing",
        "adding/prompt.md:2: not UTF-8",
        "adding/starter.py:2: not Python: invalid syntax",
        "adding/wrong/extra.py:1: question.toml has no [[wrong]] entry for this file",
    ]


def test_limits_are_those_of_the_runner() -> None:
    assert set(LimitsTable.model_fields) == {field.name for field in dataclasses.fields(Limits)}
