"""Browsers to look at a whole stack, as ``make demo`` starts it.

The stack has a folder, a database, a Redis and a port of its own. Tests see it as people do, through pages; they make what
they need there too. The ORM is of no use here: it would look into another database, and refuses to work beside Playwright.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, sync_playwright

from tests.stacks import ROOT, RunningStack, start_stack
from tools.machine import find_chromium

#: Debian's Chromium as root, kept from calling home.
CHROMIUM_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
SETTLED = """async () => {
    const passing = document.getAnimations().filter((each) => Number.isFinite(each.effect.getComputedTiming().endTime));
    await Promise.allSettled(passing.map((each) => each.finished));
}"""
WIDE = (1280, 800)
NARROW = (390, 844)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    running = start_stack(tmp_path_factory.mktemp("stack"))
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = find_chromium()
    assert program is not None, "Chromium is not installed; `make setup-tests` installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(CHROMIUM_OPTIONS))
        yield browser
        browser.close()


@dataclass
class Complaints:
    """What went wrong in a browser although the page may look well."""

    base_url: str
    found: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("request", self._on_request)
        page.on("response", self._on_response)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.found.append(f"error in a script: {error}"))

    def _on_request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("data", "blob") and url.netloc != urlsplit(self.base_url).netloc:
            self.found.append(f"request to outside: {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 500:
            self.found.append(f"status {response.status}: {response.url}")

    def _on_console(self, message: ConsoleMessage) -> None:
        # A server that is away, as a test may want it, is told to the console by the browser itself.
        if message.type == "error" and "net::ERR_" not in message.text:
            self.found.append(f"console: {message.text}")


@pytest.fixture
def complaints(stack: RunningStack) -> Complaints:
    """Filled by every page that ``open_page`` made; whatever it holds at the end fails the test."""
    return Complaints(stack.base_url)


@pytest.fixture
def open_page(stack: RunningStack, browser: Browser, complaints: Complaints) -> Iterator[Callable[..., Page]]:
    """Makes the page of a new person: a browser context without cookies."""
    with ExitStack() as contexts:

        def open_page(size: tuple[int, int] = WIDE, *, dark: bool = False) -> Page:
            context = browser.new_context(
                base_url=stack.base_url,
                viewport={"width": size[0], "height": size[1]},
                color_scheme="dark" if dark else "light",
                permissions=["clipboard-read", "clipboard-write"],
            )
            contexts.callback(context.close)
            context.on("page", complaints.watch)
            context.set_default_timeout(15_000)
            return context.new_page()

        yield open_page
    assert complaints.found == []


def sign_in(page: Page, stack: RunningStack, *, email: str | None = None) -> None:
    """Signs in on the sign-in page; every account of the demo has the same password."""
    page.goto("/accounts/login/")
    page.get_by_label("Email").fill(email or stack.email)
    page.get_by_label("Password", exact=True).fill(stack.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/accounts/login/" not in url)


def assert_accessible(page: Page) -> None:
    """axe finds nothing to say of the page."""
    # Not as a script element: the page's own policy would refuse it.
    page.evaluate(AXE.read_text())
    # A button that is just changing its colour has, for a moment, one that nobody chose.
    page.evaluate(SETTLED)
    violations = page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
    found = [f"{v['id']} ({v['impact']}): {v['help']}: {[n['target'] for n in v['nodes']]}" for v in violations]
    assert found == [], "\n".join(found)
