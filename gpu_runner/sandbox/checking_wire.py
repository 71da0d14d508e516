"""How plain values travel between the checker and the candidate's ranks: JSON and the raw bytes of tensors, never pickle.

The candidate's end is hostile. Everything that comes in is bounded, checked field by field and made of plain data only, so an
object that claims to equal everything, a subclass or a lazy tensor cannot arrive: its place is taken by ``Foreign``, which
equals nothing but itself. The module knows no torch; ``tensors`` turns ``RawTensor`` into real ones.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

MAGIC = b"RDV1"
_FRAME = struct.Struct("!4sIQ")
FRAME_BYTES = _FRAME.size

#: What one message may carry. The header holds everything but tensors.
HEADER_BYTES = 1 << 20
BODY_BYTES = 64 << 20
MAX_DEPTH = 16
MAX_DIMENSIONS = 16
#: Beyond these an int has no place in any answer, and turning its text into a number would cost the checker seconds.
_NATIVE_INT_BITS = 63
_LONGEST_INT_BITS = 4096
_LONGEST_INT_CHARS = 1300

#: The kinds of tensor that cross, and the size of one element.
ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


class WireFault(ValueError):
    """What arrived is not a message of ours. The text says why, in words that may be shown."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Stands where the candidate returned something that is not plain data."""

    type_name: str


@dataclass(frozen=True, slots=True)
class RawTensor:
    """A tensor's elements in row-major order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class RawPlacement:
    """A tensor argument: the buffer it lies in and where. The candidate's side makes the view, so it is a real strided one.

    ``buffer`` is one-dimensional and goes over whole. Where it is None, ``values`` go over alone and the rest of the
    ``buffer_items`` elements is memory that nobody wrote: for views that span more than can be sent. With ``back``, the
    buffer (or only the view, where the buffer never went over) is sent back as it is after the call.
    """

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    buffer: RawTensor | None
    buffer_items: int
    values: RawTensor | None
    back: bool


Pack = Callable[[object], object]
Unpack = Callable[[RawTensor | RawPlacement], object]


def _pack_nothing(value: object) -> object:
    return value


def pack_message(fields: dict[str, Any], values: dict[str, object], pack: Pack = _pack_nothing) -> bytes:
    """A whole frame. ``fields`` are JSON as they stand, ``values`` are encoded; ``pack`` turns tensors into raw ones."""
    buffers: list[bytes | bytearray | memoryview] = []
    encoded = {name: encode(value, buffers, pack) for name, value in values.items()}
    header = json.dumps(
        {"fields": fields, "values": encoded, "buffers": [len(buffer) for buffer in buffers]}, allow_nan=False
    ).encode("ascii")
    body_bytes = sum(map(len, buffers))
    return b"".join([_FRAME.pack(MAGIC, len(header), body_bytes), header, *buffers])


def encode(value: object, buffers: list[bytes | bytearray | memoryview], pack: Pack, depth: int = 0) -> Any:
    """The JSON form of a value. Types are compared exactly: a subclass is not the thing itself."""
    kind = type(value)
    if depth > MAX_DEPTH:
        return {"foreign": "a value nested too deeply"}
    if value is None or kind in (bool, str):
        return value
    if isinstance(value, int) and kind is int:
        return _encode_int(value)
    if isinstance(value, float) and kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, list) and kind is list:
        return [encode(item, buffers, pack, depth + 1) for item in value]
    if isinstance(value, tuple) and kind is tuple:
        return {"tuple": [encode(item, buffers, pack, depth + 1) for item in value]}
    if isinstance(value, dict) and kind is dict:
        if not all(type(key) is str for key in value):
            return {"foreign": "a dict with keys that are not text"}
        return {"dict": [[key, encode(item, buffers, pack, depth + 1)] for key, item in value.items()]}
    raw = value if isinstance(value, (RawTensor, RawPlacement, Foreign)) else pack(value)
    if isinstance(raw, RawTensor):
        return {"tensor": _encode_tensor(raw, buffers)}
    if isinstance(raw, RawPlacement):
        return {"placement": _encode_placement(raw, buffers)}
    if isinstance(raw, Foreign):
        return {"foreign": raw.type_name[:200]}
    return {"foreign": _type_name(kind)}


def _encode_int(value: int) -> Any:
    if value.bit_length() <= _NATIVE_INT_BITS:
        return value
    if value.bit_length() > _LONGEST_INT_BITS:
        return {"foreign": f"an int of {value.bit_length()} bits"}
    return {"int": str(value)}


def _encode_tensor(raw: RawTensor, buffers: list[bytes | bytearray | memoryview]) -> dict[str, Any]:
    buffers.append(raw.data)
    return {"dtype": raw.dtype, "shape": list(raw.shape), "buffer": len(buffers) - 1}


def _encode_placement(raw: RawPlacement, buffers: list[bytes | bytearray | memoryview]) -> dict[str, Any]:
    return {
        "dtype": raw.dtype,
        "shape": list(raw.shape),
        "stride": list(raw.stride),
        "offset": raw.offset,
        "buffer": None if raw.buffer is None else _encode_tensor(raw.buffer, buffers),
        "buffer_items": raw.buffer_items,
        "values": None if raw.values is None else _encode_tensor(raw.values, buffers),
        "back": raw.back,
    }


def _type_name(kind: type) -> str:
    name = str(getattr(kind, "__qualname__", "object"))
    module = str(getattr(kind, "__module__", ""))
    return (name if module in ("", "builtins", "__main__") else f"{module}.{name}")[:200]


@dataclass(frozen=True, slots=True)
class Message:
    """A message taken apart: JSON fields, not yet looked at, and encoded values with the buffers they name."""

    fields: dict[str, Any]
    values: dict[str, Any]
    buffers: tuple[bytearray, ...]

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise WireFault(f"its field {name!r} is not text")
        return value

    def value(self, name: str, unpack: Unpack) -> Any:
        """The decoded value. Raises ``WireFault``."""
        if name not in self.values:
            raise WireFault(f"it has no {name!r}")
        return decode(self.values[name], self.buffers, unpack)


class FrameReader:
    """Puts one frame after another together from pieces of a stream, and refuses what is too big before it has come."""

    def __init__(self, *, header_bytes: int = HEADER_BYTES, body_bytes: int = BODY_BYTES) -> None:
        self._data = bytearray()
        self._header_limit = header_bytes
        self._body_limit = body_bytes
        self._sizes: tuple[int, int] | None = None

    def wanted_bytes(self) -> int:
        """How many bytes the frame still lacks; reading no more than that keeps the memory bounded."""
        have = len(self._data)
        if self._sizes is None:
            return FRAME_BYTES - have
        return FRAME_BYTES + sum(self._sizes) - have

    def feed(self, data: bytes | bytearray | memoryview) -> Message | None:
        """Takes at most ``wanted_bytes`` in, gives a message when one is whole. Raises ``WireFault``."""
        self._data += data
        if self._sizes is None and len(self._data) == FRAME_BYTES:
            magic, header_bytes, body_bytes = _FRAME.unpack(self._data)
            if magic != MAGIC:
                raise WireFault("it is not a message of the checker's library")
            if header_bytes > self._header_limit or body_bytes > self._body_limit:
                raise WireFault(f"it is larger than {self._body_limit >> 20} MiB")
            self._sizes = (header_bytes, body_bytes)
        if self._sizes is None or self.wanted_bytes() > 0:
            return None
        whole, sizes = self._data, self._sizes
        self._data, self._sizes = bytearray(), None
        return _take_apart(whole, *sizes)


def _take_apart(whole: bytearray, header_bytes: int, body_bytes: int) -> Message:
    try:
        header = json.loads(whole[FRAME_BYTES : FRAME_BYTES + header_bytes], parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise WireFault("its header is not JSON") from None
    if not isinstance(header, dict) or set(header) != {"fields", "values", "buffers"}:
        raise WireFault("its header has other fields than it should")
    fields, values, lengths = header["fields"], header["values"], header["buffers"]
    if not isinstance(fields, dict) or not isinstance(values, dict) or not isinstance(lengths, list):
        raise WireFault("its header has fields of the wrong kind")
    if not all(_is_size(length) for length in lengths) or sum(lengths) != body_bytes:
        raise WireFault("its buffers are not as long as it says")
    buffers = []
    start = FRAME_BYTES + header_bytes
    for length in lengths:
        # Each in memory of its own, so that it is aligned for any element.
        buffers.append(whole[start : start + length])
        start += length
    return Message(fields, values, tuple(buffers))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def decode(tree: Any, buffers: tuple[bytearray, ...], unpack: Unpack, depth: int = 0) -> Any:
    """The value of a JSON form, all of it checked. Raises ``WireFault``."""
    if depth > MAX_DEPTH + 1:
        raise WireFault("a value is nested too deeply")
    if tree is None or type(tree) in (bool, str, float):
        return tree
    if type(tree) is int:
        if tree.bit_length() > _NATIVE_INT_BITS:
            raise WireFault("an int is too long")
        return tree
    if type(tree) is list:
        return [decode(item, buffers, unpack, depth + 1) for item in tree]
    if type(tree) is not dict or len(tree) != 1:
        raise WireFault("a value is of no known kind")
    ((tag, body),) = tree.items()
    match tag, body:
        case "tuple", list():
            return tuple(decode(item, buffers, unpack, depth + 1) for item in body)
        case "dict", list():
            return _decode_dict(body, buffers, unpack, depth)
        case "int", str():
            return _decode_int(body)
        case "float", "nan" | "inf" | "-inf":
            return float(body)
        case "foreign", str():
            return Foreign(body[:200])
        case "tensor", dict():
            return unpack(_decode_tensor(body, buffers))
        case "placement", dict():
            return unpack(_decode_placement(body, buffers))
    raise WireFault("a value is of no known kind")


def _decode_dict(pairs: list[Any], buffers: tuple[bytearray, ...], unpack: Unpack, depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str or pair[0] in result:
            raise WireFault("a dict is not made of pairs with different text keys")
        result[pair[0]] = decode(pair[1], buffers, unpack, depth + 1)
    return result


def _decode_int(text: str) -> int:
    if len(text) > _LONGEST_INT_CHARS or not text.removeprefix("-").isdecimal() or not text.isascii():
        raise WireFault("an int is not a number or too long")
    return int(text)


def _sizes(value: Any) -> tuple[int, ...]:
    if type(value) is not list or len(value) > MAX_DIMENSIONS or not all(_is_size(size) for size in value):
        raise WireFault("a tensor's shape is not a short list of sizes")
    return tuple(value)


def _decode_tensor(body: dict[str, Any], buffers: tuple[bytearray, ...]) -> RawTensor:
    if set(body) != {"dtype", "shape", "buffer"}:
        raise WireFault("a tensor has other fields than it should")
    dtype, index = body["dtype"], body["buffer"]
    if type(dtype) is not str or dtype not in ITEM_BYTES:
        raise WireFault("a tensor is of an unknown dtype")
    if not _is_size(index) or index >= len(buffers):
        raise WireFault("a tensor names a buffer that is not there")
    shape = _sizes(body["shape"])
    if math.prod(shape) * ITEM_BYTES[dtype] != len(buffers[index]):
        raise WireFault("a tensor's shape does not fit its data")
    # Any other byte would be a truth value that is neither True nor False.
    if dtype == "bool" and buffers[index].translate(None, b"\x00\x01"):
        raise WireFault("a tensor of truth values holds something else")
    return RawTensor(dtype, shape, buffers[index])


def _decode_placement(body: dict[str, Any], buffers: tuple[bytearray, ...]) -> RawPlacement:
    """Only the candidate's side reads these, and what it reads is ours. So no more than the form is checked."""
    names = {"dtype", "shape", "stride", "offset", "buffer", "buffer_items", "values", "back"}
    if set(body) != names or not _is_size(body["offset"]) or not _is_size(body["buffer_items"]):
        raise WireFault("a placement has other fields than it should")
    return RawPlacement(
        dtype=str(body["dtype"]),
        shape=_sizes(body["shape"]),
        stride=_sizes(body["stride"]),
        offset=body["offset"],
        buffer=None if body["buffer"] is None else _decode_tensor(body["buffer"], buffers),
        buffer_items=body["buffer_items"],
        values=None if body["values"] is None else _decode_tensor(body["values"], buffers),
        back=bool(body["back"]),
    )
