"""Makes text and numbers from outside fit for the database: PostgreSQL refuses NUL, nothing stores a lone surrogate, and
JSON has no NaN."""

from __future__ import annotations

import math
from typing import Any

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: More than a run can print; a bound against a host gone wrong.
MAX_TEXT = 2_000_000


def clean_text(text: str, max_length: int = MAX_TEXT) -> str:
    """The text without NUL and lone surrogates, each replaced visibly, and no longer than ``max_length``."""
    if "\0" in text:
        text = text.replace("\0", _REPLACEMENT)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, so that a pair of surrogates becomes its one character.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text[:max_length]


def clean_number(value: float | None) -> float | None:
    """The number, or ``None`` for NaN and infinity."""
    return value if value is not None and math.isfinite(value) else None


def clean_json(value: Any) -> Any:
    """The same JSON value with every text and number in it made fit."""
    match value:
        case str():
            return clean_text(value)
        case float():
            return clean_number(value)
        case list():
            return [clean_json(item) for item in value]
        case dict():
            return {clean_text(key): clean_json(item) for key, item in value.items()}
        case _:
            return value
