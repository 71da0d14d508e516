"""Starts the parts of a stack, keeps them running, and stops them so that nothing is left.

Each part runs in a process group of its own, so that Ctrl-C reaches the supervisor alone, which stops the parts in order.
The supervisor is the subreaper of everything below it: what a dead part leaves behind becomes its child and is ended with
the rest. When the supervisor itself is killed, the kernel sends each part SIGTERM.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, BinaryIO

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
#: A part that ran for this long starts anew without a delay that grew.
STEADY_AFTER_S = 10.0
#: Ends in a row, before everything was ready, after which the start is given up.
START_ATTEMPTS = 4
#: How often readiness is asked for.
POLL_S = 0.02
TAIL_LINES = 25
#: How long the start may take before it is told what it waits for, again and again.
WAIT_NOTICE_S = 10.0
#: Two requests to stop within this time are one: a key pressed twice, or a signal that came on two ways.
SAME_REQUEST_S = 0.5
ORPHAN_GRACE_S = 1.0
ORPHAN_LIMIT_S = 5.0


class StartFailed(Exception):
    """A part did not come up; the text says which, and holds its last lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One program of the stack.

    It starts once the parts named in ``after`` are ready. ``is_ready`` is asked until it says yes; without it, a part is
    ready as soon as it runs, and a ``one_shot`` part when it has ended with 0. On stop, parts of a lower ``stop_wave`` are
    gone before those of a higher one are told. ``environment`` is all that it gets, ours where there is none; ``identity``
    is the user and group to run as.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] | None = None
    after: tuple[str, ...] = ()
    is_ready: Callable[[], bool] | None = None
    one_shot: bool = False
    stop_wave: int = 0
    stop_limit_s: float = 8.0
    identity: tuple[int, int] | None = None


class _State:
    """What is known of a part while the supervisor runs."""

    def __init__(self, part: Part, log: BinaryIO) -> None:
        self.part = part
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.ready = False
        self.started_s = 0.0
        self.start_at_s = 0.0
        self.ends_in_a_row = 0
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.unfinished_line = b""

    @property
    def output(self) -> IO[bytes]:
        """What the running part prints into."""
        if self.process is None or self.process.stdout is None:
            raise RuntimeError(f"{self.part.name} is not running")
        return self.process.stdout

    @property
    def is_done(self) -> bool:
        return self.part.one_shot and self.ready


class Supervisor:
    """Runs parts until it is told to stop.

    ``echo`` is called with the name of a part and each line that it prints; ``on_wait`` with the names of the parts that are
    not ready yet, now and then while the start takes long.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        log_folder: Path,
        echo: Callable[[str, str], None],
        on_wait: Callable[[list[str]], None] = lambda names: None,
    ) -> None:
        names = [part.name for part in parts]
        unknown = {name for part in parts for name in part.after} - set(names)
        if unknown or len(set(names)) != len(names):
            raise ValueError(f"parts named twice, or waited for and not there: {names}, {sorted(unknown)}")
        self._parts = parts
        self._log_folder = log_folder
        self._echo = echo
        self._on_wait = on_wait
        self._states: dict[str, _State] = {}
        self._by_pid: dict[int, _State] = {}
        self._selector = selectors.DefaultSelector()
        self._stop_requests = 0
        self._stop_requested_s = -SAME_REQUEST_S
        self._all_ready = False

    def run(self, on_ready: Callable[[], None]) -> list[str]:
        """Starts everything, calls ``on_ready`` when all parts are ready, and returns when all were stopped.

        Returns the names of leftover processes that had to be ended. Raises ``StartFailed``, everything being stopped, when
        a part does not come up.
        """
        leftovers: list[str] = []
        with ExitStack() as stack:
            self._log_folder.mkdir(parents=True, exist_ok=True)
            for part in self._parts:
                log = stack.enter_context(open(self._log_folder / f"{part.name}.log", "wb", buffering=0))
                self._states[part.name] = _State(part, log)
            stack.enter_context(self._signals())
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
            try:
                notice_at_s = time.monotonic() + WAIT_NOTICE_S
                while not self._stop_requests:
                    self._start_what_can_start()
                    self._ask_for_readiness()
                    if not self._all_ready and all(state.ready for state in self._states.values()):
                        self._all_ready = True
                        on_ready()
                    if not self._all_ready and time.monotonic() > notice_at_s:
                        notice_at_s += WAIT_NOTICE_S
                        self._on_wait([name for name, state in self._states.items() if not state.ready])
                    self._wait(self._time_to_next_event_s())
            finally:
                self._stop_all()
                leftovers = end_orphans()
        return leftovers

    def stop(self) -> None:
        """Makes ``run`` stop everything; a second call makes it impatient."""
        now_s = time.monotonic()
        if now_s - self._stop_requested_s >= SAME_REQUEST_S:
            self._stop_requests += 1
        self._stop_requested_s = now_s

    # Starting

    def _start_what_can_start(self) -> None:
        now_s = time.monotonic()
        for state in self._states.values():
            if state.process is not None or state.is_done or state.start_at_s > now_s:
                continue
            if all(self._states[name].ready for name in state.part.after):
                self._start(state)

    def _start(self, state: _State) -> None:
        part = state.part
        supervisor = os.getpid()
        user, group = part.identity or (None, None)

        def die_with_the_supervisor() -> None:
            # Between fork and exec: safe, for this process has one thread.
            _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != supervisor:
                os._exit(1)

        process = subprocess.Popen(
            part.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=part.environment,
            process_group=0,
            preexec_fn=die_with_the_supervisor,
            user=user,
            group=group,
            extra_groups=None if part.identity is None else [],
        )
        state.process = process
        os.set_blocking(state.output.fileno(), False)
        self._selector.register(state.output, selectors.EVENT_READ, state)
        state.started_s = time.monotonic()
        self._by_pid[process.pid] = state

    def _ask_for_readiness(self) -> None:
        for state in self._states.values():
            if state.process is not None and not state.ready and not state.part.one_shot:
                state.ready = state.part.is_ready is None or state.part.is_ready()

    def _time_to_next_event_s(self) -> float:
        if not self._all_ready:
            return POLL_S
        waiting = [state.start_at_s for state in self._states.values() if state.process is None and not state.is_done]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else 60.0

    # Watching

    def _wait(self, timeout_s: float) -> None:
        """Handles what happens in the next ``timeout_s``: output, ended processes, signals."""
        for key, _ in self._selector.select(timeout_s):
            if isinstance(key.data, _State):
                self._read(key.data)
            elif isinstance(key.fileobj, socket.socket):
                key.fileobj.recv(4096)
        for pid in _ended_children():
            ended = self._by_pid.pop(pid, None)
            if ended is None:
                os.waitpid(pid, 0)
            else:
                self._handle_end(ended)

    def _read(self, state: _State) -> bool:
        """Passes on what the part printed; false once there is no more."""
        try:
            data = os.read(state.output.fileno(), 65536)
        except BlockingIOError:
            return False
        if not data:
            self._stop_listening(state)
            return False
        state.log.write(data)
        *lines, state.unfinished_line = (state.unfinished_line + data).split(b"\n")
        for line in lines:
            self._pass_on(state, line)
        return True

    def _pass_on(self, state: _State, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        state.tail.append(text)
        self._echo(state.part.name, text)

    def _stop_listening(self, state: _State) -> None:
        with suppress(KeyError):
            self._selector.unregister(state.output)

    def _handle_end(self, state: _State) -> None:
        process = state.process
        if process is None:
            raise RuntimeError(f"{state.part.name} ended twice")
        # Not yet waited for, so the group's number cannot be another's by now.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while self._read(state):
            """The rest of what it printed."""
        if state.unfinished_line:
            self._pass_on(state, state.unfinished_line)
            state.unfinished_line = b""
        self._stop_listening(state)
        state.output.close()
        state.process = None
        if self._stop_requests:
            return
        if state.part.one_shot and process.returncode == 0:
            state.ready = True
            return
        self._plan_restart(state, process.returncode)

    def _plan_restart(self, state: _State, status: int) -> None:
        now_s = time.monotonic()
        state.ends_in_a_row = 1 if now_s - state.started_s > STEADY_AFTER_S else state.ends_in_a_row + 1
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        if not self._all_ready and (state.part.one_shot or state.ends_in_a_row >= START_ATTEMPTS):
            raise StartFailed(f"{state.part.name} {how}. Its last lines:\n" + "\n".join(state.tail))
        delay_s = min(FIRST_DELAY_S * 2 ** (state.ends_in_a_row - 1), LONGEST_DELAY_S)
        state.start_at_s = now_s + delay_s
        self._echo(state.part.name, f"[{how}; starting it again in {delay_s:.1f} s]")

    # Stopping

    def _stop_all(self) -> None:
        self._stop_requests += 1
        patience = self._stop_requests
        for wave in sorted({part.stop_wave for part in self._parts}):
            states = [s for s in self._states.values() if s.part.stop_wave == wave and s.process is not None]
            for state in states:
                self._signal(state, signal.SIGTERM)
            deadline_s = time.monotonic() + max((state.part.stop_limit_s for state in states), default=0.0)
            while any(state.process is not None for state in states):
                self._wait(0.05)
                if time.monotonic() > deadline_s or self._stop_requests > patience:
                    for state in states:
                        self._signal(state, signal.SIGKILL)

    def _signal(self, state: _State, number: signal.Signals) -> None:
        if state.process is not None:
            with suppress(ProcessLookupError):
                os.kill(state.process.pid, number)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP stop the supervisor; they and SIGCHLD wake it."""

        def request_stop(number: int, frame: FrameType | None) -> None:
            self.stop()

        def wake(number: int, frame: FrameType | None) -> None:
            """The byte that Python writes to the wake-up socket is enough."""

        receiving, sending = socket.socketpair()
        with receiving, sending:
            receiving.setblocking(False)
            sending.setblocking(False)
            self._selector.register(receiving, selectors.EVENT_READ)
            handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), request_stop)
            before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
            before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, wake)
            previous = signal.set_wakeup_fd(sending.fileno())
            try:
                yield
            finally:
                signal.set_wakeup_fd(previous)
                for number, handler in before.items():
                    signal.signal(number, handler)
                self._selector.unregister(receiving)


def end_orphans() -> list[str]:
    """Ends all children of this process, and what they leave behind in turn; returns their names."""
    names: dict[int, str] = {}
    started_s = time.monotonic()
    while True:
        for pid in _ended_children():
            os.waitpid(pid, 0)
        children = _children()
        waited_s = time.monotonic() - started_s
        if not children or waited_s > ORPHAN_LIMIT_S:
            return [f"{name} ({pid})" for pid, name in names.items()]
        number = signal.SIGTERM if waited_s < ORPHAN_GRACE_S else signal.SIGKILL
        for pid, name in children.items():
            if pid not in names or number is signal.SIGKILL:
                names[pid] = name
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        time.sleep(0.02)


def _children() -> dict[int, str]:
    """The pids and names of this process's children."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # "pid (name) state ppid …", where the name may hold anything.
                head, _, rest = (entry / "stat").read_text(errors="replace").rpartition(")")
                if int(rest.split()[1]) == os.getpid():
                    found[int(entry.name)] = head.partition("(")[2]
    return found


def _ended_children() -> Iterator[int]:
    """The pids of children that have ended and that nobody has waited for; wait for each before asking for the next."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        yield ended.si_pid


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
