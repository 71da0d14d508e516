"""Everything that a page receives: documents, scripts' answers, event streams, WebSocket frames."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Page, Response, WebSocket


@dataclass
class Wiretap:
    """Listens to a page from its beginning. ``drain`` reads the bodies that came since; call it before each navigation."""

    page: Page
    texts: list[tuple[str, str]] = field(default_factory=list)
    _responses: list[Response] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("response", lambda response: self._responses.append(response))
        self.page.on("websocket", self._listen)
        # Playwright gives no access to an event stream; the browser's own protocol does.
        session = self.page.context.new_cdp_session(self.page)
        session.send("Network.enable")
        session.on("Network.eventSourceMessageReceived", self._on_stream_event)

    def _listen(self, socket: WebSocket) -> None:
        socket.on("framereceived", lambda frame: self.texts.append((f"frame of {socket.url}", as_text(frame))))

    def _on_stream_event(self, event: dict[str, Any]) -> None:
        self.texts.append((f"stream event {event['eventName']}", event["data"]))

    def drain(self) -> None:
        responses, self._responses = self._responses, []
        for response in responses:
            kind = response.request.resource_type
            if kind in ("document", "fetch", "xhr") and not 300 <= response.status < 400:
                self.texts.append((f"{kind} {response.url}", response.text()))

    def kinds(self) -> set[str]:
        """The first words of what was heard: proof that the tap was in the line."""
        self.drain()
        return {source.split()[0] for source, _ in self.texts}

    def leaks(self, needles: set[str]) -> list[str]:
        """Where one of these lines was received, and which."""
        self.drain()
        return [f"{source}: {needle}" for source, text in self.texts for needle in needles if needle in text]


def as_text(frame: str | bytes) -> str:
    """A frame's text; a binary one carries text in UTF-8 between other bytes."""
    return frame if isinstance(frame, str) else frame.decode("utf-8", errors="ignore")


def encodings(line: str) -> set[str]:
    """A line as it may stand in HTML, in JSON, and plain."""
    html = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    quoted = html.replace('"', "&quot;").replace("'", "&#x27;")
    json = line.replace("\\", "\\\\").replace('"', '\\"')
    return {line, html, quoted, json, base64.b64encode(line.encode()).decode()}
