"""What the warm parent loads once, so that no run has to, and what each rank still does with it after the fork."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import random
import sys
import weakref
from collections.abc import Sequence
from typing import Any

from gpu_runner.sandbox import process_groups, rehearsal
from gpu_runner.sandbox.program import Record

#: Commands that the container has of its own.
COMMANDS_DIR = "/opt/bin"
#: The environment of the warm parent and of every rank. One OpenMP thread: with more, a parallel region in the parent would
#: hang every child in its first one.
ENVIRONMENT = {
    "PATH": f"{COMMANDS_DIR}:/venv/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108 - private to the container
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",  # noqa: S108
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Gloo warns that it cannot resolve the peer's name, which in a network without a name server is no news.
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TRITON_CACHE_DIR": "/tmp/triton",  # noqa: S108 - of this run alone: a shared one is code injection
    "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",  # noqa: S108
    "TRITON_INTERPRET": "1",
}

_MODULES = (
    "numpy",
    "torch",
    "torch.distributed",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.multiprocessing",
    "torch._dynamo",
    "triton",
    "triton.language",
    # Loaded by almost any program and by the ends of ranks.
    "concurrent.futures",
    "dataclasses",
    "linecache",
    "traceback",
)
#: Their files are hidden from a run, so all of them must be loaded before.
_OWN_MODULES = ("gpu_runner.sandbox.candidate", "gpu_runner.sandbox.checker", "gpu_runner.sandbox.launch_server")


def load() -> dict[str, str]:
    """Imports everything and returns the versions for the run card."""
    for name in (*_MODULES, *_OWN_MODULES):
        importlib.import_module(name)
    process_groups.keep_alive()
    rehearsal.prepare()
    _spawn_by_fork()
    import torch
    import torch._inductor.config as inductor_config
    import triton

    torch.set_num_threads(1)
    # A precompiled header takes more room than a run has, and would serve no second one.
    inductor_config.cpp_cache_precompile_headers = False
    # Lazily built tables that the first tensor, the first print and the first backward would build in every rank again.
    repr(torch.ones(2, requires_grad=True).sum().backward())
    # What these modules would tidy at the interpreter's end takes 25 ms and touches every page, and the process ends anyway.
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
    gc.collect()
    # The collector would write to every object's header and so copy every page of it in every rank.
    gc.freeze()
    return {"python": sys.version.split()[0], "torch": torch.__version__, "triton": triton.__version__}


def seed_all(seed: int) -> None:
    """All ranks of all runs come of one parent: without this they would all draw the same numbers."""
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


def prepare_rank(record: Record, *, rehearse: bool, texts: Sequence[str]) -> None:
    """The last trusted step in a rank. ``texts`` are the files of the submission, ``rehearse`` its leave to do without a GPU."""
    rehearsal.watch(record)
    if not rehearse:
        rehearsal.forbid()
    elif rehearsal.speaks_of_gpus(texts):
        rehearsal.install()


def _spawn_by_fork() -> None:
    """Serves ``torch.multiprocessing.spawn`` by fork: 0.12 s in place of 3 to 5 s, as the children find torch loaded."""
    import torch.multiprocessing

    # The package shows the function of the same name in the module's place.
    spawning = sys.modules["torch.multiprocessing.spawn"]
    start_processes = spawning.start_processes

    @functools.wraps(spawning.spawn)
    def spawn(
        fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
    ) -> Any:
        method = "fork" if start_method == "spawn" else start_method
        return start_processes(fn, args, nprocs, join, daemon, start_method=method)

    spawning.spawn = spawn  # type: ignore[attr-defined]
    torch.multiprocessing.spawn = spawn


def forget_own_code(code_dir: str) -> None:
    """Takes the staged code off the import path; the modules stay loaded, their files will be hidden."""
    sys.path[:] = [entry for entry in sys.path if entry not in ("", code_dir)]
    os.environ.pop("PYTHONPATH", None)
