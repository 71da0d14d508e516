"""The reader's side of a rank: its two streams, cut to size and into lines, and the record it keeps of itself.

Used by the host for programs and by the checker for the candidate's side of checks. Nothing that comes out of these pipes
is trusted: all of it may have been written by the candidate's code.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import signal
import time
from dataclasses import dataclass, field

from gpu_runner.protocol import RankExit, Stream

#: A stream that goes this many times past its limit is a flood, and the run ends with ``OUTPUT_LIMIT``.
FLOOD_FACTOR = 16
#: An unfinished line waits this long for its end, so that ``print("a", end="")`` in a loop is not one event a letter.
LINE_WAIT_S = 0.1
#: A stream makes no more than one event in this time, so that a program that prints fast does not make thousands.
EVENT_GAP_S = 0.02
TAIL_CHARS = 4000

_READ_BYTES = 1 << 16
_RECORD_BYTES = 1 << 16
_LONGEST_LINE_CHARS = 8192
_STACK_FRAMES = 50
_BOX = "/box/"
_PLACE = re.compile(r"[^\x00-\x1f\x7f]{1,200}:\d{1,7}")
_NAME = re.compile(r"[^\W\d]\w{0,99}")
_FRAME = re.compile(r'^  File "(?P<file>[^"\n]{1,300})", line (?P<line>\d{1,7}) in (?P<name>.{1,200})$', re.MULTILINE)


class StreamReader:
    """One stream of one rank.

    The first part comes out as it is written, in whole lines and not too many times a second; past that the rest is read
    and thrown away, so that a flood neither blocks the program nor fills the host, except for its last part, which comes
    out at the end behind a mark.
    """

    def __init__(self, fd: int, limit_bytes: int) -> None:
        self.fd = fd
        self.open = True
        self.cut = False
        self.tail = ""
        self._limit_bytes = limit_bytes
        self._tail_bytes = min(limit_bytes // 4, 1 << 16)
        self._head_left = limit_bytes - self._tail_bytes
        self._seen_bytes = 0
        self._late = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._held_since_s = 0.0
        self._shown_s = 0.0
        os.set_blocking(fd, False)

    @property
    def flooding(self) -> bool:
        return self._seen_bytes > self._limit_bytes * FLOOD_FACTOR

    @property
    def waiting(self) -> bool:
        """Whether ``overdue`` is to be asked again soon."""
        return bool(self._held)

    def read(self) -> str:
        """What may be shown now. Never blocks; at the stream's end everything that is left."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return self.overdue()
        if not data:
            return self.give_up()
        self._seen_bytes += len(data)
        head, rest = data[: self._head_left], data[self._head_left :]
        self._head_left -= len(head)
        if rest:
            self._late += rest
            del self._late[: -self._tail_bytes]
        if head:
            if not self._held:
                self._held_since_s = time.monotonic()
            self._held += self._decode(head)
        return self.overdue()

    def overdue(self) -> str:
        """Of what is held back, that which has waited long enough: whole lines a little, an unfinished line longer."""
        now = time.monotonic()
        if not self._held or now - self._shown_s < EVENT_GAP_S:
            return ""
        if now - self._held_since_s >= LINE_WAIT_S or len(self._held) > _LONGEST_LINE_CHARS:
            whole, newline, rest = self._held, "", ""
        else:
            whole, newline, rest = self._held.rpartition("\n")
        self._held, self._held_since_s = rest, now
        return self._show(whole + newline, now)

    def give_up(self) -> str:
        """Closes the pipe, on its end or on a writer that does not stop. All that is left to show."""
        self.close()
        text, self._held = self._held, ""
        left_out = self._seen_bytes - (self._limit_bytes - self._tail_bytes) - len(self._late)
        if self._late and left_out > 0:
            self.cut = True
            text += f"\n[… {left_out:,} bytes left out …]\n"
        return self._show(text + self._decode(bytes(self._late), final=True), time.monotonic())

    def close(self) -> None:
        if self.open:
            self.open = False
            os.close(self.fd)

    def _decode(self, data: bytes, *, final: bool = False) -> str:
        # PostgreSQL takes no NUL in a text.
        return self._decoder.decode(data, final).replace("\0", "\N{REPLACEMENT CHARACTER}")

    def _show(self, text: str, now: float) -> str:
        if text:
            self._shown_s = now
            self.tail = (self.tail + text)[-TAIL_CHARS:]
        return text


@dataclass(slots=True)
class RankRecord:
    """What the rank said of itself. Good for words, and for no more than an exit code could claim."""

    code: int | None = None
    error: str = ""
    where: str = ""
    failed_at_s: float | None = None
    #: The rank was set up and the program's own code began.
    started: bool = False
    rehearsed: bool = False
    stack: tuple[str, ...] = ()


class RecordReader:
    """The record pipe of one rank: JSON lines from the wrapper, and the text of ``faulthandler`` when it was asked for."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.open = True
        self._data = bytearray()
        os.set_blocking(fd, False)

    def read(self) -> None:
        """Takes in what is there. Never blocks."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.close()
        elif len(self._data) < _RECORD_BYTES:
            self._data += data

    def close(self) -> None:
        if self.open:
            self.open = False
            os.close(self.fd)

    @property
    def has_stack(self) -> bool:
        return b"most recent call first" in self._data

    def record(self) -> RankRecord:
        """What it comes to. Lines that make no sense are passed over."""
        record = RankRecord()
        text = self._data.decode("utf-8", "replace")
        for line in text.splitlines():
            if line.startswith("{"):
                _apply(record, line)
        frames = list(_FRAME.finditer(text))
        # Deep inside a library the submission's own frames may be too far down to have been dumped.
        own = [frame for frame in frames if frame["file"].startswith(_BOX)]
        record.stack = tuple(f"{_short(f['file'])}:{f['line']} in {f['name']}" for f in (own or frames)[:_STACK_FRAMES])
        return record


def _short(path: str) -> str:
    return path.removeprefix(_BOX).rpartition("/site-packages/")[2]


def _apply(record: RankRecord, line: str) -> None:
    try:
        fields = json.loads(line)
    except ValueError:
        return
    if not isinstance(fields, dict):
        return
    match fields:
        case {"kind": "exit", "code": int(code)} if 0 <= code <= 255:
            record.code = code
        case {"kind": "error", "name": str(name), "where": str(where), "at_s": float(at_s)}:
            record.error = name if _NAME.fullmatch(name) else ""
            record.where = where if _PLACE.fullmatch(where) else ""
            record.failed_at_s = at_s
        case {"kind": "started"}:
            record.started = True
        case {"kind": "rehearsed"}:
            record.rehearsed = True


@dataclass(slots=True)
class RankReader:
    """All that one rank sends, and how it ended."""

    rank: int
    streams: dict[Stream, StreamReader]
    record_reader: RecordReader
    #: As ``waitstatus_to_exitcode`` gives it: a code, or a signal's number below zero.
    status: int | None = None
    ended_at_s: float | None = None
    _record: RankRecord | None = field(default=None)

    @property
    def record(self) -> RankRecord:
        if self.record_reader.open:
            return self.record_reader.record()
        if self._record is None:
            self._record = self.record_reader.record()
        return self._record

    @property
    def exit_code(self) -> int | None:
        """The code that counts. A rank that had finished and then died in its tear-down ended as it said it would."""
        if self.status is None or self.status >= 0:
            return self.status
        return self.record.code

    @property
    def signal_number(self) -> int | None:
        return None if self.status is None or self.exit_code is not None else -self.status

    @property
    def failed(self) -> bool:
        return self.status is not None and self.exit_code != 0

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()
        self.record_reader.close()

    def exit(self) -> RankExit:
        number = self.signal_number
        return RankExit(
            rank=self.rank,
            exit_code=self.exit_code,
            signal=None if number is None else signal_name(number),
            stdout_tail=self.streams[Stream.STDOUT].tail,
            stderr_tail=self.streams[Stream.STDERR].tail,
            cut=any(stream.cut for stream in self.streams.values()),
        )


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def open_rank_pipes(ranks: int, limit_bytes: int) -> tuple[list[RankReader], list[int]]:
    """Pipes for each rank. The second list holds the ranks' ends (stdout, stderr, record in turn), to send and then close."""
    readers, theirs = [], []
    for rank in range(ranks):
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        theirs += [write for _, write in pipes]
        # A rank that writes a record into a full pipe must not wait for anybody.
        os.set_blocking(pipes[2][1], False)
        out, err, record = (read for read, _ in pipes)
        streams = {Stream.STDOUT: StreamReader(out, limit_bytes), Stream.STDERR: StreamReader(err, limit_bytes)}
        readers.append(RankReader(rank, streams, RecordReader(record)))
    return readers, theirs
