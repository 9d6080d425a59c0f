"""Changes of rows as Debezium's messages: what each gives, whatever is beside it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray import DebeziumJsonFormat, InvalidProgramError
from flinkray.connectors.formats.message_format import decode_each

ROWS = {"i": int, "t": str, "m": pa.map_(pa.string(), pa.int64())}
FORMAT = DebeziumJsonFormat(ROWS)

rows = st.fixed_dictionaries(
    {"i": st.none() | st.integers(-9, 9), "t": st.none() | st.text("aü\n\\", max_size=3)},
    optional={"m": st.dictionaries(st.sampled_from("ab"), st.integers(0, 9), max_size=2), "more": st.just([1])},
)
envelopes = st.fixed_dictionaries(
    {"before": st.none() | rows, "after": st.none() | rows, "op": st.sampled_from(["c", "r", "u", "d", "t", None])},
    optional={"source": st.just({"table": "orders"})},
)


def changes_of(envelope: dict[str, Any] | None) -> list[tuple[dict[str, Any], int]] | None:
    """The rows and kinds of one message, after Flink's debezium-json; None: it cannot be read."""
    if envelope is None:
        return []
    before, after, op = envelope["before"], envelope["after"], envelope["op"]
    expected = {"c": [(after, 0)], "r": [(after, 0)], "u": [(before, 1), (after, 2)], "d": [(before, 3)]}.get(op)
    if expected is None or any(row is None for row, _ in expected):
        return None
    return [
        ({"i": row["i"], "t": row["t"], "m": list(row["m"].items()) if "m" in row else None}, kind)
        for row, kind in expected
    ]


def written(envelope: dict[str, Any] | None, schema_include: bool) -> bytes | None:
    if envelope is None:
        return b""
    content = {"schema": {"type": "struct", "fields": ["x"]}, "payload": envelope} if schema_include else envelope
    return json.dumps(content).encode()


@given(drawn=st.lists(envelopes | st.none() | st.just("tombstone"), max_size=8), schema_include=st.booleans())
@settings(max_examples=120, deadline=None)
def test_a_message_gives_its_rows_and_kinds_whatever_is_beside_it(drawn: list[Any], schema_include: bool) -> None:
    message_format = pickle.loads(pickle.dumps(DebeziumJsonFormat(ROWS, schema_include)))
    messages = [None if each == "tombstone" else written(each, schema_include) for each in drawn]
    found = decode_each(message_format, pa.array(messages, pa.large_binary()))
    expected = [[] if each == "tombstone" else changes_of(each) for each in drawn]
    assert [each.index for each in found.failures] == [i for i, each in enumerate(expected) if each is None]
    assert found.data.schema.equals(message_format.record_type.schema)
    assert found.kinds is not None
    assert found.kinds.type == pa.int8()
    assert found.rows is not None
    assert list(zip(found.data.to_pylist(), found.kinds.to_pylist(), found.rows.tolist(), strict=True)) == [
        (row, kind, index) for index, each in enumerate(expected) for row, kind in each or []
    ]


@given(changes=st.lists(st.tuples(st.none() | st.integers(-9, 9), st.text("a\n\\"), st.integers(0, 3)), max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_row_is_written_as_an_insert_or_as_a_deletion(changes: list[tuple[int | None, str, int]]) -> None:
    schema = pa.schema([("t", pa.string()), ("i", pa.int64()), ("other", pa.int64())])
    rows = [{"t": text, "i": number, "other": 1} for number, text, _ in changes]
    data = pa.RecordBatch.from_pylist(rows, schema=schema)
    message_format = DebeziumJsonFormat({"i": int, "t": str})
    messages = message_format.encode_changes(data, pa.array([kind for *_, kind in changes], pa.int8()))
    assert messages.type == pa.large_binary()
    assert [json.loads(message) for message in messages.to_pylist()] == [
        {"before": None, "after": {"i": number, "t": text}, "op": "c"}
        if kind in (0, 2)
        else {"before": {"i": number, "t": text}, "after": None, "op": "d"}
        for number, text, kind in changes
    ]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b'{"op":"u","after":{"i":1}}', "lacks the row as it was before.*REPLICA IDENTITY FULL"),
        (b'{"op":"d"}', "lacks the row as it was before.*REPLICA IDENTITY FULL"),
        (b'{"op":"u","before":{"i":1}}', "lacks the row as it is after"),
        (b'{"op":"t"}', "op is 't', not c, r, u or d: b'.*"),
        (b"{}", "op is None, not"),
        (b"1", "no JSON object"),
        (b'{"op":"c","after":{"i":"x"}}', "i"),
    ],
)
def test_a_message_that_is_no_change_says_why(message: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        FORMAT.decode_changes(pa.array([message], pa.large_binary()))


def test_as_a_format_of_rows_it_has_inserts() -> None:
    format_of_rows = DebeziumJsonFormat({"i": int})
    data = pa.record_batch({"i": [1, 2]})
    messages = format_of_rows.encode(data)
    assert format_of_rows.decode(messages).equals(data)
    for change in (b"", b'{"op":"d","before":{"i":1}}'):
        with pytest.raises(ValueError, match="a change that is no insert"):
            format_of_rows.decode(pa.array([change], pa.large_binary()))
    assert DebeziumJsonFormat().encode(data).equals(messages)
    with pytest.raises(InvalidProgramError, match="DebeziumJsonFormat needs the columns that are to be read"):
        DebeziumJsonFormat().decode(messages)
    with pytest.raises(ValueError, match="can only be read"):
        DebeziumJsonFormat({"i": int}, schema_include=True).encode(data)
