"""Columns as lines of JSON, and back."""

from __future__ import annotations

import datetime
import decimal
import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from flinkray.connectors.formats.json_lines import to_json_lines

# -- JSON


def test_json_lines_hold_what_python_reads_back() -> None:
    zone = datetime.UTC
    table = pa.table(
        {
            'na"me': [1, None],
            "text": ['a"\\ä', "line\nbreak\x01"],
            "plain": ["x", 'q"'],
            "float": [0.5, float("nan")],
            "flag": [True, False],
            "decimal": [decimal.Decimal("1.50"), None],
            "date": [datetime.date(2013, 1, 2), None],
            "naive": [datetime.datetime(2013, 1, 2, 3), None],
            "aware": [datetime.datetime(2013, 1, 2, 3, tzinfo=zone), None],
            "list": [[1, None], [float("inf")]],
            "struct": [{"a": datetime.date(2013, 1, 2)}, None],
            "bytes": [b"\x00\xff", None],
        }
    )
    lines = [json.loads(line) for line in to_json_lines(table.to_batches()[0]).decode().splitlines()]
    assert lines[0] == {
        'na"me': 1,
        "text": 'a"\\ä',
        "plain": "x",
        "float": 0.5,
        "flag": True,
        "decimal": 1.5,
        "date": "2013-01-02",
        "naive": "2013-01-02T03:00:00.000000",
        "aware": "2013-01-02T03:00:00.000000Z",
        "list": [1, None],
        "struct": {"a": "2013-01-02"},
        "bytes": "AP8=",
    }
    values = {"text": "line\nbreak\x01", "plain": 'q"', "flag": False, "list": [None]}
    assert lines[1] == dict.fromkeys(table.column_names) | values
    assert to_json_lines(table.to_batches()[0].slice(0, 0)) == b""
