"""Widths, strides, dtypes and numerics, compared with PyTorch in fp64.

Inputs have a mean far from 0 and rows that are no power of two, without which most mistakes cannot be seen. They lie in buffers
full of NaN, so that whoever reads beside a row gets NaN, and whoever writes there is found out.
"""

import math

import torch
from checking import FarApart, check, inside

FUNCTION = "layer_norm"
# The interpreter takes about a millisecond a row.
LIMIT_S = 5.0
TOLERANCES = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 3.2e-2}


def normalised(x, eps=1e-5):
    return torch.nn.functional.layer_norm(x.double(), (x.shape[1],), eps=eps)


def known_mistakes(x, eps=1e-5):
    """Outcomes of mistakes that are made again and again, for an fp32 input."""
    wide = x.double()
    D = x.shape[1]
    block = 1 << (D - 1).bit_length()
    mean = wide.mean(dim=1, keepdim=True)
    var = wide.var(dim=1, keepdim=True, unbiased=False)
    lost = (block - D) / D * mean**2
    block_mean = mean * D / block
    block_var = ((wide - block_mean) ** 2).sum(dim=1, keepdim=True) / block
    return {
        "the lanes beyond the row count in the variance": (wide - mean) / (var + lost + eps).sqrt(),
        "mean and variance are divided by the block, not by D": (wide - block_mean) / (block_var + eps).sqrt(),
        "the variance is divided by D - 1": (wide - mean) / (var * D / max(1, D - 1) + eps).sqrt(),
        "eps is added outside the square root": (wide - mean) / (var.sqrt() + eps),
        "the input is returned": wide,
    }


def compare(answer, x, *, dtype=torch.float32, abs_tol=None, eps=1e-5):
    answer.expect_tensor(
        normalised(x, eps),
        dtype=dtype,
        abs_tol=TOLERANCES[dtype] if abs_tol is None else abs_tol,
        known=known_mistakes(x, eps),
    )


@check("Two rows of three", time_limit_s=LIMIT_S)
def small_rows(candidate):
    x = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
    compare(candidate.call(FUNCTION, x), x)


@check("Rows of 1,024", time_limit_s=LIMIT_S)
def power_of_two(candidate):
    x = torch.randn(4, 1024, generator=candidate.generator())
    compare(candidate.call(FUNCTION, x), x)


@check("The work is done by a Triton kernel", time_limit_s=LIMIT_S)
def uses_triton(candidate):
    x = torch.randn(4, 64, generator=candidate.generator())
    answer = candidate.call(FUNCTION, x)
    # By the submission's own notes: whether the kernel does the work is for the eye to see, and for the other checks.
    answer.require(answer.notes.kernel_launches > 0, "no Triton kernel was launched.")


@check("Widths that are no power of two, with a mean of 10", time_limit_s=LIMIT_S)
def any_width(candidate):
    # Two random values can lie so close together that the rounding of 10 shows.
    pairs = torch.tensor([[9.0, 11.0], [4.0, 16.0], [10.0, 10.5]])
    compare(candidate.call(FUNCTION, pairs), pairs)
    for D in (1, 100, 127, 768, 1000):
        x = torch.randn(3, D, generator=candidate.generator()) + 10
        compare(candidate.call(FUNCTION, x), x)


@check("Rows of up to 8,192", time_limit_s=LIMIT_S)
def wide_rows(candidate):
    for D in (1151, 4095, 8192):
        x = torch.randn(2, D, generator=candidate.generator()) + 10
        compare(candidate.call(FUNCTION, x), x)


@check("Nothing beside a row is read", time_limit_s=LIMIT_S)
def reads_inside(candidate):
    for D in (100, 1000):
        x = torch.randn(3, D, generator=candidate.generator()) + 10
        compare(candidate.call(FUNCTION, inside(x, fill=math.nan)), x)


@check("Input and output with different distances between rows", time_limit_s=LIMIT_S)
def row_strides(candidate):
    for D, x_stride, y_stride in ((100, 160, 130), (100, 100, 170), (64, 200, 64)):
        x = torch.randn(4, D, generator=candidate.generator()) + 10
        placed = inside(x, fill=math.nan, row_stride=x_stride)
        out = inside(torch.full_like(x, math.nan), fill=-77.0, row_stride=y_stride, margin=1024)
        answer = candidate.call(FUNCTION, placed, out=out)
        compare(answer, x)
        # What was returned could be another tensor, so look at the one that was given, and at all around it.
        in_place = out.view_of(answer.after(out))
        error = (in_place.double() - normalised(x)).abs().max().item()
        answer.require(error <= 1e-5, "`out` does not hold the result.")
        answer.expect_outside_unchanged(out)
        answer.expect_unchanged(placed)


@check("fp16 and bf16", time_limit_s=LIMIT_S)
def half_precision(candidate):
    # Means whose squares are too much for fp16, and spreads that are more than the spacing of the dtype's numbers.
    for dtype, means in ((torch.float16, (10, 1000)), (torch.bfloat16, (10, 100))):
        for mean in means:
            x = (torch.randn(3, 1000, generator=candidate.generator()) + mean).to(dtype)
            compare(candidate.call(FUNCTION, x), x, dtype=dtype)


@check("A mean far larger than the spread", time_limit_s=LIMIT_S)
def large_mean(candidate):
    for mean, abs_tol in ((1e3, 1e-3), (1e4, 5e-3)):
        x = torch.randn(3, 1000, generator=candidate.generator()) + mean
        compare(candidate.call(FUNCTION, x), x, abs_tol=abs_tol)


@check("Values as small as eps", time_limit_s=LIMIT_S)
def small_values(candidate):
    x = torch.randn(3, 1000, generator=candidate.generator()) * 1e-3
    compare(candidate.call(FUNCTION, x), x)
    compare(candidate.call(FUNCTION, x, eps=1e-3), x, eps=1e-3)


@check("Rows without any spread, and rows of one element", time_limit_s=LIMIT_S)
def constant_rows(candidate):
    for D in (3, 64, 100):
        x = torch.full((2, D), 5.0)
        candidate.call(FUNCTION, x).expect_tensor(torch.zeros(2, D))
    single = torch.tensor([[7.0], [-2.0]])
    candidate.call(FUNCTION, single).expect_tensor(torch.zeros(2, 1))


@check("No rows at all", time_limit_s=LIMIT_S)
def no_rows(candidate):
    for dtype in (torch.float32, torch.float16):
        empty = torch.empty(0, 64, dtype=dtype)
        candidate.call(FUNCTION, empty).expect_tensor(empty)


@check("Rows more than 2^31 elements apart", time_limit_s=LIMIT_S)
def rows_far_apart(candidate):
    x = (torch.randn(3, 64, generator=candidate.generator()) + 10).half()
    answer = candidate.call(FUNCTION, FarApart(x, row_stride=1 << 30))
    compare(answer, x, dtype=torch.float16)
