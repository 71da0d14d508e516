import torch
import torch.distributed as dist


def ring_reduce_scatter(tensor: torch.Tensor) -> torch.Tensor:
    """Chunk r of the sum over all ranks, on rank r."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    chunks = torch.tensor_split(tensor, world_size)

    # Your ring goes here.

    return chunks[rank].clone()


if __name__ == "__main__":
    # Rank and world size are in the environment, as under torchrun.
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    tensor = torch.arange(8.0) + 100 * rank
    result = ring_reduce_scatter(tensor)

    total = sum(torch.arange(8.0) + 100 * k for k in range(world_size))
    expected = torch.tensor_split(total, world_size)[rank]
    print(f"rank {rank}: {result.tolist()}, expected {expected.tolist()}")

    dist.destroy_process_group()
