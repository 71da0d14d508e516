"""Real tensors out of raw bytes and back, on both sides of the line between the checker and the candidate.

Torch is imported where it is needed only: the warm parent has loaded it, whoever else imports this module need not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_runner.sandbox.checking_wire import ITEM_BYTES, Foreign, RawPlacement, RawTensor

if TYPE_CHECKING:
    from torch import Tensor


def dtype_name(dtype: Any) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def to_raw(tensor: Tensor) -> RawTensor:
    """The elements of any dense tensor, wherever it lies."""
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return RawTensor(dtype_name(tensor.dtype), tuple(tensor.shape), data)


def from_raw(raw: RawTensor) -> Tensor:
    """A contiguous tensor on the CPU."""
    import torch

    dtype = getattr(torch, raw.dtype)
    if not len(raw.data):
        return torch.empty(raw.shape, dtype=dtype)
    data = raw.data if isinstance(raw.data, bytearray) else bytearray(raw.data)
    return torch.frombuffer(data, dtype=dtype).reshape(raw.shape)


def pack_result(value: object) -> object:
    """For the candidate's results: a plain tensor becomes a raw one, anything else stays what it is, foreign."""
    import torch

    if type(value) in (torch.Tensor, torch.nn.Parameter) and isinstance(value, torch.Tensor):
        name = dtype_name(value.dtype)
        if value.layout is not torch.strided or value.is_meta or name not in ITEM_BYTES:
            return Foreign(f"a tensor of {name} ({value.layout}, {value.device})")
        return to_raw(value)
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A tensor argument with a place in a buffer of ours, made by ``inside`` or one of its kin."""

    buffer: Tensor
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @property
    def view(self) -> Tensor:
        """The tensor that the candidate is given."""
        return self.view_of(self.buffer)

    def view_of(self, buffer: Tensor) -> Tensor:
        """The same place in another buffer, such as the one that came back."""
        import torch

        return torch.as_strided(buffer, self.shape, self.stride, self.offset)

    def outside_of(self, buffer: Tensor) -> Tensor:
        """The elements of a buffer that are not in the view."""
        import torch

        outside = torch.ones(buffer.numel(), dtype=torch.bool)
        self.view_of(outside).fill_(False)
        return buffer[outside]

    def to_raw(self, *, back: bool) -> RawPlacement:
        return RawPlacement(
            dtype=dtype_name(self.buffer.dtype),
            shape=self.shape,
            stride=self.stride,
            offset=self.offset,
            buffer=to_raw(self.buffer),
            buffer_items=self.buffer.numel(),
            values=None,
            back=back,
        )


@dataclass(frozen=True, slots=True, eq=False)
class FarApart:
    """A tensor whose rows lie so far apart that only its elements can be sent; the candidate's side reserves the room."""

    values: Tensor
    row_stride: int

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    def to_raw(self, *, back: bool) -> RawPlacement:
        rows, columns = self.values.shape
        return RawPlacement(
            dtype=dtype_name(self.values.dtype),
            shape=(rows, columns),
            stride=(self.row_stride, 1),
            offset=0,
            buffer=None,
            buffer_items=(rows - 1) * self.row_stride + columns,
            values=to_raw(self.values),
            back=back,
        )


def inside(values: Tensor, *, fill: float, row_stride: int | None = None, margin: int = 64) -> Placed:
    """The values of a vector or matrix inside a buffer full of ``fill``: beside each row, before the first, after the last.

    Whoever reads past a row reads ``fill``, whoever writes past it is seen. The rows lie ``row_stride`` elements apart
    (a row's length and 16 more, if not given), with ``margin`` elements before and after.
    """
    import torch

    if values.dim() not in (1, 2):
        raise ValueError("only vectors and matrices can be placed")
    columns = values.shape[-1]
    stride = row_stride if row_stride is not None else columns + 16
    if stride < columns:
        raise ValueError("the rows would overlap")
    rows = values.shape[0] if values.dim() == 2 else 1
    room = max(0, (rows - 1) * stride + columns) if rows else 0
    buffer = torch.full((margin + room + max(margin, stride),), fill, dtype=values.dtype)
    shape = tuple(values.shape)
    strides = (stride, 1) if values.dim() == 2 else (1,)
    placed = Placed(buffer, shape, strides, margin)
    placed.view.copy_(values)
    return placed


def contiguous(values: Tensor) -> Placed:
    """The values in a buffer of just their size."""
    plain = values.detach().contiguous().clone()
    return Placed(plain.reshape(-1), tuple(plain.shape), _row_major(tuple(plain.shape)), 0)


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(max(1, size) for size in shape[i + 1 :]) for i in range(len(shape)))


def build(raw: RawPlacement) -> tuple[Tensor, Tensor]:
    """On the candidate's side: the buffer and the view in it."""
    import torch

    if raw.buffer is not None:
        buffer = from_raw(raw.buffer)
    else:
        buffer = torch.empty(raw.buffer_items, dtype=getattr(torch, raw.dtype))
    view = torch.as_strided(buffer, raw.shape, raw.stride, raw.offset)
    if raw.values is not None:
        view.copy_(from_raw(raw.values))
    return buffer, view
