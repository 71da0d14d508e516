import torch
import torch.distributed as dist


def ring_reduce_scatter(tensor: torch.Tensor) -> torch.Tensor:
    """Chunk r of the sum over all ranks, on rank r.

    In step s rank r passes on chunk r - s - 1, to which it has added its own part by then, and adds its part to chunk
    r - s - 2, which comes from the left. So chunk r arrives last, complete, after W - 1 steps.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    # Copies: the sums are built in them, and the input stays as it is.
    chunks = [chunk.clone() for chunk in torch.tensor_split(tensor, world_size)]

    for step in range(world_size - 1):
        outgoing = chunks[(rank - step - 1) % world_size]
        growing = chunks[(rank - step - 2) % world_size]
        incoming = torch.empty_like(growing)
        # Both at once: were all ranks to send first, none would receive. On NCCL the two must be one group as well.
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, outgoing, right), dist.P2POp(dist.irecv, incoming, left)]
        )
        for work in works:
            work.wait()
        growing += incoming

    return chunks[rank]


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    for length in (8, 10, 3):
        tensor = torch.arange(float(length)) + 100 * rank
        result = ring_reduce_scatter(tensor)
        total = sum(torch.arange(float(length)) + 100 * k for k in range(world_size))
        expected = torch.tensor_split(total, world_size)[rank]
        print(f"rank {rank}: {result.tolist()}, expected {expected.tolist()}", flush=True)

    dist.destroy_process_group()
