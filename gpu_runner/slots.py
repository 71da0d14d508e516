"""The slots of a GPU host: warm containers kept ready, one run at a time on each.

``SlotPool.execute`` is the one way in. Any number of threads may call it; as many runs go on at once as there are slots, the
others wait. Containers are started in a thread of the pool's own, the next one before it is needed.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from gpu_runner import cgroups, endings, oci
from gpu_runner.checks_execution import ChecksExecution
from gpu_runner.executions import Execution, ProgramExecution, Tick
from gpu_runner.host_config import ConfigError, HostConfig
from gpu_runner.oci import Container, ContainerError, ContainerSettings
from gpu_runner.protocol import (
    CheckResult,
    CheckStatus,
    Finished,
    Heartbeat,
    Mode,
    Outcome,
    Queued,
    RunCard,
    RunEvent,
    RunResult,
    RunSpec,
    Started,
)
from gpu_runner.slot import Slot, SlotLost

__all__ = ["ConfigError", "HostConfig", "SlotPool"]

log = logging.getLogger(__name__)

_HEARTBEAT_S = 1.0
#: A run that the host lost before anything of it was shown is done once more.
_ATTEMPTS = 2
_LEASE_TICK_S = 0.05
_WARM_WAIT_S = 90.0
#: After this many failed starts in a row a run is told so instead of being left to wait.
_HOPELESS_FAILURES = 3
_RETRY_PAUSE_S = 1.0
_SKELETONS = Path("/run/rendezvous")
#: For the warm parent, the supervisors and what a run may add at most.
_WARM_MEMORY_MB = 1024
_SLOT_PIDS = 4096


class SlotPool:
    """Warm slots, and runs on them."""

    def __init__(self, config: HostConfig, *, on_ready: Callable[[str], None] | None = None) -> None:
        self._config = replace(config, venv=config.venv.absolute(), state_dir=config.state_dir.absolute())
        self._on_ready = on_ready
        key = hashlib.sha256(str(self._config.state_dir).encode()).hexdigest()[:10]
        self._cgroup_parent = f"/{cgroups.ROOT_NAME}/{key}"
        self._settings = ContainerSettings(
            runtime=self._config.runtime,
            runtime_root=self._config.state_dir / "runtime",
            # Not in the state folder: the container's root is an unprivileged id, which must be able to reach it.
            rootfs=_SKELETONS / key / "rootfs",
            venv=self._config.venv,
            memory_mb=_WARM_MEMORY_MB + self._config.memory_mb,
            pids=_SLOT_PIDS,
        )
        self._host = self._config.host or socket.gethostname()
        self._runtime_version = ""
        self._state = threading.Condition()
        self._ready: list[Slot] = []
        self._busy: dict[str, Slot] = {}
        self._retired: list[Slot] = []
        self._indices: set[int] = set()
        self._warming: Container | None = None
        self._failures = 0
        self._failure = ""
        self._closing = False
        self._keeper: threading.Thread | None = None
        self._lock_fd = -1

    # The life of the pool

    def start(self) -> None:
        """Clears away what a killed predecessor left and begins to warm slots. Raises ``ConfigError``."""
        self._config.check()
        self._config.state_dir.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        self._runtime_version = oci.runtime_version(self._config.runtime)
        self._sweep()
        cgroups.prepare_root()
        oci.build_rootfs(self._settings.rootfs, oci.mount_points(self._settings))
        self._keeper = threading.Thread(target=self._keep, name="slot-keeper", daemon=True)
        self._keeper.start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Whether a slot became warm within that time. Comes back early when slot after slot does not start."""
        with self._state:
            self._state.wait_for(lambda: bool(self._ready or self._busy or self._hopeless), timeout_s)
            return bool(self._ready or self._busy)

    @property
    def ready_slots(self) -> int:
        """How many slots are warm and free."""
        with self._state:
            return len(self._ready)

    @property
    def failure(self) -> str:
        """Why the last start of a slot failed; empty when it did not."""
        with self._state:
            return self._failure

    def close(self) -> None:
        """Ends all runs and removes everything: processes, containers, cgroups, folders. May be called twice."""
        with self._state:
            if self._closing:
                return
            self._closing = True
            # Runs that are still going on see their slot die and end.
            for slot in self._busy.values():
                slot.odd = "the host is shutting down"
                slot.container.kill()
            if self._warming is not None:
                self._warming.kill()
            self._state.notify_all()
        if self._keeper is not None:
            self._keeper.join()
        with self._state:
            self._state.wait_for(lambda: not self._busy, timeout=10)
            left = [*self._ready, *self._retired, *self._busy.values()]
            self._ready, self._retired, self._busy = [], [], {}
        for slot in left:
            slot.remove()
        if self._lock_fd >= 0:
            self._sweep()
            # The parents of what was ours go too, if no other pool has anything in them.
            cgroups.remove_root_if_empty()
            with suppress(OSError):
                _SKELETONS.rmdir()
            os.close(self._lock_fd)
            self._lock_fd = -1

    def sweep(self) -> None:
        """Removes what a killed pool of this state folder left. Raises ``ConfigError`` while another is at work there."""
        if not self._config.state_dir.is_dir():
            return
        self._take_lock()
        try:
            self._sweep()
        finally:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_lock(self) -> None:
        path = self._config.state_dir / "lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise ConfigError(
                f"another runner works in {self._config.state_dir} (RENDEZVOUS_RUNNER_STATE_DIR)"
            ) from None
        self._lock_fd = fd

    def _sweep(self) -> None:
        """Removes every container, cgroup and folder of this pool's, whoever made it."""
        for name in oci.container_names(self._settings):
            oci.delete(self._settings, name)
        cgroups.remove_leftovers(self._cgroup_parent)
        shutil.rmtree(self._config.state_dir / "slots", ignore_errors=True)
        shutil.rmtree(self._settings.rootfs.parent, ignore_errors=True)

    # Keeping slots warm

    def _wanted(self) -> int:
        """How many slots there should be now. A slot in its last run is replaced while that run still goes on."""
        last_runs = sum(slot.runs + 1 >= self._config.runs_per_slot for slot in self._busy.values())
        return self._config.slots + max(self._config.spares, last_runs)

    def _keep(self) -> None:
        while True:
            with self._state:
                while not self._closing and not self._retired and self._have() >= self._wanted():
                    self._state.wait(1.0)
                    self._find_dead()
                if self._closing:
                    return
                retired, self._retired = self._retired, []
                short = self._have() < self._wanted()
            for slot in retired:
                self._remove(slot)
            if short:
                self._add()

    @property
    def _hopeless(self) -> bool:
        return self._failures >= _HOPELESS_FAILURES and not self._ready and not self._busy

    def _have(self) -> int:
        return len(self._ready) + len(self._busy)

    def _find_dead(self) -> None:
        for slot in [slot for slot in self._ready if not slot.alive]:
            log.warning("slot %s died while it was idle", slot.name)
            self._ready.remove(slot)
            self._retired.append(slot)

    def _add(self) -> None:
        index = min(set(range(len(self._indices) + 1)) - self._indices)
        self._indices.add(index)
        try:
            slot = self._warm(index)
        except (ContainerError, SlotLost, OSError, subprocess.SubprocessError) as error:
            self._indices.discard(index)
            with self._state:
                if self._closing:
                    return
                self._failures += 1
                self._failure = str(error)
                self._state.notify_all()
                log.warning("a slot did not start: %s", error)
                self._state.wait(_RETRY_PAUSE_S)
            return
        with self._state:
            self._failures, self._failure = 0, ""
            self._ready.append(slot)
            self._state.notify_all()
        log.info("slot %s is warm", slot.name)
        if self._on_ready is not None:
            self._on_ready(slot.name)

    def _warm(self, index: int) -> Slot:
        name = f"slot-{index}-{secrets.token_hex(4)}"
        bundle = self._config.state_dir / "slots" / name
        bundle.mkdir(parents=True)
        path = f"{self._cgroup_parent}/{name}"
        container = Container.start(name=name, settings=self._settings, bundle=bundle, cgroup=path, index=index)
        slot = Slot(name=name, index=index, container=container, cgroup=cgroups.slot_cgroup(path))
        with self._state:
            self._warming = container
            if self._closing:
                container.kill()
        try:
            slot.wait_warm(_WARM_WAIT_S)
        except SlotLost:
            slot.remove()
            raise
        finally:
            with self._state:
                self._warming = None
        return slot

    def _remove(self, slot: Slot) -> None:
        try:
            slot.remove()
        except (OSError, subprocess.SubprocessError) as error:
            # What is left of it is removed at the next start.
            log.warning("slot %s was not removed: %s", slot.name, error)
        with self._state:
            self._indices.discard(slot.index)

    # Runs

    def execute(self, spec: RunSpec, *, cancel: threading.Event | None = None) -> Iterator[RunEvent]:
        """Runs it and yields what happens, ``Finished`` exactly once and last.

        Setting ``cancel`` stops the run; closing the iterator kills everything of it. When the host loses the slot before
        anything was shown, the run is done once more on another one.
        """
        clock = _Clock()
        with closing(self._ticks(spec, cancel or threading.Event(), clock)) as ticks:
            for event in ticks:
                if event is not None:
                    yield clock.stamp(event)
                elif clock.silent_s >= _HEARTBEAT_S:
                    yield clock.stamp(Heartbeat(run_id=spec.run_id))

    def _ticks(self, spec: RunSpec, cancel: threading.Event, clock: _Clock) -> Generator[Tick, None, None]:
        defect = False
        for attempt in range(_ATTEMPTS):
            slot = yield from self._lease(spec, cancel, queued=attempt == 0)
            if slot is None:
                break
            execution: Execution | None = None
            result: RunResult | None = None
            try:
                execution = self._begin(slot, spec, cancel)
                if attempt == 0:
                    clock.start()
                    yield Started(run_id=spec.run_id, host=self._host, slot=slot.name, ranks=spec.ranks)
                yield from execution.events()
                result = self._with_card(execution.result(), slot, execution)
            except (SlotLost, OSError) as error:
                slot.odd = str(error) or type(error).__name__
                log.warning("run %s lost slot %s: %s", spec.run_id, slot.name, slot.odd)
            except Exception:
                # A defect of ours. The contract holds all the same, and the slot is in an unknown state.
                log.exception("run %s failed on slot %s", spec.run_id, slot.name)
                slot.odd = "a defect of the host"
                defect = True
            finally:
                self._give_back(slot, execution)
            if result is not None:
                yield Finished(run_id=spec.run_id, result=result)
                return
            if defect or (execution is not None and execution.shown):
                break
        yield Finished(run_id=spec.run_id, result=self._without_evidence(spec, cancel))

    def _lease(self, spec: RunSpec, cancel: threading.Event, *, queued: bool) -> Generator[Tick, None, Slot | None]:
        """A slot for this run alone, or None when it is to be given up."""
        announced = not queued
        while True:
            with self._state:
                if cancel.is_set() or self._closing:
                    return None
                self._find_dead()
                if self._ready and len(self._busy) < self._config.slots:
                    slot = self._ready.pop(0)
                    self._busy[slot.name] = slot
                    return slot
                if self._hopeless:
                    return None
                if announced:
                    self._state.wait(_LEASE_TICK_S)
            if announced:
                yield None
            else:
                announced = True
                yield Queued(run_id=spec.run_id)

    def _begin(self, slot: Slot, spec: RunSpec, cancel: threading.Event) -> Execution:
        kind = ChecksExecution if spec.mode is Mode.CHECKS else ProgramExecution
        # Drawn here, so that the card can name it.
        seed = spec.seed or secrets.randbits(31)
        return kind(slot, spec, seed=seed, memory_cap_mb=self._config.memory_mb, cancel=cancel)

    def _give_back(self, slot: Slot, execution: Execution | None) -> None:
        if execution is None:
            slot.odd = slot.odd or "a run could not begin"
        else:
            execution.close()
        with self._state:
            self._busy.pop(slot.name, None)
            if slot.odd or slot.runs >= self._config.runs_per_slot:
                self._retired.append(slot)
            else:
                self._ready.append(slot)
            self._state.notify_all()

    def _with_card(self, result: RunResult, slot: Slot, execution: Execution) -> RunResult:
        card = RunCard(
            host=self._host,
            runtime=self._runtime_version,
            slot=slot.name,
            python=slot.versions["python"],
            torch=slot.versions["torch"],
            triton=slot.versions["triton"],
            seed=execution.seed,
            rehearsed=execution.rehearsed,
        )
        return replace(result, card=card)

    def _without_evidence(self, spec: RunSpec, cancel: threading.Event) -> RunResult:
        """The result of a run that was given up: it was never begun, or the host lost it."""
        outcome, message = Outcome.RUNNER_ERROR, "The machine that ran this failed. It was no fault of the program."
        with self._state:
            if cancel.is_set():
                outcome, message = Outcome.CANCELLED, endings.CANCELLED.message
            elif self._closing:
                message = "The machine that was to run this is shutting down."
            elif self._failures >= _HOPELESS_FAILURES:
                message = "The machine that was to run this cannot start its sandboxes."
        not_reported = tuple(
            CheckResult(name=ref.name, hidden=ref.hidden, status=CheckStatus.NOT_REPORTED) for ref in spec.checks
        )
        return RunResult(
            run_id=spec.run_id,
            attempt=spec.attempt,
            token=spec.token,
            outcome=outcome,
            message=message,
            checks=not_reported,
        )


class _Clock:
    """Puts the time on events and knows how long it has been quiet."""

    def __init__(self) -> None:
        self._zero_s = self._last_s = time.monotonic()

    def start(self) -> None:
        """From here ``at_s`` counts."""
        self._zero_s = time.monotonic()

    @property
    def silent_s(self) -> float:
        return time.monotonic() - self._last_s

    def stamp(self, event: RunEvent) -> RunEvent:
        self._last_s = time.monotonic()
        return replace(event, at_s=round(self._last_s - self._zero_s, 4))
