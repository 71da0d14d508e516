"""Notes what a rank sends, receives and calls of ``torch.distributed``, and the Triton kernels it launches, during one call.

It is evidence, not proof: the notes are taken in the candidate's own process, and a program that goes out of its way can
leave them empty or forge them. So a check that counts messages also looks at values that only a right algorithm gives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

#: More than any honest answer needs; past it only the number goes on.
MAX_NOTES = 4096

_POINT_TO_POINT = {"send": "send", "isend": "send", "recv": "receive", "irecv": "receive"}
_COLLECTIVES = (
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
)


class Notes:
    """The notes of the call in progress. Collectives made of other collectives are noted once, as what was called."""

    def __init__(self) -> None:
        self._noting = False
        self._inside = False
        self._messages: list[list[Any]] = []
        self._collectives: list[str] = []
        self._kernel_launches = 0
        self._unnoted = 0

    def begin(self) -> None:
        self._messages, self._collectives = [], []
        self._kernel_launches = self._unnoted = 0
        self._noting = True

    def end(self) -> dict[str, Any]:
        """What was noted since ``begin``, as JSON."""
        self._noting = False
        return {
            "messages": self._messages,
            "collectives": self._collectives,
            "kernel_launches": self._kernel_launches,
            "unnoted": self._unnoted,
        }

    def install(self) -> None:
        """Wraps the functions. Before the submission is loaded, so that ``from torch.distributed import isend`` is seen."""
        import torch.distributed as dist
        from torch.distributed import distributed_c10d

        for name in (*_POINT_TO_POINT, *_COLLECTIVES):
            original = getattr(distributed_c10d, name, None)
            if original is None:
                continue
            wrapper = self._wrap(name, original)
            setattr(distributed_c10d, name, wrapper)
            if hasattr(dist, name):
                setattr(dist, name, wrapper)
        self._count_launches()

    def _count_launches(self) -> None:
        """In the interpreter and on a GPU, whichever of the two a kernel comes to."""
        from triton.runtime import interpreter, jit

        for owner, name in ((interpreter.GridExecutor, "__call__"), (jit.JITFunction, "run")):
            setattr(owner, name, self._counting(getattr(owner, name)))

    def _counting(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(launch)
        def noting(*args: Any, **kwargs: Any) -> Any:
            self._kernel_launches += self._noting
            return launch(*args, **kwargs)

        return noting

    def _wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def noting(*args: Any, **kwargs: Any) -> Any:
            if not self._noting or self._inside:
                return original(*args, **kwargs)
            self._inside = True
            try:
                self._note(name, args, kwargs)
                return original(*args, **kwargs)
            finally:
                self._inside = False

        return noting

    def _note(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if len(self._messages) + len(self._collectives) >= MAX_NOTES:
            self._unnoted += 1
        elif name in _POINT_TO_POINT:
            tensor = args[0] if args else kwargs.get("tensor")
            peer = _peer(args[1:], kwargs)
            items = int(tensor.numel()) if tensor is not None else 0
            self._messages.append([_POINT_TO_POINT[name], name, peer, items])
        else:
            self._collectives.append(name)


def _peer(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The other rank, -1 where it is not said plainly."""
    for value in (*args[:1], *(kwargs.get(key) for key in ("dst", "src", "group_dst", "group_src"))):
        if type(value) is int:
            return value
    return -1
