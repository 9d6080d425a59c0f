"""Rows as messages: keys, upserts, and changes in messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray import (
    ChangelogMode,
    DebeziumJsonFormat,
    InvalidProgramError,
    JsonFormat,
    KafkaSink,
    RawFormat,
    RecordError,
)
from flinkray.batches.batch import Batch
from flinkray.connectors.kafka.messages import MessageEncoder

SCHEMA = pa.schema([("k", pa.string()), ("to", pa.string()), ("v", pa.int64())])


def written(sink: KafkaSink, data: pa.RecordBatch, kinds: list[int] | None = None) -> list[tuple[Any, ...]]:
    """Topic, value and key of each message."""
    batch = Batch(data, kinds=None if kinds is None else pa.array(kinds, pa.int8()))
    return [message[:3] for message in MessageEncoder(sink.parts, "operator 'sink'").messages(batch)]


changes = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ü"]),
        st.sampled_from(["x", "y"]),
        st.none() | st.integers(-9, 9),
        st.sampled_from([0, 2, 3]),
    ),
    max_size=12,
)


@given(changes=changes, knows_kinds=st.booleans(), is_spread=st.booleans())
@settings(max_examples=80, deadline=None)
def test_an_upsert_writes_the_last_change_of_each_key_in_each_topic(
    changes: list[tuple[str, str, int | None, int]], knows_kinds: bool, is_spread: bool
) -> None:
    topic = {"topic_column": "to"} if is_spread else {"topic": "t"}
    sink = KafkaSink("host:1", **topic, value_format=JsonFormat({"v": int}), key="k", key_in_value=False, upsert=True)
    rows = [dict(zip(SCHEMA.names, change[:3], strict=True)) for change in changes]
    found = written(
        sink,
        pa.RecordBatch.from_pylist(rows, schema=SCHEMA),
        [change[3] for change in changes] if knows_kinds else None,
    )
    expected: dict[tuple[str, bytes], bytes | None] = {}
    for key, to, value, kind in changes:
        place = (to if is_spread else "t", key.encode())
        expected.pop(place, None)
        is_gone = knows_kinds and kind == 3
        expected[place] = None if is_gone else f'{{"v":{"null" if value is None else value}}}'.encode()
    assert found == [(topic, value, key) for (topic, key), value in expected.items()]


def test_an_upsert_writes_the_last_change_of_a_key_in_each_partition_that_a_column_says() -> None:
    sink = KafkaSink("host:1", "t", RawFormat(), key="k", key_in_value=False, partition_column="p", upsert=True)
    data = pa.record_batch({"k": ["a", "a", "a"], "p": [0, 1, 0], "v": [1, 2, 3]})
    assert written(sink, data) == [("t", b"2", b"a"), ("t", b"3", b"a")]


def test_a_sink_takes_the_changelog_that_its_messages_can_say() -> None:
    upsert = KafkaSink("host:1", "t", JsonFormat(), key=["k", "v"], key_format=JsonFormat(), upsert=True)
    debezium = KafkaSink("host:1", "t", DebeziumJsonFormat(), key="k")
    plain = KafkaSink("host:1", "t", JsonFormat(), key="k")
    assert (upsert.accepts, upsert.key_columns) == (ChangelogMode.UPSERT, ("k", "v"))
    assert (debezium.accepts, debezium.key_columns) == (ChangelogMode.ALL, ("k",))
    assert (plain.accepts, plain.key_columns) == (ChangelogMode.INSERT_ONLY, ())


def test_a_key_of_several_columns_may_be_all_that_a_row_has() -> None:
    data = pa.record_batch({"k": ["a", "a", "b"], "v": [1, 1, 2]})
    sink = KafkaSink(
        "host:1", "t", JsonFormat(), key=["k", "v"], key_format=JsonFormat(), key_in_value=False, upsert=True
    )
    assert written(sink, data, [3, 0, 3]) == [("t", b"{}", b'{"k":"a","v":1}'), ("t", None, b'{"k":"b","v":2}')]


def test_without_an_upsert_a_row_may_lack_its_key_and_each_row_is_written() -> None:
    data = pa.record_batch({"k": ["a", None, "a"], "v": [1, 2, 3]})
    sink = KafkaSink("host:1", "t", RawFormat(), key="k", key_in_value=False)
    assert written(sink, data) == [("t", b"1", b"a"), ("t", b"2", None), ("t", b"3", b"a")]


def test_an_upsert_without_a_key_names_the_column() -> None:
    sink = KafkaSink("host:1", "t", JsonFormat(), key=["v", "k"], key_format=JsonFormat(), upsert=True)
    with pytest.raises(RecordError, match="operator 'sink': column 'k' is null, and is of the key"):
        written(sink, pa.record_batch({"k": ["a", None], "v": [1, 2]}))


def test_a_format_of_changes_writes_all_kinds() -> None:
    sink = KafkaSink("host:1", "t", DebeziumJsonFormat(), key="k")
    data = pa.record_batch({"k": ["a", "a"]})
    assert [value for _, value, _ in written(sink, data, [1, 2])] == [
        b'{"before":{"k":"a"},"after":null,"op":"d"}',
        b'{"before":null,"after":{"k":"a"},"op":"c"}',
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"upsert": True}, r"KafkaSink\(upsert=True\) needs key="),
        ({"key_in_value": False}, r"KafkaSink\(key_in_value=False\) needs key="),
        (
            {"upsert": True, "key": "k", "value_format": DebeziumJsonFormat()},
            "DebeziumJsonFormat says itself what a row",
        ),
        ({"key": "k", "key_format": DebeziumJsonFormat()}, "a key is no change"),
        ({"topic_column": "to"}, "either topic= or topic_column="),
    ],
)
def test_what_does_not_go_together_is_refused_where_it_is_written(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        KafkaSink("host:1", "t", **arguments)
