"""Rows whose columns come in layouts that Arrow's kernels do not know, or differ from batch to batch."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from flinkray import Count, DataStream, StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy, col
from tests.support.whole_jobs import rows

WINDOWS = TumblingEventTimeWindows.of(1000)
BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("t")
KEYS = {
    "text": pa.array(["a", "b", "a", None], pa.string_view()),
    "bytes": pa.array([b"a", b"b", b"a", None], pa.binary_view()),
    "decimals": pa.array([Decimal("1.5"), Decimal(2), Decimal("1.5"), None], pa.decimal64(9, 1)),
    "runs": pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4], pa.array(["a", "b", "a", None])),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None]), pa.array(["a", "b"], pa.string_view())),
}


class Exported:
    """A table with nothing but the Arrow stream interface, as those of another library have it."""

    def __init__(self, data: pa.RecordBatch) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.Table.from_batches([self._data]).__arrow_c_stream__(requested_schema)


def given(env: StreamExecutionEnvironment, data: pa.RecordBatch, way: str) -> DataStream:
    def batches() -> Iterator[pa.RecordBatch]:
        yield data

    if way == "table":
        return env.from_arrow(data)
    if way == "generator":
        return env.add_source(batches).set_parallelism(1)
    return env.from_collection([0]).map_batches(lambda _: Exported(data))


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("way", ["table", "generator", "function"])
def test_rows_are_filtered_keyed_and_joined(env: StreamExecutionEnvironment, name: str, way: str) -> None:
    keys = KEYS[name]
    data = pa.record_batch({"k": keys, "t": pa.array([0, 1, 2, 3])})
    a, b, _, _ = keys.to_pylist()
    late = given(env, data, way).where(col("t") > 1)
    assert {row.t: row.k for row in late.execute_and_collect()} == {2: a, 3: None}
    counted = given(env, data, way).key_by("k").aggregate(n=Count("k")).execute_and_collect()
    assert {row.k: row.n for row in counted} == {a: 2, b: 1, None: 0}
    left, right = (given(env, data, way).assign_timestamps_and_watermarks(BY_TIME) for _ in range(2))
    joined = left.join(right).where("k").equal_to("k").window(WINDOWS).apply()
    assert len(rows(joined)) == 2 * 2 + 1 + 1


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_times_in_different_units_are_one_key(env: StreamExecutionEnvironment, parallelism: int) -> None:
    env.set_parallelism(parallelism)
    days = [datetime.datetime(2024, 1, day) for day in range(1, 21)]
    micro = env.from_collection([{"d": day, "t": 0} for day in days]).assign_timestamps_and_watermarks(BY_TIME)
    nano = env.from_pandas(pd.DataFrame({"d": pd.to_datetime(days).as_unit("ns"), "t": 0}))
    nano = nano.map_batches(lambda batch: batch).assign_timestamps_and_watermarks(BY_TIME)
    assert len(rows(micro.join(nano).where("d").equal_to("d").window(WINDOWS).apply())) == len(days)
    counted = micro.union(nano).key_by("d").aggregate(n=Count())
    assert [row.n for row in rows(counted)].count(2) == len(days)


def test_streams_may_differ_in_whether_a_column_has_nulls(env: StreamExecutionEnvironment) -> None:
    never = env.from_arrow(pa.table([[1]], pa.schema([pa.field("a", pa.int64(), nullable=False)])))
    union = never.union(env.from_arrow(pa.table({"a": [None, 2]})))
    assert union.record_type is not None
    assert union.record_type.schema.field("a").nullable
    assert sorted(union.to_arrow()["a"].to_pylist(), key=str) == [1, 2, None]
