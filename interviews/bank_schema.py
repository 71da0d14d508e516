"""What a question's folder must hold. Every fault is named with its file and line.

A folder is ``question.toml prompt.md outline.md follow_ups.md rubric.toml starter.py reference.py checks.py wrong/*.py``.
"""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]*$", max_length=80)]
Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LimitsTable(_Table):
    """Names and units of the runner's ``Limits``; a test holds the two together."""

    wall_s: Annotated[float | None, Field(gt=0)] = None
    cpu_s: Annotated[float | None, Field(gt=0)] = None
    memory_mb: Annotated[int | None, Field(gt=0)] = None
    pids: Annotated[int | None, Field(gt=0)] = None
    output_bytes: Annotated[int | None, Field(gt=0)] = None
    file_mb: Annotated[int | None, Field(gt=0)] = None


class CheckTable(_Table):
    name: Identifier
    title: Title
    hidden: bool


class WrongTable(_Table):
    file: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+\.py$", max_length=80)]
    title: Title
    misconception: Text
    fails: Annotated[list[Identifier], Field(min_length=1)]


class QuestionTable(_Table):
    slug: Slug
    title: Title
    summary: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
    kind: Literal["arithmetic", "distributed", "kernel"]
    difficulty: Literal["warm-up", "core", "stretch"]
    minutes: Annotated[int, Field(ge=1, le=240)]
    topics: Annotated[list[Text], Field(min_length=1)]
    ranks: Annotated[int, Field(ge=1, le=8)] = 1
    max_ranks: Annotated[int, Field(ge=1, le=8)] = 1
    gpus: Annotated[int, Field(ge=0, le=8)] = 0
    limits: LimitsTable = LimitsTable()
    #: What differs from ``limits`` when the checks are run.
    check_limits: LimitsTable = LimitsTable()
    checks: Annotated[list[CheckTable], Field(min_length=1)]
    wrong: Annotated[list[WrongTable], Field(min_length=3)]

    @model_validator(mode="after")
    def _ranks_in_order(self) -> Self:
        if self.ranks > self.max_ranks:
            raise ValueError("ranks is above max_ranks")
        return self


class AnchorTable(_Table):
    level: Annotated[int, Field(ge=1, le=4)]
    text: Text


class CriterionTable(_Table):
    slug: Slug
    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]
    tells: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
    weight: Annotated[float, Field(gt=0, lt=100, strict=False)] = 1
    anchors: list[AnchorTable]

    @model_validator(mode="after")
    def _four_levels(self) -> Self:
        if [anchor.level for anchor in self.anchors] != [1, 2, 3, 4]:
            raise ValueError("anchors must be the levels 1, 2, 3, 4 in order")
        return self


class RubricTable(_Table):
    criteria: Annotated[list[CriterionTable], Field(min_length=1)]


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """``str(fault)`` is ``folder/file:line: words``, as compilers print it."""

    path: Path
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words}"


class BankError(Exception):
    """A folder that cannot be loaded, with everything that is wrong with it."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = sorted(faults)
        super().__init__("\n".join(map(str, self.faults)))


@dataclass(frozen=True, slots=True)
class FollowUpSection:
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFolder:
    """A question's folder, read and found good."""

    table: QuestionTable
    rubric: RubricTable
    prompt: str
    outline: str
    follow_ups: tuple[FollowUpSection, ...]
    starter: str
    reference: str
    checks_source: str
    wrong_sources: dict[str, str]
    content_hash: str


_TEXTS = ("prompt.md", "outline.md", "follow_ups.md")
_PROGRAMS = ("starter.py", "reference.py", "checks.py")
_TABLES = ("question.toml", "rubric.toml")

Table = TypeVar("Table", bound=_Table)


def read_folder(folder: Path) -> QuestionFolder:
    """Reads and checks ``folder``. Raises ``BankError`` that lists every fault, not only the first."""
    faults: list[Fault] = []
    texts = {name: _read(folder / name, faults) for name in (*_TABLES, *_TEXTS, *_PROGRAMS)}
    wrong_folder = folder / "wrong"
    wrong = {path.name: _read(path, faults) for path in sorted(wrong_folder.glob("*.py"))}

    table = _parse(QuestionTable, folder / "question.toml", texts["question.toml"], faults)
    rubric = _parse(RubricTable, folder / "rubric.toml", texts["rubric.toml"], faults)
    for name in _PROGRAMS:
        _compile(folder / name, texts[name], faults)
    for name, source in wrong.items():
        _compile(wrong_folder / name, source, faults)
    follow_ups = tuple(_sections(folder / "follow_ups.md", texts["follow_ups.md"], faults))
    if table is not None:
        faults += _cross_check(folder, table, texts, wrong)
    if rubric is not None:
        positions = enumerate(criterion.slug for criterion in rubric.criteria)
        faults += _repeated(folder / "rubric.toml", texts["rubric.toml"], "criteria", "slug", positions)
    if faults or table is None or rubric is None:
        raise BankError(faults)
    return QuestionFolder(
        table=table,
        rubric=rubric,
        prompt=texts["prompt.md"],
        outline=texts["outline.md"],
        follow_ups=follow_ups,
        starter=texts["starter.py"],
        reference=texts["reference.py"],
        checks_source=texts["checks.py"],
        wrong_sources=wrong,
        content_hash=_hash({**texts, **{f"wrong/{name}": source for name, source in wrong.items()}}),
    )


def _read(path: Path, faults: list[Fault]) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        faults.append(Fault(path, 1, "the file is missing"))
        return ""
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        faults.append(Fault(path, line, "not UTF-8"))
        return ""
    if not text.strip():
        faults.append(Fault(path, 1, "the file is empty"))
    return text


def _compile(path: Path, source: str, faults: list[Fault]) -> None:
    try:
        compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        faults.append(Fault(path, error.lineno or 1, f"not Python: {error.msg}"))


def _parse(kind: type[Table], path: Path, text: str, faults: list[Fault]) -> Table | None:
    if not text.strip():
        return None
    try:
        return kind.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"\(at line (\d+)", str(error))
        line = int(match.group(1)) if match else text.count("\n") + 1
        faults.append(Fault(path, line, f"not TOML: {re.sub(r' *[(]at .*[)]$', '', str(error))}"))
    except ValidationError as error:
        for fault in error.errors():
            where = ".".join(str(part + 1) if isinstance(part, int) else part for part in fault["loc"])
            words = fault["msg"].removeprefix("Value error, ")
            faults.append(Fault(path, line_of(text, fault["loc"]), f"{where}: {words}" if where else words))
    return None


def line_of(text: str, loc: tuple[int | str, ...]) -> int:
    """The line in a TOML text of the key or table at ``loc``, as good as a reader would find it.

    Looks for the table headers first (``("checks", 2, "name")`` is the third ``[[checks]]``), then for the key below.
    """
    lines = text.splitlines()
    start, end = 0, len(lines)
    header: list[str] = []
    found = 1
    for part in loc:
        if isinstance(part, str):
            header.append(part)
            pattern = re.compile(rf"\s*{re.escape(part)}\s*=")
            body_end = next((i for i in range(start, end) if i > start and lines[i].lstrip().startswith("[")), end)
            key = next((i for i in range(start, body_end) if pattern.match(lines[i])), None)
            if key is not None:
                return key + 1
            table = next((i for i in range(start, end) if lines[i].strip() == f"[{'.'.join(header)}]"), None)
            if table is not None:
                start, found = table, table + 1
        else:
            name = f"[[{'.'.join(header)}]]"
            tables = [i for i in range(start, end) if lines[i].strip() == name]
            if part < len(tables):
                start, found = tables[part], tables[part] + 1
                end = tables[part + 1] if part + 1 < len(tables) else end
    return found


def _sections(path: Path, text: str, faults: list[Fault]) -> Iterator[FollowUpSection]:
    """The ``## title`` sections of a Markdown text."""
    if not text.strip():
        return
    matches = list(re.finditer(r"^## +(.+?)\s*$", text, flags=re.MULTILINE))
    if not matches:
        faults.append(Fault(path, 1, "no section: each follow-up starts with a line '## title'"))
    for match, following in zip(matches, [*matches[1:], None], strict=True):
        body = text[match.end() : following.start() if following else len(text)].strip()
        if not body:
            faults.append(
                Fault(path, text.count("\n", 0, match.start()) + 1, f"nothing stands under {match.group(1)!r}")
            )
        yield FollowUpSection(match.group(1), body)


def _cross_check(folder: Path, table: QuestionTable, texts: dict[str, str], wrong: dict[str, str]) -> Iterator[Fault]:
    """What no single file can tell: names that must agree between files."""
    path, text = folder / "question.toml", texts["question.toml"]
    if table.slug != folder.name:
        yield Fault(path, line_of(text, ("slug",)), f"slug: {table.slug!r} is not the folder's name {folder.name!r}")
    yield from _repeated(path, text, "checks", "name", enumerate(check.name for check in table.checks))
    yield from _repeated(path, text, "wrong", "file", enumerate(answer.file for answer in table.wrong))
    if all(check.hidden for check in table.checks):
        yield Fault(path, line_of(text, ("checks", 0)), "checks: at least one must be visible")

    defined = _functions(texts["checks.py"])
    for i, check in enumerate(table.checks):
        if defined is not None and check.name not in defined:
            words = f"checks.{i + 1}.name: checks.py has no function {check.name!r}"
            yield Fault(path, line_of(text, ("checks", i, "name")), words)
    names = {check.name for check in table.checks}
    for i, answer in enumerate(table.wrong):
        if answer.file not in wrong:
            yield Fault(path, line_of(text, ("wrong", i, "file")), f"wrong.{i + 1}.file: no file wrong/{answer.file}")
        for name in answer.fails:
            if name not in names:
                words = f"wrong.{i + 1}.fails: {name!r} is not among the checks"
                yield Fault(path, line_of(text, ("wrong", i, "fails")), words)
    for name in sorted(set(wrong) - {answer.file for answer in table.wrong}):
        yield Fault(folder / "wrong" / name, 1, "question.toml has no [[wrong]] entry for this file")


def _functions(source: str) -> set[str] | None:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def _repeated(path: Path, text: str, table: str, key: str, values: Iterator[tuple[int, str]]) -> Iterator[Fault]:
    seen: set[str] = set()
    for i, value in values:
        if value in seen:
            yield Fault(path, line_of(text, (table, i, key)), f"{table}.{i + 1}.{key}: {value!r} stands here twice")
        seen.add(value)


def _hash(texts: dict[str, str]) -> str:
    digest = hashlib.sha256()
    for name, text in sorted(texts.items()):
        digest.update(f"{name}\0{len(text)}\0{text}".encode())
    return digest.hexdigest()
