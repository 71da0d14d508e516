"""Time zones as people choose them, and moments as people write them."""

from __future__ import annotations

import functools
import zoneinfo
from datetime import UTC, date, datetime, time

#: The regions of the time-zone database that name places; the rest are aliases and fixed distances.
REGIONS = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")


class NoSuchMoment(ValueError):
    """The clocks of the zone jump over this time."""


@functools.cache
def choices() -> list[tuple[str, list[tuple[str, str]]] | tuple[str, str]]:
    """Choices for a select, grouped by region: ("Europe", [("Europe/Berlin", "Berlin"), …])."""
    groups: dict[str, list[tuple[str, str]]] = {region: [] for region in REGIONS}
    for name in sorted(zoneinfo.available_timezones()):
        region, _, place = name.partition("/")
        if region in groups and place:
            groups[region].append((name, place.replace("_", " ").replace("/", " / ")))
    return [("UTC", "UTC"), *groups.items()]


def is_known(name: str) -> bool:
    return name in zoneinfo.available_timezones()


def moment(day: date, clock: time, zone: str) -> datetime:
    """The moment that the clocks of ``zone`` show so. Raises ``NoSuchMoment`` where they never do.

    An hour that comes twice, in autumn, means its first time.
    """
    written = datetime.combine(day, clock, zoneinfo.ZoneInfo(zone))
    if written.astimezone(UTC).astimezone(written.tzinfo).replace(tzinfo=None) != written.replace(tzinfo=None):
        raise NoSuchMoment
    return written.astimezone(UTC)
