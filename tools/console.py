"""Words to the person at the terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent


def say(text: str = "") -> None:
    print(text, flush=True)


def fail(text: str) -> NoReturn:
    """Ends the program with one line that says what is wrong and what to do."""
    print(text, file=sys.stderr, flush=True)
    raise SystemExit(1)


def colour(text: str, code: str) -> str:
    """The text in an ANSI colour, where somebody looks at a terminal that wants it."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def box(lines: Sequence[str]) -> str:
    """The lines in a frame."""
    width = max(len(line) for line in lines)
    framed = [f"│ {line.ljust(width)} │" for line in lines]
    return "\n".join([f"╭─{'─' * width}─╮", *framed, f"╰─{'─' * width}─╯"])


class Step:
    """Says what is being done, and afterwards how long it took."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started_s = 0.0

    def __enter__(self) -> Step:
        self.started_s = time.monotonic()
        say(colour(f"→ {self.title} …", "1"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            say(f"  done in {time.monotonic() - self.started_s:.1f} s")
