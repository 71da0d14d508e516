"""Keeps gloo from deadlocking a rank that has already done its work, and from dawdling at its start.

The main thread joins gloo's run-loop threads in ``~ProcessGroupGloo`` while it holds the interpreter's lock; such a thread
may need the lock to free Python objects stashed by ``backward``. 6 to 8 of 60 DDP programs hung that way after they had printed
their results. A process group that is never freed never gets there, and ``os._exit`` ends the rank without tear-down.

At the start, a rank that is quicker than rank 0 finds no store to connect to and sleeps for half a second before it tries again.
Forked ranks start within milliseconds of each other, so that befell one run of ten. Here it looks whether the port is open first.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_TCP_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = "0A"
_STORE_WAIT_S = 2.0
_STORE_PAUSE_S = 0.002

#: Referenced for as long as the process lives.
_KEPT: list[object] = []


def keep_alive() -> None:
    """Wraps the two functions that make process groups. Called once, in the warm parent."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    cpu = torch.device("cpu")

    def keep(group: Any) -> None:
        if isinstance(group, dist.ProcessGroup):
            _KEPT.append(group)
            # The backend object is the one with the threads; a group without one for the CPU has no such threads.
            if cpu in group._device_types:
                _KEPT.append(group._get_backend(cpu))

    def wrap(make: Callable[..., Any], made: Callable[[Any], Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = make(*args, **kwargs)
            keep(made(result))
            return result

        return wrapper

    make_default_group = dist.init_process_group

    @functools.wraps(make_default_group)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        _wait_for_store(kwargs)
        return make_default_group(*args, **kwargs)

    init = wrap(init_process_group, lambda _: distributed_c10d._get_default_group())
    new = wrap(dist.new_group, lambda group: group)
    for module in (dist, distributed_c10d):
        module.init_process_group = init
        module.new_group = new


def _wait_for_store(arguments: dict[str, Any]) -> None:
    """Waits a little while for rank 0 to listen. If it never does, torch waits on and says so in its own words."""
    if not str(arguments.get("init_method") or "env://").startswith("env://") or arguments.get("store") is not None:
        return
    rank, port = str(arguments.get("rank", -1)), os.environ.get("MASTER_PORT", "")
    if rank == "-1":
        rank = os.environ.get("RANK", "0")
    if rank == "0" or not port.isdecimal():
        return
    listening = f":{int(port):04X}"
    deadline = time.monotonic() + _STORE_WAIT_S
    while time.monotonic() < deadline and not any(_listens(table, listening) for table in _TCP_TABLES):
        time.sleep(_STORE_PAUSE_S)


def _listens(table: str, port: str) -> bool:
    """Looks into the kernel's table of sockets, so that nothing is sent to a store that may be just coming up."""
    with suppress(OSError), open(table) as lines:
        next(lines)
        rows = (line.split() for line in lines)
        return any(row[1].endswith(port) and row[3] == _LISTEN for row in rows)
    return False
