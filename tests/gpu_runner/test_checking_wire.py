"""What crosses between the checker and the candidate is plain data, and nothing else gets through."""

from __future__ import annotations

import json
import math
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runner.sandbox.checking_compare import same
from gpu_runner.sandbox.checking_wire import (
    BODY_BYTES,
    FRAME_BYTES,
    HEADER_BYTES,
    Foreign,
    FrameReader,
    Message,
    RawPlacement,
    RawTensor,
    WireFault,
    pack_message,
)


def keep(raw: RawTensor | RawPlacement) -> object:
    return raw


def read(frame: bytes, *, piece: int = 1 << 16) -> Message:
    reader = FrameReader()
    message = None
    while frame:
        size = min(piece, reader.wanted_bytes())
        message = reader.feed(frame[:size])
        frame = frame[size:]
    assert message is not None
    return message


def there_and_back(value: object) -> Any:
    return read(pack_message({"op": "returned"}, {"value": value})).value("value", keep)


def forged(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("!4sIQ", b"RDV1", len(text), len(body)) + text + body


def with_value(tree: object, body: bytes = b"") -> bytes:
    buffers = [len(body)] if body else []
    return forged({"fields": {}, "values": {"value": tree}, "buffers": buffers}, body)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_values_arrive_as_they_were(value: object) -> None:
    assert same(there_and_back(value), value)


@pytest.mark.parametrize("value", [True, 1, 1.0, "1", [1], (1,), None, 2**63, -(2**200), math.inf, -math.inf, 0.1])
def test_a_value_keeps_its_type(value: object) -> None:
    arrived = there_and_back(value)
    assert type(arrived) is type(value)
    assert arrived == value


def test_nan_stays_nan() -> None:
    assert math.isnan(there_and_back(math.nan))


def test_a_frame_may_come_in_any_pieces() -> None:
    frame = pack_message({"op": "x"}, {"value": [RawTensor("int8", (3,), b"abc"), "é"]})
    for piece in (1, 3, 7, 1000):
        assert read(frame, piece=piece).value("value", keep) == [RawTensor("int8", (3,), bytearray(b"abc")), "é"]


class EqualToAll(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def test_subclasses_and_strangers_arrive_as_foreign() -> None:
    class Text(str):
        __slots__ = ()

    for value in (EqualToAll(3), Text("a"), object(), {1, 2}, b"bytes", 1j, {1: 2}, len):
        arrived = there_and_back(value)
        assert isinstance(arrived, Foreign)
        assert not same(arrived, value)
        assert not same(arrived, arrived)
    assert there_and_back(EqualToAll(3)).type_name.endswith("EqualToAll")


def test_an_int_beyond_all_reason_is_foreign() -> None:
    assert there_and_back(1 << 5000) == Foreign("an int of 5001 bits")


def test_a_value_that_contains_itself_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    arrived = there_and_back(loop)
    for _ in range(17):
        arrived = arrived[0]
    assert arrived == Foreign("a value nested too deeply")


@pytest.mark.parametrize(
    "tree",
    [
        {"tensor": {"dtype": "float32", "shape": [2], "buffer": 0}},  # 8 bytes are needed
        {"tensor": {"dtype": "float32", "shape": [-1], "buffer": 0}},
        {"tensor": {"dtype": "float32", "shape": [1.0], "buffer": 0}},
        {"tensor": {"dtype": "float32", "shape": [True], "buffer": 0}},
        {"tensor": {"dtype": "float32", "shape": [1] * 17, "buffer": 0}},
        {"tensor": {"dtype": "float32", "shape": [2**40, 2**40], "buffer": 0}},
        {"tensor": {"dtype": "object", "shape": [1], "buffer": 0}},
        {"tensor": {"dtype": ["float32"], "shape": [1], "buffer": 0}},
        {"tensor": {"dtype": "float32", "shape": [1], "buffer": 1}},
        {"tensor": {"dtype": "float32", "shape": [1], "buffer": -1}},
        {"tensor": {"dtype": "float32", "shape": [1], "buffer": 0, "stride": [0]}},
        {"tensor": {"dtype": "bool", "shape": [4], "buffer": 0}},  # the bytes are not 0 and 1
        {"int": "1" * 5000},
        {"int": "1e5"},
        {"int": "١"},  # a digit, but not one of ours
        {"float": "1.0"},
        {"dict": [["a", 1], ["a", 2]]},
        {"dict": [[1, 1]]},
        {"dict": {"a": 1}},
        {"tuple": 1},
        {"tuple": [], "dict": []},
        {"pickle": "gASVAAAA"},
        {},
        2**64,
    ],
)
def test_a_value_that_is_not_as_agreed_is_refused(tree: object) -> None:
    message = read(with_value(tree, b"\x00\x01\x02\x03"))
    with pytest.raises(WireFault):
        message.value("value", keep)


@pytest.mark.parametrize(
    "frame",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        forged(b"{nonsense"),
        forged(b"[" * 100_000),
        forged(b'{"fields": {}, "values": {"value": NaN}, "buffers": []}'),
        forged([]),
        forged({"fields": {}, "values": {}}),
        forged({"fields": {}, "values": {}, "buffers": [], "more": 1}),
        forged({"fields": [], "values": {}, "buffers": []}),
        forged({"fields": {}, "values": {}, "buffers": [4]}, b"abc"),
        forged({"fields": {}, "values": {}, "buffers": [-1, 4]}, b"abc"),
        forged({"fields": {}, "values": {}, "buffers": ["3"]}, b"abc"),
    ],
)
def test_a_frame_that_is_not_as_agreed_is_refused(frame: bytes) -> None:
    with pytest.raises(WireFault):
        read(frame)


@pytest.mark.parametrize("sizes", [(HEADER_BYTES + 1, 0), (10, BODY_BYTES + 1), (10, 2**63)])
def test_a_frame_too_big_is_refused_before_it_has_come(sizes: tuple[int, int]) -> None:
    reader = FrameReader()
    with pytest.raises(WireFault, match="larger than"):
        reader.feed(struct.pack("!4sIQ", b"RDV1", *sizes))


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_noise_raises_nothing_but_a_fault(noise: bytes) -> None:
    for data in (noise, forged(noise), with_value({"tensor": {"dtype": "int8", "shape": [9], "buffer": 0}}, noise)):
        reader = FrameReader()
        left = data
        try:
            while left:
                size = min(len(left), max(1, reader.wanted_bytes()))
                message = reader.feed(left[:size])
                left = left[size:]
                if message is not None:
                    message.value("value", keep)
        except WireFault:
            pass
        assert reader.wanted_bytes() <= FRAME_BYTES + HEADER_BYTES + BODY_BYTES


PLAIN_KINDS = (type(None), bool, int, float, str, list, tuple, dict, RawTensor, Foreign, RawPlacement)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["tensor", "tuple", "dict", "int", "float", "placement", "dtype", "shape", "buffer"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=300)
@given(JSON)
def test_any_json_decodes_or_is_refused(tree: object) -> None:
    message = read(with_value(tree, b"\x00" * 8))
    with suppress(WireFault):
        value = message.value("value", keep)
        assert type(value) in PLAIN_KINDS
