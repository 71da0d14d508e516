"""Loads the question bank from its folders into the database, as often as one likes.

A folder that says what the question's latest version says changes nothing; any other makes the next version. Versions are
never edited: interviews hold on to the one they were made with.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.db import transaction

from interviews.bank_schema import BankError, Fault, QuestionFolder, read_folder
from interviews.models import (
    Anchor,
    Check,
    Criterion,
    FollowUp,
    Outline,
    Question,
    QuestionVersion,
    Rubric,
    WrongAnswer,
)

BANK = Path(__file__).resolve().parent / "bank"


@dataclass(frozen=True, slots=True)
class Loaded:
    version: QuestionVersion
    created: bool


def load_bank(bank: Path = BANK) -> list[Loaded]:
    """Loads every folder of ``bank``, or none: all are read and checked first. Raises ``BankError`` with all faults."""
    folders: list[QuestionFolder] = []
    faults: list[Fault] = []
    paths = sorted(path for path in bank.iterdir() if path.is_dir() and not path.name.startswith((".", "_")))
    if not paths:
        faults.append(Fault(bank, 1, "no question's folder is here"))
    for path in paths:
        try:
            folders.append(read_folder(path))
        except BankError as error:
            faults += error.faults
    if faults:
        raise BankError(faults)
    with transaction.atomic():
        return [store(folder) for folder in folders]


@transaction.atomic
def store(folder: QuestionFolder) -> Loaded:
    """The question's version with this content: the latest where it is the same, else a new one."""
    question, _ = Question.objects.select_for_update().get_or_create(slug=folder.table.slug)
    latest = question.versions.order_by("-number").first()
    if latest is not None and latest.content_hash == folder.content_hash:
        return Loaded(latest, created=False)

    table = folder.table
    version = QuestionVersion.objects.create(
        question=question,
        number=latest.number + 1 if latest else 1,
        content_hash=folder.content_hash,
        title=table.title,
        summary=table.summary,
        kind=table.kind,
        difficulty=table.difficulty,
        minutes=table.minutes,
        topics=list(table.topics),
        ranks=table.ranks,
        max_ranks=table.max_ranks,
        gpus=table.gpus,
        limits=table.limits.model_dump(exclude_none=True),
        check_limits=table.check_limits.model_dump(exclude_none=True),
        prompt=folder.prompt,
        starter=folder.starter,
        reference=folder.reference,
        checks_source=folder.checks_source,
    )
    Outline.objects.create(version=version, text=folder.outline)
    FollowUp.objects.bulk_create(
        FollowUp(version=version, position=position, title=section.title, text=section.text)
        for position, section in enumerate(folder.follow_ups, start=1)
    )
    Check.objects.bulk_create(
        Check(version=version, position=position, name=check.name, title=check.title, hidden=check.hidden)
        for position, check in enumerate(table.checks, start=1)
    )
    WrongAnswer.objects.bulk_create(
        WrongAnswer(
            version=version,
            file=answer.file,
            title=answer.title,
            misconception=answer.misconception,
            source=folder.wrong_sources[answer.file],
            fails=list(answer.fails),
        )
        for answer in table.wrong
    )
    _store_rubric(version, folder)
    return Loaded(version, created=True)


def _store_rubric(version: QuestionVersion, folder: QuestionFolder) -> None:
    rubric = Rubric.objects.create(version=version)
    for position, table in enumerate(folder.rubric.criteria, start=1):
        criterion = Criterion.objects.create(
            rubric=rubric, position=position, slug=table.slug, name=table.name, tells=table.tells, weight=table.weight
        )
        Anchor.objects.bulk_create(
            Anchor(criterion=criterion, level=anchor.level, text=anchor.text) for anchor in table.anchors
        )
