"""UUIDs as text: in JSON and CSV, and where a column of text is made of them."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray import CsvFormat, FileSource, JsonFormat, MessageFormat
from flinkray.batches.value_columns import to_array
from flinkray.connectors.files.source import _cast
from flinkray.connectors.formats.nested_columns import retyped

UUIDS = pa.map_(pa.uuid(), pa.uuid())
FIRST, SECOND = uuid.UUID(int=5), uuid.UUID("550e8400-e29b-41d4-a716-446655440000")


def messages(*each: bytes) -> pa.Array:
    return pa.array(each, pa.large_binary())


@given(values=st.lists(st.none() | st.uuids()), skipped=st.integers(0, 2))
@settings(max_examples=50, deadline=None)
def test_uuids_are_the_texts_that_python_has_for_them(values: list[uuid.UUID | None], skipped: int) -> None:
    column = to_array(values, pa.uuid()).slice(skipped)
    texts = [None if value is None else str(value) for value in values[skipped:]]
    written = retyped(column, pa.string(), pa.Array.cast)
    assert written.to_pylist() == texts
    assert retyped(written, pa.uuid(), pa.Array.cast).equals(column)
    assert retyped(pa.array(texts, pa.large_string()).slice(0), pa.uuid(), pa.Array.cast).equals(column)


@pytest.mark.parametrize(
    ("message_format", "message"),
    [
        (JsonFormat({"a": uuid.UUID, "l": list[uuid.UUID]}), f'{{"a":"{FIRST}","l":["{SECOND}",null]}}'),
        (
            JsonFormat({"a": uuid.UUID, "l": pa.map_(pa.uuid(), pa.uuid())}),
            f'{{"a":null,"l":{{"{FIRST}":"{SECOND}"}}}}',
        ),
        (CsvFormat({"a": uuid.UUID, "l": list[uuid.UUID]}), f"{FIRST},{SECOND};"),
        (CsvFormat({"a": uuid.UUID, "l": pa.struct({"b": pa.uuid()})}), f",{SECOND}"),
    ],
)
def test_messages_have_uuids_as_text(message_format: MessageFormat, message: str) -> None:
    rows = message_format.decode(messages(message.encode()))
    assert rows.schema.equals(message_format.record_type.schema)
    assert message_format.encode(rows).to_pylist() == [message.encode()]
    assert str(SECOND) in str(rows.to_pylist())


@pytest.mark.parametrize("text", ["5", SECOND.hex, f"{SECOND}0", f"{str(SECOND)[:-1]}g"])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    for message_format, message in (
        (JsonFormat({"a": uuid.UUID}), f'{{"a":"{text}"}}'),
        (CsvFormat({"a": uuid.UUID}), text),
    ):
        with pytest.raises(ValueError, match=f"column 'a': '{text}' is no UUID"):
            message_format.decode(messages(message.encode()))


def test_uuids_of_files_are_columns_of_text_where_those_are_declared(tmp_path: Path) -> None:
    values = to_array([FIRST, None, SECOND], pa.uuid())
    pq.write_table(pa.table({"a": values}), tmp_path / "a.parquet")
    read = FileSource(tmp_path / "a.parquet", schema={"a": str}).read_all()
    assert read.column("a").to_pylist() == [str(FIRST), None, str(SECOND)]
    (tmp_path / "a.csv").write_text(f"a,n\n{FIRST},1\n,2\n")
    read = FileSource(tmp_path / "a.csv", schema={"a": uuid.UUID}).read_all()
    assert read.column("a").combine_chunks().equals(values.slice(0, 2))


def test_a_uuid_of_csv_that_is_none_is_null_where_that_is_asked_for() -> None:
    lines = CsvFormat({"a": uuid.UUID, "l": list[uuid.UUID], "n": int}, bad_values="null")
    read = lines.decode(messages(f"5,{FIRST};6,1".encode(), f" {FIRST} ,{SECOND},x".encode())).to_pylist()
    assert read == [{"a": None, "l": [FIRST, None], "n": 1}, {"a": FIRST, "l": [SECOND], "n": None}]


def test_values_beside_uuids_are_cut_as_others_are() -> None:
    times = pa.array([1_234_567, None], pa.timestamp("ns"))
    rows = pa.StructArray.from_arrays([to_array([FIRST, None], pa.uuid()), times], ["u", "t"])
    field = pa.field("r", pa.struct([("u", pa.string()), ("t", pa.timestamp("us"))]))
    first, second = _cast(rows, field, cuts_times=True).to_pylist()
    assert first["u"] == str(FIRST)
    assert first["t"].microsecond == 1234
    assert second == {"u": None, "t": None}


def test_texts_of_dictionaries_are_uuids() -> None:
    texts = pa.array([str(FIRST), None, str(FIRST)]).dictionary_encode()
    read = _cast(texts, pa.field("a", pa.uuid()), cuts_times=False)
    assert read.equals(to_array([FIRST, None, FIRST], pa.uuid()))
