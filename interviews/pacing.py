"""How fast one page may send: a page that floods the room is slowed down, and slows nobody else."""

from __future__ import annotations

from dataclasses import dataclass

RATE_BYTES_PER_S = 256 * 1024
#: What may come at once: everything written during a long break, several times over.
BURST_BYTES = 4 * 1024 * 1024
#: A frame costs something however small it is: 512 frames a second are more than any hand can type.
FRAME_BYTES = 512


@dataclass(slots=True)
class Pace:
    """A budget that fills with time and that every frame takes from."""

    filled_at: float
    budget: float = BURST_BYTES

    def delay_s(self, size: int, *, now: float) -> float:
        """Takes a frame of this size into account. How long to wait before looking at the next one."""
        self.budget = min(BURST_BYTES, self.budget + (now - self.filled_at) * RATE_BYTES_PER_S)
        self.filled_at = now
        self.budget -= FRAME_BYTES + size
        return max(0.0, -self.budget / RATE_BYTES_PER_S)
