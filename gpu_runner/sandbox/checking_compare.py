"""Comparisons, all of them on the trusted side and with plain values. Each raises ``Fault`` or returns nothing.

``known`` names wrong answers that are seen again and again: where the answer is one of them, the interviewer reads its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpu_runner.sandbox.checking_faults import Fault, is_tensor, kind_of, shown, tensor_form
from gpu_runner.sandbox.checking_wire import Foreign

if TYPE_CHECKING:
    from torch import Tensor

Known = Mapping[str, object]


def same(got: object, expected: object) -> bool:
    """Equality of plain data that tells ``True`` from ``1`` from ``1.0``, and finds NaN equal to NaN."""
    if type(got) is not type(expected) or isinstance(got, Foreign):
        return False
    if isinstance(got, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(got, dict) and isinstance(expected, dict):
        return got.keys() == expected.keys() and all(same(got[key], expected[key]) for key in got)
    if is_tensor(got):
        return tensors_equal(got, expected)
    if isinstance(got, float) and isinstance(expected, float) and math.isnan(got):
        return math.isnan(expected)
    return bool(got == expected)


def tensors_equal(got: Any, expected: Any) -> bool:
    """The same dtype, shape and bits."""
    import torch

    if got.dtype != expected.dtype or got.shape != expected.shape:
        return False
    pairs = [side.contiguous().reshape(-1) for side in (got, expected)]
    return not got.numel() or bool(torch.equal(*(side.view(torch.uint8) for side in pairs)))


def compare_int(got: object, expected: int, *, subject: str, known: Known) -> None:
    if type(got) is not int:
        raise Fault(
            f"{subject}: an int is wanted, this is {kind_of(got)}.",
            shown=f"It is {shown(got)}.",
            detail=f"Expected {expected:,}.",
        )
    if got != expected:
        factor = f"It is {got / expected:.6g} times as much." if expected and abs(got) < 1 << 1000 else ""
        named = [words for words, wrong in known.items() if same(got, wrong)]
        raise Fault(
            f"{subject}: the number is not right.",
            shown=f"It is {got:,}, expected {expected:,}.",
            detail=" ".join(part for part in (_named(named), factor) if part),
        )


def compare_close(got: object, expected: float, *, rel_tol: float, abs_tol: float, subject: str, known: Known) -> None:
    if not isinstance(got, (int, float)) or isinstance(got, bool):
        raise Fault(
            f"{subject}: a number is wanted, this is {kind_of(got)}.",
            shown=f"It is {shown(got)}.",
            detail=f"Expected {expected!r}.",
        )
    if not _is_close(got, expected, rel_tol, abs_tol):
        named = [words for words, wrong in known.items() if _is_close(got, wrong, rel_tol, abs_tol)]
        raise Fault(
            f"{subject}: the number is not right.",
            shown=f"It is {shown(got)}, expected {expected!r} (relative tolerance {rel_tol:g}).",
            detail=_named(named),
        )


def _is_close(got: float, expected: object, rel_tol: float, abs_tol: float) -> bool:
    if not isinstance(expected, (int, float)):
        return False
    try:
        return math.isclose(got, expected, rel_tol=rel_tol, abs_tol=abs_tol)
    except OverflowError:
        return False


def compare_equal(got: object, expected: object, *, subject: str, known: Known) -> None:
    if same(got, expected):
        return
    named = [words for words, wrong in known.items() if same(got, wrong)]
    raise Fault(
        f"{subject}: the result is not right.",
        shown=f"It is {shown(got)}, expected {shown(expected)}.",
        detail=_named(named),
    )


def compare_tensor(
    got: Any, expected: Tensor, *, dtype: Any, rel_tol: float, abs_tol: float, subject: str, known: Known
) -> None:
    """Every element within ``abs_tol + rel_tol × the largest magnitude expected``.

    ``expected`` may be of a more precise dtype than the ``dtype`` that is wanted.
    """
    fault = _form_fault(got, expected, dtype, subject) or _value_fault(got, expected, rel_tol, abs_tol, subject)
    if fault is None:
        return
    named = [
        words
        for words, wrong in known.items()
        if is_tensor(got)
        and is_tensor(wrong)
        and got.numel()
        and _value_fault(got, wrong, rel_tol, abs_tol, "") is None
    ]
    fault.detail = "\n".join(part for part in (_named(named), fault.detail) if part)
    raise fault


def _form_fault(got: Any, expected: Any, dtype: Any, subject: str) -> Fault | None:
    if not is_tensor(got):
        return Fault(f"{subject}: a tensor is wanted, this is {kind_of(got)}.", detail=f"Expected {shown(expected)}.")
    wanted = expected.dtype if dtype is None else dtype
    if tuple(got.shape) != tuple(expected.shape):
        return Fault(
            f"{subject}: the tensor has another shape than it should.",
            shown=f"It is {tensor_form(got)}, expected shape {tuple(expected.shape)}.",
            detail=f"Got {shown(got)}, expected {shown(expected)}.",
        )
    if got.dtype != wanted:
        return Fault(
            f"{subject}: the tensor is of another dtype than it should be.",
            shown=f"It is {tensor_form(got)}, expected {str(wanted).removeprefix('torch.')}.",
        )
    return None


def _value_fault(got: Any, expected: Any, rel_tol: float, abs_tol: float, subject: str) -> Fault | None:
    import torch

    if tuple(got.shape) != tuple(expected.shape):
        return Fault(f"{subject}: the tensor has another shape than it should.")
    if not got.numel():
        return None
    exact = not got.dtype.is_floating_point and not expected.dtype.is_floating_point
    wide = torch.int64 if exact else torch.float64
    have, want = got.to(wide), expected.to(wide)
    if exact:
        wrong = have != want
        error = wrong.to(torch.float64)
    else:
        finite = want[want.isfinite()]
        scale = float(finite.abs().max()) if finite.numel() else 0.0
        error = (have - want).abs()
        # Infinities and NaN are right only where they are expected.
        alike = (have == want) | (have.isnan() & want.isnan())
        error = torch.where(alike, torch.zeros_like(error), error.nan_to_num(nan=math.inf, posinf=math.inf))
        wrong = error > abs_tol + rel_tol * scale
    count = int(wrong.sum())
    if not count:
        return None
    where = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
    nans = int((have.isnan() & ~want.isnan()).sum()) if not exact else 0
    words = f"{subject}: {'all' if count == got.numel() else 'some'} of its values are wrong"
    words += ", and some are NaN." if nans else "."
    counted = f"{count:,} of {got.numel():,} elements are"
    worst = f"At {list(where)} it is {got[where].item()!r}, expected {expected[where].item()!r}"
    tolerance = "" if exact else f" (tolerance {abs_tol + rel_tol * scale:.3g})"
    detail = f"NaN: {nans:,} of {got.numel():,}." if nans else ""
    small = f" It is {shown(got)}, expected {shown(expected)}." if got.numel() <= 8 else ""
    return Fault(words, shown=f"{counted}. {worst}{tolerance}.{small}", detail=detail)


def _named(names: list[str]) -> str:
    return f"This is what comes out when {' or '.join(names)}." if names else ""
