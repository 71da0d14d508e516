"""The readers of a rank's pipes, on pipes without a rank."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import pytest

from gpu_runner.sandbox.rank_output import LINE_WAIT_S, RecordReader, StreamReader


@dataclass
class Pipe:
    fd: int
    _write: int

    def __call__(self, data: bytes) -> None:
        """Puts data in; nothing ends it."""
        if data:
            os.write(self._write, data)
        else:
            os.close(self._write)


@pytest.fixture
def pipe() -> Pipe:
    read, write = os.pipe()

    return Pipe(read, write)


def everything(reader: StreamReader) -> str:
    text = ""
    while reader.open:
        text += reader.read()
    return text


def test_whole_lines_come_at_once_and_the_rest_after_a_moment(pipe: Pipe) -> None:
    reader = StreamReader(pipe.fd, 1000)
    pipe(b"one\ntw")
    assert reader.read() == "one\n"
    assert reader.waiting
    assert reader.overdue() == ""
    time.sleep(LINE_WAIT_S)
    assert reader.overdue() == "tw"
    assert not reader.waiting
    reader.close()
    pipe(b"")


def test_a_character_cut_by_a_read_stays_whole(pipe: Pipe) -> None:
    reader = StreamReader(pipe.fd, 1000)
    pipe("é".encode()[:1])
    assert reader.read() == ""
    pipe("é\n".encode()[1:])
    pipe(b"")
    assert everything(reader) == "é\n"


def test_what_is_no_text_is_replaced(pipe: Pipe) -> None:
    reader = StreamReader(pipe.fd, 1000)
    pipe(b"\xff\0\xed\xa0\x80")
    pipe(b"")
    assert set(everything(reader)) == {"\ufffd"}


def test_head_and_tail_of_a_long_stream_are_kept(pipe: Pipe) -> None:
    reader = StreamReader(pipe.fd, 400)
    pipe(b"".join(b"%09d\n" % number for number in range(100)))
    pipe(b"")
    text = everything(reader)
    assert text.startswith("000000000\n")
    assert text.endswith("000000099\n")
    assert "\n[… 600 bytes left out …]\n" in text
    assert reader.cut
    assert not reader.flooding


def test_a_stream_just_over_its_head_is_whole(pipe: Pipe) -> None:
    reader = StreamReader(pipe.fd, 400)
    pipe(b"x" * 400)
    pipe(b"")
    assert everything(reader) == "x" * 400
    assert not reader.cut


def test_a_record_is_read_and_nonsense_passed_over(pipe: Pipe) -> None:
    reader = RecordReader(pipe.fd)
    pipe(
        b'{"kind": "started"}\nnonsense\n{"kind": "exit", "code": 7}\n{"kind": "exit", "code": 999}\n{"kind": 1}\n[1]\n{'
    )
    pipe(b'\n{"kind": "error", "name": "ValueError", "where": "main.py:14", "at_s": 12.5}\n')
    pipe(
        b'Current thread 0x00 (most recent call first):\n  File "/box/a.py", line 3 in f\n  File "/usr/x.py", line 1 in g\n'
    )
    pipe(b"")
    while reader.open:
        reader.read()
    record = reader.record()
    assert (record.started, record.code, record.error, record.where) == (True, 7, "ValueError", "main.py:14")
    assert record.stack == ("a.py:3 in f",)


def test_a_stack_without_own_frames_shows_those_of_the_library(pipe: Pipe) -> None:
    reader = RecordReader(pipe.fd)
    pipe(
        b'Thread 0x00 (most recent call first):\n  File "/venv/lib/python3.11/site-packages/torch/x.py", line 1 in g\n'
    )
    pipe(b"")
    while reader.open:
        reader.read()
    assert reader.record().stack == ("torch/x.py:1 in g",)


@pytest.mark.parametrize("where", ["main.py", "a\\nb:1", "x:12345678", ""])
def test_a_place_that_is_none_is_left_out(pipe: Pipe, where: str) -> None:
    reader = RecordReader(pipe.fd)
    pipe(f'{{"kind": "error", "name": "<script>", "where": "{where}", "at_s": 1.0}}\n'.encode())
    pipe(b"")
    while reader.open:
        reader.read()
    assert (reader.record().error, reader.record().where) == ("", "")
