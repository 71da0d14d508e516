from __future__ import annotations

from datetime import UTC, date, datetime, time

import pytest

from interviews import time_zones


def test_a_written_time_is_the_moment_that_the_zones_clocks_show_so() -> None:
    assert time_zones.moment(date(2026, 7, 1), time(14, 0), "Europe/Berlin") == datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
    assert time_zones.moment(date(2026, 12, 1), time(14, 0), "Europe/Berlin") == datetime(
        2026, 12, 1, 13, 0, tzinfo=UTC
    )


def test_a_time_that_the_clocks_jump_over_is_no_moment() -> None:
    with pytest.raises(time_zones.NoSuchMoment):
        time_zones.moment(date(2026, 3, 29), time(2, 30), "Europe/Berlin")


def test_an_hour_that_comes_twice_means_its_first_time() -> None:
    assert time_zones.moment(date(2026, 10, 25), time(2, 30), "Europe/Berlin") == datetime(
        2026, 10, 25, 0, 30, tzinfo=UTC
    )


def test_zones_are_offered_by_region_and_read_as_places() -> None:
    choices = dict(time_zones.choices())
    assert ("America/New_York", "New York") in choices["America"]
    assert choices["UTC"] == "UTC"
    assert "Etc" not in choices
