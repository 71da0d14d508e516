"""Keeps gloo from deadlocking a rank that has already done its work.

The main thread joins gloo's run-loop threads in ``~ProcessGroupGloo`` while it holds the interpreter's lock; such a thread
may need the lock to free Python objects stashed by ``backward``. 6 to 8 of 60 DDP programs hung that way after they had printed
their results. A process group that is never freed never gets there, and ``os._exit`` ends the rank without tear-down.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

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

    init = wrap(dist.init_process_group, lambda _: distributed_c10d._get_default_group())
    new = wrap(dist.new_group, lambda group: group)
    for module in (dist, distributed_c10d):
        module.init_process_group = init
        module.new_group = new
