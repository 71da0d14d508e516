from __future__ import annotations

from interviews.pacing import BURST_BYTES, FRAME_BYTES, RATE_BYTES_PER_S, Pace


def test_a_burst_passes_and_a_flood_waits() -> None:
    pace = Pace(filled_at=100.0)
    assert pace.delay_s(BURST_BYTES - FRAME_BYTES, now=100.0) == 0
    assert pace.delay_s(RATE_BYTES_PER_S - FRAME_BYTES, now=100.0) == 1.0


def test_time_fills_the_budget_and_never_overfills_it() -> None:
    pace = Pace(filled_at=100.0, budget=0)
    assert pace.delay_s(RATE_BYTES_PER_S - FRAME_BYTES, now=101.0) == 0
    assert pace.delay_s(0, now=1_000_000.0) == 0
    assert pace.budget == BURST_BYTES - FRAME_BYTES


def test_typing_is_never_slowed() -> None:
    pace = Pace(filled_at=0.0)
    assert all(pace.delay_s(80, now=number / 40) == 0 for number in range(40 * 3600))
