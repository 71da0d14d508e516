"""Nobody receives what is not theirs: every address, every answer of the API, every stream and every frame, as every role.

What is private is marked. The kit's outline, reference, follow-ups, rubric and hidden checks say ``PRIVATE`` (see
``conftest.kit``); notes, scorecards, hidden outputs and the code of each interview say ``CONFIDENTIAL``; and each candidate
has a word of their own. The walk must be able to fail: an interviewer finds the marks at the very places where nobody else
may.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
import redis
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import transaction
from django.test import Client
from django.utils import timezone

from gpu_runner.protocol import (
    CheckDone,
    CheckResult,
    CheckStarted,
    CheckStatus,
    Mode,
    Outcome,
    Output,
    RunEvent,
    RunResult,
    Started,
    Stream,
    stream_key,
)
from grading import runs as grading_runs
from grading import scoring
from grading.models import Rating, Run, Scorecard
from grading.scoring import RatingDraft, SummaryDraft
from interviews import links, rooms
from interviews.access import Participant, Role
from interviews.models import (
    Candidate,
    CandidateSession,
    Interview,
    InterviewQuestion,
    Kit,
    PanelMember,
    QuestionVersion,
    User,
)
from interviews.room_frames import SyncType, sync_frame
from tests.grading import acts
from tests.interviews.room_page import Page, candidate_page, interviewer_page
from tests.url_walk import Answer, addresses, walk

# An event stream gives its connection back between two looks, which no test's own transaction survives.
pytestmark = pytest.mark.django_db(transaction=True)

PRIVATE = "PRIVATE"
CONFIDENTIAL = "CONFIDENTIAL"
#: Of each candidate: in their name and in their code.
CLEO = "CLEOS-OWN"
OTTO = "OTTOS-OWN"


@dataclass(frozen=True, slots=True)
class Conducted:
    """An interview that has been through everything, and its candidate's browser."""

    interview: Interview
    session: CandidateSession
    cookie: str
    runs: Sequence[Run]
    word: str

    def browser(self) -> Client:
        client = Client()
        client.cookies[links.cookie_name(self.interview)] = self.cookie
        return client


def conduct(interview: Interview, panel: Sequence[User], word: str) -> Conducted:
    """One question asked and one not; runs of both modes, notes, one scorecard submitted and one begun."""
    Candidate.objects.filter(pk=interview.candidate_id).update(name=f"{word} name", email=f"{word}@example.org")
    interview.refresh_from_db()
    session, cookie = links.open_session(interview)
    host = acts.seated(interview, panel[0])
    rooms.note_waiting(Participant(interview=interview, role=Role.CANDIDATE, session=session))
    rooms.admit(interview, session.pk, by=host)
    session.refresh_from_db()
    interview = acts.begin(interview, panel[0], positions=(1,))
    candidate = Participant(interview=interview, role=Role.CANDIDATE, session=session)
    note = acts.write_note(interview, panel[0], f"{CONFIDENTIAL} note")
    runs = []
    for mode in (Mode.PROGRAM, Mode.CHECKS):
        run = acts.finished_run(
            interview,
            panel[0],
            mode=mode,
            text=f"# {word} code",
            message=f"{CONFIDENTIAL} large failed" if mode is Mode.CHECKS else "",
            diagnosis={"sentence": CONFIDENTIAL} if mode is Mode.CHECKS else None,
        )
        run.checks.filter(hidden=True).update(output=f"{CONFIDENTIAL} {PRIVATE}", detail=f"{CONFIDENTIAL} {PRIVATE}")
        run.checks.filter(hidden=False).update(detail=f"{CONFIDENTIAL} {PRIVATE} expected 3", output=f"{word} output")
        card = {**acts.CARD, "host": f"{CONFIDENTIAL} host"}
        exits = [{"rank": 0, "exit_code": 0, "signal": None, "stderr_tail": "", "cut": False}]
        tail = CONFIDENTIAL if mode is Mode.CHECKS else f"{word} output"
        Run.objects.filter(pk=run.pk).update(
            requested_by_user=None,
            requested_by_candidate=candidate.session,
            card=card,
            host=f"{CONFIDENTIAL} host",
            rank_exits=[{**row, "stdout_tail": tail} for row in exits],
        )
        runs.append(run)
    stream(runs[1], word)
    question = interview.questions.get(position=1)
    draft = RatingDraft(level=2, evidence=f"{CONFIDENTIAL} evidence", cites=(note.sequence,))
    for author in panel:
        scoring.save_rating(interview, author, question, acts.criterion_of(question), draft, version="")
        summary = SummaryDraft(recommendation="no", summary=f"{CONFIDENTIAL} summary")
        scoring.save_summary(interview, author, summary, version="")
    scoring.submit(interview, panel[0])
    return Conducted(interview, session, cookie, runs, word)


def stream(run: Run, word: str) -> None:
    """What the host said live of a run of the checks."""
    run_id = str(run.public_id)
    hidden = CheckResult(
        name="large",
        hidden=True,
        status=CheckStatus.FAILED,
        title=f"{PRIVATE} large numbers",
        message=CONFIDENTIAL,
        detail=CONFIDENTIAL,
        output=CONFIDENTIAL,
    )
    visible = CheckResult(
        name="small",
        hidden=False,
        status=CheckStatus.PASSED,
        title="Small numbers",
        detail=f"{CONFIDENTIAL} expected 3",
    )
    events: list[RunEvent] = [
        Started(run_id=run_id, host=f"{CONFIDENTIAL} host", slot=f"{CONFIDENTIAL} slot", ranks=1),
        CheckStarted(run_id=run_id, name="small", hidden=False),
        Output(run_id=run_id, rank=0, stream=Stream.STDOUT, text=f"{word} output", check="small"),
        CheckDone(run_id=run_id, check=visible),
        CheckStarted(run_id=run_id, name="large", hidden=True),
        Output(run_id=run_id, rank=0, stream=Stream.STDOUT, text=f"{CONFIDENTIAL} input", check="large", hidden=True),
        # A host gone wrong, which forgets to say that the check is hidden.
        Output(run_id=run_id, rank=0, stream=Stream.STDOUT, text=f"{CONFIDENTIAL} input", check="large"),
        CheckDone(run_id=run_id, check=hidden),
    ]
    client = redis.Redis.from_url(settings.REDIS_URL)
    for event in events:
        client.xadd(stream_key(run_id), {"event": event.to_json()})
    client.close()


@pytest.fixture
def mine(interview: Interview, interviewer: User, colleague: User) -> Conducted:
    # Who has not come to a question knows nothing of it, not even what it asks.
    unasked = QuestionVersion.objects.filter(question__slug="sharding")
    unasked.update(title=f"{PRIVATE} title", prompt=f"{PRIVATE} prompt", starter=f"# {PRIVATE} starter")
    return conduct(interview, [interviewer, colleague], CLEO)


@pytest.fixture
def theirs(mine: Conducted, kit: Kit, make_user: Callable[..., User]) -> Conducted:
    """Another interview, with other people and the same questions."""
    lead = make_user("Lea Lead")
    interview = Interview(
        candidate=Candidate.objects.create(name="Otto"), kit=kit, starts_at=timezone.now(), created_by=lead
    )
    links.issue(interview)
    interview.save()
    PanelMember.objects.create(interview=interview, user=lead, lead=True)
    for entry in kit.entries.all():
        InterviewQuestion.objects.create(interview=interview, position=entry.position, version=entry.question.latest)
    return conduct(interview, [lead], OTTO)


def values(*conducted: Conducted, link: str = "forged") -> dict[str, list[str]]:
    """What the parameters of addresses stand for. A link's token is a key, so only its holder's walk has it."""
    first = conducted[0].interview
    interviews = [str(each.interview.public_id) for each in conducted]
    question = first.questions.get(position=1)
    return {
        "public_id": interviews,
        "interview_id": interviews,
        "run_id": [str(run.public_id) for each in conducted for run in each.runs],
        "token": [link],
        "position": ["1", "2"],
        "criterion_id": [str(acts.criterion_of(question).pk)],
        "slug": ["adding", "sharding"],
        "pk": [str(first.kit_id)],
        # Of the administration and the accounts.
        "object_id": [str(first.pk)],
        "app_label": ["interviews", "grading"],
        "content_type_id": ["1"],
        "id": [str(first.candidate_id)],
        "url": ["interviews/interview/"],
        "key": ["1-forged"],
        "uidb36": ["1"],
        "path": ["anything"],
    }


def found(answers: Collection[Answer], marks: Collection[str]) -> dict[str, set[str]]:
    """Which marks came back, by the request that they answered."""
    places: dict[str, set[str]] = {}
    for answer in answers:
        seen = {mark for mark in marks if mark in answer.text}
        if seen:
            places[f"{answer.name}: {answer.request}"] = seen
    return places


def test_the_walk_finds_the_marks_where_an_interviewer_reads_them(mine: Conducted, interviewer: User) -> None:
    """Were it blind, this would fail."""
    client = Client()
    client.force_login(interviewer)
    answers = list(walk(client, values(mine)))
    seen: dict[str, set[str]] = {}
    for answer in answers:
        for mark in (PRIVATE, CONFIDENTIAL, CLEO):
            if mark in answer.text:
                seen.setdefault(mark, set()).add(answer.name)
    assert {"interviews:question", "grading:scorecard", "grading:scorecard_panel", "grading:report"} <= seen[PRIVATE]
    assert {"grading:scorecard", "grading:report", "grading:citable", "grading:run_events"} <= seen[CONFIDENTIAL]
    assert {"run_api:get_run", "run_api:list_runs"} <= seen[CONFIDENTIAL]
    assert {"interviews:interview", "interviews:interviews", "interviews:room", "grading:report"} <= seen[CLEO]


def test_the_walk_visits_every_address(mine: Conducted) -> None:
    known = values(mine)
    visited = {address.name for address in addresses() if list(address.urls(known))}
    assert len(visited) > 60
    assert {"interviews:join", "interviews:candidate_room", "grading:report", "run_api:start", "healthz"} <= visited


@pytest.mark.parametrize("stage", ["lobby", "admitted", "ended", "removed", "link revoked"])
def test_a_candidate_receives_nothing_private(
    stage: str, mine: Conducted, theirs: Conducted, interviewer: User
) -> None:
    session = CandidateSession.objects.filter(pk=mine.session.pk)
    host = acts.seated(mine.interview, interviewer)
    if stage == "lobby":
        session.update(admitted_at=None)
    elif stage == "ended":
        rooms.end_interview(mine.interview, by=host)
    elif stage == "removed":
        rooms.remove(mine.interview, mine.session.pk, by=host)
    elif stage == "link revoked":
        Interview.objects.filter(pk=mine.interview.pk).update(link_revoked_at=timezone.now())
    answers = list(walk(mine.browser(), values(mine, theirs)))
    assert found(answers, {PRIVATE, CONFIDENTIAL, OTTO}) == {}
    # Somebody who may be in the room sees their own run, so that the walk did arrive there.
    in_room = stage in ("admitted", "ended")
    assert any(answer.name == "run_api:get_run" and answer.status == 200 for answer in answers) is in_room
    assert any(answer.name == "grading:run_events" and CLEO in answer.text for answer in answers) is in_room


def test_a_candidates_link_opens_the_lobby_and_nothing_more(mine: Conducted, theirs: Conducted) -> None:
    """A forwarded link: whoever follows it waits in the lobby, and learns the candidate's name at most."""
    client = Client()
    token = links.candidate_url(mine.interview).rstrip("/").rpartition("/")[2]
    assert client.get(f"/j/{token}/").status_code == 302
    answers = list(walk(client, values(mine, theirs, link=token)))
    assert found(answers, {PRIVATE, CONFIDENTIAL, OTTO, f"{CLEO} code", f"{CLEO} output"}) == {}
    assert any(answer.name == "interviews:candidate_room" and answer.status == 200 for answer in answers)


def test_the_candidate_of_another_interview_receives_nothing_of_this_one(mine: Conducted, theirs: Conducted) -> None:
    answers = list(walk(theirs.browser(), values(mine, theirs)))
    assert found(answers, {PRIVATE, CONFIDENTIAL, CLEO}) == {}


def test_nobody_signed_in_receives_nothing(mine: Conducted, theirs: Conducted) -> None:
    client = Client()
    for cookie in (None, "forged"):
        if cookie:
            client.cookies[links.cookie_name(mine.interview)] = cookie
        answers = list(walk(client, values(mine, theirs)))
        assert found(answers, {PRIVATE, CONFIDENTIAL, CLEO, OTTO}) == {}


def test_an_interviewer_of_other_interviews_receives_nothing_of_this_one(
    mine: Conducted, theirs: Conducted, stranger: User
) -> None:
    """The bank is open to them, the interviews are not."""
    client = Client()
    client.force_login(stranger)
    answers = list(walk(client, values(mine, theirs)))
    assert found(answers, {CONFIDENTIAL, CLEO, OTTO}) == {}
    assert PRIVATE in "".join(answer.text for answer in answers if answer.name == "interviews:question")


def test_somebody_without_a_role_receives_nothing(mine: Conducted, theirs: Conducted, stranger: User) -> None:
    stranger.groups.clear()
    client = Client()
    client.force_login(stranger)
    answers = list(walk(client, values(mine, theirs)))
    assert found(answers, {PRIVATE, CONFIDENTIAL, CLEO, OTTO}) == {}


@pytest.mark.parametrize("is_superuser", [False, True])
def test_a_member_of_the_panel_receives_no_others_scorecard_before_their_own(
    is_superuser: bool, mine: Conducted, colleague: User
) -> None:
    """The note is the panel's; the evidence and the summary are their author's until everybody has said theirs."""
    Rating.objects.filter(scorecard__author=colleague).update(evidence="Mine.")
    # The walk presses the button that submits, too: without a recommendation it cannot.
    Scorecard.objects.filter(author=colleague).update(summary="Mine.", recommendation="")
    colleague.is_staff = colleague.is_superuser = is_superuser
    colleague.save()
    client = Client()
    client.force_login(colleague)
    answers = list(walk(client, values(mine)))
    assert found(answers, {f"{CONFIDENTIAL} evidence", f"{CONFIDENTIAL} summary"}) == {}
    assert found(answers, {f"{CONFIDENTIAL} note"})


# The room's WebSocket -----------------------------------------------------------------------------------------------


def received(page: Page) -> str:
    """Everything that came over the socket, binary frames too."""
    binary = [frame.payload.decode(errors="ignore") for frame in page.binary_frames]
    return "\n".join([*map(str, page.json_frames), *binary])


async def hear_everything(page: Page) -> None:
    """What other connections caused may come a moment later; the room looks again by itself after three seconds."""
    await page.settle()
    while not page.communicator.output_queue.empty():
        await page.take_one()


async def test_a_candidates_socket_carries_nothing_private(
    interview: Interview, interviewer: User, colleague: User
) -> None:
    """A whole interview: the lobby, two questions, notes, runs with hidden checks, scorecards, the end."""
    await database_sync_to_async(QuestionVersion.objects.filter(question__slug="sharding").update)(
        title=f"{PRIVATE} title", prompt=f"{PRIVATE} prompt", starter=f"# {PRIVATE} starter"
    )
    host = await interviewer_page(interview, interviewer).open()
    await host.frame("hello")
    guest, session = await candidate_page(interview)
    await guest.open()
    await guest.frame("lobby")
    for position in (1, 2):
        await guest.send_bytes(sync_frame(position, 0, SyncType.STEP_1, b"\x00"))
    await host.say(type="note", id=str(uuid.uuid4()), text=f"{CONFIDENTIAL} before anybody came", position=1)
    await host.frame("note_saved")
    await host.say(type="admit", session=session.pk)
    await guest.frame("hello")
    await guest.open_document()
    await host.open_document()
    await guest.send_bytes(sync_frame(2, 0, SyncType.STEP_1, b"\x00"))
    await guest.type(f"# {CLEO} code\n")
    await host.say(type="note", id=str(uuid.uuid4()), text=f"{CONFIDENTIAL} note", position=1)
    await host.frame("note")

    await database_sync_to_async(_run_and_score)(interview, [interviewer, colleague])

    await host.until(lambda: "scorecard" in host.kinds())
    await guest.until(lambda: "run" in guest.kinds())
    await host.say(type="end")
    await guest.until(lambda: any(f["type"] == "state" and f["state"]["read_only"] for f in guest.json_frames))
    for page in (host, guest):
        await hear_everything(page)
    heard = received(guest)
    assert CLEO in received(host)
    assert PRIVATE in received(host)
    assert CONFIDENTIAL in received(host)
    assert PRIVATE not in heard
    assert CONFIDENTIAL not in heard
    assert "scorecard" not in guest.kinds()
    await host.leave()
    await guest.leave()


def _run_and_score(interview: Interview, panel: Sequence[User]) -> None:
    interview = Interview.objects.with_people().get(pk=interview.pk)
    question = interview.questions.select_related("version", "interview").get(position=1)
    with transaction.atomic():
        run = grading_runs.start_run(
            acts.seated(interview, panel[0]), question, mode=Mode.CHECKS, ranks=1, text=f"# {CONFIDENTIAL}"
        )
    failed = CheckResult(
        name="large", hidden=True, status=CheckStatus.FAILED, detail=CONFIDENTIAL, message=CONFIDENTIAL
    )
    result = RunResult(
        run_id=str(run.public_id),
        attempt=run.attempt,
        token=run.token,
        outcome=Outcome.EXITED,
        message=f"{CONFIDENTIAL} message",
        checks=(failed,),
    )
    grading_runs.record_result(result.to_wire())
    assert Run.objects.get(pk=run.pk).is_finished
    for author in panel:
        acts.submit(interview, author, evidence=f"{CONFIDENTIAL} evidence", recommendation="no")


async def test_a_socket_in_the_lobby_and_one_of_another_interview_carry_nothing(
    interview: Interview, interviewer: User, kit: Kit
) -> None:
    host = await interviewer_page(interview, interviewer).open()
    await host.frame("hello")
    waiting, _ = await candidate_page(interview)
    await waiting.open()
    await waiting.frame("lobby")
    other = await database_sync_to_async(_another_interview)(kit, interviewer)
    _, cookie = await database_sync_to_async(links.open_session)(other)
    # The cookie of one interview, sent to the room of another.
    intruder = Page(interview, cookie=cookie)
    await intruder.open()
    await intruder.until(lambda: intruder.close_code is not None)

    await host.say(type="note", id=str(uuid.uuid4()), text=f"{CONFIDENTIAL} note", position=1)
    await host.frame("note_saved")
    await host.say(type="open_question", position=1)
    await host.open_document()
    await host.type(f"# {CONFIDENTIAL} code\n")
    await host.saved(1)
    await hear_everything(waiting)
    assert intruder.json_frames == []
    assert intruder.binary_frames == []
    assert PRIVATE not in received(waiting)
    assert CONFIDENTIAL not in received(waiting)
    assert {frame["type"] for frame in waiting.json_frames} <= {"lobby", "pong"}
    await host.leave()
    await waiting.leave()


def _another_interview(kit: Kit, lead: User) -> Interview:
    interview = Interview(
        candidate=Candidate.objects.create(name=OTTO),
        kit=kit,
        starts_at=timezone.now() + timedelta(hours=1),
        created_by=lead,
    )
    links.issue(interview)
    interview.save()
    return interview
