"""Messages as rows: keys in a format of their own, tables of upserts, and changes in messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray import CsvFormat, DebeziumJsonFormat, InvalidProgramError, JsonFormat, KafkaSource, RawFormat, RecordError
from flinkray.batches.batch import Batch
from flinkray.connectors.kafka.messages import MessageEncoder, MessageParts
from flinkray.connectors.kafka.rows import KafkaRows
from flinkray.types.rows import RowKind


class Message(msgspec.Struct):
    """A message as confluent-kafka gives it."""

    _key: bytes | None
    _value: bytes | None
    _offset: int = 0

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def offset(self) -> int:
        return self._offset

    def partition(self) -> int:
        return 3

    def topic(self) -> str:
        return "t"

    def timestamp(self) -> tuple[int, int]:
        return 1, 100 + self._offset


def read(contents: Sequence[tuple[bytes | None, bytes | None]], *arguments: Any, **named: Any) -> Batch:
    source = KafkaSource("host:1", ["t"], *arguments, **named)
    batch = KafkaRows(source._settings, "operator 'source'").of(
        [Message(key, value, offset) for offset, (key, value) in enumerate(contents)]
    )
    assert batch.data.schema.equals(source.output_type.schema)
    assert (batch.kinds is not None) == source.is_changelog
    return batch


class WithHeaders(Message):
    def headers(self) -> list[tuple[str, bytes]] | None:
        return None if self._offset else [("h", b"1"), ("i", b"2"), ("h", b"3")]

    def leader_epoch(self) -> int | None:
        return None if self._offset else 7

    def timestamp(self) -> tuple[int, int]:
        return 2 - self._offset, 100


def test_what_is_known_of_messages_has_names_of_its_own_beside_columns_of_key_and_value() -> None:
    metadata = {"e": "leader_epoch", "kind": "timestamp_type", "m": "header_map", "l": "headers", "t": "topic"}
    source = KafkaSource(
        "host:1",
        ["t"],
        JsonFormat({"topic": int, "v": str}),
        metadata,
        key=["k_v"],
        key_format=JsonFormat({"v": int}),
        key_prefix="k_",
    )
    messages = [WithHeaders(b'{"v":1}', b'{"topic":5,"v":"a"}', offset) for offset in range(3)]
    found = KafkaRows(source._settings, "").of(messages).data
    assert found.schema.equals(source.output_type.schema)
    pairs = [{"name": name, "value": value} for name, value in (("h", b"1"), ("i", b"2"), ("h", b"3"))]
    both = {"t": "t", "k_v": 1, "topic": 5, "v": "a"}
    assert found.to_pylist() == [
        {"e": 7, "kind": "LogAppendTime", "m": [("h", b"3"), ("i", b"2")], "l": pairs, **both},
        {"e": None, "kind": "CreateTime", "m": [], "l": [], **both},
        {"e": None, "kind": "NoTimestampType", "m": [], "l": [], **both},
    ]


KEYS = {b"1": 1, b"2": 2, b"x": "bad", None: None}
VALUES = {b"5,a": (5, "a"), b"6,": (6, None), b"bad": "bad", None: None}


@given(
    contents=st.lists(st.tuples(st.sampled_from(list(KEYS)), st.sampled_from(list(VALUES))), max_size=12),
    upsert=st.booleans(),
    in_value=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_rows_have_the_columns_of_key_and_value_of_their_message(
    contents: list[tuple[bytes | None, bytes | None]], upsert: bool, in_value: bool
) -> None:
    expected = []
    for offset, (key_bytes, value_bytes) in enumerate(contents):
        key, value = KEYS[key_bytes], VALUES[value_bytes]
        if "bad" in (key, value) or (upsert and key is None) or (not upsert and value is None):
            continue
        first, text = value or (key if in_value else None, None)
        kind = 0 if not upsert else 3 if value is None else 2
        expected.append((offset, *([] if in_value else [key]), first, text, 100 + offset, kind))
    key = "i" if in_value else "k"
    batch = read(
        contents,
        CsvFormat({"i": int, "t": str}),
        metadata=["offset"],
        key=key,
        key_format=CsvFormat({key: int}),
        upsert=upsert,
        bad_messages="skip",
    )
    columns = [*batch.data.columns, batch.timestamps, batch.row_kinds]
    assert list(zip(*(column.to_pylist() for column in columns), strict=True)) == expected


@pytest.mark.parametrize("bad_keys", ["fail", "skip", None])
@pytest.mark.parametrize("bad_values", ["fail", "skip"])
def test_keys_and_values_that_cannot_be_read_are_left_out_as_is_said_of_each(bad_values: str, bad_keys: Any) -> None:
    good, of_key, of_value = (b"1", b"2"), (b"x", b"3"), (b"4", b"x")

    def rows(*contents: tuple[bytes, bytes]) -> list[Any]:
        batch = read(
            contents,
            CsvFormat({"i": int}),
            key="k",
            key_format=CsvFormat({"k": int}),
            bad_messages=bad_values,
            bad_keys=bad_keys,
        )
        return [tuple(row.values()) for row in batch.data.to_pylist()]

    for bad, mode, what in (
        (of_key, bad_keys or bad_values, "the key of the message"),
        (of_value, bad_values, "the m"),
    ):
        if mode == "skip":
            assert rows(good, bad) == [(1, 2)]
        else:
            with pytest.raises(RecordError, match=f": {what}"):
                rows(good, bad)
    if (bad_values, bad_keys) == ("fail", "skip"):
        with pytest.raises(RecordError, match=r"the message at offset 1 .*KafkaSource\(bad_messages='skip'\)"):
            rows(of_key, of_value)


@given(
    changes=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.sampled_from([0, 2, 3])), min_size=1, max_size=9
    )
)
@settings(max_examples=50, deadline=None)
def test_a_table_that_is_written_is_the_one_that_is_read(changes: list[tuple[str, int, int]]) -> None:
    parts = MessageParts(
        topic="t",
        value_format=JsonFormat(),
        key=("k",),
        key_format=RawFormat(),
        topic_column=None,
        partition_column=None,
        headers_column=None,
        upsert=True,
    )
    data = pa.record_batch({"k": [key for key, _, _ in changes], "v": [value for _, value, _ in changes]})
    batch = Batch(data, kinds=pa.array([kind for _, _, kind in changes], pa.int8()))
    messages = [(key, value) for _, value, key, *_ in MessageEncoder(parts, "").messages(batch, list)]
    assert tabled(read(messages, JsonFormat({"k": str, "v": int}), key="k", upsert=True)) == tabled(batch)


def tabled(batch: Batch) -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for row, kind in zip(batch.data.to_pylist(), batch.row_kinds.to_pylist(), strict=True):
        table.pop(row["k"], None)
        if kind != RowKind.DELETE.value:
            table[row["k"]] = row
    return table


def test_tombstones_have_nulls_also_where_values_never_do() -> None:
    schema = pa.schema([pa.field("k", pa.string(), False), pa.field("v", pa.int64(), False)])
    batch = read([(b"a", None)], JsonFormat(schema), key="k", upsert=True)
    assert batch.data.to_pylist() == [{"k": "a", "v": None}]
    assert all(field.nullable for field in batch.data.schema)


def test_some_columns_of_a_key_may_be_taken_in_another_order() -> None:
    keys = JsonFormat({"a": int, "b": str, "c": int})
    batch = read([(b'{"a":1,"b":"x"}', b"v"), (None, b"w")], RawFormat(), key=["b", "a"], key_format=keys)
    assert batch.data.to_pylist() == [{"b": "x", "a": 1, "value": "v"}, {"b": None, "a": None, "value": "w"}]


def test_changes_in_messages_are_rows_with_kinds_and_what_their_message_has() -> None:
    update = b'{"op":"u","before":{"i":1},"after":{"i":2}}'
    contents = [(b"a", b'{"op":"r","after":{"i":1}}'), (b"a", None), (b"b", b""), (b"c", update), (b"\xff", update)]
    format_of_changes = DebeziumJsonFormat({"i": int})
    batch = read(contents, format_of_changes, metadata=["offset"], key="k", bad_messages="skip")
    assert batch.data.to_pylist() == [
        {"offset": 0, "k": "a", "i": 1},
        {"offset": 3, "k": "c", "i": 1},
        {"offset": 3, "k": "c", "i": 2},
    ]
    assert batch.row_kinds.to_pylist() == [0, 1, 2]
    assert batch.timestamps is not None
    assert batch.timestamps.to_pylist() == [100, 103, 103]
    assert read(contents, format_of_changes).row_kinds.to_pylist() == [0, 1, 2, 1, 2]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (b"\xff", b"v", r"'source': the key of the message at offset 1 of partition 3 of topic 't'.*no UTF-8.*b'.xff'"),
        (None, b"v", r"the key of the message at offset 1 .*there is none, and upsert=True needs one\. It is null"),
        (b"a", b"\xff", r"'source': the message at offset 1 of .*no UTF-8.*It is b'.xff'"),
    ],
)
def test_what_cannot_be_read_names_the_message_and_whether_it_is_the_key(
    key: bytes | None, value: bytes, message: str
) -> None:
    with pytest.raises(RecordError, match=message):
        read([(b"a", b"v"), (key, value), (b"\xff", b"\xff")], RawFormat(), key="k", upsert=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"upsert": True}, r"KafkaSource\(upsert=True\) needs key="),
        ({"key_format": RawFormat()}, r"KafkaSource\(key_format=...\) needs key="),
        ({"key": ["a", "b"]}, "columns that RawFormat reads, one for text or bytes, each once, not a, b"),
        ({"key": "a", "key_format": JsonFormat({"b": int})}, "columns that JsonFormat reads.* not a"),
        ({"key": "value"}, "column 'value' is string in the key and binary in the value; let KafkaSource"),
        ({"key": "offset", "metadata": ["offset"]}, "two columns named 'offset'"),
        ({"key": "i", "key_format": DebeziumJsonFormat({"i": int})}, "a key is no change"),
        (
            {"key": "k", "upsert": True, "value_format": DebeziumJsonFormat({"i": int})},
            "DebeziumJsonFormat says itself what a row does",
        ),
        (
            {"key": "a", "key_format": JsonFormat({"a": int}), "key_prefix": "k_"},
            "each once, behind key_prefix='k_', not a",
        ),
        ({"metadata": {"o": "offsett"}}, "knows topic, .*, not 'offsett'"),
        ({"metadata": {"value": "offset"}}, "two columns named 'value'"),
        ({"topics": "t["}, r"topics='t\['\) is no regular expression"),
    ],
)
def test_what_does_not_go_together_is_refused_where_it_is_written(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        KafkaSource("host:1", **{"topics": ["t"], **arguments})
