"""What a check can find wrong, in words: one sentence that gives nothing away, and more for those who may see more."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_runner.protocol import CheckStatus
from gpu_runner.sandbox.checking_wire import Foreign

_LONGEST_CHARS = 1200
_SHOWN_ITEMS = 8
_SHOWN_VALUE_CHARS = 240
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Fault(Exception):
    """The candidate's answer is wrong, or there is none.

    ``words`` say what kind of fault it is and never a value: they are all that a hidden check ever tells. ``shown`` holds the
    values and is added for a visible check. ``detail`` is for the interviewer alone.
    """

    def __init__(
        self, words: str, *, shown: str = "", detail: str = "", status: CheckStatus = CheckStatus.FAILED
    ) -> None:
        super().__init__(words)
        self.words = words
        self.shown = shown
        self.detail = detail
        self.status = status

    def message(self, *, hidden: bool) -> str:
        """What the candidate may read."""
        return clean(self.words if hidden or not self.shown else f"{self.words} {self.shown}")

    def full(self) -> str:
        """What the interviewer may read."""
        return clean("\n".join(part for part in (f"{self.words} {self.shown}".strip(), self.detail) if part))


class LaunchError(Exception):
    """The host could not start the candidate's ranks. Nobody's fault but the host's, so it ends the whole run."""


def clean(text: str, limit: int = _LONGEST_CHARS) -> str:
    """Text of the candidate's made harmless: no control characters, no direction marks, not endless."""
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def listed(items: Sequence[object]) -> str:
    """``0, 1 and 3``."""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def ranks_listed(ranks: Sequence[int]) -> str:
    """``Rank 2`` or ``Ranks 0, 1 and 3``."""
    return f"Rank {ranks[0]}" if len(ranks) == 1 else f"Ranks {listed(ranks)}"


def kind_of(value: object) -> str:
    """The kind of a value, with its article: ``an int``, ``a tensor``, ``None``."""
    if value is None:
        return "None"
    if isinstance(value, Foreign):
        return _with_article(value.type_name)
    if is_tensor(value):
        return "a tensor"
    return _with_article(type(value).__name__)


def _with_article(name: str) -> str:
    if name.startswith(("a ", "an ")):
        return name
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def is_tensor(value: object) -> bool:
    """Whether a value that came over the line, or that an author made, is a tensor; without importing torch."""
    return hasattr(value, "untyped_storage")


def shown(value: Any) -> str:
    """A value for a person, cut to size."""
    return clean(_shown(value), _SHOWN_VALUE_CHARS)


def _shown(value: Any) -> str:
    if type(value) is int:
        return f"{value:,}"
    if isinstance(value, Foreign):
        return kind_of(value)
    if is_tensor(value):
        return _shown_tensor(value)
    if isinstance(value, (list, tuple)):
        items = [_shown(item) for item in value[:_SHOWN_ITEMS]]
        items += ["…"] if len(value) > _SHOWN_ITEMS else []
        return f"[{', '.join(items)}]" if isinstance(value, list) else f"({', '.join(items)})"
    return repr(value)


def _shown_tensor(value: Any) -> str:
    form = tensor_form(value)
    if value.numel() > _SHOWN_ITEMS:
        return f"a tensor {form}"
    numbers = value.reshape(-1).tolist()
    return f"{form} with [{', '.join(f'{n:.7g}' if isinstance(n, float) else str(n) for n in numbers)}]"


def tensor_form(value: Any) -> str:
    """``float32 of shape (64, 1000)``."""
    return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"


def call_text(function: str, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """``f(80, num_heads=64, x=float32 of shape (8,))``."""
    parts = [_argument(value) for value in args]
    parts += [f"{name}={_argument(value)}" for name, value in kwargs.items()]
    return clean(f"{function}({', '.join(parts)})", _SHOWN_VALUE_CHARS)


def _argument(value: Any) -> str:
    if type(value) is int:
        return str(value)
    inner = getattr(value, "view", None)
    if is_tensor(value):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if inner is not None and is_tensor(inner):
        return _argument(inner)
    return repr(value) if value is None or isinstance(value, (bool, float, str, list, tuple, dict)) else "…"
