"""One interview from its arrangement to its report, by two people in two browsers, with code that really runs."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import assert_accessible, sign_in
from tests.browser.wiretap import Wiretap, encodings
from tests.stacks import ROOT, RunningStack

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

BANK = ROOT / "interviews" / "bank"
QUESTION = BANK / "ring-reduce-scatter"
#: Passes what the candidate may see and fails what only the interviewer sees.
SUBTLY_WRONG = (QUESTION / "wrong" / "chunk_function.py").read_text()
#: Where pictures of the room and the report go, for the documentation; none are taken without it.
PICTURES = os.environ.get("RENDEZVOUS_SCREENSHOTS")
LARGE = (1440, 900)
NOTE = "Counts the sends aloud before writing the loop."
KIT_NAME = "AI infrastructure, first round"
RUN_LIMIT_MS = 30_000
#: A private line shorter than this is too common to be proof of anything.
SHORTEST_SECRET = 24

COUNTS_DOWN = """\
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range({steps}):
    print(f"rank {{rank}} of {{dist.get_world_size()}}: step {{step}}", flush=True)
    time.sleep(0.1)
total = torch.full((4,), float(rank))
dist.all_reduce(total)
print("sum", total.tolist())
"""


#: At one moment: the run goes on, can be stopped, and each of four ranks has printed something already.
STREAMING = """() => {
    const ranks = [...document.querySelectorAll(".rank")];
    const printed = ranks.map((rank, at) => rank.textContent.includes(`rank ${at} of 4: step 3`));
    const running = document.querySelector("[data-console=state]").textContent.includes("Running");
    const stoppable = !document.querySelector("[data-part=stop]").hidden;
    return running && stoppable && printed.length === 4 && printed.every(Boolean);
}"""


class Person:
    """One of the two, and what they look at in the room."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.editor = page.locator(".cm-content")
        self.run = page.get_by_role("button", name="Run", exact=True)
        self.check = page.get_by_role("button", name="Check", exact=True)
        self.stop = page.get_by_role("button", name="Stop", exact=True)
        self.state = page.locator("[data-console=state]")
        self.run_shown = page.locator("[data-part=runs-title]")
        self.sync = page.locator("[data-bar=sync]")

    def rank(self, rank: int) -> Locator:
        return self.page.get_by_role("log", name=f"Output of rank {rank}")

    def text(self) -> str:
        """The document: all of it copied, since the lines on the page hold the others' cursors and names too."""
        self.editor.click()
        self.page.keyboard.press("Control+a")
        copied: str = self.editor.evaluate(
            """(element) => {
                const data = new DataTransfer();
                element.dispatchEvent(new ClipboardEvent("copy", {clipboardData: data, bubbles: true, cancelable: true}));
                return data.getData("text/plain");
            }"""
        )
        return copied

    def paste(self, text: str) -> None:
        """Puts the text in the place of all that is in the editor, at once as from the clipboard."""
        self.editor.click()
        self.page.keyboard.press("Control+a")
        self.editor.evaluate(
            """(element, text) => {
                const data = new DataTransfer();
                data.setData("text/plain", text);
                element.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
            }""",
            text,
        )


def test_one_interview_end_to_end(stack: RunningStack, open_page: Callable[..., Page]) -> None:
    interviewer = Person(open_page(LARGE))
    candidate = Person(open_page())
    tap = Wiretap(candidate.page)

    link = arrange(interviewer.page, stack)
    let_in(interviewer.page, candidate.page, link)
    open_question(interviewer.page, candidate.page)
    take_note(interviewer.page)
    type_at_once(interviewer, candidate)
    run_on_four_ranks(interviewer, candidate)
    picture_of_the_room(interviewer)
    reload_and_stop(interviewer, candidate, tap)
    check_with_a_hidden_failure(interviewer, candidate)
    assert_accessible(interviewer.page)
    assert_accessible(candidate.page)
    end(interviewer.page, candidate)
    score(interviewer.page)
    read_report(interviewer.page)

    # The tap hears what is public, in every kind of message, and so would have heard the rest.
    assert tap.leaks({title_of_question()})
    assert tap.kinds() == {"document", "fetch", "stream", "frame"}
    assert tap.leaks(secrets()) == []


def arrange(page: Page, stack: RunningStack) -> str:
    """Makes an interview and copies the candidate's link."""
    sign_in(page, stack)
    page.goto("/interviews/new/")
    page.get_by_label("Name", exact=True).fill("Nia Okonkwo")
    page.get_by_label("Kit").select_option(label=KIT_NAME)
    page.get_by_role("button", name="Arrange interview").click()
    expect(page.get_by_role("heading", name="Nia Okonkwo")).to_be_visible()
    page.get_by_role("button", name="Copy", exact=True).click()
    link: str = page.get_by_label("The candidate’s link").input_value()
    assert page.evaluate("navigator.clipboard.readText()") == link
    return link


def let_in(page: Page, candidate_page: Page, link: str) -> None:
    """The candidate waits in the lobby until the interviewer, in the room, lets them in."""
    candidate_page.goto(link)
    expect(candidate_page.get_by_role("heading", name="Hello, Nia Okonkwo")).to_be_visible()
    expect(candidate_page.get_by_role("status").first).to_contain_text("let you in")

    page.get_by_role("link", name="Open room").click()
    lobby = page.get_by_role("region", name="Waiting in the lobby")
    expect(lobby).to_contain_text("Nia Okonkwo is waiting")
    expect(candidate_page.locator("#room")).to_have_attribute("data-stage", "lobby")
    lobby.get_by_role("button", name="Let in").click()

    expect(candidate_page.locator("#room")).to_have_attribute("data-stage", "room")
    expect(lobby).to_be_empty()


def open_question(page: Page, candidate_page: Page) -> None:
    """Opening a question takes both to it; only the interviewer sees its private side."""
    page.locator("[data-bar=question]").click()
    page.get_by_role("button", name=title_of_question()).click()
    for side in (page, candidate_page):
        expect(side.locator("#prompt-title")).to_have_text(title_of_question())
        expect(side.locator(".cm-content")).to_contain_text("def ")
    expect(page.get_by_role("complementary", name="Private side")).to_be_visible()
    expect(candidate_page.get_by_role("complementary", name="Private side")).to_have_count(0)


def take_note(page: Page) -> None:
    page.get_by_role("tab", name="Notes").click()
    page.get_by_label("New note").fill(NOTE)
    page.get_by_role("button", name="Add note").click()
    expect(page.locator("[data-notes=list]")).to_contain_text(NOTE)


def type_at_once(interviewer: Person, candidate: Person) -> None:
    """Both write, one at the start and one at the end, key by key in turns; both end with the same text and nothing lost."""
    above, below = "# the interviewer writes up here", "# while the candidate writes down here"
    interviewer.editor.click()
    interviewer.page.keyboard.press("Control+Home")
    interviewer.page.keyboard.press("Enter")
    interviewer.page.keyboard.press("ArrowUp")
    candidate.editor.click()
    candidate.page.keyboard.press("Control+End")
    for at in range(max(len(above), len(below))):
        interviewer.page.keyboard.type(above[at : at + 1])
        candidate.page.keyboard.type(below[at : at + 1])

    for person in (interviewer, candidate):
        expect(person.editor).to_contain_text(above)
        expect(person.editor).to_contain_text(below)
        expect(person.sync).to_have_attribute("data-sync", "synced")
    starter = (QUESTION / "starter.py").read_text()
    assert interviewer.text() == candidate.text() == f"{above}\n{starter}{below}"


def run_on_four_ranks(interviewer: Person, candidate: Person) -> None:
    """The candidate runs; both watch four columns fill while the program goes on, and see it end."""
    candidate.paste(COUNTS_DOWN.format(steps=80))
    expect(interviewer.editor).to_contain_text("all_reduce")
    candidate.page.get_by_label("Number of ranks").select_option("4")
    candidate.run.click()

    for person in (candidate, interviewer):
        person.page.wait_for_function(STREAMING, timeout=RUN_LIMIT_MS)
    for person in (candidate, interviewer):
        for rank in range(4):
            expect(person.rank(rank)).to_contain_text("sum [6.0, 6.0, 6.0, 6.0]", timeout=RUN_LIMIT_MS)
        expect(person.state).to_contain_text("Finished")
        expect(person.page.get_by_text("exit 0")).to_have_count(4)
        expect(person.stop).to_be_hidden()


def reload_and_stop(interviewer: Person, candidate: Person, tap: Wiretap) -> None:
    """A reload in mid-run shows the same run from its start, and Stop ends it for both."""
    candidate.paste(COUNTS_DOWN.format(steps=300))
    candidate.run.click()
    expect(candidate.run_shown).to_have_text("Run 2")
    expect(candidate.rank(2)).to_contain_text("step 5", timeout=RUN_LIMIT_MS)
    tap.drain()

    candidate.page.reload()

    expect(candidate.run_shown).to_have_text("Run 2")
    expect(candidate.rank(2)).to_contain_text("step 0\n")
    expect(candidate.rank(2)).to_contain_text("step 15", timeout=RUN_LIMIT_MS)
    expect(candidate.editor).to_contain_text("range(300)")
    candidate.stop.click()
    for person in (candidate, interviewer):
        expect(person.state).to_contain_text("Stopped", timeout=3_000)
        expect(person.run).to_be_enabled()


def check_with_a_hidden_failure(interviewer: Person, candidate: Person) -> None:
    """The same run of the checks: all well for the candidate, a failure of a hidden one for the interviewer."""
    visible, hidden = checks_of_question()
    candidate.paste(SUBTLY_WRONG)
    candidate.check.click()

    for person in (candidate, interviewer):
        expect(person.state).to_contain_text(f"{len(visible)} of {len(visible)} visible checks passed", timeout=90_000)
    for title in visible:
        expect(row(candidate, title)).to_have_attribute("data-status", "passed")
    expect(candidate.page.locator(".check")).to_have_count(len(visible))
    expect(interviewer.page.locator("[data-console=checks] .check")).to_have_count(len(visible) + len(hidden))
    expect(row(interviewer, hidden["uneven_chunks"])).to_have_attribute("data-status", "failed")
    expect(interviewer.state).to_contain_text("hidden: ")
    expect(candidate.state).not_to_contain_text("hidden")


def end(page: Page, candidate: Person) -> None:
    page.get_by_label("More").first.click()
    page.get_by_role("button", name="End the interview").first.click()
    page.locator("#end-dialog").get_by_role("button", name="End the interview").click()
    expect(candidate.page.get_by_text("read-only")).to_be_visible()
    expect(candidate.run).to_be_disabled()
    expect(candidate.editor).to_contain_text(SUBTLY_WRONG.splitlines()[-1].strip())


def score(page: Page) -> None:
    """Every criterion of the question that was asked, a recommendation, and then it is locked."""
    page.goto(page.url.replace("/room/", "/scorecard/"))
    for form in page.locator("form[data-autosave=rating]:not(:has(fieldset:disabled))").all():
        form.locator("input[name=level][value='3']").check(force=True)
        form.get_by_label("Evidence", exact=True).fill("Run 1, and what was said beside it.")
        expect(form.locator("[data-state]")).to_contain_text("Saved")
    page.get_by_role("radio", name="Yes", exact=True).check(force=True)
    page.get_by_label("Summary").fill("Knows the ring; forgot lengths that the ranks do not divide.")
    expect(page.locator("#recommendation [data-state]")).to_contain_text("Saved")
    page.get_by_role("link", name="Submit…").click()
    page.get_by_role("button", name="Submit and lock").click()
    expect(page.get_by_text("Submitted").first).to_be_visible()
    expect(page.locator("form[data-autosave]")).to_have_count(0)


def read_report(page: Page) -> None:
    page.goto(page.url.partition("/scorecard/")[0] + "/report/")
    expect(page.get_by_role("heading", name="Nia Okonkwo")).to_be_visible()
    expect(page.get_by_label("Recommendations")).to_contain_text("1 × Yes")
    question = page.get_by_role("region", name=title_of_question())
    expect(question).to_contain_text("Final code")
    expect(question).to_contain_text(SUBTLY_WRONG.splitlines()[-1].strip())
    expect(question.locator("tr[id^=run-]")).to_have_count(3)
    expect(question).to_contain_text("Stopped")
    expect(question).to_contain_text(checks_of_question()[1]["uneven_chunks"])
    expect(question).to_contain_text("Run 1, and what was said beside it.")
    assert_accessible(page)
    picture(page, "report")


def row(person: Person, title: str) -> Locator:
    return person.page.locator("[data-console=checks] .check").filter(has_text=title)


def question_table() -> dict[str, Any]:
    return tomllib.loads((QUESTION / "question.toml").read_text())


def title_of_question() -> str:
    return str(question_table()["title"])


def checks_of_question() -> tuple[list[str], dict[str, str]]:
    """The titles of the visible checks, and name and title of the hidden ones."""
    checks = question_table()["checks"]
    return (
        [check["title"] for check in checks if not check["hidden"]],
        {check["name"]: check["title"] for check in checks if check["hidden"]},
    )


def secrets() -> set[str]:
    """Every private line of the kit's questions that no public text has, in each shape in which it could be sent."""
    public = COUNTS_DOWN + SUBTLY_WRONG
    lines = {NOTE}
    for folder in (path for path in BANK.iterdir() if (path / "question.toml").exists()):
        public += (folder / "prompt.md").read_text() + (folder / "starter.py").read_text()
        for name in ("outline.md", "follow_ups.md", "rubric.toml", "reference.py", "checks.py"):
            lines |= {line.strip() for line in (folder / name).read_text().splitlines()}
        for check in tomllib.loads((folder / "question.toml").read_text())["checks"]:
            if check["hidden"]:
                lines |= {check["title"], check["name"]}
    private = {line for line in lines if len(line) >= SHORTEST_SECRET and line not in public}
    assert len(private) > 100, "the bank has more to hide than that"
    return {shape for line in private for shape in encodings(line)}


def picture_of_the_room(interviewer: Person) -> None:
    interviewer.page.get_by_role("tab", name="Outline").click()
    # The cursor last stood at the end of a long line.
    interviewer.editor.click()
    interviewer.page.keyboard.press("Control+Home")
    picture(interviewer.page, "room")


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"{name}.png")
