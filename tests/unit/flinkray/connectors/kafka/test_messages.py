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
from flinkray.connectors.kafka.partitioners import KafkaPartitioner
from flinkray.connectors.kafka.reducing import ReducingWriter
from flinkray.connectors.sink import SinkWriter

SCHEMA = pa.schema([("k", pa.string()), ("to", pa.string()), ("v", pa.int64())])


def written(sink: KafkaSink, data: pa.RecordBatch, kinds: list[int] | None = None) -> list[tuple[Any, ...]]:
    """Topic, value and key of each message."""
    batch = Batch(data, kinds=None if kinds is None else pa.array(kinds, pa.int8()))
    return [message[:3] for message in MessageEncoder(sink.parts, "operator 'sink'").messages(batch, list)]


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
        ({"allowed_topics": "o.*"}, "allowed_topics=.* is for topics that topic_column= says"),
        ({"partition_column": "p", "partitioner": "fixed"}, "partitioner= or partition_column=, not both"),
        ({"partitioner": "fixt"}, "takes 'fixed' or a KafkaPartitioner, not 'fixt'"),
        ({"key": "a", "key_prefix": "k_"}, "names 'a', which does not begin with key_prefix='k_'"),
        ({"key": "a", "upsert": True, "buffer_rows": 5}, "buffer_rows= and buffer_interval= together"),
        ({"buffer_rows": 5, "buffer_interval": "1 s"}, "is for upsert=True"),
    ],
)
def test_what_does_not_go_together_is_refused_where_it_is_written(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        KafkaSink("host:1", "t", **arguments)


def all_parts(sink: KafkaSink, data: pa.RecordBatch, subtask: int = 0) -> list[tuple[Any, ...]]:
    encoder = MessageEncoder(sink.parts, "operator 'sink'")
    encoder.open(subtask, 2)
    return list(encoder.messages(Batch(data), {"a": (0, 1, 2), "bc": (0, 1)}.__getitem__))


def test_times_and_headers_come_from_columns() -> None:
    """A header without a value is left out of a map, as in Flink, and is one of a list."""
    sink = KafkaSink("host:1", "t", RawFormat(), headers_column="h", timestamp_column="at")
    times = pa.array([1_500_999, None], pa.timestamp("us", "UTC"))
    maps = pa.array([[("x", b"1"), ("y", None)], None], pa.map_(pa.string(), pa.binary()))
    lists = pa.array([[{"name": "y", "value": None}], []])
    for at in (times, pa.array([1_500, None]), times.cast(pa.timestamp("ns"))):
        data = pa.record_batch({"v": ["a", "b"], "at": at, "h": maps})
        assert all_parts(sink, data) == [
            ("t", b"a", None, -1, [("x", b"1")], 1_500),
            ("t", b"b", None, -1, None, 0),
        ]
    data = pa.record_batch({"v": ["a", "b"], "at": times, "h": lists})
    assert [message[4] for message in all_parts(sink, data)] == [[("y", None)], []]
    for wrong, words in (
        (pa.array([0, 1]), "is 0 ms after 1970"),
        (pa.array(["x", "y"]), "is string, and times of messages are timestamps"),
    ):
        with pytest.raises(RecordError, match=f"operator 'sink': column 'at' {words}"):
            all_parts(sink, pa.record_batch({"v": ["a", "b"], "at": wrong, "h": maps}))


def test_a_column_says_only_topics_that_are_allowed() -> None:
    for allowed in (["a", "bc"], "a|b."):
        sink = KafkaSink("host:1", None, RawFormat(), topic_column="to", allowed_topics=allowed)
        assert [message[0] for message in all_parts(sink, pa.record_batch({"to": ["bc", "a"], "v": ["", ""]}))] == [
            "bc",
            "a",
        ]
        with pytest.raises(RecordError, match="column 'to' says topic 'b', which is none of"):
            all_parts(sink, pa.record_batch({"to": ["a", "b"], "v": ["", ""]}))


class ByValue(KafkaPartitioner):
    def open(self, subtask_index: int, parallelism: int) -> None:
        self.opened = (subtask_index, parallelism)

    def partition(self, row: Any, key: bytes | None, value: bytes | None, topic: str, partitions: Any) -> int:
        assert (self.opened, key, value) == ((1, 2), row.k.encode(), str(row.v).encode())
        return int(partitions[row.v % len(partitions)])


def test_a_partitioner_chooses_partitions_and_each_subtask_has_its_own() -> None:
    data = pa.record_batch({"to": ["a", "bc", "a"], "k": ["x", "x", "y"], "v": [5, 6, 7]})
    parts: dict[str, Any] = {"value_format": RawFormat(), "key": "k", "key_in_value": False, "topic_column": "to"}
    sink = KafkaSink("host:1", **parts, partitioner=ByValue())
    assert [message[3] for message in all_parts(sink, data, 1)] == [2, 0, 1]
    assert not hasattr(sink.parts.partitioner, "opened")
    fixed = KafkaSink("host:1", **parts, partitioner="fixed")
    assert [[message[3] for message in all_parts(fixed, data, subtask)] for subtask in (1, 2)] == [[1, 1, 1], [2, 0, 2]]


def test_a_prefix_of_the_columns_of_the_key_is_not_in_the_key() -> None:
    sink = KafkaSink(
        "host:1",
        "t",
        JsonFormat(),
        key=["k_v", "k_a"],
        key_format=JsonFormat(),
        key_in_value=False,
        upsert=True,
        key_prefix="k_",
    )
    data = pa.record_batch({"k_a": [1], "v": [2], "k_v": [3]})
    assert written(sink, data) == [("t", b'{"v":2}', b'{"v":3,"a":1}')]


class Written(SinkWriter):
    def __init__(self) -> None:
        self.values: list[list[int]] = []
        self.timers: list[tuple[float, Any]] = []

    def call_later(self, delay_ms: float, callback: Any) -> None:
        self.timers.append((delay_ms, callback))

    def write(self, batch: Batch) -> None:
        self.values.append(batch.data.column("v").to_pylist())

    def flush(self, end_of_input: bool) -> None:
        self.values.append([-1])

    def close(self) -> None: ...


def test_rows_are_held_back_until_there_are_so_many_keys_or_it_has_been_long_enough() -> None:
    sink = KafkaSink("host:1", "t", RawFormat(), key="k", key_in_value=False, upsert=True)
    target: Any = Written()
    writer = ReducingWriter(target, MessageEncoder(sink.parts, "").last_changes, 3, 50, target)

    def write(*rows: tuple[str, int]) -> list[list[int]]:
        writer.write(Batch(pa.record_batch({"k": [key for key, _ in rows], "v": [value for _, value in rows]})))
        return target.values  # type: ignore[no-any-return]

    assert write(("a", 1)) == write(("a", 2), ("b", 3), ("a", 4)) == []
    assert write(("c", 5)) == [[3, 4, 5]]
    write(("a", 6), ("a", 7))
    ((delay, callback),) = target.timers
    callback()
    assert (delay, target.values[1:]) == (50, [[6, 7]])  # which the writer reduces itself
    write(("a", 8))
    writer.flush(end_of_input=False)
    assert target.values[2:] == [[8], [-1]]
    assert len(target.timers) == 2
