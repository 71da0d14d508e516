"""The shared document of an interview question: one Yjs text, kept as its log of accepted updates.

The log (timeline entries of kind ``edit``) is the truth. A ``LiveDocument`` is one web process's copy of it in memory: it
answers state vectors, judges updates, and follows what other processes accepted. Copies are used on their event loop
alone, since pycrdt's objects belong to one thread; the functions that touch the database are plain and run elsewhere.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.db import transaction
from django.db.models import F
from pycrdt import Doc, Text

from interviews import timeline
from interviews.access import Participant
from interviews.models import (
    CandidateSession,
    DocumentSnapshot,
    EntryKind,
    InterviewQuestion,
    InterviewStatus,
    TimelineEntry,
)

logger = logging.getLogger(__name__)

#: The name of the text within the Yjs document; the page uses the same.
TEXT = "text"
#: What is typed or pasted at once.
UPDATE_LIMIT_BYTES = 256 * 1024
#: Everything that somebody wrote while offline comes in one update.
CATCH_UP_LIMIT_BYTES = 1024 * 1024
DOCUMENT_LIMIT_BYTES = 1024 * 1024
SNAPSHOT_EVERY = 500

#: The starter text is written by this Yjs client, so that two servers would make the very same update.
_STARTER_CLIENT = 1
_EMPTY_UPDATE = b"\x00\x00"


class Reason(enum.StrEnum):
    """Why an update was not accepted."""

    MALFORMED = "malformed"
    UPDATE_TOO_LARGE = "update_too_large"
    DOCUMENT_FULL = "document_full"
    READ_ONLY = "read_only"
    OUTDATED = "outdated"


_WORDS = {
    Reason.MALFORMED: "The change could not be read.",
    Reason.UPDATE_TOO_LARGE: f"A single change may have at most {UPDATE_LIMIT_BYTES // 1024} KB.",
    Reason.DOCUMENT_FULL: f"The document may have at most {DOCUMENT_LIMIT_BYTES // 1024} KB.",
    Reason.READ_ONLY: "The document can only be read now.",
    Reason.OUTDATED: "The document was started anew.",
}


class Refused(Exception):
    """An update that is not applied, not kept and not passed on."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(_WORDS[reason])
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An accepted update at its place in the log. ``previous`` is the sequence of the question's edit before it (0: none)."""

    sequence: int
    previous: int
    update: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What came after a given place of the log; with ``snapshot`` where the reader starts from nothing."""

    epoch: int
    snapshot: bytes | None
    snapshot_sequence: int
    edits: list[Edit]

    @property
    def sequence(self) -> int:
        return self.edits[-1].sequence if self.edits else self.snapshot_sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The reply to a state vector: what the asker lacks, and the server's own vector. Complete up to ``sequence``."""

    epoch: int
    sequence: int
    update: bytes
    vector: bytes


# The log in the database --------------------------------------------------------------------------------------------


def begin(question: InterviewQuestion) -> None:
    """Writes the starter text as the first edit, once: whoever comes second finds the first."""
    with transaction.atomic():
        timeline.take_turn(question.interview)
        if not any(_edits(question.pk, question.document_epoch, after=0)):
            timeline.append(
                question.interview,
                EntryKind.EDIT,
                question=question,
                payload={"epoch": question.document_epoch, "starter": True},
                update=_starter_update(question.version.starter),
            )


def restart(question: InterviewQuestion) -> None:
    """Starts the document anew from the starter text. Pages with the old one are told to drop it."""
    with transaction.atomic():
        InterviewQuestion.objects.filter(pk=question.pk).update(document_epoch=F("document_epoch") + 1)
        question.refresh_from_db(fields=["document_epoch"])
        begin(question)


def read_log(question_id: int, *, epoch: int, after: int) -> Log:
    """What a copy lacks that has everything up to ``after`` of ``epoch``. A copy of another epoch gets everything."""
    question = InterviewQuestion.objects.select_related("version", "interview").get(pk=question_id)
    snapshot: DocumentSnapshot | None = None
    if after == 0 or question.document_epoch != epoch:
        after = 0
        snapshot = question.snapshots.filter(epoch=question.document_epoch).order_by("-sequence").first()
        if snapshot is not None:
            after = snapshot.sequence
        else:
            begin(question)
    return Log(
        epoch=question.document_epoch,
        snapshot=bytes(snapshot.state) if snapshot else None,
        snapshot_sequence=after,
        edits=_edits(question_id, question.document_epoch, after=after),
    )


def record_edit(question_id: int, *, epoch: int, update: bytes, by: Participant) -> Edit:
    """Keeps an update for good. Asks the database, not anybody's memory, whether it may be written."""
    with transaction.atomic():
        question = InterviewQuestion.objects.select_related("interview").get(pk=question_id)
        entry = timeline.append(
            question.interview, EntryKind.EDIT, by=by, question=question, payload={"epoch": epoch}, update=update
        )
        # From here on the interview's row is ours: nobody ends it or removes the writer between look and commit.
        status, current_epoch = InterviewQuestion.objects.values_list("interview__status", "document_epoch").get(
            pk=question_id
        )
        if current_epoch != epoch:
            raise Refused(Reason.OUTDATED)
        if status == InterviewStatus.ENDED or not _may_write(by):
            raise Refused(Reason.READ_ONLY)
        previous = (
            TimelineEntry.objects.filter(question_id=question_id, kind=EntryKind.EDIT, sequence__lt=entry.sequence)
            .order_by("-sequence")
            .values_list("sequence", flat=True)
            .first()
        )
        return Edit(sequence=entry.sequence, previous=previous or 0, update=update)


def text_at(question: InterviewQuestion, sequence: int | None = None) -> str:
    """The document's text after the timeline entry ``sequence``; without it, now. For reports and replay."""
    edits = TimelineEntry.objects.filter(question=question, kind=EntryKind.EDIT)
    if sequence is not None:
        edits = edits.filter(sequence__lte=sequence)
    doc: Doc[Text] = Doc()
    text = doc.get(TEXT, type=Text)
    epoch = 0
    for payload, update in edits.order_by("sequence").values_list("payload", "update"):
        if payload["epoch"] != epoch:
            epoch = payload["epoch"]
            doc = Doc()
            text = doc.get(TEXT, type=Text)
        doc.apply_update(bytes(update or _EMPTY_UPDATE))
    return str(text) if epoch else question.version.starter


def _edits(question_id: int, epoch: int, *, after: int) -> list[Edit]:
    rows = (
        TimelineEntry.objects.filter(question_id=question_id, kind=EntryKind.EDIT, sequence__gt=after)
        .order_by("sequence")
        .values_list("sequence", "payload", "update")
    )
    edits: list[Edit] = []
    previous = after
    for sequence, payload, update in rows:
        if payload["epoch"] == epoch:
            edits.append(Edit(sequence=sequence, previous=previous, update=bytes(update or _EMPTY_UPDATE)))
        previous = sequence
    return edits


def _may_write(by: Participant) -> bool:
    if by.session is None:
        return True
    return CandidateSession.objects.filter(pk=by.session.pk, admitted_at__isnull=False, removed_at=None).exists()


def _starter_update(starter: str) -> bytes:
    doc: Doc[Text] = Doc(client_id=_STARTER_CLIENT)
    text = doc.get(TEXT, type=Text)
    # The editor knows line feeds alone; another line end would make its offsets differ from the document's.
    starter = starter.replace("\r\n", "\n").replace("\r", "\n")
    if starter:
        text += starter
    return doc.get_update()


def _keep_snapshot(question_id: int, epoch: int, sequence: int, state: bytes) -> None:
    # Two processes may come to the same place at once; their states are equal.
    DocumentSnapshot.objects.bulk_create(
        [DocumentSnapshot(question_id=question_id, epoch=epoch, sequence=sequence, state=state)], ignore_conflicts=True
    )


# The copy in memory -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class LiveDocument:
    """One process's copy of a document. It never holds less than ``sequence`` says."""

    question_id: int
    epoch: int = 0
    sequence: int = 0
    _doc: Doc[Text] = field(default_factory=Doc)
    _text: Text = field(init=False)
    _changed: bool = False
    _since_snapshot: int = 0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._forget()

    async def answer(self, vector: bytes) -> Answer:
        """What the holder of a state vector lacks, from the newest state of the log."""
        async with self._lock:
            await self._follow()
            try:
                update = self._doc.get_update(vector)
            except ValueError as error:
                raise Refused(Reason.MALFORMED) from error
            return Answer(epoch=self.epoch, sequence=self.sequence, update=update, vector=self._doc.get_state())

    async def accept(self, update: bytes, *, epoch: int, by: Participant) -> Edit | None:
        """Applies and keeps an update. ``None``: everything in it was known already, or it builds on something missing.

        Nobody can see the change before it is in the database, because the lock is held until then.
        """
        async with self._lock:
            if self.sequence == 0:
                await self._follow()
            if epoch != self.epoch:
                raise Refused(Reason.OUTDATED)
            try:
                changed = self._apply(update)
                if not changed:
                    # Perhaps it builds on something that another process accepted.
                    await self._follow()
                    changed = self._apply(update)
                if not changed:
                    return None
                self._judge()
                edit = await database_sync_to_async(record_edit)(self.question_id, epoch=epoch, update=update, by=by)
            except BaseException:
                # The copy may hold what the log does not.
                self._forget()
                raise
            if edit.previous == self.sequence:
                self.sequence = edit.sequence
                self._since_snapshot += 1
            else:
                await self._follow()
            await self._snapshot_when_due()
            return edit

    async def follow(self, edit: Edit) -> None:
        """Takes over an edit that was accepted here or elsewhere; after a gap, everything in between."""
        async with self._lock:
            if edit.sequence <= self.sequence:
                return
            if edit.previous == self.sequence:
                self._take(edit)
            else:
                await self._follow()

    async def since(self, sequence: int, *, epoch: int) -> Log:
        """The edits after ``sequence``, from the log."""
        return await database_sync_to_async(read_log)(self.question_id, epoch=epoch, after=sequence)

    async def _follow(self) -> None:
        log = await self.since(self.sequence, epoch=self.epoch)
        if log.epoch != self.epoch or self.sequence == 0:
            self._forget()
            self.epoch = log.epoch
            if log.snapshot is not None:
                self._doc.apply_update(log.snapshot)
            self.sequence = log.snapshot_sequence
        for edit in log.edits:
            self._take(edit)

    def _take(self, edit: Edit) -> None:
        self._doc.apply_update(edit.update)
        self.sequence = edit.sequence
        self._since_snapshot += 1

    def _apply(self, update: bytes) -> bool:
        """Whether the document changed by it."""
        self._changed = False
        try:
            self._doc.apply_update(update)
        except ValueError as error:
            raise Refused(Reason.MALFORMED) from error
        return self._changed

    def _judge(self) -> None:
        """Whether the document as it now is may stay so."""
        # The others' editors know plain text alone; a picture or a table within it would break them.
        if any(not isinstance(piece, str) or attributes for piece, attributes in self._text.diff()):
            raise Refused(Reason.MALFORMED)
        if len(str(self._text).encode()) > DOCUMENT_LIMIT_BYTES:
            raise Refused(Reason.DOCUMENT_FULL)

    def _forget(self) -> None:
        self._doc = Doc()
        self._text = self._doc.get(TEXT, type=Text)
        self._doc.observe(self._mark_changed)
        self.epoch = 0
        self.sequence = 0
        self._since_snapshot = 0

    def _mark_changed(self, _event: object) -> None:
        self._changed = True

    async def _snapshot_when_due(self) -> None:
        if self._since_snapshot < SNAPSHOT_EVERY:
            return
        self._since_snapshot = 0
        await database_sync_to_async(_keep_snapshot)(
            self.question_id, self.epoch, self.sequence, self._doc.get_update()
        )


@dataclass(slots=True)
class _Held:
    document: LiveDocument
    holders: int = 0


_HELD: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Held]] = WeakKeyDictionary()


def hold(question_id: int) -> LiveDocument:
    """This process's copy of the question's document; give it back with ``let_go``."""
    held = _HELD.setdefault(asyncio.get_running_loop(), {}).setdefault(question_id, _Held(LiveDocument(question_id)))
    held.holders += 1
    return held.document


def let_go(document: LiveDocument) -> None:
    """The copy is dropped with its last holder; the log has everything."""
    all_held = _HELD.get(asyncio.get_running_loop(), {})
    held = all_held.get(document.question_id)
    if held is None:
        return
    held.holders -= 1
    if held.holders == 0:
        del all_held[document.question_id]
