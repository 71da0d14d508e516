"""Runs a question's checks against a submission. Trusted: it holds the expected values and never the candidate's code.

Each check gets fresh processes of the candidate's, so that a crash, a hang or a trick in one reaches no other.
"""

from __future__ import annotations

import linecache
import sys
import time
import traceback
import types
from typing import Protocol

from gpu_runner.protocol import CheckRef, CheckResult, CheckStatus
from gpu_runner.sandbox import checking
from gpu_runner.sandbox.checking import Candidate, Check
from gpu_runner.sandbox.checking_faults import Fault, LaunchError, clean
from gpu_runner.sandbox.launching import Launcher

_FILE = "checks.py"
_MAX_DETAIL_CHARS = 4000
_MAX_OUTPUT_CHARS = 16_000
_BROKEN = "This check is broken, which is no fault of yours. It counts as not run."


class Report(Protocol):
    """Told of each check as it begins and ends, in order."""

    def started(self, ref: CheckRef) -> None: ...

    def done(self, result: CheckResult) -> None: ...


def run_checks(
    *, source: str, refs: tuple[CheckRef, ...], launcher: Launcher, report: Report, seed: int
) -> tuple[CheckResult, ...]:
    """Runs the checks named by ``refs``, in that order, out of the text of ``checks.py``.

    Every ref gets exactly one result. Raises ``LaunchError`` where the host cannot start the candidate's processes.
    """
    checks, broken = load_checks(source)
    results = []
    for ref in refs:
        report.started(ref)
        if broken:
            result = _not_reported(ref, "", broken)
        elif ref.name not in checks:
            result = _not_reported(ref, "", f"{_FILE} has no check named {ref.name}.")
        else:
            # The ranks know the run's seed. They do not know the checks, so they cannot draw the numbers of this one.
            own_seed = f"{seed}\0{ref.name}\0{source}"
            result = _run_one(checks[ref.name], ref, launcher, own_seed)
        report.done(result)
        results.append(result)
    return tuple(results)


def load_checks(source: str) -> tuple[dict[str, Check], str]:
    """The checks of a source by name, and what is wrong with it, empty if nothing is."""
    # The one name that authors import from; the candidate's processes never have it.
    sys.modules["checking"] = checking
    linecache.cache[_FILE] = (len(source), None, source.splitlines(keepends=True), _FILE)
    module = types.ModuleType("checks")
    module.__file__ = _FILE
    try:
        exec(compile(source, _FILE, "exec", dont_inherit=True), module.__dict__)
    except Exception:  # noqa: BLE001 - an author's mistake, of whatever kind
        return {}, traceback.format_exc()
    return {value.name: value for value in vars(module).values() if isinstance(value, Check)}, ""


def _run_one(check: Check, ref: CheckRef, launcher: Launcher, seed: str) -> CheckResult:
    started_s = time.monotonic()
    candidate = Candidate(launcher, seed=seed, time_limit_s=check.time_limit_s)
    status, message, detail = CheckStatus.PASSED, "", ""
    try:
        check.function(candidate)
        if not candidate.expectations:
            status, message, detail = CheckStatus.NOT_REPORTED, _BROKEN, "The check expected nothing of the candidate."
    except Fault as fault:
        status, message, detail = fault.status, fault.message(hidden=ref.hidden), fault.full()
    except LaunchError:
        raise
    except Exception:  # noqa: BLE001 - an author's mistake is not held against the candidate
        status, message, detail = CheckStatus.NOT_REPORTED, _BROKEN, traceback.format_exc()
    finally:
        output = candidate.close()
    return CheckResult(
        name=ref.name,
        hidden=ref.hidden,
        status=status,
        title=check.title,
        message=message,
        detail=clean(detail, _MAX_DETAIL_CHARS),
        duration_s=time.monotonic() - started_s,
        output=clean(output, _MAX_OUTPUT_CHARS),
    )


def _not_reported(ref: CheckRef, title: str, detail: str) -> CheckResult:
    return CheckResult(
        name=ref.name,
        hidden=ref.hidden,
        status=CheckStatus.NOT_REPORTED,
        title=title,
        message=_BROKEN,
        detail=clean(detail, _MAX_DETAIL_CHARS),
    )
