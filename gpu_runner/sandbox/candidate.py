"""The candidate's end of a check: loads the submission in an already confined rank and calls its functions when asked.

It runs beside the candidate's code and can be changed by it, so nothing that it sends is taken for more than a claim. It knows
inputs only; expected values never come here.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import ModuleType, TracebackType
from typing import Any

from gpu_runner.sandbox import candidate_notes, tensors
from gpu_runner.sandbox.candidate_notes import Notes
from gpu_runner.sandbox.checking_wire import FrameReader, Message, RawPlacement, RawTensor, pack_message

#: How much of its time a call may use before the rank says where it stands, for the words about a hang.
_STANDING_SHARE = 0.8
_MAX_TEXT_CHARS = 2000
_MAX_STACK = 20
#: Requests come from the checker, which may send larger inputs than it takes back.
_REQUEST_BYTES = 1 << 30


def serve(sock: socket.socket, entry_path: str) -> None:
    """Loads ``entry_path`` as a module and answers the checker until it closes its end. Called in each rank."""
    sock.setblocking(True)
    _Server(sock, entry_path).run()


class _Server:
    def __init__(self, sock: socket.socket, entry_path: str) -> None:
        self._sock = sock
        self._entry_path = entry_path
        self._box = os.path.dirname(entry_path) + "/"
        self._reader = FrameReader(header_bytes=_REQUEST_BYTES, body_bytes=_REQUEST_BYTES)
        self._sending = threading.Lock()
        self._notes = Notes()
        self._module: ModuleType | None = None
        self._main_thread = threading.get_ident()

    def run(self) -> None:
        self._notes.install()
        while (message := self._receive()) is not None:
            match message.text("op"):
                case "load":
                    self._guard(message, self._load)
                case "join":
                    self._guard(message, self._join)
                case "call":
                    self._guard(message, self._call)

    def _receive(self) -> Message | None:
        while True:
            data = self._sock.recv(min(self._reader.wanted_bytes(), 1 << 20))
            if not data:
                return None
            message = self._reader.feed(data)
            if message is not None:
                return message

    def _send(self, fields: dict[str, Any], values: dict[str, object] | None = None) -> None:
        frame = pack_message(fields, values or {}, tensors.pack_result)
        with self._sending, suppress(BrokenPipeError):
            self._sock.sendall(frame)

    def _guard(self, message: Message, step: Callable[[Message], None]) -> None:
        """Runs a step of the candidate's; whatever it raises becomes an answer. Says where it stands if it takes long."""
        call = message.text("id")
        limit_s = float(message.fields["limit_s"])
        watch = threading.Timer(limit_s * _STANDING_SHARE, self._say_where, args=(call,))
        watch.daemon = True
        watch.start()
        try:
            step(message)
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like are answers too
            self._report(call, error, show=bool(message.fields.get("show_traceback", True)))
        finally:
            watch.cancel()

    def _load(self, message: Message) -> None:
        stem = os.path.splitext(os.path.basename(self._entry_path))[0]
        # A submission named like a module that is already there may not take its place.
        name = stem if stem.isidentifier() and stem not in sys.modules else "submission"
        # From the file, not from a text: Triton reads the source of its kernels.
        spec = importlib.util.spec_from_file_location(name, self._entry_path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{os.path.basename(self._entry_path)} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        self._module = module
        _flush()
        self._send({"op": "loaded", "id": message.text("id")})

    def _join(self, message: Message) -> None:
        import torch.distributed as dist

        dist.init_process_group("gloo", timeout=timedelta(seconds=float(message.fields["group_timeout_s"])))
        self._send({"op": "joined", "id": message.text("id")})

    def _call(self, message: Message) -> None:
        call, name = message.text("id"), message.text("function")
        function = getattr(self._module, name, None)
        if not callable(function):
            self._send({"op": "missing", "id": call})
            return
        placed: list[tuple[RawPlacement, Any, Any]] = []

        def unpack(raw: RawTensor | RawPlacement) -> object:
            if isinstance(raw, RawTensor):
                return tensors.from_raw(raw)
            buffer, view = tensors.build(raw)
            if raw.back:
                placed.append((raw, buffer, view))
            return view

        args = message.value("args", unpack)
        kwargs = message.value("kwargs", unpack)
        self._notes.begin()
        try:
            result = function(*args, **kwargs)
        finally:
            notes = self._notes.end()
            _flush()
        after = [view if raw.buffer is None else buffer for raw, buffer, view in placed]
        self._send({"op": "returned", "id": call, "notes": notes}, {"value": result, "after": after})

    def _report(self, call: str, error: BaseException, *, show: bool) -> None:
        own = error.__traceback__
        while own is not None and own.tb_frame.f_code.co_filename in _NOT_THEIRS:
            own = own.tb_next
        where = self._place(own)
        if isinstance(error, SyntaxError) and own is None and error.lineno:
            where = f"{self._short(str(error.filename))}:{error.lineno}"
        if show:
            with suppress(Exception):
                _print_traceback(error.with_traceback(own))
        _flush()
        name = type(error).__name__
        kinds = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, BaseException)]
        text = "(no text: its __str__ raised)"
        with suppress(Exception):
            # A syntax error's text repeats the place.
            text = str(error.msg if isinstance(error, SyntaxError) else error)[:_MAX_TEXT_CHARS]
        self._send({"op": "raised", "id": call, "type": name, "kinds": kinds, "text": text, "where": where})

    def _place(self, frames: TracebackType | None) -> str:
        """The innermost line of the submission's own files, as ``main.py:14``."""
        where = ""
        while frames is not None:
            name = frames.tb_frame.f_code.co_filename
            if name.startswith(self._box):
                where = f"{self._short(name)}:{frames.tb_lineno}"
            frames = frames.tb_next
        return where

    def _say_where(self, call: str) -> None:
        """In a thread of its own: the submission's innermost lines, and what they are waiting in."""
        frame = sys._current_frames().get(self._main_thread)
        stack: list[str] = []
        inner = ""
        while frame is not None and len(stack) < _MAX_STACK:
            name = frame.f_code.co_filename
            if name.startswith(self._box):
                waiting = f" in {inner}" if inner and not stack else ""
                stack.append(f"{self._short(name)}:{frame.f_lineno}{waiting}")
            elif not stack and frame.f_code.co_name not in _WRAPPERS:
                inner = frame.f_code.co_name
            frame = frame.f_back
        self._send({"op": "standing", "id": call, "stack": stack})

    def _short(self, name: str) -> str:
        return name.removeprefix(self._box)


#: Frames that are ours, left out of what a person reads.
_NOT_THEIRS = (
    __file__,
    candidate_notes.__file__,
    "<frozen importlib._bootstrap_external>",
    "<frozen importlib._bootstrap>",
)
#: Names that wrappers of torch's functions go by, ours among them: they say nothing of what is waited for.
_WRAPPERS = ("noting", "wrapper")


def _print_traceback(error: BaseException) -> None:
    told = traceback.TracebackException.from_exception(error)
    told.stack = traceback.StackSummary.from_list([frame for frame in told.stack if frame.filename not in _NOT_THEIRS])
    print("".join(told.format()), end="", file=sys.stderr)


def _flush() -> None:
    """So that what was printed is read before the answer is."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
