"""Every page but the room, the scorecard and the report: by eye of axe, at two widths, in both themes, and by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import NARROW, WIDE, Complaints, assert_accessible, sign_in
from tests.stacks import RunningStack

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

HIRING_ADMIN = "hana@example.org"
BEFORE_SIGN_IN = [
    "/accounts/login/",
    "/accounts/signup/",
    "/accounts/password/reset/",
    "/accounts/password/reset/done/",
    "/accounts/password/reset/key/1-nonsense/",
]
AFTER_SIGN_IN = [
    "/",
    "/interviews/",
    "/interviews/?show=live",
    "/interviews/?show=ended",
    "/interviews/?q=nobody+of+this+name",
    "/interviews/new/",
    "/questions/",
    "/questions/?kind=kernel",
    "/questions/?q=nothing+like+it",
    "/kits/",
    "/kits/new/",
    "/profile/",
    "/components/",
    "/accounts/password/change/",
    "/accounts/email/",
    "/accounts/logout/",
]
QUESTION_PARTS = ["prompt", "outline", "reference", "follow-ups", "rubric", "checks", "wrong-answers", "versions"]
#: Whether what has the focus shows it: an outline on itself, or on the pseudo-element that covers its row or card.
FOCUS_IS_VISIBLE = """() => {
    const element = document.activeElement;
    const outlines = [null, "::after"].map((part) => getComputedStyle(element, part));
    return outlines.some((style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1);
}"""

OpenPage = Callable[..., Page]


@pytest.fixture
def admin_page(stack: RunningStack, open_page: OpenPage) -> Page:
    page: Page = open_page()
    sign_in(page, stack, email=HIRING_ADMIN)
    return page


def arrange_interview(page: Page, candidate: str) -> None:
    """Leaves ``page`` at the new interview."""
    page.goto("/interviews/new/")
    page.get_by_label("Name", exact=True).fill(candidate)
    page.get_by_label("Kit").select_option(index=1)
    page.get_by_label("Date").fill((datetime.now(UTC) + timedelta(days=3)).date().isoformat())
    page.get_by_label("Time", exact=True).fill("14:30")
    page.get_by_label("Time zone").select_option("Asia/Tokyo")
    page.get_by_role("button", name="Arrange interview").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(candidate)


def look_at(page: Page, path: str) -> None:
    response = page.goto(path)
    assert response is not None
    assert response.status in (200, 404), path
    check_state(page, path)


def check_state(page: Page, what: str) -> None:
    """The page as it is now: axe has nothing to say, and nothing stands beside the screen."""
    assert_accessible(page)
    assert_fits(page, what)


def assert_fits(page: Page, what: str) -> None:
    beside = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert beside <= 0, f"{what} is {beside} px wider than the screen"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_every_page_is_accessible_and_fits(
    stack: RunningStack, open_page: OpenPage, complaints: Complaints, size: tuple[int, int], dark: bool
) -> None:
    page = open_page(size, dark=dark)
    for path in BEFORE_SIGN_IN:
        look_at(page, path)
    sign_in(page, stack, email=HIRING_ADMIN)
    for path in AFTER_SIGN_IN:
        look_at(page, path)

    page.goto("/questions/")
    questions = page.locator("main h2 a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert len(questions) >= 3
    for question in questions:
        page.goto(question)
        for part in QUESTION_PARTS:
            page.locator(f"#tab-{part}").click()
            assert_fits(page, f"{question}#{part}")
    # Their parts are built alike, so axe looks at those of one.
    for part in QUESTION_PARTS:
        page.locator(f"#tab-{part}").click()
        assert_accessible(page)

    page.goto("/kits/")
    kit = page.locator("main h2 a").first.get_attribute("href")
    look_at(page, f"{kit}")
    look_at(page, f"{kit}edit/")

    arrange_interview(page, "Priya Raghunathan-Featherstonehaugh")
    interview = page.url
    check_state(page, "a new interview")
    look_at(page, f"{interview}edit/")
    page.get_by_label("Time", exact=True).fill("")
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_text("At what time?")).to_be_visible()
    check_state(page, "a form with a mistake")
    # The browser tells its console of every answer that is an error, as the one to a mistaken form is.
    assert "status of 422" in complaints.found.pop()

    page.goto(interview)
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check_state(page, "an open dialog")
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Revoked", exact=True)).to_be_visible()
    check_state(page, "an interview whose link is revoked")
    page.locator("summary", has_text="Account of").click()
    check_state(page, "an open menu")


def test_the_menu_of_a_narrow_page_leads_everywhere(stack: RunningStack, open_page: OpenPage) -> None:
    page = open_page(NARROW)
    sign_in(page, stack, email=HIRING_ADMIN)
    for name in ("Interviews", "Questions", "Kits", "Home"):
        page.locator("summary").filter(has=page.get_by_label("Menu", exact=True)).click()
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator("summary").filter(has=page.get_by_label("Menu", exact=True))).to_be_visible()


@pytest.mark.parametrize("path", ["/", "/interviews/new/", "/questions/", "/kits/", "/profile/"])
def test_the_keyboard_reaches_everything_and_always_shows_where_it_is(admin_page: Page, path: str) -> None:
    admin_page.goto(path)
    admin_page.keyboard.press("Tab")
    expect(admin_page.get_by_role("link", name="Skip to content")).to_be_focused()
    wanted = admin_page.locator("main :is(a[href], button, input, select, textarea):visible").count()
    reached = 0
    for _ in range(wanted + 30):
        assert admin_page.evaluate(FOCUS_IS_VISIBLE), admin_page.evaluate("document.activeElement.outerHTML")
        reached += admin_page.evaluate("document.activeElement.closest('main') !== null")
        admin_page.keyboard.press("Tab")
        if admin_page.evaluate("document.activeElement === document.body"):
            break
    # Of a group of radio buttons one is a stop, and a date has a stop for each of its parts.
    radios = admin_page.locator("main input[type=radio]").count()
    assert reached >= wanted - radios


def test_the_skip_link_goes_past_the_navigation(admin_page: Page) -> None:
    admin_page.goto("/kits/")
    admin_page.keyboard.press("Tab")
    admin_page.keyboard.press("Enter")
    admin_page.keyboard.press("Tab")
    expect(admin_page.locator("main").get_by_role("link").first).to_be_focused()


def test_a_menu_opens_and_closes_by_keyboard(admin_page: Page) -> None:
    admin_page.goto("/")
    menu = admin_page.locator("summary", has_text="Account of")
    menu.focus()
    admin_page.keyboard.press("Enter")
    expect(admin_page.get_by_role("link", name="Profile")).to_be_visible()
    admin_page.keyboard.press("Tab")
    admin_page.keyboard.press("Escape")
    expect(admin_page.get_by_role("link", name="Profile")).to_be_hidden()
    expect(menu).to_be_focused()


def test_the_parts_of_a_question_are_turned_by_arrow_keys_and_kept_in_the_address(admin_page: Page) -> None:
    admin_page.goto("/questions/")
    admin_page.locator("main h2 a").first.click()
    admin_page.get_by_role("tab", name="Prompt").focus()
    admin_page.keyboard.press("ArrowLeft")
    expect(admin_page.get_by_role("tab", name="Versions")).to_be_focused()
    admin_page.keyboard.press("Home")
    admin_page.keyboard.press("ArrowRight")
    expect(admin_page.get_by_role("tabpanel", name="Outline")).to_be_visible()
    expect(admin_page.get_by_role("tabpanel")).to_have_count(1)
    assert admin_page.url.endswith("#outline")
    admin_page.reload()
    expect(admin_page.get_by_role("tabpanel", name="Outline")).to_be_visible()


def test_the_order_of_a_kit_is_changed_by_keyboard_without_losing_the_place(admin_page: Page) -> None:
    admin_page.goto("/kits/")
    admin_page.locator("main h2 a").first.click()
    admin_page.get_by_role("link", name="Edit").click()
    titles = admin_page.locator("#kit-questions .row__main .strong")
    before = titles.all_inner_texts()
    admin_page.get_by_role("button", name=f"Move {before[0]} down").focus()
    admin_page.keyboard.press("Enter")
    expect(titles.first).to_have_text(before[1])
    expect(admin_page.get_by_role("button", name=f"Move {before[0]} down")).to_be_focused()
    admin_page.get_by_role("button", name=f"Remove {before[0]}").press("Enter")
    expect(titles).to_have_count(len(before) - 1)
    admin_page.get_by_label("Question to add").select_option(label=before[0])
    admin_page.get_by_role("button", name="Add", exact=True).press("Enter")
    expect(titles).to_have_count(len(before))
    admin_page.get_by_label("Name").press("Enter")
    expect(admin_page.get_by_role("heading", level=1)).not_to_have_text("Edit kit")
    assert admin_page.locator("main .row__title").all_inner_texts() == [*before[1:], before[0]]


def test_lists_narrow_while_one_types_and_the_address_follows(admin_page: Page) -> None:
    arrange_interview(admin_page, "Ingrid Imaginary")
    admin_page.goto("/interviews/")
    admin_page.get_by_label("Search by candidate").press_sequentially("ingrid imag")
    expect(admin_page.locator("#results .row__title")).to_have_text(["Ingrid Imaginary"])
    assert admin_page.url.endswith("?show=upcoming&q=ingrid+imag") or "ingrid%20imag" in admin_page.url
    expect(admin_page.locator("#which")).to_contain_text("Upcoming 1")
    expect(admin_page.get_by_role("status").first).to_have_text("1 interview")
    admin_page.reload()
    expect(admin_page.locator("#results .row__title")).to_have_text(["Ingrid Imaginary"])

    admin_page.goto("/questions/")
    admin_page.get_by_label("Kind").select_option("kernel")
    expect(admin_page.locator("#found")).to_have_text("1 question")
    expect(admin_page.locator("#results h2")).to_have_count(1)
    admin_page.get_by_label("Search").fill("nothing like it")
    expect(admin_page.get_by_text("No question fits.")).to_be_visible()


def test_a_kit_is_arranged_without_scripts_too(stack: RunningStack, browser: Browser) -> None:
    context = browser.new_context(base_url=stack.base_url, java_script_enabled=False)
    try:
        page = context.new_page()
        sign_in(page, stack, email=HIRING_ADMIN)
        page.goto("/kits/new/")
        page.get_by_role("button", name="Add", exact=True).click()
        page.get_by_role("button", name="Add", exact=True).click()
        titles = page.locator("#kit-questions .row__main .strong").all_inner_texts()
        page.get_by_role("button", name=f"Move {titles[1]} up").click()
        page.get_by_label("Name").fill("Without scripts")
        page.get_by_role("button", name="Save kit").click()
        assert page.locator("main .row__title").all_inner_texts() == titles[::-1]
    finally:
        context.close()


def test_the_candidates_link_is_copied_and_replaced(admin_page: Page) -> None:
    arrange_interview(admin_page, "Copy Candidate")
    link = admin_page.get_by_label("The candidate’s link").input_value()
    admin_page.get_by_role("button", name="Copy").click()
    expect(admin_page.get_by_role("button", name="Copied")).to_be_visible()
    assert admin_page.evaluate("navigator.clipboard.readText()") == link

    opener = admin_page.get_by_role("button", name="New link")
    opener.press("Enter")
    expect(admin_page.get_by_role("dialog")).to_be_visible()
    admin_page.keyboard.press("Escape")
    expect(admin_page.get_by_role("dialog")).to_be_hidden()
    expect(opener).to_be_focused()
    opener.press("Enter")
    admin_page.get_by_role("dialog").get_by_role("button", name="New link").click()
    expect(admin_page.get_by_text("The candidate has a new link.")).to_be_visible()
    assert admin_page.get_by_label("The candidate’s link").input_value() != link


def test_the_chosen_colours_stay_and_come_with_the_page(admin_page: Page) -> None:
    admin_page.goto("/profile/")
    choice = admin_page.locator("main")
    choice.get_by_role("button", name="Dark").click()
    expect(choice.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    response = admin_page.goto("/")
    assert response is not None
    assert 'data-theme="dark"' in response.text()
    assert admin_page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    admin_page.goto("/profile/")
    choice.get_by_role("button", name="As the system").click()
    admin_page.reload()
    assert admin_page.locator("html").get_attribute("data-theme") is None


def test_times_are_the_readers_from_the_first_page_on(stack: RunningStack, browser: Browser, admin_page: Page) -> None:
    arrange_interview(admin_page, "Zoë Zone")
    context = browser.new_context(base_url=stack.base_url, timezone_id="Asia/Dubai")
    try:
        page = context.new_page()
        sign_in(page, stack, email=HIRING_ADMIN)
        page.goto(admin_page.url)
        times = page.locator("section", has=page.get_by_role("heading", name="Time"))
        expect(times).to_contain_text("14:30 JST")
        expect(times).to_contain_text("09:30")
        assert page.locator("html").get_attribute("data-time-zone") == "Asia/Dubai"
    finally:
        context.close()
