"""Holds every question of the bank to its own word, on real slots: ``python -m gpu_runner.bench.verify_bank``.

The reference passes every check. The starter runs and passes not all of them. Each wrong answer fails the checks that are said
to name its fault. And there is no check that nothing ever fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gpu_runner.protocol import (
    CHECKS_WALL_S,
    CheckRef,
    CheckStatus,
    Finished,
    Limits,
    Mode,
    Outcome,
    RunResult,
    RunSpec,
    SourceFile,
)
from gpu_runner.slots import HostConfig, SlotPool

PROJECT = Path(__file__).resolve().parents[2]
BANK = PROJECT / "interviews" / "bank"
REPORT = PROJECT / "var" / "reports" / "verify-bank.json"

_ENTRY = "main.py"
_WARM_WAIT_S = 90.0

Execute = Callable[[RunSpec], RunResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongAnswer:
    file: str
    source: str
    fails: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BankQuestion:
    """What of a question's folder matters here. That the folder is complete is the bank loader's business."""

    slug: str
    ranks: int
    limits: Limits
    check_limits: Limits
    checks: tuple[CheckRef, ...]
    titles: dict[str, str]
    checks_source: str
    reference: str
    starter: str
    wrong: tuple[WrongAnswer, ...]


def read_question(folder: Path) -> BankQuestion:
    """Reads a question's folder."""
    table = tomllib.loads((folder / "question.toml").read_text(encoding="utf-8"))
    return BankQuestion(
        slug=table["slug"],
        ranks=table.get("ranks", 1),
        limits=Limits(**table.get("limits", {})),
        check_limits=Limits(**{**table.get("limits", {}), "wall_s": CHECKS_WALL_S, **table.get("check_limits", {})}),
        checks=tuple(CheckRef(name=check["name"], hidden=check["hidden"]) for check in table["checks"]),
        titles={check["name"]: check["title"] for check in table["checks"]},
        checks_source=(folder / "checks.py").read_text(encoding="utf-8"),
        reference=(folder / "reference.py").read_text(encoding="utf-8"),
        starter=(folder / "starter.py").read_text(encoding="utf-8"),
        wrong=tuple(
            WrongAnswer(
                file=wrong["file"],
                source=(folder / "wrong" / wrong["file"]).read_text(encoding="utf-8"),
                fails=tuple(wrong["fails"]),
            )
            for wrong in table["wrong"]
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One submission, what came of it, and what is wrong with that (empty if nothing is)."""

    question: str
    submission: str
    seconds: float
    passed: int
    failed: tuple[str, ...]
    wanted: str
    short: str = ""


@dataclass(slots=True)
class Verification:
    """All rows, and everything that falls short of its goal."""

    rows: list[Row] = field(default_factory=list)
    short: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.short

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if row.short:
            self.short.append(f"{row.question}/{row.submission} {row.short}")

    def verdict(self) -> str:
        """The last line of the report."""
        if self.holds:
            return "verify-bank: holds"
        more = f"; and {len(self.short) - 1} more" if len(self.short) > 1 else ""
        return f"verify-bank: falls short: {self.short[0]}{more}"


def verify(questions: Sequence[BankQuestion], execute: Execute, *, workers: int = 1) -> Verification:
    """Runs every submission of every question and compares with what the question says of it."""
    verification = Verification()
    with ThreadPoolExecutor(workers) as threads:
        for question in questions:
            rows = list(threads.map(lambda job: job(execute), _jobs(question)))
            for row in rows:
                verification.add(row)
            failing = {name for row in rows for name in row.failed}
            verification.short += [
                f"{question.slug}/{ref.name} is failed by no submission (0, at least 1)"
                for ref in question.checks
                if ref.name not in failing
            ]
    return verification


def _jobs(question: BankQuestion) -> Iterator[Callable[[Execute], Row]]:
    yield lambda execute: _reference(question, execute)
    yield lambda execute: _starter_program(question, execute)
    yield lambda execute: _starter_checks(question, execute)
    for wrong in question.wrong:
        yield lambda execute, wrong=wrong: _wrong(question, wrong, execute)  # type: ignore[misc]


def _reference(question: BankQuestion, execute: Execute) -> Row:
    seconds, result = _run_checks(question, question.reference, execute)
    failed = _failed(result)
    short = _unfinished(result)
    if not short and failed:
        first = next(check for check in result.checks if check.name == failed[0])
        passed = len(question.checks) - len(failed)
        short = f"does not pass {failed[0]}: {first.detail or first.message} ({passed}, {len(question.checks)})"
    if not short:
        for check in result.checks:
            if check.title != question.titles[check.name]:
                short = f"{check.name} has two titles ({check.title!r}, {question.titles[check.name]!r})"
    return _row(question, "reference.py", seconds, result, wanted="passes all", short=short)


def _starter_program(question: BankQuestion, execute: Execute) -> Row:
    spec = RunSpec(
        run_id=f"verify-{question.slug}",
        token="verify",  # noqa: S106 - nobody else is there
        mode=Mode.PROGRAM,
        files=(SourceFile(path=_ENTRY, text=question.starter),),
        entry=_ENTRY,
        ranks=question.ranks,
        limits=question.limits,
    )
    started_s = time.monotonic()
    result = execute(spec)
    codes = [rank.exit_code for rank in result.ranks]
    short = ""
    if result.outcome is not Outcome.EXITED or any(codes):
        short = f"does not run: {result.message} ({codes}, {[0] * question.ranks})"
    elif not result.ranks[0].stdout_tail.strip():
        short = "prints nothing when it is run (0 lines, at least 1)"
    seconds = time.monotonic() - started_s
    return _row(question, "starter.py as a program", seconds, result, wanted="exits with 0", short=short)


def _starter_checks(question: BankQuestion, execute: Execute) -> Row:
    seconds, result = _run_checks(question, question.starter, execute)
    failed = _failed(result)
    short = _unfinished(result) or ("" if failed else "fails no check (0, at least 1)")
    return _row(question, "starter.py", seconds, result, wanted="fails some", short=short)


def _wrong(question: BankQuestion, wrong: WrongAnswer, execute: Execute) -> Row:
    seconds, result = _run_checks(question, wrong.source, execute)
    failed = _failed(result)
    short = _unfinished(result)
    if not short and (passing := [name for name in wrong.fails if name not in failed]):
        short = f"passes {passing[0]} ({len(wrong.fails) - len(passing)} failed, {len(wrong.fails)})"
    return _row(question, f"wrong/{wrong.file}", seconds, result, wanted=f"fails {', '.join(wrong.fails)}", short=short)


def _row(question: BankQuestion, submission: str, seconds: float, result: RunResult, *, wanted: str, short: str) -> Row:
    failed = _failed(result)
    passed = len(result.checks) - len(failed)
    return Row(
        question=question.slug,
        submission=submission,
        seconds=seconds,
        passed=passed,
        failed=failed,
        wanted=wanted,
        short=short,
    )


def _run_checks(question: BankQuestion, source: str, execute: Execute) -> tuple[float, RunResult]:
    spec = RunSpec(
        run_id=f"verify-{question.slug}",
        token="verify",  # noqa: S106 - nobody else is there
        mode=Mode.CHECKS,
        files=(SourceFile(path=_ENTRY, text=source),),
        entry=_ENTRY,
        limits=question.check_limits,
        checks_source=question.checks_source,
        checks=question.checks,
        # Another one each time, as in an interview: a check that depends on its luck shows sooner or later.
        seed=time.time_ns() % 2**31,
    )
    started_s = time.monotonic()
    result = execute(spec)
    return time.monotonic() - started_s, result


def _failed(result: RunResult) -> tuple[str, ...]:
    return tuple(check.name for check in result.checks if check.status is not CheckStatus.PASSED)


def _unfinished(result: RunResult) -> str:
    """Not every check was run, so nothing is known of this submission."""
    if result.outcome is not Outcome.EXITED:
        return f"was not checked to the end: {result.outcome} ({result.message})"
    for check in result.checks:
        if check.status is CheckStatus.NOT_REPORTED:
            return f"finds {check.name} broken: {check.detail or 'no report'}"
    return ""


def run_on(pool: SlotPool) -> Execute:
    """Executes on real slots."""

    def execute(spec: RunSpec) -> RunResult:
        *_, last = pool.execute(spec)
        if not isinstance(last, Finished):
            raise TypeError(f"a run ended with {last.kind}")
        return last.result

    return execute


def print_table(verification: Verification) -> None:
    """One line a submission."""
    wide = max(len(row.submission) for row in verification.rows)
    question = ""
    for row in verification.rows:
        if row.question != question:
            question = row.question
            print(f"\n{question}")
        failed = f"failed: {', '.join(row.failed)}" if row.failed else "passed all" if row.passed else "ran"
        mark = "ok   " if not row.short else "SHORT"
        print(f"  {mark} {row.submission:{wide}}  {row.seconds:5.2f} s  {failed}")
    print()
    for words in verification.short:
        print(f"  short: {words}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table, writes the report, returns the exit status."""
    parser = argparse.ArgumentParser(prog="verify_bank", description=__doc__)
    parser.add_argument("slugs", nargs="*", help="only these questions")
    parser.add_argument("--bank", type=Path, default=BANK)
    parser.add_argument("--slots", type=int, default=1, help="submissions at a time")
    options = parser.parse_args(arguments)

    folders = [path for path in sorted(options.bank.iterdir()) if (path / "question.toml").is_file()]
    questions = [read_question(folder) for folder in folders if not options.slugs or folder.name in options.slugs]
    if not questions:
        parser.error(f"no question of that name in {options.bank}")
    with tempfile.TemporaryDirectory(prefix="verify-bank-") as state_dir:
        config = HostConfig(
            venv=PROJECT / ".venv-sandbox", state_dir=Path(state_dir), slots=options.slots, spares=0, host="verify-bank"
        )
        with SlotPool(config) as pool:
            if not pool.wait_ready(_WARM_WAIT_S):
                print(f"verify-bank: falls short: no slot became warm: {pool.failure}")
                return 1
            verification = verify(questions, run_on(pool), workers=options.slots)
    print_table(verification)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "verdict": verification.verdict(),
        "short": verification.short,
        "rows": [asdict(row) for row in verification.rows],
    }
    REPORT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(verification.verdict())
    return 0 if verification.holds else 1


if __name__ == "__main__":
    sys.exit(main())
