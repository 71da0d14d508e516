"""Small charts as numbers for an SVG that the server writes: they are the same on the page, in print and without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from grading.combination import CriterionResult

WIDTH = 240
HEIGHT = 44
_FIRST_X = 30
_STEP = 60
_ROOM_AT_LEVEL = 40
_DOT_STEP = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    x: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One rater. The initials tell people apart without colour."""

    x: int
    initials: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChart:
    """The four levels as a line, a dot for each rater, and a pointer to their mean. ``words`` say the same."""

    ticks: Sequence[Tick]
    dots: Sequence[Dot]
    mean_x: int | None
    words: str
    width: int = WIDTH
    height: int = HEIGHT


def level_chart(result: CriterionResult) -> LevelChart:
    """The ratings of one criterion. Their scorecards' authors must be fetched along."""
    at_level: dict[int, list[str]] = {}
    words = []
    for rating in result.ratings:
        if rating.level is not None:
            at_level.setdefault(rating.level, []).append(rating.scorecard.author.initials)
            words.append(f"{rating.scorecard.author}: {rating.level}")
        elif rating.not_assessed:
            words.append(f"{rating.scorecard.author}: not assessed")
    dots = [
        Dot(x=_x(Decimal(level)) + offset, initials=initials)
        for level, people in sorted(at_level.items())
        for offset, initials in zip(_offsets(len(people)), people, strict=True)
    ]
    if result.mean is not None:
        words.append(f"mean {result.mean:.1f}")
    return LevelChart(
        ticks=_ticks(),
        dots=dots,
        mean_x=_x(result.mean) if result.mean is not None else None,
        words=", ".join(words) or "no ratings",
    )


def mean_chart(mean: Decimal | None) -> LevelChart:
    """A mean alone."""
    if mean is None:
        return LevelChart(ticks=_ticks(), dots=[], mean_x=None, words="no ratings")
    return LevelChart(ticks=_ticks(), dots=[], mean_x=_x(mean), words=f"mean {mean:.1f} of 4")


def _ticks() -> list[Tick]:
    return [Tick(x=_x(Decimal(level)), label=str(level)) for level in (1, 2, 3, 4)]


def _x(level: Decimal) -> int:
    return _FIRST_X + round((level - 1) * _STEP)


def _offsets(people: int) -> list[int]:
    """Places beside each other, however many there are, that stay at their level."""
    if people == 1:
        return [0]
    step = min(_DOT_STEP, _ROOM_AT_LEVEL / (people - 1))
    first = -step * (people - 1) / 2
    return [round(first + step * place) for place in range(people)]
