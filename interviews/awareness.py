"""Cursors: who they belong to is decided here, never by the page that sends them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pycrdt import Decoder, Encoder

AWARENESS_LIMIT_BYTES = 4 * 1024


class AwarenessError(ValueError):
    """An awareness update that is not exactly one page's cursor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The state of one page: its Yjs client, the clock of the state, and the position (``None``: gone)."""

    client: int
    clock: int
    position: dict[str, Any] | None
    present: bool = True

    def encode(self, user: dict[str, Any]) -> bytes:
        """As a Yjs awareness update that names ``user``."""
        state = {"user": user, "cursor": self.position} if self.present else None
        encoder = Encoder()
        encoder.write_var_uint(1)
        encoder.write_var_uint(self.client)
        encoder.write_var_uint(self.clock)
        encoder.write_var_string(json.dumps(state, separators=(",", ":")))
        return encoder.to_bytes()

    def left(self) -> Cursor:
        """What tells the others that the page is gone."""
        return Cursor(client=self.client, clock=self.clock + 1, position=None, present=False)


def read_cursor(update: bytes) -> Cursor:
    """The one state within an awareness update. Of its fields only the cursor is kept."""
    if len(update) > AWARENESS_LIMIT_BYTES:
        raise AwarenessError("too large")
    decoder = Decoder(update)
    try:
        if decoder.read_var_uint() != 1:
            raise AwarenessError("a page speaks for itself alone")
        client, clock = decoder.read_var_uint(), decoder.read_var_uint()
        state = json.loads(decoder.read_var_string())
    except (IndexError, RuntimeError, ValueError) as error:
        raise AwarenessError("unreadable") from error
    if not (0 <= client < 2**53 and 0 <= clock < 2**53):
        raise AwarenessError("out of range")
    if state is None:
        return Cursor(client=client, clock=clock, position=None, present=False)
    cursor = state.get("cursor") if isinstance(state, dict) else None
    return Cursor(client=client, clock=clock, position=cursor if isinstance(cursor, dict) else None)
