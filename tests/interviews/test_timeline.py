from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from interviews import timeline
from interviews.access import identify
from interviews.models import ActorKind, EntryKind, Interview, TimelineEntry, User


def test_entries_are_numbered_in_order(interview: Interview, interviewer: User) -> None:
    by = identify(interview, interviewer, {})
    first = timeline.append(interview, EntryKind.STARTED, by=by)
    second = timeline.append(interview, EntryKind.NOTE, by=by, payload={"text": "Good start"}, private=True)
    third = timeline.append(interview, EntryKind.EDIT, update=b"\x00\x01")
    assert [entry.sequence for entry in (first, second, third)] == [1, 2, 3]
    assert [entry.actor_kind for entry in (first, third)] == [ActorKind.USER, ActorKind.SYSTEM]
    assert bytes(TimelineEntry.objects.get(sequence=3).update or b"") == b"\x00\x01"


@pytest.mark.django_db(transaction=True)
def test_writers_at_once_leave_no_gap_and_no_double(interview: Interview) -> None:
    def write(number: int) -> None:
        timeline.append(interview, EntryKind.EDIT, update=bytes([number]))
        connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(40)))
    sequences = TimelineEntry.objects.filter(interview=interview).values_list("sequence", flat=True)
    assert list(sequences) == list(range(1, 41))
