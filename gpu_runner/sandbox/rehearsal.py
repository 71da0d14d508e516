"""CUDA and NCCL programs, unchanged, on a machine without a GPU: gloo serves nccl, CUDA tensors live on the CPU.

Nothing is patched in a rank whose submission does not speak of CUDA. What was really used is noted on the rank's record, so
that the result can say "rehearsed on the CPU: no timing".
"""

from __future__ import annotations

import functools
from typing import Any

from gpu_runner.sandbox.program import Record


class _Note:
    """Says once that the rehearsal was used."""

    def __init__(self) -> None:
        self._record: Record | None = None

    def bind(self, record: Record) -> None:
        self._record = record

    def __call__(self) -> None:
        if self._record is not None:
            self._record.write(kind="rehearsed")
            self._record = None


_used = _Note()


def prepare() -> None:
    """Called once, in the warm parent: Triton's interpreter says when it runs a kernel."""
    from triton.runtime import interpreter

    execute = interpreter.GridExecutor.__call__

    @functools.wraps(execute)
    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        _used()
        return execute(self, *args, **kwargs)

    interpreter.GridExecutor.__call__ = noting


def watch(record: Record) -> None:
    """From here on a use of the rehearsal is written to this rank's record."""
    _used.bind(record)


def install() -> None:
    """Lets this rank's CUDA calls land on the CPU."""
