"""PyFlink's schemas of JSON: what is made once, and what is no row."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import flinkray.pyflink.datastream.formats.json
from flinkray.connectors.formats.message_format import decode_each
from flinkray.pyflink.common import Types
from flinkray.pyflink.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flinkray.pyflink.message_formats import format_of

JSON_TYPE = Types.ROW_NAMED(["n", "at", "t"], [Types.INT(), Types.SQL_TIMESTAMP(), Types.SQL_TIME()])
FLINKS_JSON = b'{"n":1,"at":"2024-01-02T03:04:05.5Z","t":"06:07:08Z"}'


def test_schemas_of_json_make_their_format_once_and_are_stored_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    rows = flinkray.pyflink.datastream.formats.json.JsonRows
    monkeypatch.setattr(
        flinkray.pyflink.datastream.formats.json, "JsonRows", lambda *given: made.append(given) or rows(*given)
    )
    from_json = JsonRowDeserializationSchema.builder().type_info(JSON_TYPE).build()
    to_json = JsonRowSerializationSchema.builder().with_type_info(JSON_TYPE).build()
    sizes = [len(pickle.dumps(schema)) for schema in (from_json, to_json)]
    for _ in range(3):
        assert to_json.serialize(from_json.deserialize(FLINKS_JSON)).startswith(b'{"n":1,')
    assert len(made) == 2
    assert [len(pickle.dumps(schema)) for schema in (from_json, to_json)] == sizes
    assert pickle.loads(pickle.dumps(from_json)).deserialize(FLINKS_JSON) == from_json.deserialize(FLINKS_JSON)


def test_null_is_no_row_of_json_in_batches_either() -> None:
    read = format_of(JsonRowDeserializationSchema.builder().type_info(JSON_TYPE).build())
    found = decode_each(read, pa.array([b"null", FLINKS_JSON, b" null\n", b"nul"], pa.large_binary()))
    assert found.rows is not None
    assert found.rows.tolist() == [1]
    assert [each.index for each in found.failures] == [3]
    found = decode_each(read, pa.array([b"null"], pa.large_binary()))
    assert (found.data.num_rows, list(found.failures)) == (0, [])
