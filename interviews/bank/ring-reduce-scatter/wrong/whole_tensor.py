import torch
import torch.distributed as dist


def ring_reduce_scatter(tensor):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    total = tensor.clone()
    outgoing = tensor.clone()
    for _ in range(world_size - 1):
        incoming = torch.empty_like(outgoing)
        sending = dist.isend(outgoing, right)
        receiving = dist.irecv(incoming, left)
        sending.wait()
        receiving.wait()
        total += incoming
        outgoing = incoming
    return total
