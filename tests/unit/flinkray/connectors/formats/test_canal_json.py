"""Changes of rows as the messages of Canal, Maxwell and GoldenGate: what each gives, whatever is beside it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray import CanalJsonFormat, InvalidProgramError, MaxwellJsonFormat, OggJsonFormat
from flinkray.connectors.formats.message_format import ChangelogFormat, decode_each

ROWS = {"i": int, "t": str, "m": pa.map_(pa.string(), pa.int64())}
FORMATS: dict[str, ChangelogFormat] = {
    "canal": CanalJsonFormat(ROWS, database="shop", table="orders.*"),
    "maxwell": MaxwellJsonFormat(ROWS),
}

values = {
    "i": st.none() | st.integers(-9, 9),
    "t": st.none() | st.text('aü\n\\":null', max_size=9),
    "m": st.none() | st.dictionaries(st.sampled_from("ab"), st.integers(0, 9), max_size=2),
}
rows = st.fixed_dictionaries(values, optional={"more": st.just([{"i": None}])})
olds = st.fixed_dictionaries({}, optional=values)
updates = st.lists(st.tuples(rows, olds), min_size=1, max_size=3)
envelopes = st.fixed_dictionaries(
    {
        "rows": st.none() | updates,
        "has_old": st.booleans(),
        "type": st.sampled_from(["INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", None]),
    },
    optional={"table": st.sampled_from(["orders", "orders_1", "items", None])},
)


def changes_of(envelope: dict[str, Any], is_canal: bool) -> list[tuple[dict[str, Any], int]] | None:
    """The rows and kinds of one message, after Flink's formats; None: it cannot be read."""
    if is_canal and (envelope["type"] == "CREATE" or not (envelope.get("table") or "").startswith("orders")):
        return []
    found: list[tuple[dict[str, Any], int]] = []
    if envelope["type"] not in ("INSERT", "UPDATE", "DELETE") or envelope["rows"] is None:
        return None
    if envelope["type"] == "UPDATE" and not envelope["has_old"]:
        return None
    for row, old in envelope["rows"][: None if is_canal else 1]:
        kept = {name: row[name] for name in values}
        if envelope["type"] == "UPDATE":
            found += [({**kept, **old}, 1), (kept, 2)]
        else:
            found.append((kept, 0 if envelope["type"] == "INSERT" else 3))
    return [({**row, "m": None if row["m"] is None else list(row["m"].items())}, kind) for row, kind in found]


def written(envelope: dict[str, Any], is_canal: bool) -> bytes:
    data, old = map(list, zip(*envelope["rows"], strict=True)) if envelope["rows"] else (None, None)
    kind = envelope["type"] and (envelope["type"] if is_canal else envelope["type"].lower())
    content = {"database": "shop", **{k: v for k, v in envelope.items() if k == "table"}, "type": kind, "ts": 1}
    content["data"] = data if is_canal else data and data[0]
    if envelope["has_old"]:
        content["old"] = old if is_canal else old and old[0]
    return json.dumps(content).encode()


@pytest.mark.parametrize("name", FORMATS)
@given(drawn=st.lists(envelopes | st.sampled_from(["", "tombstone"]), max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_message_gives_its_rows_and_kinds_whatever_is_beside_it(name: str, drawn: list[Any]) -> None:
    is_canal = name == "canal"
    message_format = pickle.loads(pickle.dumps(FORMATS[name]))
    messages = [(b"" if each == "" else None) if isinstance(each, str) else written(each, is_canal) for each in drawn]
    found = decode_each(message_format, pa.array(messages, pa.large_binary()))
    expected = [[] if isinstance(each, str) else changes_of(each, is_canal) for each in drawn]
    assert [each.index for each in found.failures] == [i for i, each in enumerate(expected) if each is None]
    assert found.data.schema.equals(message_format.record_type.schema)
    assert found.kinds is not None
    assert found.rows is not None
    assert list(zip(found.data.to_pylist(), found.kinds.to_pylist(), found.rows.tolist(), strict=True)) == [
        (row, kind, index) for index, each in enumerate(expected) for row, kind in each or []
    ]


def test_what_was_null_is_found_however_the_name_of_its_column_is_written() -> None:
    now = {"größe": "L", 'a"b': "q", "x\\y": "w"}
    for message_format, kind in (
        (CanalJsonFormat(dict.fromkeys(now, str)), list),
        (MaxwellJsonFormat(dict.fromkeys(now, str)), None),
    ):
        for name in now:
            old = {name: None}
            content = (
                {"data": [now], "old": [old], "type": "UPDATE"} if kind else {"data": now, "old": old, "type": "update"}
            )
            for is_ascii in (False, True):
                message = json.dumps(content, ensure_ascii=is_ascii).encode()
                found = message_format.decode_changes(pa.array([message], pa.large_binary()))
                assert found.data.to_pylist() == [{**now, **old}, now], (message_format, name)


def test_goldengate_has_the_rows_of_debezium_under_other_letters() -> None:
    ogg = OggJsonFormat({"i": int})
    messages = [
        b'{"op_type":"I","after":{"i":1},"pos":"7"}',
        b'{"op_type":"U","before":{"i":1},"after":{"i":2}}',
        b'{"op_type":"D","before":{"i":2}}',
        b'{"op_type":"T"}',
        b'{"op_type":"D"}',
    ]
    found = decode_each(ogg, pa.array(messages, pa.large_binary()))
    assert found.kinds is not None
    assert list(zip(found.data.column(0).to_pylist(), found.kinds.to_pylist(), strict=True)) == [
        (1, 0), (1, 1), (2, 2), (2, 3)
    ]  # fmt: skip
    assert [each.index for each in found.failures] == [3, 4]
    assert "op_type is 'T', not I, U or D" in found.failures[0].reason


def test_a_row_is_written_as_an_insert_or_as_a_deletion() -> None:
    data = pa.record_batch({"i": [1, None]})
    row, other = '{"i":1}', '{"i":null}'
    for message_format, insert, delete in (
        (CanalJsonFormat({"i": int}), '{"data":[%s],"type":"INSERT"}', '{"data":[%s],"type":"DELETE"}'),
        (MaxwellJsonFormat(), '{"data":%s,"type":"insert"}', '{"data":%s,"type":"delete"}'),
        (OggJsonFormat(), '{"before":null,"after":%s,"op_type":"I"}', '{"before":%s,"after":null,"op_type":"D"}'),
    ):
        for kinds, texts in (([0, 3], [insert % row, delete % other]), ([1, 2], [delete % row, insert % other])):
            messages = message_format.encode_changes(data, pa.array(kinds, pa.int8()))
            assert [message.decode() for message in messages.to_pylist()] == texts
        assert messages.type == pa.large_binary()


def test_what_is_wrong_with_a_message_or_a_format_is_said() -> None:
    canal, strict = CanalJsonFormat({"i": int}), MaxwellJsonFormat(pa.schema([pa.field("i", pa.int64(), False)]))
    for message_format, message, reason in (
        (canal, b'{"type":"ALTER"}', "type is 'ALTER', not INSERT, UPDATE or DELETE: b'.*"),
        (canal, b'{"type":"INSERT"}', "a change lacks its rows"),
        (canal, b'{"type":"UPDATE","data":[{"i":1},{"i":2}],"old":[{"i":1}]}', "not as many rows in 'old'"),
        (canal, b'{"type":"INSERT","data":[{"i":"x"}]}', "i"),
        (strict, b'{"type":"insert","data":{}}', "'i' is null, and declared to be never null"),
    ):
        with pytest.raises(ValueError, match=reason):
            message_format.decode_changes(pa.array([message], pa.large_binary()))
    unchanged = b'{"type":"update","data":{"i":1},"old":{}}'
    assert strict.decode_changes(pa.array([unchanged], pa.large_binary())).data.to_pydict() == {"i": [1, 1]}
    with pytest.raises(ValueError, match=r"database=...\) is no regular expression"):
        CanalJsonFormat({"i": int}, database="(")
    with pytest.raises(InvalidProgramError, match="CanalJsonFormat needs the columns that are to be read"):
        CanalJsonFormat().decode(pa.array([unchanged], pa.large_binary()))


def test_text_may_hold_control_characters_also_where_an_old_value_was_null() -> None:
    message = b'{"data":[{"a":1,"s":"x\ty"}],"old":[{"s":null}],"type":"UPDATE"}'
    found = CanalJsonFormat({"a": int, "s": str}).decode_changes(pa.array([message], pa.large_binary()))
    assert [(row["a"], row["s"]) for row in found.data.to_pylist()] == [(1, None), (1, "x\ty")]
