"""CUDA and NCCL programs, unchanged, on a machine without a GPU: gloo serves nccl, CUDA tensors live on the CPU.

``install`` patches torch in one rank, and only in one whose submission speaks of CUDA or NCCL, so that it costs other programs
nothing. What was really used is noted on the rank's record: the result then says "rehearsed on the CPU: no timing".

``torch.cuda.is_available`` stays false: with it true, torch itself asks the driver for properties that no CPU has.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from gpu_runner.sandbox.program import Record

#: A submission without any of these words cannot ask for a GPU.
WORDS = ("cuda", "nccl")
#: As many as a usual GPU host has, where the program is not started on ranks.
_GPUS_ALONE = 8


def speaks_of_gpus(texts: Iterable[str]) -> bool:
    """Whether any of these files could want a GPU."""
    return any(word in text.lower() for text in texts for word in WORDS)


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


def forbid() -> None:
    """Without leave to rehearse a kernel is compiled for a GPU, and where none is, this says so in place of Triton."""
    os.environ.pop("TRITON_INTERPRET", None)

    def no_gpu() -> None:
        raise RuntimeError("This Triton kernel needs a GPU, and this machine has none.")

    # The package shows an object of the same name in the module's place.
    sys.modules["triton.runtime.driver"]._create_driver = no_gpu  # type: ignore[attr-defined]


def install() -> None:
    """Lets this rank's CUDA calls land on the CPU."""
    _serve_nccl_by_gloo()
    _place_tensors_on_the_cpu()
    _stub_cuda_module()
    _let_wrappers_take_the_cpu()


def _on_cpu(device: Any) -> Any:
    """The CPU for whatever names a GPU, anything else as it is. A bare number names a GPU to torch."""
    import torch

    if isinstance(device, bool):
        return device
    is_gpu = (
        isinstance(device, int)
        or (isinstance(device, str) and device.split(":")[0] == "cuda")
        or (isinstance(device, torch.device) and device.type == "cuda")
    )
    if not is_gpu:
        return device
    _used()
    return torch.device("cpu")


def _named_on_cpu(device: Any) -> Any:
    """The same for positions where a number is a number."""
    return device if isinstance(device, int) else _on_cpu(device)


# Process groups


def _serve_nccl_by_gloo() -> None:
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    def backend_for(name: Any) -> Any:
        if name is None or "nccl" not in str(name).lower():
            return name
        _used()
        return "gloo"

    def wrap(make: Callable[..., Any], position: int) -> Callable[..., Any]:
        @functools.wraps(make)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop("device_id", None)
            kwargs.pop("pg_options", None)
            if len(args) > position:
                args = (*args[:position], backend_for(args[position]), *args[position + 1 :])
            elif "backend" in kwargs:
                kwargs["backend"] = backend_for(kwargs["backend"])
            return make(*args, **kwargs)

        return wrapper

    wrapped = {"init_process_group": wrap(dist.init_process_group, 0), "new_group": wrap(dist.new_group, 2)}
    for module in (dist, distributed_c10d):
        for name, function in wrapped.items():
            setattr(module, name, function)
        module.is_nccl_available = lambda: True


# Tensors


def _place_tensors_on_the_cpu() -> None:
    import torch
    from torch.overrides import TorchFunctionMode

    class OnCpu(TorchFunctionMode):  # type: ignore[misc]
        """Rewrites the device of every torch function: factories, ``to``, and whatever else takes one."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if func is torch.device:
                return func(*args, **kwargs)  # only a name as yet
            if "device" in kwargs:
                kwargs["device"] = _on_cpu(kwargs["device"])
            if getattr(func, "__name__", "") == "to" and len(args) > 1:
                args = (args[0], _on_cpu(args[1]), *args[2:])
            else:
                args = tuple(_named_on_cpu(arg) if isinstance(arg, (str, torch.device)) else arg for arg in args)
            return func(*args, **kwargs)

    OnCpu().__enter__()
    run_thread = threading.Thread.run

    def run(self: threading.Thread) -> None:
        # The mode holds for one thread.
        with OnCpu():
            run_thread(self)

    threading.Thread.run = run  # type: ignore[method-assign]

    def tensor_cuda(self: Any, *_: Any, **__: Any) -> Any:
        _used()
        # A copy, as it would be on a GPU: what is written to one may not show in the other.
        return self.clone()

    def module_cuda(self: Any, *_: Any, **__: Any) -> Any:
        _used()
        return self

    torch.Tensor.cuda = tensor_cuda
    torch.Tensor.pin_memory = lambda self, *_, **__: self
    torch.Tensor.record_stream = lambda self, *_, **__: None
    torch.nn.Module.cuda = module_cuda
    module_to = torch.nn.Module.to

    @functools.wraps(module_to)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = _on_cpu(kwargs["device"])
        return module_to(self, *(_on_cpu(arg) for arg in args), **kwargs)

    torch.nn.Module.to = to
    set_default = torch.set_default_device
    torch.set_default_device = lambda device: set_default(_on_cpu(device))
    _map_autocast()


def _map_autocast() -> None:
    """Otherwise autocast for CUDA switches itself off with a warning."""
    import torch

    begin = torch.amp.autocast_mode.autocast.__init__

    @functools.wraps(begin)
    def init(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            _used()
            device_type = "cpu"
            # The CPU has bfloat16 for it, and refuses float16 in some operations.
            if kwargs.get("dtype") is None and not args:
                kwargs["dtype"] = torch.bfloat16
        begin(self, device_type, *args, **kwargs)

    torch.amp.autocast_mode.autocast.__init__ = init


# torch.cuda


class _Event:
    """``torch.cuda.Event``. Work on the CPU is done when the call returns, so an event is a moment."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._at_s: float | None = None

    def record(self, *_: Any) -> None:
        self._at_s = time.perf_counter()

    def elapsed_time(self, later: _Event) -> float:
        """Milliseconds, as in torch."""
        if self._at_s is None or later._at_s is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (later._at_s - self._at_s) * 1e3

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def wait(self, *_: Any) -> None: ...


class _Stream:
    """``torch.cuda.Stream``: the order of calls is the order of work."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None: ...

    def record_event(self, event: _Event | None = None) -> _Event:
        event = event or _Event()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def wait_stream(self, *_: Any) -> None: ...

    def wait_event(self, *_: Any) -> None: ...


def _stub_cuda_module() -> None:
    import torch

    cuda = torch.cuda
    current = [int(os.environ.get("LOCAL_RANK", "0"))]

    def set_device(device: Any) -> None:
        _used()
        current[0] = device if isinstance(device, int) else (torch.device(device).index or 0)

    def device_count() -> int:
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        return ranks if ranks > 1 else _GPUS_ALONE

    def nothing(*_: Any, **__: Any) -> None: ...

    def none_used(*_: Any, **__: Any) -> int:
        return 0

    cuda.set_device = set_device
    cuda.current_device = lambda: current[0]
    cuda.device_count = device_count
    cuda.Event, cuda.Stream = _Event, _Stream
    cuda.stream = lambda stream: contextlib.nullcontext(stream)
    cuda.device = lambda device: contextlib.nullcontext(device)
    cuda.current_stream = cuda.default_stream = lambda *_, **__: _Stream()
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats", "manual_seed", "manual_seed_all"):
        setattr(cuda, name, nothing)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        setattr(cuda, name, none_used)


# DDP, FSDP, device meshes


def _let_wrappers_take_the_cpu() -> None:
    import torch
    import torch.distributed as dist
    from torch.distributed import device_mesh
    from torch.distributed.fsdp import fully_sharded_data_parallel as fsdp
    from torch.nn.parallel import distributed as ddp

    ddp_init = ddp.DistributedDataParallel.__init__

    @functools.wraps(ddp_init)
    def init_ddp(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, **kwargs: Any) -> None:
        if device_ids is not None or output_device is not None:
            _used()
        ddp_init(self, module, None, None, **kwargs)

    ddp.DistributedDataParallel.__init__ = init_ddp
    fsdp_init = fsdp.FullyShardedDataParallel.__init__

    @functools.wraps(fsdp_init)
    def init_fsdp(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("device_id") is not None:
            _used()
        kwargs["device_id"] = torch.device("cpu")
        fsdp_init(self, module, *args, **kwargs)

    fsdp.FullyShardedDataParallel.__init__ = init_fsdp
    make_mesh = device_mesh.init_device_mesh

    @functools.wraps(make_mesh)
    def init_device_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
        if device_type == "cuda":
            _used()
            device_type = "cpu"
        return make_mesh(device_type, *args, **kwargs)

    device_mesh.init_device_mesh = dist.init_device_mesh = init_device_mesh
