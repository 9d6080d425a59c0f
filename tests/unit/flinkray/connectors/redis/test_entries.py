"""Rows as fields of entries and back, and commands for them, without a server."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray.connectors.redis.clients import shown
from flinkray.connectors.redis.commands import RedisTarget, packed
from flinkray.connectors.redis.entries import decode_fields, encode_fields

TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "flag": (pa.bool_(), st.booleans()),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "real": (pa.float64(), st.floats(allow_nan=False)),
    "exact": (pa.decimal128(12, 3), st.decimals(-999, 999, places=3).map(lambda value: Decimal(value))),
    "text": (pa.string(), st.text()),
    "raw": (pa.binary(), st.binary()),
    "day": (pa.date32(), st.dates(datetime.date(1, 1, 1))),
    "time": (pa.timestamp("us"), st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))),
}


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_values_come_back_as_they_were(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 5))
    columns = {
        name: pa.array(data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), type)
        for name, (type, values) in TYPES.items()
    }
    batch = pa.RecordBatch.from_pydict(columns)
    names, values = encode_fields(batch, None)
    entries = [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in zip(*values, strict=True)
    ]
    assert decode_fields(entries, batch.schema).equals(batch)


def test_a_column_without_a_text_names_itself_and_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"column 'tags' is list.*give a value_format"):
        encode_fields(pa.RecordBatch.from_pydict({"tags": [["a"]]}), None)


def test_a_text_that_is_no_value_names_its_field() -> None:
    with pytest.raises(ValueError, match="field 'n'"):
        decode_fields([{b"n": b"many"}], pa.schema([("n", pa.int64())]))


def unpacked(data: bytes) -> list[list[bytes]]:
    """What a script reads."""
    position = 0

    def header(mark: int) -> int:
        nonlocal position
        found, length = struct.unpack_from(">BI", data, position)
        assert found == mark
        position += 5
        return int(length)

    commands = []
    for _ in range(header(0xDD)):
        words = []
        for _ in range(header(0xDD)):
            length = header(0xDB)
            words.append(data[position : position + length])
            position += length
        commands.append(words)
    assert position == len(data)
    return commands


@given(st.lists(st.lists(st.binary() | st.text(), max_size=4), max_size=4))
def test_scripts_get_the_commands_word_by_word(commands: list[list[bytes | str]]) -> None:
    expected = [[word.encode() if isinstance(word, str) else word for word in command] for command in commands]
    assert unpacked(packed(commands)) == expected


def test_a_hash_has_its_row_and_a_stream_its_bound() -> None:
    data = pa.RecordBatch.from_pydict({"a": ["x"], "b": [1], "c": pa.array([None], pa.string())})
    by_key = RedisTarget(stream=None, key_prefix="p:", key=("a", "b"), value_format=None, max_length=None)
    assert list(by_key.commands(data, "sink")) == [["HSET", "p:x:1", b"a", b"x", b"b", b"1"]]
    bounded = RedisTarget(stream="s", key_prefix=None, key=(), value_format=None, max_length=9)
    assert list(bounded.commands(data, "sink")) == [
        ["XADD", "s", "MAXLEN", "~", "9", "*", b"a", b"x", b"b", b"1"],
    ]


def test_addresses_are_shown_without_secrets() -> None:
    assert shown("redis://ann:hidden@host/3") == "redis://host:6379/3"
    assert shown("unix://hidden@/run/redis.sock") == "unix:///run/redis.sock"
