"""Means by rule."""

from __future__ import annotations

from decimal import Decimal

from grading.charts import level_chart
from grading.combination import CriterionResult, combine_interview, combine_question
from grading.models import Rating, Scorecard
from interviews.models import Criterion, User

PEOPLE = [User(name=name) for name in ("Ada One", "Ben Two", "Cid Three", "Dee Four")]


def result(*levels: int | None, weight: str = "1") -> CriterionResult:
    """One rater for each level; ``None``: not assessed."""
    ratings = [
        Rating(level=level, not_assessed=level is None, scorecard=Scorecard(author=person))
        for level, person in zip(levels, PEOPLE, strict=False)
    ]
    return CriterionResult(criterion=Criterion(weight=Decimal(weight)), ratings=ratings)


def test_a_criterion_is_the_mean_of_its_raters() -> None:
    assert result(2, 3, 4, 4).mean == Decimal("3.25")


def test_not_assessed_is_counted_and_left_out() -> None:
    both = result(3, None)
    assert both.mean == Decimal(3)
    assert both.not_assessed == 1


def test_a_criterion_that_nobody_could_assess_has_no_mean() -> None:
    assert result(None, None).mean is None
    assert result().mean is None


def test_a_question_is_weighted() -> None:
    assert combine_question([result(4, weight="3"), result(2, weight="1")]) == Decimal("3.5")


def test_a_criterion_without_a_level_has_no_weight_in_its_question() -> None:
    assert combine_question([result(4), result(None, weight="5")]) == Decimal(4)
    assert combine_question([result(None)]) is None
    assert combine_question([]) is None


def test_only_criteria_without_weight_give_no_mean() -> None:
    assert combine_question([result(4, weight="0")]) is None


def test_an_interview_is_the_plain_mean_of_its_questions() -> None:
    assert combine_interview([Decimal(2), None, Decimal(3)]) == Decimal("2.5")
    assert combine_interview([None]) is None


def test_raters_far_apart_are_told() -> None:
    assert result(1, 4, None).spread == 3
    assert result(None).spread == 0


def test_a_chart_says_in_words_what_it_shows() -> None:
    chart = level_chart(result(3, 2, None))
    assert chart.words == "Ada One: 3, Ben Two: 2, Cid Three: not assessed, mean 2.5"
    assert [(dot.initials, dot.x) for dot in chart.dots] == [("BT", 90), ("AO", 150)]
    assert chart.mean_x == 120


def test_raters_of_one_level_stand_beside_each_other() -> None:
    chart = level_chart(result(3, 3, 3, 3))
    places = [dot.x for dot in chart.dots]
    assert places == sorted(set(places))
    assert max(places) - min(places) <= 40
