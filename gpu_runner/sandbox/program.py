"""Runs the entry file as ``__main__``, the way ``python main.py`` would, inside an already confined rank."""

from __future__ import annotations

import atexit
import builtins
import gc
import io
import json
import os
import sys
import threading
import time
import types
from contextlib import suppress
from types import TracebackType

#: The folder of this package, as the file names of its frames begin.
_OURS = os.path.dirname(__file__) + "/"


class Record:
    """What a rank says of itself on a pipe, as JSON lines, before its tear-down can go wrong.

    The candidate's code could write here too. So the reader believes no more than what an exit code could claim.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, **fields: object) -> None:
        # The pipe never blocks a rank: it is only full when the program itself filled it.
        with suppress(OSError):
            os.write(self._fd, json.dumps(fields).encode() + b"\n")


def run_entry(path: str, record: Record) -> int:
    """Runs the file and returns its exit code, after threads, exit handlers and buffers are done with."""
    code = _run_main(path, record)
    record.write(kind="exit", code=code)
    # What the interpreter would do at its end, short of taking modules apart: gloo's tear-down deadlocks in there.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    _flush()
    return code


def _run_main(path: str, record: Record) -> int:
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins, __spec__=None, __cached__=None)
    sys.modules["__main__"] = module
    try:
        with open(path, "rb") as file:
            source = file.read()
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    except SystemExit as leaving:
        return _exit_code(leaving, path, record)
    except BaseException as error:  # noqa: BLE001 - whatever a program raises ends it, KeyboardInterrupt too
        _report(error, path, record)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _exit_code(leaving: SystemExit, path: str, record: Record) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    with suppress(Exception):
        print(leaving.code, file=sys.stderr)
    record.write(kind="error", name="SystemExit", where=_place(leaving.__traceback__, path), at_s=time.monotonic())
    return 1


def _report(error: BaseException, path: str, record: Record) -> None:
    """Prints the traceback without our own frames, through the program's excepthook if it has one."""
    at_s = time.monotonic()
    _hide_our_frames(error)
    traceback = error.__traceback__
    where = _place(traceback, path)
    if isinstance(error, SyntaxError) and traceback is None and error.lineno:
        where = f"{_short(error.filename or path)}:{error.lineno}"
    record.write(kind="error", name=type(error).__name__, where=where, at_s=at_s)
    try:
        sys.excepthook(type(error), error, traceback)
    except Exception as broken:  # noqa: BLE001 - a broken hook may not hide the error itself
        sys.__excepthook__(type(broken), broken, broken.__traceback__)
        sys.__excepthook__(type(error), error, traceback)


def _hide_our_frames(error: BaseException) -> None:
    """Takes the runner's frames out of the traceback, and out of those of the exceptions that led to it."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = _without_ours(current.__traceback__)
        todo += [current.__cause__, current.__context__]


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    links = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_OURS):
            links.append(traceback)
        traceback = traceback.tb_next
    following = None
    for link in reversed(links):
        link.tb_next = following
        following = link
    return following


def _place(traceback: TracebackType | None, path: str) -> str:
    """The innermost line of the submission's own files, as ``main.py:14``."""
    box = os.path.dirname(path) + "/"
    where = ""
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if name.startswith(box):
            where = f"{_short(name)}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return where


def _short(path: str) -> str:
    return path.removeprefix("/box/")


def _flush() -> None:
    """Writes out what stands in buffers, those of files too that the program left open."""
    kept = [item for item in gc.get_objects() if issubclass(type(item), io.IOBase)]
    for stream in (sys.stdout, sys.stderr, *kept):
        with suppress(Exception):
            if stream.writable():
                stream.flush()
