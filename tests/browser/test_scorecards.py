"""Scorecards in a browser: nothing typed is lost or overwritten, in any window, with and without a network."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import NARROW, WIDE, Complaints, assert_accessible
from tests.browser.test_whole_interview import NOTE, arrange, let_in, open_question, take_note, title_of_question
from tests.stacks import RunningStack

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

OpenPage = Callable[..., Page]


@pytest.fixture
def room(stack: RunningStack, open_page: OpenPage) -> Page:
    """The interviewer's room, with a question before the candidate and a note of it."""
    page, candidate_page = open_page(), open_page()
    let_in(page, candidate_page, arrange(page, stack))
    open_question(page, candidate_page)
    take_note(page)
    return page


@pytest.fixture
def scorecard(room: Page) -> Page:
    room.goto(room.url.replace("/room/", "/scorecard/"))
    return room


def first(page: Page) -> Locator:
    """The first criterion that can be rated."""
    return page.locator("form[data-autosave=rating]:not(:has(fieldset:disabled))").first


def evidence(rating: Locator) -> Locator:
    return rating.get_by_label("Evidence", exact=True)


def state(rating: Locator) -> Locator:
    return rating.locator("[data-state]")


def forgive(complaints: Complaints, status: int) -> None:
    """The browser tells its console of every refused save, also of one that the test wants."""
    complaints.found[:] = [words for words in complaints.found if f"with a status of {status} (" not in words]


def check_state(page: Page) -> None:
    for size in (WIDE, NARROW):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert_accessible(page)
        beside = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert beside <= 0, f"the page is {beside} px wider than a screen of {size[0]}"
    page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})


def test_what_is_typed_without_a_network_comes_back_and_is_saved(scorecard: Page) -> None:
    rating = first(scorecard)
    rating.get_by_role("radio").nth(2).check()
    expect(state(rating)).to_contain_text("needs an evidence note")
    away: Callable[[Route], None] = lambda route: route.abort()  # noqa: E731
    scorecard.route("**/scorecard/ratings/**", away)
    evidence(rating).fill("Typed while the network was away.")
    expect(state(rating)).to_contain_text("Not saved: no connection.")

    scorecard.reload()

    expect(evidence(rating)).to_have_value("Typed while the network was away.")
    expect(rating.get_by_role("radio").nth(2)).to_be_checked()
    scorecard.get_by_role("link", name="Submit…").click()
    expect(scorecard.get_by_role("dialog")).to_contain_text("not saved yet")
    scorecard.get_by_role("button", name="Close").click()
    scorecard.unroute("**/scorecard/ratings/**", away)
    expect(state(rating)).to_contain_text("Saved", timeout=20_000)
    assert scorecard.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('scorecard.'))") == []
    scorecard.reload()
    expect(evidence(rating)).to_have_value("Typed while the network was away.")


def test_two_windows_never_overwrite_each_other(scorecard: Page, complaints: Complaints) -> None:
    other_window = scorecard.context.new_page()
    other_window.goto(scorecard.url)
    evidence(first(scorecard)).fill("From the first window.")
    expect(state(first(scorecard))).to_contain_text("Saved")

    evidence(first(other_window)).fill("From the second window.")

    expect(state(first(other_window))).to_contain_text("Not saved: A newer version was saved in another window.")
    expect(first(other_window)).to_contain_text("“From the first window.”")
    expect(evidence(first(other_window))).to_have_value("From the second window.")
    first(other_window).get_by_role("button", name="Keep what stands here").click()
    expect(state(first(other_window))).to_contain_text("Saved")

    evidence(first(scorecard)).fill("From the first window again.")
    first(scorecard).get_by_role("button", name="Take the other one").click()
    expect(evidence(first(scorecard))).to_have_value("From the second window.")
    scorecard.reload()
    expect(evidence(first(scorecard))).to_have_value("From the second window.")
    forgive(complaints, 409)


def test_a_note_is_cited_where_the_cursor_stands(scorecard: Page) -> None:
    # Notes belong to the question that was open.
    rating = scorecard.get_by_role("region", name=title_of_question()).locator("form").first
    evidence(rating).fill("Careful, and quick.")
    evidence(rating).evaluate("(area) => area.setSelectionRange(7, 7)")
    rating.get_by_text("Cite a run or note").click()
    rating.locator("[data-cite]").filter(has_text=NOTE).click()
    expect(evidence(rating)).to_be_focused()
    assert evidence(rating).input_value().startswith("Careful (")
    assert evidence(rating).input_value().endswith(", note by Ada Moreau), and quick.")
    expect(state(rating)).to_contain_text("Saved")
    check_state(scorecard)

    scorecard.reload()
    expect(rating.locator("[data-cites] li")).to_have_count(1)
    rating.get_by_label("Remove the citation").click()
    expect(state(rating)).to_contain_text("Saved")
    scorecard.reload()
    expect(rating.locator("[data-cites] li")).to_have_count(0)


def test_the_dialog_leads_to_what_is_missing_and_the_lock_holds(scorecard: Page, complaints: Complaints) -> None:
    scorecard.get_by_role("link", name="Submit…").click()
    dialog = scorecard.get_by_role("dialog")
    expect(dialog).to_contain_text("Recommendation has to be chosen")
    assert_accessible(scorecard)
    dialog.get_by_role("link").first.click()
    expect(dialog).to_be_hidden()
    expect(first(scorecard).get_by_role("radio").first).to_be_focused()

    ratings = scorecard.locator("form[data-autosave=rating]:not(:has(fieldset:disabled))")
    for rating in ratings.all():
        rating.get_by_role("radio", name="Not assessed").check()
        expect(state(rating)).to_contain_text("Saved")
    scorecard.get_by_role("radio", name="No", exact=True).check()
    expect(scorecard.locator("[data-progress]")).to_have_text(f"{ratings.count()} of {ratings.count()} criteria rated")
    second_window = scorecard.context.new_page()
    second_window.goto(scorecard.url)
    scorecard.get_by_role("link", name="Submit…").click()
    scorecard.get_by_role("button", name="Submit and lock").click()
    expect(scorecard.get_by_text("It no longer changes.").first).to_be_visible()
    check_state(scorecard)
    first(second_window).get_by_role("radio").first.check()
    expect(state(first(second_window))).to_contain_text("Not saved: This scorecard is submitted")

    forgive(complaints, 423)

    scorecard.goto(scorecard.url.replace("/scorecard/", "/report/"))
    expect(scorecard.get_by_label("Recommendations")).to_contain_text("1 × No")
    check_state(scorecard)


def test_the_room_has_the_scorecard_of_its_question(room: Page) -> None:
    room.get_by_role("tab", name="Scorecard").click()
    rating = first(room)
    place = rating.get_attribute("id")
    rating.get_by_role("radio").nth(1).check()
    expect(state(rating)).to_contain_text("needs an evidence note")
    evidence(rating).fill("Seen in the room.")
    expect(state(rating)).not_to_contain_text("needs")
    expect(state(rating)).to_contain_text("Saved")
    assert_accessible(room)
    room.goto(room.url.replace("/room/", "/scorecard/"))
    expect(evidence(room.locator(f"#{place}"))).to_have_value("Seen in the room.")
