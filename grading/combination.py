"""Combining what several people rated, by rule and not by feeling.

A criterion is the mean of those who rated it. A question is the mean of its criteria by their weights. The interview is
the plain mean of its questions. "Not assessed" is no level: it is counted, and left out of every mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from grading.models import Rating
from interviews.models import Criterion

RULE = (
    "Each criterion is the mean of its raters, each question the mean of its criteria by their weights, and the whole the "
    "plain mean of the questions; what was not assessed is left out."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionResult:
    """What the raters of one criterion say together. ``mean`` is ``None`` where nobody gave a level."""

    criterion: Criterion
    ratings: Sequence[Rating]

    @property
    def levels(self) -> list[int]:
        return [rating.level for rating in self.ratings if rating.level is not None]

    @property
    def mean(self) -> Decimal | None:
        return _mean([(Decimal(level), Decimal(1)) for level in self.levels])

    @property
    def not_assessed(self) -> int:
        return sum(rating.not_assessed for rating in self.ratings)

    @property
    def spread(self) -> int:
        """How many levels lie between the lowest and the highest rater."""
        return max(self.levels) - min(self.levels) if self.levels else 0


def combine_question(results: Sequence[CriterionResult]) -> Decimal | None:
    """The mean of a question's criteria by their weights; ``None`` where none has a level, or only ones without weight."""
    return _mean([(result.mean, result.criterion.weight) for result in results if result.mean is not None])


def combine_interview(questions: Sequence[Decimal | None]) -> Decimal | None:
    """The plain mean of the questions that have a result."""
    return _mean([(result, Decimal(1)) for result in questions if result is not None])


def _mean(weighted: Sequence[tuple[Decimal, Decimal]]) -> Decimal | None:
    total = sum((weight for _, weight in weighted), Decimal(0))
    if not total:
        return None
    return sum((value * weight for value, weight in weighted), Decimal(0)) / total
