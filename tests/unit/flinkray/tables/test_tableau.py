"""Results as text; the expected lines are what Flink 2.3 prints of the same query."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkray.tables.environment.tableau import tableau, widths_by_types
from flinkray.tables.environment.value_texts import texts_of
from flinkray.tables.types import logical
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import LogicalType

MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 120_000)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (logical.BOOLEAN, True, "TRUE"),
        (logical.INT, None, "<NULL>"),
        (logical.DECIMAL(3, 2), decimal.Decimal("1.50"), "1.50"),
        (logical.DOUBLE, 1e10, "1.0E10"),
        (logical.DOUBLE, 123456789.123, "1.23456789123E8"),
        (logical.DOUBLE, 1e-5, "1.0E-5"),
        (logical.DOUBLE, 1234567.5, "1234567.5"),
        (logical.FLOAT, 0.1, "0.1"),
        (logical.BYTES, b"AB", "x'4142'"),
        (logical.DATE, MOMENT.date(), "2024-01-02"),
        (logical.TIME(0), MOMENT.time().replace(microsecond=0), "03:04:05"),
        (logical.TIMESTAMP(0), MOMENT.replace(microsecond=0), "2024-01-02 03:04:05"),
        (logical.TIMESTAMP(3), MOMENT, "2024-01-02 03:04:05.120"),
        (logical.TIMESTAMP_LTZ(6), MOMENT.replace(tzinfo=datetime.UTC), "2024-01-02 03:04:05.120000"),
        (logical.INTERVAL("DAY", "SECOND"), datetime.timedelta(1, 7384, 500_000), "+1 02:03:04.500"),
        (logical.INTERVAL("YEAR", "MONTH"), 14, "+1-02"),
        (logical.ARRAY(logical.INT), [1, None], "[1, NULL]"),
        (logical.MAP(logical.STRING, logical.INT), [("k", 1)], "{k=1}"),
        (logical.ROW(("a", logical.INT), ("b", logical.STRING)), {"a": 1, "b": "x"}, "(1, x)"),
    ],
)
def test_a_value_is_written_as_flink_casts_it_to_text(kind: LogicalType, value: Any, text: str) -> None:
    assert texts_of(pa.array([value], to_arrow(kind)), kind) == [text]


def test_columns_are_as_wide_as_their_types_need_and_long_texts_are_cut() -> None:
    rows = logical.ROW(("long_text_column", logical.STRING), ("wide", logical.STRING), ("n", logical.BIGINT))
    values = [["+I", "a very long text that is longer than thirty characters", "日本語", "1"]]
    lines = list(tableau(["op", *rows.names], values, widths_by_types(rows, has_kinds=True)))
    assert lines[1] == "| op |               long_text_column |                           wide |                    n |"
    assert lines[3] == "| +I | a very long text that is lo... |                         日本語 |                    1 |"
    assert lines[-1] == "1 row in set"
    assert lines[0] == lines[2] == lines[4] == "+----+" + "-" * 32 + "+" + "-" * 32 + "+" + "-" * 22 + "+"
