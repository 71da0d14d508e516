"""Every check and test of the project: all of them, or those named. Ends with 1 when any of them failed.

A test that was skipped counts as a failure here: a suite that could not run has shown nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.console import ROOT, colour, say
from tools.postgres import temporary_postgres

BIN = ROOT / ".venv" / "bin"
PYTHON = str(BIN / "python")
DATABASE_VARIABLE = "RENDEZVOUS_TEST_DATABASE_URL"
WORKERS = str(min(os.cpu_count() or 1, 8))
#: A command is shown up to here.
SHOWN_WORDS = 14
#: What needs no container, no browser and no GPU.
PLAIN = "not container and not browser and not gpu and not slow"


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    group: str
    run: Callable[[], bool]


def call(*command: str, environment: dict[str, str] | None = None) -> bool:
    more = " …" if len(command) > SHOWN_WORDS else ""
    say(colour(f"$ {' '.join(command[:SHOWN_WORDS])}{more}", "2"))
    return subprocess.call(command, cwd=ROOT, env={**os.environ, **(environment or {})}) == 0


def pytest(*arguments: str, environment: dict[str, str] | None = None) -> bool:
    """Runs tests; true if at least one passed, none failed and none was skipped."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "tests.xml"
        succeeded = call(PYTHON, "-m", "pytest", "-q", f"--junit-xml={record}", *arguments, environment=environment)
        if not record.exists():
            return False
        counts = {"tests": 0, "skipped": 0}
        # Written by pytest a moment ago.
        for suite in ElementTree.parse(record).getroot().iter("testsuite"):  # noqa: S314
            for name in counts:
                counts[name] += int(suite.get(name, "0"))
    if counts["skipped"]:
        say(f"{counts['skipped']} tests were skipped. A test that did not run has shown nothing.")
    elif not counts["tests"]:
        say("No test ran at all.")
    return succeeded and counts["tests"] > counts["skipped"] == 0


def check_templates() -> bool:
    templates = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "templates").rglob("*.html"))
    return call(str(BIN / "djade"), "--check", "--target-version", "5.2", *templates)


def check_migrations() -> bool:
    return call(PYTHON, "manage.py", "makemigrations", "--check", "--dry-run", environment=CHECK_ENVIRONMENT)


def check_production_settings() -> bool:
    arguments = ("check", "--deploy", "--fail-level", "WARNING")
    return call(PYTHON, "manage.py", *arguments, environment=CHECK_ENVIRONMENT)


def test_on_postgres() -> bool:
    with temporary_postgres() as url:
        return pytest(
            "-n", WORKERS, "-m", PLAIN, "tests/interviews", "tests/grading", environment={DATABASE_VARIABLE: url}
        )


#: Production's settings, for commands that neither connect to anything nor serve anybody.
CHECK_ENVIRONMENT = {
    "DJANGO_SETTINGS_MODULE": "config.settings",
    "RENDEZVOUS_SECRET_KEY": "for-checks-only-b0f4c1d6-8a37-4e5b-9c62-7d1e3f5a9b80-2468",
    "RENDEZVOUS_DATABASE_URL": "sqlite:///:memory:",
    "RENDEZVOUS_REDIS_URL": "redis://127.0.0.1:1/0",
    "RENDEZVOUS_BASE_URL": "https://interviews.example.org",
}

STEPS = (
    Step("ruff", "lint", lambda: call(PYTHON, "-m", "ruff", "check", "--quiet", ".")),
    Step("format", "lint", lambda: call(PYTHON, "-m", "ruff", "format", "--check", "--quiet", ".")),
    Step("templates", "lint", check_templates),
    Step("layers", "lint", lambda: call(str(BIN / "lint-imports"))),
    Step("types", "types", lambda: call(PYTHON, "-m", "mypy", ".")),
    Step("migrations", "lint", check_migrations),
    Step("production settings", "lint", check_production_settings),
    Step("tests on SQLite", "test-sqlite", lambda: pytest("-n", WORKERS, "-m", PLAIN)),
    Step("tests on PostgreSQL", "test-postgres", test_on_postgres),
    Step(
        "tests in containers",
        "test-containers",
        lambda: pytest("-m", "container and not browser and not gpu and not slow"),
    ),
    Step("tests in a browser", "test-browser", lambda: pytest("-m", "browser and not gpu and not slow")),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    groups = sorted({step.group for step in STEPS})
    parser.add_argument("groups", nargs="*", metavar="group", help=f"only these: {', '.join(groups)}")
    wanted = parser.parse_args().groups
    unknown = set(wanted) - set(groups)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(groups)}")

    results: list[tuple[str, bool, float]] = []
    for step in STEPS:
        if wanted and step.group not in wanted:
            continue
        say(colour(f"\n── {step.name} ──", "1"))
        started_s = time.monotonic()
        succeeded = False
        # What a step says when it gives up stands on the terminal; the steps after it still have something to tell.
        with contextlib.suppress(SystemExit):
            succeeded = step.run()
        results.append((step.name, succeeded, time.monotonic() - started_s))

    say()
    for name, succeeded, took_s in results:
        verdict = colour("passed", "32") if succeeded else colour("FAILED", "31")
        say(f"{verdict}  {took_s:7.1f} s  {name}")
    sys.exit(0 if all(succeeded for _, succeeded, _ in results) else 1)


if __name__ == "__main__":
    main()
