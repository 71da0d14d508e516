"""The contract between the web application and a GPU host.

Everything that crosses the line between the two is one of the frozen dataclasses below. They turn into plain JSON values
with ``to_wire`` and back with ``from_wire``; whatever does not fit raises ``WireError`` with the path of the field at
fault. Only the standard library is imported here, so that the sandbox, the worker and Django can share the module.

The order of the events of one run is ``Queued? Started (Output | CheckStarted | CheckDone | Gauge | Heartbeat)* Finished``.
``Finished`` comes exactly once and last. When nothing else happened for a second, a ``Heartbeat`` comes.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

VERSION = 1

#: Celery task names. Both sides send by name, neither imports the other's module.
EXECUTE_TASK = "gpu_runner.execute"
RECORD_EVENT_TASK = "grading.record_event"
RECORD_RESULT_TASK = "grading.record_result"
RESULTS_QUEUE = "results"

#: Redis names. Redis carries wake-ups and live views; what is lost there can be had again from the database.
CANCEL_CHANNEL = "gpu_runner.cancel"


#: All checks of a question together, each on fresh ranks, need more than one program does. A question can say otherwise.
CHECKS_WALL_S = 60.0


def stream_key(run_id: str) -> str:
    """The Redis stream that carries the live events of a run, one ``{"event": JSON}`` entry each."""
    return f"run:{run_id}"


def claim_key(run_id: str, attempt: int) -> str:
    """Set with NX by the one worker that executes this attempt of a run."""
    return f"run:{run_id}:{attempt}:claim"


def cancel_key(run_id: str) -> str:
    """Present when a stop was asked for; looked at before a run starts and announced on ``CANCEL_CHANNEL``."""
    return f"run:{run_id}:cancel"


def recorded_key(run_id: str, attempt: int) -> str:
    """Present once the web side has dealt with the result of this attempt, so that its host may forget it."""
    return f"run:{run_id}:{attempt}:recorded"


def hosts_key(queue: str) -> str:
    """A Redis hash of the hosts that take runs from a queue: the host's id and its ``HostPresence`` as JSON."""
    return f"hosts:{queue}"


def queue_for(gpus: int) -> str:
    """The Celery queue of the hosts that can serve a run with this many GPUs."""
    return "cpu" if gpus == 0 else f"gpu{gpus}"


class WireError(ValueError):
    """A message that does not fit the contract; the text names the field."""


class Mode(enum.StrEnum):
    """What is done with the files."""

    PROGRAM = "program"
    CHECKS = "checks"


class Rehearse(enum.StrEnum):
    """Whether a CUDA program may run on the CPU where no GPU is."""

    AUTO = "auto"
    NEVER = "never"


class Outcome(enum.StrEnum):
    """How a run ended. Candidate faults are outcomes; host faults are ``RUNNER_ERROR`` and never held against anybody."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    CANCELLED = "cancelled"
    RUNNER_ERROR = "runner_error"


class CheckStatus(enum.StrEnum):
    """How one check ended. Only ``PASSED`` counts as passed: a check that did not report did not pass."""

    PASSED = "passed"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    NOT_REPORTED = "not_reported"


class Stream(enum.StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class Wire:
    """``to_wire`` and ``from_wire`` for the dataclasses of this module, driven by their annotations."""

    __slots__ = ()

    def to_wire(self) -> dict[str, Any]:
        """Plain JSON values. The outermost message carries the version."""
        return {"version": VERSION, **_encode_fields(self)}

    def to_json(self) -> str:
        """``to_wire`` as text. NaN and infinity, which JSON does not have, raise ``ValueError``."""
        return json.dumps(self.to_wire(), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """``from_wire`` of the text. Raises ``WireError``, also for what is no JSON."""
        try:
            wire = json.loads(text)
        except ValueError as error:
            raise WireError(f"{cls.__name__}: not JSON ({error})") from None
        return cls.from_wire(wire)

    @classmethod
    def from_wire(cls, wire: object) -> Self:
        """The object again, every field checked. Raises ``WireError``. Unknown fields are refused, so is another version."""
        if not isinstance(wire, dict):
            raise WireError(f"{cls.__name__}: expected an object, got {type(wire).__name__}")
        version = wire.get("version")
        if version != VERSION:
            raise WireError(f"{cls.__name__}.version: expected {VERSION}, got {version!r}")
        return typing.cast(
            "Self", _decode_dataclass(cls, {k: v for k, v in wire.items() if k != "version"}, cls.__name__)
        )


def _encode_fields(value: Any) -> dict[str, Any]:
    encoded = {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, RunEvent):
        encoded["kind"] = value.kind
    return encoded


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_fields(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    return value


def _decode(kind: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        options = typing.get_args(kind)
        if value is None and type(None) in options:
            return None
        (only,) = [option for option in options if option is not type(None)]
        return _decode(only, value, path)
    if origin is tuple:
        item_kind = typing.get_args(kind)[0]
        if not isinstance(value, list):
            raise WireError(f"{path}: expected a list, got {type(value).__name__}")
        return tuple(_decode(item_kind, item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        _, item_kind = typing.get_args(kind)
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise WireError(f"{path}: expected an object with text keys")
        return {key: _decode(item_kind, item, f"{path}.{key}") for key, item in value.items()}
    if kind is Any:
        return value
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            raise WireError(f"{path}: {value!r} is not one of {', '.join(e.value for e in kind)}") from None
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, path)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WireError(f"{path}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def _decode_dataclass(cls: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise WireError(f"{path}: expected an object, got {type(value).__name__}")
    hints = _hints(cls)
    known = {f.name: f for f in dataclasses.fields(cls)}
    unknown = sorted(set(value) - set(known) - ({"kind"} if issubclass(cls, RunEvent) else set()))
    if unknown:
        raise WireError(f"{path}: unknown field {unknown[0]!r}")
    values = {}
    for name, definition in known.items():
        if name in value:
            values[name] = _decode(hints[name], value[name], f"{path}.{name}")
        elif definition.default is dataclasses.MISSING and definition.default_factory is dataclasses.MISSING:
            raise WireError(f"{path}.{name}: missing")
    try:
        return cls(**values)
    except ValueError as error:
        raise WireError(f"{path}: {error}") from None


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(cls: type) -> dict[str, Any]:
    if cls not in _HINTS:
        _HINTS[cls] = typing.get_type_hints(cls)
    return _HINTS[cls]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Wire):
    """What one run may use. A run that meets a limit ends with the outcome named after it.

    ``pids`` counts processes and threads of all ranks together; ``memory_mb`` is the memory of the whole run, temporary
    files included; ``output_bytes`` is for each stream of each rank; ``file_mb`` is the room in each of ``/tmp`` and ``/box``.
    """

    wall_s: float = 10.0
    cpu_s: float = 60.0
    memory_mb: int = 2048
    pids: int = 256
    output_bytes: int = 1_000_000
    file_mb: int = 64

    def __post_init__(self) -> None:
        for definition in dataclasses.fields(self):
            if getattr(self, definition.name) <= 0:
                raise ValueError(f"{definition.name} must be above zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile(Wire):
    """A file of the submission; ``path`` is relative to the box, with ``/`` between its parts."""

    path: str
    text: str

    def __post_init__(self) -> None:
        parts = self.path.split("/")
        if not self.path or any(part in ("", ".", "..") for part in parts) or "\0" in self.path:
            raise ValueError(f"{self.path!r} is not a path inside the box")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRef(Wire):
    """A check to run, by the name of its function in ``checks.py``, and whether the candidate may see it."""

    name: str
    hidden: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec(Wire):
    """Everything a GPU host needs to know of one run.

    ``token`` is good for this attempt alone: a result that does not carry it is ignored. ``checks_source`` is the text of
    the question's ``checks.py``; it reaches the checker's process and never the candidate's. Ranks find their place in the
    environment, as under torchrun.
    """

    run_id: str
    attempt: int = 1
    token: str
    mode: Mode
    files: tuple[SourceFile, ...]
    entry: str = "main.py"
    stdin: str = ""
    ranks: int = 1
    gpus: int = 0
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    checks_source: str = ""
    checks: tuple[CheckRef, ...] = ()
    rehearse: Rehearse = Rehearse.AUTO

    MAX_RANKS: ClassVar[int] = 8

    def __post_init__(self) -> None:
        if not 1 <= self.ranks <= self.MAX_RANKS:
            raise ValueError(f"ranks must be between 1 and {self.MAX_RANKS}")
        if self.gpus < 0:
            raise ValueError("gpus must not be negative")
        if self.entry not in {file.path for file in self.files}:
            raise ValueError(f"entry {self.entry!r} is not among the files")
        if self.mode is Mode.CHECKS and not (self.checks and self.checks_source):
            raise ValueError("a checks run needs checks")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExit(Wire):
    """How one rank ended: ``exit_code`` or ``signal`` (a name such as ``SIGKILL``), neither if it was stopped with the run.

    ``stdout_tail`` and ``stderr_tail`` are the last lines; ``cut`` says that output was left out of them or of the stream.
    """

    rank: int
    exit_code: int | None = None
    signal: str | None = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(Wire):
    """What one check found.

    ``message`` is for the candidate, ``detail`` for the interviewer only (expected values may stand there). Times are
    measured on the trusted side. ``output`` is what the candidate's code printed while this check ran.
    """

    name: str
    hidden: bool
    status: CheckStatus
    title: str = ""
    message: str = ""
    detail: str = ""
    duration_s: float | None = None
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCard(Wire):
    """The machine and the versions behind a result. ``rehearsed`` means: on the CPU, no timing."""

    host: str
    runtime: str
    slot: str
    gpu_names: tuple[str, ...] = ()
    driver: str | None = None
    clocks: str | None = None
    python: str = ""
    torch: str = ""
    triton: str = ""
    backend: str = "gloo"
    seed: int = 0
    rehearsed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Wire):
    """The facts of a finished run. The runner states them, ``grading`` judges.

    ``first_failed_rank`` is the rank that failed first, the others were stopped because of it. ``message`` is one sentence
    for a person where the outcome needs one ("3 of 4 ranks joined"). ``diagnosis`` is a sentence and the table it came from.
    """

    run_id: str
    attempt: int
    token: str
    outcome: Outcome
    message: str = ""
    ranks: tuple[RankExit, ...] = ()
    first_failed_rank: int | None = None
    wall_s: float = 0.0
    cpu_s: float | None = None
    peak_memory_mb: float | None = None
    checks: tuple[CheckResult, ...] = ()
    diagnosis: dict[str, Any] | None = None
    card: RunCard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Wire):
    """One thing that happened in a run. ``at_s`` counts from the start on the host."""

    kind: ClassVar[str] = ""
    run_id: str
    at_s: float = 0.0

    @staticmethod
    def parse(wire: object) -> RunEvent:
        """The event of the right class, found by its ``kind``. Raises ``WireError``."""
        if not isinstance(wire, dict):
            raise WireError(f"RunEvent: expected an object, got {type(wire).__name__}")
        for cls in (Queued, Started, Output, CheckStarted, CheckDone, Gauge, Heartbeat, Finished):
            if wire.get("kind") == cls.kind:
                return cls.from_wire(wire)
        raise WireError(f"RunEvent.kind: {wire.get('kind')!r} is not known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(RunEvent):
    kind: ClassVar[str] = "queued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(RunEvent):
    kind: ClassVar[str] = "started"
    host: str
    slot: str
    ranks: int
    rehearsed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(RunEvent):
    """Text of one rank, whole lines wherever possible.

    While a check runs, ``check`` is its name; ``hidden`` output belongs to a hidden check and may show its inputs, so it
    is for the interviewer only.
    """

    kind: ClassVar[str] = "output"
    rank: int
    stream: Stream
    text: str
    check: str | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStarted(RunEvent):
    kind: ClassVar[str] = "check_started"
    name: str
    hidden: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDone(RunEvent):
    kind: ClassVar[str] = "check_done"
    check: CheckResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge(RunEvent):
    """A measurement while the run goes on; ``name`` carries the unit, such as ``memory_mb``."""

    kind: ClassVar[str] = "gauge"
    name: str
    value: float
    gpu: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(RunEvent):
    kind: ClassVar[str] = "heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(RunEvent):
    kind: ClassVar[str] = "finished"
    result: RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPresence(Wire):
    """What a GPU host's worker says of itself every second. ``seen_s`` is the clock of Redis, the one that all share."""

    host: str
    slots: int
    free: int
    seen_s: int
