"""The shared document as a log, apart from any connection."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from channels.db import database_sync_to_async
from django.db import connection
from pycrdt import Doc, Encoder, Text

from interviews import documents, links, rooms
from interviews.access import Participant, Role
from interviews.awareness import AWARENESS_LIMIT_BYTES, AwarenessError, Cursor, read_cursor
from interviews.documents import LiveDocument, Reason, Refused
from interviews.models import EntryKind, Interview, InterviewQuestion, QuestionVersion, TimelineEntry, User
from interviews.room_frames import Frame, FrameError, Kind, SyncType, sync_frame

STARTER = "def adding(a, b):\n    return 0\n"
transactional = pytest.mark.django_db(transaction=True)


def host_of(interview: Interview, interviewer: User) -> Participant:
    return Participant(interview=interview, role=Role.INTERVIEWER, user=interviewer)


def first_question(interview: Interview) -> InterviewQuestion:
    return InterviewQuestion.objects.select_related("interview", "version").get(interview=interview, position=1)


class Typist:
    """A page's document; every change of it is an update for the log."""

    def __init__(self) -> None:
        self.doc: Doc[Text] = Doc()
        self.text = self.doc.get("text", type=Text)

    def load(self, question: InterviewQuestion) -> None:
        for entry in TimelineEntry.objects.filter(question=question, kind=EntryKind.EDIT).order_by("sequence"):
            self.doc.apply_update(bytes(entry.update or b""))

    def type(self, words: str, at: int | None = None) -> bytes:
        state = self.doc.get_state()
        self.text.insert(len(str(self.text)) if at is None else at, words)
        return self.doc.get_update(state)


@transactional
def test_two_who_begin_at_once_write_the_starter_once(interview: Interview) -> None:
    question = first_question(interview)

    def begin(_: int) -> None:
        documents.begin(InterviewQuestion.objects.select_related("interview", "version").get(pk=question.pk))
        connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(begin, range(8)))
    assert TimelineEntry.objects.filter(question=question, kind=EntryKind.EDIT).count() == 1
    assert documents.text_at(question) == STARTER


@pytest.mark.django_db
def test_the_text_is_known_at_every_moment_and_across_a_new_start(interview: Interview, interviewer: User) -> None:
    question, by = first_question(interview), host_of(interview, interviewer)
    assert documents.text_at(question) == STARTER
    documents.begin(question)
    typist = Typist()
    typist.load(question)
    first = documents.record_edit(question.pk, epoch=1, update=typist.type("# one\n"), by=by)
    second = documents.record_edit(question.pk, epoch=1, update=typist.type("# two\n"), by=by)
    assert second.previous == first.sequence
    assert documents.text_at(question, first.sequence) == STARTER + "# one\n"
    assert documents.text_at(question) == STARTER + "# one\n# two\n"
    documents.restart(question)
    assert documents.text_at(question) == STARTER
    assert documents.text_at(question, second.sequence) == STARTER + "# one\n# two\n"
    with pytest.raises(Refused) as refusal:
        documents.record_edit(question.pk, epoch=1, update=typist.type("# three\n"), by=by)
    assert refusal.value.reason is Reason.OUTDATED
    assert TimelineEntry.objects.filter(kind=EntryKind.EDIT, question=question).count() == 4, (
        "the refused one left nothing"
    )


@pytest.mark.django_db
def test_line_ends_of_the_starter_are_those_of_the_editor(interview: Interview) -> None:
    QuestionVersion.objects.update(starter="a\r\nb\rc\n")
    question = first_question(interview)
    documents.begin(question)
    assert documents.text_at(question) == "a\nb\nc\n"


@transactional
async def test_two_processes_without_any_message_between_them_agree(interview: Interview, interviewer: User) -> None:
    question = await database_sync_to_async(first_question)(interview)
    by = host_of(interview, interviewer)
    processes = [LiveDocument(question.pk), LiveDocument(question.pk)]
    typists = [Typist(), Typist()]
    for process, typist in zip(processes, typists, strict=True):
        answer = await process.answer(typist.doc.get_state())
        typist.doc.apply_update(answer.update)
    chance = random.Random(5)
    for number in range(60):
        turn = chance.randrange(2)
        typist = typists[turn]
        update = typist.type(f"{number} ", at=chance.randrange(len(str(typist.text)) + 1))
        edit = await processes[turn].accept(update, epoch=1, by=by)
        assert edit is not None
        if chance.random() < 0.2:
            answer = await processes[turn].answer(typist.doc.get_state())
            typist.doc.apply_update(answer.update)
    texts = set()
    for process, typist in zip(processes, typists, strict=True):
        answer = await process.answer(typist.doc.get_state())
        typist.doc.apply_update(answer.update)
        texts.add(str(typist.text))
    texts.add(await database_sync_to_async(documents.text_at)(question))
    assert len(texts) == 1
    (text,) = texts
    assert len(text) == len(STARTER) + sum(len(f"{number} ") for number in range(60))


@transactional
async def test_what_could_not_be_kept_is_not_shown_to_anybody(
    interview: Interview, interviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = await database_sync_to_async(first_question)(interview)
    by = host_of(interview, interviewer)
    process, typist = LiveDocument(question.pk), Typist()
    typist.doc.apply_update((await process.answer(typist.doc.get_state())).update)
    update = typist.type("# lost\n")
    with monkeypatch.context() as patch:
        patch.setattr(documents, "record_edit", _no_space)
        with pytest.raises(OSError, match="no space"):
            await process.accept(update, epoch=1, by=by)
    reader = Typist()
    reader.doc.apply_update((await process.answer(reader.doc.get_state())).update)
    assert str(reader.text) == STARTER
    assert await process.accept(update, epoch=1, by=by) is not None
    assert await database_sync_to_async(documents.text_at)(question) == STARTER + "# lost\n"


def _no_space(*_: object, **__: object) -> None:
    raise OSError("no space left")


@transactional
async def test_a_vector_that_is_none_is_refused(interview: Interview) -> None:
    question = await database_sync_to_async(first_question)(interview)
    with pytest.raises(Refused):
        await LiveDocument(question.pk).answer(b"\xff" * 12)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x09\x00\x01\x00\x00\x00\x01", b"\x00" * 6])
def test_what_is_no_frame_is_not_read_as_one(data: bytes) -> None:
    with pytest.raises(FrameError):
        Frame.decode(data)


@pytest.mark.parametrize("payload", [b"", b"\x07\x01a", b"\x00", b"\x02\xff\xff\xff\xff"])
def test_what_is_no_sync_message_is_not_read_as_one(payload: bytes) -> None:
    frame = Frame(kind=Kind.SYNC, position=1, epoch=1, payload=payload)
    with pytest.raises(FrameError):
        frame.sync_message()


def test_a_frame_is_read_as_it_was_written() -> None:
    frame = Frame.decode(sync_frame(700, 70_000, SyncType.UPDATE, b"abc"))
    assert (frame.kind, frame.position, frame.epoch) == (Kind.SYNC, 700, 70_000)
    assert frame.sync_message() == (SyncType.UPDATE, b"abc")


def awareness_of(*states: str) -> bytes:
    encoder = Encoder()
    encoder.write_var_uint(len(states))
    for client, state in enumerate(states, start=1):
        encoder.write_var_uint(client)
        encoder.write_var_uint(3)
        encoder.write_var_string(state)
    return encoder.to_bytes()


@pytest.mark.parametrize(
    "update",
    [b"", b"\x01", awareness_of(), awareness_of("{}", "{}"), awareness_of("{"), b"x" * (AWARENESS_LIMIT_BYTES + 1)],
    ids=["nothing", "cut", "nobody", "two", "no JSON", "large"],
)
def test_a_cursor_that_is_not_exactly_one_is_refused(update: bytes) -> None:
    with pytest.raises(AwarenessError):
        read_cursor(update)


@pytest.mark.parametrize("state", ["1", '"x"', "[]", '{"cursor": 5}', "{}"])
def test_a_state_without_a_position_is_somebody_who_points_nowhere(state: str) -> None:
    assert read_cursor(awareness_of(state)) == Cursor(client=1, clock=3, position=None)


@pytest.mark.django_db
def test_changes_of_the_room_happen_once(interview: Interview, interviewer: User) -> None:

    by = host_of(interview, interviewer)
    session, _ = links.open_session(interview)
    assert rooms.admit(interview, session.pk, by=by)
    assert not rooms.admit(interview, session.pk, by=by)
    assert not rooms.start(interview, by=by)
    assert not rooms.open_question(interview, 1, by=by), "it is open already"
    assert not rooms.open_question(interview, 9, by=by)
    assert rooms.open_question(interview, 2, by=by)
    assert rooms.open_question(interview, 1, by=by)
    assert rooms.end_interview(interview, by=by)
    assert not rooms.end_interview(interview, by=by)
    assert not rooms.open_question(interview, 2, by=by)
    assert rooms.remove(interview, session.pk, by=by)
    assert not rooms.remove(interview, session.pk, by=by)
    kinds = TimelineEntry.objects.exclude(kind=EntryKind.EDIT).values_list("kind", flat=True)
    assert list(kinds) == ["admitted", "started", "question", "question", "question", "ended", "left"]


@pytest.mark.django_db
def test_a_question_that_was_opened_before_the_start_is_not_opened_again(
    interview: Interview, interviewer: User
) -> None:
    by = host_of(interview, interviewer)
    assert rooms.open_question(interview, 2, by=by)
    assert rooms.start(interview, by=by)
    interview.refresh_from_db()
    assert interview.current_position == 2
    kinds = TimelineEntry.objects.exclude(kind=EntryKind.EDIT).values_list("kind", flat=True)
    assert list(kinds) == ["question", "started"]


@pytest.mark.django_db
def test_a_candidate_of_another_interview_is_not_admitted(
    interview: Interview, interviewer: User, colleague: User
) -> None:

    other = Interview.objects.get(pk=interview.pk)
    other.pk = None
    other.public_id = "00000000-0000-4000-8000-000000000001"
    links.issue(other)
    other.save()
    session, _ = links.open_session(other)
    assert not rooms.admit(interview, session.pk, by=host_of(interview, interviewer))
    assert not rooms.remove(interview, session.pk, by=host_of(interview, interviewer))
