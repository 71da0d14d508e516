"""The room in two browsers: typing at once, broken connections, the keyboard, and how it looks to those who cannot see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NARROW, WIDE, assert_accessible, sign_in
from tests.stacks import RunningStack

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

OpenPage = Callable[..., Page]
#: A lost connection is noticed by an unanswered ping, and comes back after a pause.
RECONNECT_MS = 30_000


@dataclass(slots=True)
class Side:
    """The room as one person has it before them."""

    page: Page

    @property
    def editor(self) -> Locator:
        return self.page.locator(".cm-content")

    @property
    def sync(self) -> Locator:
        return self.page.locator("[data-bar=sync]")

    def text(self) -> str:
        """The whole text: the page keeps only the lines in sight, so it is asked from the editor's clipboard."""
        self.editor.click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.press("Control+c")
        copied: str = self.page.evaluate("navigator.clipboard.readText()")
        return copied

    def type_at(self, key: str, text: str) -> None:
        self.editor.click()
        self.page.keyboard.press(key)
        self.page.keyboard.type(text)

    def is_synced(self) -> None:
        expect(self.sync).to_have_attribute("data-sync", "synced", timeout=RECONNECT_MS)


@dataclass(slots=True)
class Both:
    host: Side
    guest: Side
    candidate: str
    link: str

    def same_text(self, *, length: int) -> str:
        """The text once it has this length on both sides; it must be the same there."""
        for _ in range(60):
            texts = self.host.text(), self.guest.text()
            if {len(text) for text in texts} == {length}:
                assert texts[0] == texts[1]
                return texts[0]
            self.host.page.wait_for_timeout(250)
        raise AssertionError(f"after 15 s still of different length: {texts}")


def arrange(page: Page, candidate: str) -> str:
    page.goto("/interviews/new/")
    page.get_by_label("Name", exact=True).fill(candidate)
    page.get_by_label("Kit").select_option(index=1)
    page.get_by_label("Date").fill((datetime.now(UTC) + timedelta(days=1)).date().isoformat())
    page.get_by_role("button", name="Arrange interview").click()
    expect(page.get_by_role("heading", name=candidate)).to_be_visible()
    link: str = page.get_by_label("The candidate’s link").input_value()
    return link


def meet(
    stack: RunningStack, open_page: OpenPage, candidate: str, size: tuple[int, int] = WIDE, *, dark: bool = False
) -> Both:
    """An interviewer and an admitted candidate, both with the first question before them."""
    host = open_page(size, dark=dark)
    sign_in(host, stack)
    link = arrange(host, candidate)
    host.get_by_role("link", name="Open room").click()
    guest = open_page(size, dark=dark)
    guest.goto(link)
    host.get_by_role("button", name="Let in").click()
    both = Both(Side(host), Side(guest), candidate, link)
    for side in (both.host, both.guest):
        expect(side.editor).to_contain_text("def ")
        side.is_synced()
    return both


def test_what_is_typed_at_one_place_at_once_comes_out_the_same(stack: RunningStack, open_page: OpenPage) -> None:
    both = meet(stack, open_page, "Tao Together")
    before = both.host.text()
    for side in (both.host, both.guest):
        side.editor.click()
        side.page.keyboard.press("Control+Home")
    for upper, lower in zip("ABCDEFGHIJKLMNOP", "abcdefghijklmnop", strict=True):
        both.host.page.keyboard.press(upper)
        both.guest.page.keyboard.press(lower)
    typed = both.same_text(length=len(before) + 32).removesuffix(before)
    assert sorted(typed) == sorted("ABCDEFGHIJKLMNOPabcdefghijklmnop")
    assert "".join(letter for letter in typed if letter.isupper()) == "ABCDEFGHIJKLMNOP"
    assert "".join(letter for letter in typed if letter.islower()) == "abcdefghijklmnop"


def test_what_is_typed_offline_is_kept_said_and_merged(stack: RunningStack, open_page: OpenPage) -> None:
    both = meet(stack, open_page, "Olga Offline")
    before = both.guest.text()
    both.guest.page.context.set_offline(True)
    both.guest.type_at("Control+End", "# typed without a connection")
    expect(both.guest.sync).to_have_attribute("data-sync", "offline", timeout=RECONNECT_MS)
    expect(both.guest.sync).to_contain_text("Offline")
    both.host.type_at("Control+Home", "# typed meanwhile\n")
    both.host.is_synced()
    both.guest.page.context.set_offline(False)
    both.guest.is_synced()
    expected = "# typed meanwhile\n" + before + "# typed without a connection"
    expect(both.host.editor).to_contain_text("# typed without a connection", timeout=RECONNECT_MS)
    assert both.guest.text() == both.host.text() == expected


def test_what_was_typed_offline_survives_the_closing_of_the_page(stack: RunningStack, open_page: OpenPage) -> None:
    both = meet(stack, open_page, "Clara Closing")
    context = both.guest.page.context
    before = both.guest.text()
    context.set_offline(True)
    both.guest.type_at("Control+End", "# before the crash")
    expect(both.guest.sync).to_have_attribute("data-sync", "offline", timeout=RECONNECT_MS)
    both.guest.page.wait_for_function("Object.keys(localStorage).some((key) => key.startsWith('rendezvous:unsaved:'))")
    both.guest.page.close(run_before_unload=False)
    context.set_offline(False)
    again = Side(context.new_page())
    again.page.goto(both.link)
    expect(again.editor).to_contain_text("# before the crash")
    again.is_synced()
    expect(both.host.editor).to_contain_text("# before the crash")
    assert again.text() == both.host.text() == before + "# before the crash"


def test_undo_takes_back_only_ones_own(stack: RunningStack, open_page: OpenPage) -> None:
    both = meet(stack, open_page, "Una Undo")
    before = both.host.text()
    both.host.type_at("Control+Home", "# mine\n")
    expect(both.guest.editor).to_contain_text("# mine")
    both.guest.type_at("Control+End", "# theirs")
    expect(both.host.editor).to_contain_text("# theirs")
    both.host.editor.click()
    both.host.page.keyboard.press("Control+z")
    expect(both.guest.editor).not_to_contain_text("# mine")
    both.host.is_synced()
    assert both.host.text() == both.guest.text() == before + "# theirs"


def test_the_others_cursor_bears_their_name(stack: RunningStack, open_page: OpenPage) -> None:
    both = meet(stack, open_page, "Nils Named")
    both.guest.type_at("Control+Home", "# here I am\n")
    expect(both.host.page.locator(".remote-caret")).to_have_attribute("data-name", "Nils Named")
    both.guest.page.keyboard.press("Control+Shift+End")
    expect(both.host.page.locator(".remote-selection").first).to_be_visible()
    both.guest.page.close()
    expect(both.host.page.locator(".remote-caret")).to_have_count(0)


def test_tab_indents_and_escape_then_tab_leaves_the_editor(stack: RunningStack, open_page: OpenPage) -> None:
    both = meet(stack, open_page, "Kim Keyboard")
    page = both.guest.page
    before = both.guest.text()
    both.guest.editor.click()
    page.keyboard.press("Control+Home")
    page.keyboard.press("Tab")
    assert both.guest.text() == "    " + before
    both.guest.editor.click()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(both.guest.editor).not_to_be_focused()


def test_panes_are_resized_by_keyboard(stack: RunningStack, open_page: OpenPage) -> None:
    both = meet(stack, open_page, "Paula Panes")
    prompt = both.host.page.locator("#pane-prompt")
    width = prompt.bounding_box()
    separator = both.host.page.get_by_role("separator", name="Width of the prompt")
    separator.focus()
    for _ in range(3):
        both.host.page.keyboard.press("ArrowRight")
    wider = prompt.bounding_box()
    assert width is not None
    assert wider is not None
    assert wider["width"] > width["width"] + 30
    expect(separator).to_have_attribute("aria-valuenow", str(round(wider["width"])))


def test_a_note_taken_offline_is_saved_once_later(stack: RunningStack, open_page: OpenPage) -> None:
    both = meet(stack, open_page, "Nora Notes")
    page = both.host.page
    page.get_by_role("tab", name="Notes").click()
    page.context.set_offline(True)
    expect(both.host.sync).to_have_attribute("data-sync", "offline", timeout=RECONNECT_MS)
    page.get_by_label("New note").fill("Asks before assuming.")
    page.keyboard.press("Enter")
    expect(page.get_by_text("not saved yet")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_text("not saved yet")).to_have_count(0, timeout=RECONNECT_MS)
    page.reload()
    page.get_by_role("tab", name="Notes").click()
    expect(page.locator(".note")).to_have_count(1)
    expect(page.locator(".note")).to_contain_text("Asks before assuming.")
    page.get_by_label("New note").fill("half a thou")
    page.reload()
    page.get_by_role("tab", name="Notes").click()
    expect(page.get_by_label("New note")).to_have_value("half a thou")


def test_after_the_end_the_code_can_only_be_read(stack: RunningStack, open_page: OpenPage) -> None:
    both = meet(stack, open_page, "Enno End")
    page = both.host.page
    page.get_by_label("More").first.click()
    page.get_by_role("button", name="End the interview").first.click()
    page.locator("#end-dialog").get_by_role("button", name="End the interview").click()
    for side in (both.host, both.guest):
        expect(side.page.get_by_text("read-only")).to_be_visible()
        expect(side.page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
        before = side.text()
        side.type_at("Control+Home", "too late")
        side.page.keyboard.press("Control+z")
        assert side.text() == before


def test_a_candidate_who_is_declined_is_told(stack: RunningStack, open_page: OpenPage) -> None:
    host = open_page()
    sign_in(host, stack)
    link = arrange(host, "Dora Declined")
    guest = open_page()
    guest.goto(link)
    host.get_by_role("link", name="Open room").click()
    host.get_by_role("button", name="Decline").click()
    expect(guest.get_by_role("heading", name="The room is closed")).to_be_visible()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_lobby_and_room_are_accessible_and_fit(
    stack: RunningStack, open_page: OpenPage, size: tuple[int, int], dark: bool
) -> None:
    host = open_page(size, dark=dark)
    sign_in(host, stack)
    link = arrange(host, "Axel Accessible")
    host.goto(host.url.rstrip("/") + "/room/")
    guest = open_page(size, dark=dark)
    guest.goto(link)
    expect(guest.locator("#room")).to_have_attribute("data-stage", "lobby")
    host.get_by_role("button", name="Let in").wait_for()
    for page in (host, guest):
        look_at(page)
    host.get_by_role("button", name="Let in").click()
    for page in (guest, host):
        expect(page.locator(".cm-content")).to_contain_text("def ")
        look_at(page)
        for choice in page.locator("[data-pane-choice]:visible").all():
            choice.click()
            look_at(page)
    for tab in host.get_by_role("tab").filter(visible=True).all():
        tab.click()
        look_at(host)


def look_at(page: Page) -> None:
    assert_accessible(page)
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0, "the page is wider than the screen"
