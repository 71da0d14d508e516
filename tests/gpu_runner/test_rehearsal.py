"""CUDA and NCCL programs run unchanged on the CPU, and the card says so."""

from __future__ import annotations

import pytest

from gpu_runner.protocol import Rehearse, Stream
from gpu_runner.sandbox.rehearsal import speaks_of_gpus
from gpu_runner.slots import SlotPool
from tests.gpu_runner.runs import Ran, program, run


def rehearsed(ran: Ran) -> bool:
    assert ran.result.card is not None
    return ran.result.card.rehearsed


def test_only_a_submission_that_names_a_gpu_is_rehearsed() -> None:
    assert speaks_of_gpus(["import torch", "x.to(torch.device('CUDA'))"])
    assert speaks_of_gpus(["dist.init_process_group('nccl')"])
    assert not speaks_of_gpus(["import torch\nprint(torch.ones(3))"])


@pytest.mark.container
def test_tensors_and_modules_land_on_the_cpu(pool: SlotPool) -> None:
    source = """
import torch
x = torch.ones(3, device='cuda')
devices = [
    x.device, torch.zeros(3).cuda().device, torch.rand(2).to('cuda:0').device, torch.rand(2).to(0).device,
    torch.arange(4, device=torch.device('cuda', 0)).device, torch.empty_like(x, device='cuda').device,
    torch.nn.Linear(3, 3).cuda().to('cuda').weight.device,
]
with torch.device('cuda'):
    devices.append(torch.ones(2).device)
torch.set_default_device('cuda')
devices.append(torch.ones(2).device)
print({str(device) for device in devices})
"""
    ran = run(pool, program(source))
    assert ran.text() == "{'cpu'}\n", ran.text(Stream.STDERR)
    assert rehearsed(ran)


@pytest.mark.container
def test_streams_events_and_autocast_work(pool: SlotPool) -> None:
    source = """
import torch
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
with torch.cuda.stream(torch.cuda.Stream()), torch.autocast('cuda'):
    product = torch.ones(4, 4, device='cuda') @ torch.ones(4, 4, device='cuda')
end.record()
torch.cuda.synchronize()
print(product.dtype, start.elapsed_time(end) >= 0, torch.cuda.memory_allocated())
"""
    assert run(pool, program(source)).text() == "torch.bfloat16 True 0\n"


@pytest.mark.container
def test_nccl_and_ddp_are_served_by_gloo(pool: SlotPool) -> None:
    source = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank = int(os.environ['LOCAL_RANK'])
torch.cuda.set_device(rank)
dist.init_process_group('nccl', device_id=torch.device('cuda', rank))
model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[rank])
model(torch.ones(2, 4, device='cuda') * rank).sum().backward()
group = dist.new_group([0, 1], backend='nccl')
print(torch.cuda.current_device(), torch.cuda.device_count(), model.module.weight.grad.sum().item())
dist.destroy_process_group()
"""
    ran = run(pool, program(source, ranks=2))
    assert [ran.text(rank=rank) for rank in range(2)] == ["0 2 16.0\n", "1 2 16.0\n"], ran.text(Stream.STDERR)
    assert rehearsed(ran)


@pytest.mark.container
def test_fsdp_runs_on_the_cpu(pool: SlotPool) -> None:
    source = """
import os, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
dist.init_process_group('nccl')
first = FullyShardedDataParallel(torch.nn.Linear(4, 4).cuda(), device_id=int(os.environ['LOCAL_RANK']))
first(torch.ones(2, 4, device='cuda')).sum().backward()
second = torch.nn.Linear(4, 4).cuda()
fully_shard(second, mesh=init_device_mesh('cuda', (2,)))
second(torch.ones(2, 4).cuda()).sum().backward()
print('done')
dist.destroy_process_group()
"""
    ran = run(pool, program(source, ranks=2))
    assert [ran.text(rank=rank) for rank in range(2)] == ["done\n", "done\n"], ran.text(Stream.STDERR)


@pytest.mark.container
def test_a_program_without_a_gpu_is_not_called_a_rehearsal(pool: SlotPool) -> None:
    ran = run(pool, program("import torch\nprint(torch.ones(1).item())"))
    assert ran.text() == "1.0\n"
    assert not rehearsed(ran)


@pytest.mark.container
def test_without_leave_to_rehearse_cuda_fails_in_torchs_own_words(pool: SlotPool) -> None:
    ran = run(pool, program("import torch\ntorch.ones(1, device='cuda')", rehearse=Rehearse.NEVER))
    assert "Torch not compiled with CUDA enabled" in ran.text(Stream.STDERR)
    assert not rehearsed(ran)


@pytest.mark.container
def test_an_error_inside_the_rehearsal_shows_none_of_its_frames(pool: SlotPool) -> None:
    ran = run(pool, program("import torch\ntorch.ones(2, device='cuda') @ torch.ones(3, device='cuda')"))
    shown = ran.text(Stream.STDERR)
    assert "RuntimeError" in shown
    assert "rendezvous" not in shown
    assert ran.result.message == "The program raised RuntimeError at main.py:2."


@pytest.mark.container
def test_without_leave_to_rehearse_a_kernel_needs_a_gpu(pool: SlotPool) -> None:
    source = (
        "import torch, triton, triton.language as tl\n\n@triton.jit\ndef copy(x, y):\n    tl.store(y, tl.load(x))\n\n"
        "copy[(1,)](torch.ones(1), torch.ones(1))\n"
    )
    ran = run(pool, program(source, rehearse=Rehearse.NEVER))
    assert "This Triton kernel needs a GPU, and this machine has none." in ran.text(Stream.STDERR)
    assert not rehearsed(ran)
