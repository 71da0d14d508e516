import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, y_ptr, D, BLOCK_D: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK_D)
    x = tl.load(x_ptr + row * D + columns)
    tl.store(y_ptr + row * D + columns, x)


def layer_norm(x: torch.Tensor, eps: float = 1e-5, out: torch.Tensor | None = None) -> torch.Tensor:
    """Each row of x with mean 0 and variance 1."""
    if out is None:
        out = torch.empty_like(x)
    rows, D = x.shape
    # For now it copies, and only widths that are a power of two.
    layer_norm_kernel[(rows,)](x, out, D, BLOCK_D=D)
    return out


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(4, 64, device=device) + 10
    y = layer_norm(x)
    expected = torch.nn.functional.layer_norm(x, (64,))
    print(f"largest error: {(y - expected).abs().max().item():.2e}")
