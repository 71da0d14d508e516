import torch
import torch.distributed as dist


def ring_reduce_scatter(tensor):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    chunks = [chunk.clone() for chunk in torch.tensor_split(tensor, world_size)]
    for step in range(world_size - 1):
        outgoing = chunks[(rank - step - 1) % world_size]
        growing = chunks[(rank - step - 2) % world_size]
        incoming = torch.empty_like(growing)
        dist.send(outgoing, right)
        dist.recv(incoming, left)
        growing += incoming
    return chunks[rank]
