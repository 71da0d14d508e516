"""The room's WebSocket with real connections to a real Redis and database."""

from __future__ import annotations

from uuid import uuid4

import pytest
from channels.db import database_sync_to_async
from pycrdt import Doc, Encoder, Text

from interviews import documents, links, rooms
from interviews.access import Participant, Role
from interviews.models import (
    CandidateSession,
    DocumentSnapshot,
    EntryKind,
    Interview,
    InterviewQuestion,
    InterviewStatus,
    TimelineEntry,
    User,
)
from interviews.room_frames import Kind, SyncType, awareness_frame, sync_frame
from tests.interviews.room_page import Page, both_in_room, candidate_page, interviewer_page

pytestmark = pytest.mark.django_db(transaction=True)

STARTER = "def adding(a, b):\n    return 0\n"


@database_sync_to_async
def edits(interview: Interview, position: int = 1) -> list[TimelineEntry]:
    return list(
        TimelineEntry.objects.filter(
            interview=interview, kind=EntryKind.EDIT, question__position=position
        ).select_related("user", "candidate_session")
    )


@database_sync_to_async
def fresh(interview: Interview) -> Interview:
    return Interview.objects.get(pk=interview.pk)


@database_sync_to_async
def stored_text(interview: Interview, position: int = 1) -> str:
    return documents.text_at(InterviewQuestion.objects.get(interview=interview, position=position))


# Who is let in ------------------------------------------------------------------------------------------------------


async def test_a_stranger_is_closed_out(interview: Interview, stranger: User) -> None:
    for page in (Page(interview, user=stranger), Page(interview), Page(interview, cookie="forged")):
        await page.open()
        await page.until(lambda page=page: page.close_code is not None)
        assert page.close_code == 4404
        assert page.json_frames == []


async def test_an_interviewer_gets_the_private_side(interview: Interview, interviewer: User) -> None:
    page = await interviewer_page(interview, interviewer).open()
    hello = await page.frame("hello")
    assert hello["you"]["role"] == "interviewer"
    assert [question["position"] for question in hello["state"]["questions"]] == [1, 2]
    assert "PRIVATE outline of adding" in hello["state"]["questions"][0]["private"]["outline_html"]
    await page.leave()


async def test_the_lobby_learns_nothing_until_admitted_and_then_everything(
    interview: Interview, interviewer: User
) -> None:
    host = await interviewer_page(interview, interviewer).open()
    guest, session = await candidate_page(interview)
    await guest.open()
    lobby = await guest.frame("lobby")
    assert lobby["state"].keys() == {"status", "starts_at"}
    await guest.send_bytes(sync_frame(1, 0, SyncType.STEP_1, b"\x00"))
    assert (await guest.frame("error"))["code"] == "not_open"
    await host.until(lambda: any(f["type"] == "waiting" and f["waiting"] for f in host.json_frames))
    waiting = (await host.frame("waiting"))["waiting"]
    assert waiting == [{"session": session.pk, "key": f"candidate-{session.pk}", "name": "Cleo Candidate"}]
    await host.say(type="admit", session=session.pk)
    hello = await guest.frame("hello")
    assert "admitted" in guest.kinds()
    assert hello["state"]["status"] == "live"
    assert [question["title"] for question in hello["state"]["questions"]] == ["Adding"]
    await guest.open_document()
    assert str(guest.text) == STARTER
    kinds = await database_sync_to_async(
        lambda: list(TimelineEntry.objects.exclude(kind__in=["edit", "joined"]).values_list("kind", flat=True))
    )()
    assert kinds == ["lobby", "admitted", "started", "question"]
    await host.leave()
    await guest.leave()


async def test_a_declined_candidate_is_shown_out(interview: Interview, interviewer: User) -> None:
    host = await interviewer_page(interview, interviewer).open()
    guest, session = await candidate_page(interview)
    await guest.open()
    await guest.frame("lobby")
    await host.say(type="remove", session=session.pk)
    await guest.until(lambda: guest.close_code is not None)
    assert guest.close_code == 4403
    await host.leave()


async def test_somebody_taken_off_the_panel_is_closed_out_within_seconds(interview: Interview, colleague: User) -> None:
    page = await interviewer_page(interview, colleague).open()
    await page.frame("hello")
    await database_sync_to_async(lambda: interview.panel.filter(user=colleague).delete())()
    await page.until(lambda: page.close_code is not None)
    assert page.close_code == 4403


async def test_an_interviewer_who_tries_the_link_is_the_candidate_there(
    interview: Interview, interviewer: User
) -> None:
    _, cookie = await database_sync_to_async(links.open_session)(interview)
    page = await Page(interview, user=interviewer, cookie=cookie, as_candidate=True).open()
    await page.frame("lobby")
    assert "hello" not in page.kinds()
    await page.leave()


async def test_a_candidate_cannot_do_what_interviewers_do(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    for message in (
        {"type": "open_question", "position": 2},
        {"type": "end"},
        {"type": "note", "id": str(uuid4()), "text": "hm", "position": 1},
        {"type": "admit", "session": 1},
    ):
        await guest.say(**message)
        assert (await guest.fresh_frame("error"))["code"] == "unknown"
    after = await fresh(interview)
    assert (after.status, after.current_position) == (InterviewStatus.LIVE, 1)
    await host.leave()
    await guest.leave()


# The shared document ------------------------------------------------------------------------------------------------


async def test_both_type_at_once_and_converge(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    for letter in "abcdefghij":
        await host.type(letter, at=0)
        await guest.type(letter.upper())
    await host.saved(10)
    await guest.saved(10)
    length = len(STARTER) + 20
    await host.until(lambda: len(str(host.text)) == length)
    await guest.until(lambda: len(str(guest.text)) == length)
    assert str(host.text) == str(guest.text) == await stored_text(interview)
    assert str(host.text) == "jihgfedcba" + STARTER + "ABCDEFGHIJ"
    written = await edits(interview)
    assert [entry.user for entry in written].count(interviewer) == 10
    assert sum(entry.candidate_session is not None for entry in written) == 10
    await host.leave()
    await guest.leave()


async def test_an_edit_is_in_the_database_before_it_is_called_saved(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    await guest.type("# mine\n")
    await guest.saved(1)
    assert (await stored_text(interview)).endswith("# mine\n")
    await host.leave()
    await guest.leave()


async def test_what_was_typed_offline_is_merged_on_both_sides(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    await guest.leave()
    guest.text += "# offline\n"
    await host.type("# online\n", at=0)
    await host.saved(1)
    _, cookie = await database_sync_to_async(links.open_session)(interview)
    await database_sync_to_async(
        lambda: rooms.admit(
            interview,
            CandidateSession.objects.latest("pk").pk,
            by=Participant(interview=interview, role=Role.INTERVIEWER, user=interviewer),
        )
    )()
    again = Page(interview, cookie=cookie)
    again.doc, again.text, again.epoch = guest.doc, guest.text, guest.epoch
    await again.open()
    await again.frame("hello")
    await again.open_document()
    server_vector = next(
        content
        for sync_type, content in (f.sync_message() for f in again.binary_frames if f.kind is Kind.SYNC)
        if sync_type is SyncType.STEP_1
    )
    await again.send_bytes(sync_frame(1, again.epoch, SyncType.STEP_2, again.doc.get_update(server_vector)))
    await again.saved(1)
    expected = "# online\n" + STARTER + "# offline\n"
    await host.until(lambda: str(host.text) == expected)
    assert str(again.text) == await stored_text(interview) == expected
    written = len(await edits(interview))
    await again.send_bytes(sync_frame(1, again.epoch, SyncType.STEP_2, again.doc.get_update(server_vector)))
    await again.saved(2)
    assert len(await edits(interview)) == written, "sending it again adds nothing to the log"
    await host.leave()
    await again.leave()


async def test_an_edit_whose_message_was_lost_arrives_all_the_same(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)

    @database_sync_to_async
    def accepted_by_another_process() -> None:
        question = InterviewQuestion.objects.get(interview=interview, position=1)
        doc: Doc[Text] = Doc()
        text = doc.get("text", type=Text)
        doc.apply_update(guest.doc.get_update())
        state = doc.get_state()
        text += "# elsewhere\n"
        by = Participant(interview=interview, role=Role.INTERVIEWER, user=interviewer)
        documents.record_edit(question.pk, epoch=1, update=doc.get_update(state), by=by)

    await accepted_by_another_process()
    await guest.type("# here\n", at=0)
    expected = "# here\n" + STARTER + "# elsewhere\n"
    await guest.until(lambda: str(guest.text) == expected)
    await host.until(lambda: str(host.text) == expected)
    await accepted_by_another_process()
    await host.until(lambda: str(host.text) == expected + "# elsewhere\n")
    await host.leave()
    await guest.leave()


async def test_an_update_that_builds_on_a_lost_one_is_completed(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    guest.text += "lost "
    await guest.type("later")
    await guest.until(
        lambda: [f.sync_message()[0] for f in guest.binary_frames if f.kind is Kind.SYNC].count(SyncType.STEP_1) == 2
    )
    assert "saved" not in guest.kinds()
    vector = [f for f in guest.binary_frames if f.kind is Kind.SYNC][-1].sync_message()[1]
    await guest.send_bytes(sync_frame(1, 1, SyncType.STEP_2, guest.doc.get_update(vector)))
    await guest.saved(2)
    assert await stored_text(interview) == STARTER + "lost later"
    await host.until(lambda: str(host.text) == STARTER + "lost later")
    await host.leave()
    await guest.leave()


async def test_bad_updates_are_refused_and_change_nothing(
    interview: Interview, interviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, guest = await both_in_room(interview, interviewer)
    await guest.send_bytes(sync_frame(1, 1, SyncType.UPDATE, b"\xff\xff\x07"))
    assert (await guest.fresh_frame("error"))["code"] == "malformed"
    await guest.send_bytes(b"\x00")
    assert (await guest.fresh_frame("error"))["code"] == "malformed"
    await guest.send_bytes(sync_frame(1, 7, SyncType.UPDATE, guest.doc.get_update()))
    assert (await guest.fresh_frame("error"))["code"] == "outdated"
    await guest.send_bytes(sync_frame(2, 1, SyncType.STEP_1, b"\x00"))
    assert (await guest.fresh_frame("error"))["code"] == "not_open"
    big: Doc[Text] = Doc()
    big_text = big.get("text", type=Text)
    big_text += "x" * (documents.UPDATE_LIMIT_BYTES + 1)
    await guest.send_bytes(sync_frame(1, 1, SyncType.UPDATE, big.get_update()))
    assert (await guest.fresh_frame("error"))["code"] == "update_too_large"
    monkeypatch.setattr(documents, "DOCUMENT_LIMIT_BYTES", 1000)
    await guest.type("y" * 1001)
    error = await guest.fresh_frame("error")
    assert (error["code"], error["count"]) == ("document_full", 4)
    assert await stored_text(interview) == STARTER
    assert str(host.text) == STARTER
    await host.type("still works")
    await host.saved(1)
    assert await stored_text(interview) == STARTER + "still works"
    await host.leave()
    await guest.leave()


async def test_the_text_holds_nothing_but_text(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    state = guest.doc.get_state()
    guest.text.insert_embed(0, {"image": "x"})
    await guest.send_bytes(sync_frame(1, 1, SyncType.UPDATE, guest.doc.get_update(state)))
    assert (await guest.fresh_frame("error"))["code"] == "malformed"
    await host.type("# fine\n", at=0)
    await host.saved(1)
    assert await stored_text(interview) == "# fine\n" + STARTER
    await host.leave()
    await guest.leave()


async def test_after_the_end_nothing_is_written(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    await host.say(type="end")
    await guest.until(lambda: any(f["type"] == "state" and f["state"]["read_only"] for f in guest.json_frames))
    await guest.type("too late")
    assert (await guest.fresh_frame("error"))["code"] == "read_only"
    await host.type("too late")
    assert (await host.fresh_frame("error"))["code"] == "read_only"
    assert await stored_text(interview) == STARTER
    await host.leave()
    await guest.leave()


async def test_a_page_with_an_older_document_is_told_to_drop_it(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    await guest.type("old ")
    await guest.saved(1)

    @database_sync_to_async
    def start_anew() -> None:
        question = InterviewQuestion.objects.select_related("interview", "version")
        documents.restart(question.get(interview=interview, position=1))

    await start_anew()
    assert (await guest.frame("document"))["epoch"] == 2
    await guest.send_bytes(sync_frame(1, 1, SyncType.STEP_1, guest.doc.get_state()))
    assert (await guest.fresh_frame("document"))["epoch"] == 2
    newcomer = await interviewer_page(interview, interviewer).open()
    await newcomer.frame("hello")
    await newcomer.open_document()
    assert (str(newcomer.text), newcomer.epoch) == (STARTER, 2)
    assert await stored_text(interview) == STARTER
    for page in (host, guest, newcomer):
        await page.leave()


async def test_the_document_is_rebuilt_from_its_snapshot_without_doubling(
    interview: Interview, interviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "SNAPSHOT_EVERY", 5)
    host, guest = await both_in_room(interview, interviewer)
    for number in range(12):
        await guest.type(f"{number} ")
    await guest.saved(12)
    text = str(guest.text)
    await host.leave()
    await guest.leave()
    snapshots = await database_sync_to_async(lambda: list(DocumentSnapshot.objects.order_by("sequence")))()
    assert len(snapshots) == 2
    later = await interviewer_page(interview, interviewer).open()
    await later.frame("hello")
    await later.open_document()
    assert str(later.text) == text == await stored_text(interview)
    await later.leave()


async def test_cursors_bear_the_name_that_the_server_knows(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    encoder = Encoder()
    encoder.write_var_uint(1)
    encoder.write_var_uint(77)
    encoder.write_var_uint(1)
    encoder.write_var_string('{"user":{"name":"Ada Interviewer","colour":9},"cursor":{"anchor":{}},"html":"<b>"}')
    await guest.send_bytes(awareness_frame(1, 1, encoder.to_bytes()))
    await host.until(lambda: any(f.kind is Kind.AWARENESS for f in host.binary_frames))
    payload = next(f for f in host.binary_frames if f.kind is Kind.AWARENESS).payload
    assert b'"name":"Cleo Candidate","colour":0' in payload
    assert b"Ada" not in payload
    assert b"<b>" not in payload
    await guest.leave()
    await host.until(lambda: any(f.kind is Kind.AWARENESS and b"null" in f.payload for f in host.binary_frames[-3:]))
    await host.leave()


# The room -----------------------------------------------------------------------------------------------------------


async def test_opening_a_question_takes_everybody_there(interview: Interview, interviewer: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    await host.say(type="open_question", position=2)
    await guest.until(lambda: any(f.get("state", {}).get("current_position") == 2 for f in guest.json_frames))
    state = (await guest.frame("state"))["state"]
    assert [question["title"] for question in state["questions"]] == ["Adding", "Sharding"]
    await guest.send_bytes(sync_frame(2, 0, SyncType.STEP_1, b"\x00"))
    await guest.until(lambda: any(f.position == 2 for f in guest.binary_frames))
    await host.leave()
    await guest.leave()


async def test_people_see_who_is_here(interview: Interview, interviewer: User, colleague: User) -> None:
    host, guest = await both_in_room(interview, interviewer)
    other = await interviewer_page(interview, colleague).open()
    names = {"Ada Interviewer", "Ben Colleague", "Cleo Candidate"}
    for page in (host, guest, other):
        await page.until(
            lambda page=page: any(
                {person["name"] for person in f["people"]} == names for f in page.json_frames if f["type"] == "presence"
            )
        )
    await other.leave()
    await host.until(lambda: len([f for f in host.json_frames if f["type"] == "presence"][-1]["people"]) == 2)
    await host.leave()
    await guest.leave()


async def test_a_note_sent_twice_is_kept_once_and_shown_to_interviewers_alone(
    interview: Interview, interviewer: User, colleague: User
) -> None:
    host, guest = await both_in_room(interview, interviewer)
    other = await interviewer_page(interview, colleague).open()
    await other.frame("hello")
    note_id = str(uuid4())
    for _ in range(2):
        await host.say(type="note", id=note_id, text="PRIVATE asks good questions", position=1)
        assert (await host.fresh_frame("note_saved"))["id"] == note_id
    assert (await other.frame("note"))["note"]["text"] == "PRIVATE asks good questions"
    await guest.settle()
    assert "PRIVATE" not in str(guest.json_frames)
    stored = await database_sync_to_async(lambda: TimelineEntry.objects.get(kind=EntryKind.NOTE))()
    assert (stored.private, stored.payload["id"]) == (True, note_id)
    for page in (host, guest, other):
        await page.leave()


async def test_what_others_publish_reaches_its_audience(interview: Interview, interviewer: User) -> None:
    from interviews import room_events
    from interviews.room_events import Audience

    host, guest = await both_in_room(interview, interviewer)
    waiting, _ = await candidate_page(interview)
    await waiting.open()
    await waiting.frame("lobby")
    await database_sync_to_async(room_events.publish)(
        interview, "score", audience=Audience.INTERVIEWERS, note="PRIVATE"
    )
    await database_sync_to_async(room_events.publish)(interview, "run", number=5)
    assert (await host.frame("score"))["note"] == "PRIVATE"
    assert (await guest.frame("run"))["number"] == 5
    await waiting.settle()
    assert "score" not in guest.kinds()
    assert not {"run", "score"} & set(waiting.kinds())
    for page in (host, guest, waiting):
        await page.leave()


async def test_the_candidate_receives_nothing_private_in_a_whole_interview(
    interview: Interview, interviewer: User
) -> None:
    host, guest = await both_in_room(interview, interviewer)
    await host.say(type="note", id=str(uuid4()), text="PRIVATE note", position=1)
    await host.type("# host\n")
    await host.say(type="open_question", position=2)
    await guest.until(lambda: any(f.get("state", {}).get("current_position") == 2 for f in guest.json_frames))
    await guest.send_bytes(sync_frame(2, 0, SyncType.STEP_1, b"\x00"))
    await host.say(type="end")
    await guest.until(lambda: any(f.get("state", {}).get("read_only") for f in guest.json_frames))
    await guest.settle()
    assert "PRIVATE" in str(host.json_frames)
    assert "PRIVATE" not in str(guest.json_frames)
    assert not any(b"PRIVATE" in frame.payload for frame in guest.binary_frames)
    await host.leave()
    await guest.leave()
