"""Rows whose columns come in layouts that Arrow's kernels do not know, or differ from batch to batch."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from flinkray import (
    Count,
    DataStream,
    InvalidProgramError,
    KeyedCoProcessFunction,
    ListStateDescriptor,
    Row,
    RuntimeContext,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    col,
)
from flinkray.batches.unification import cast_to_unified
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


PAIRS = {
    "offsets": (pa.array(["x", "é"]), pa.array(["x", "é"], pa.large_string())),
    "bytes": (pa.array([b"xy", b"z!"], pa.binary(2)), pa.array([b"xy", b"z!"], pa.large_binary())),
    "dictionary": (pa.array(["x", "y"]).dictionary_encode(), pa.array(["x", "y"], pa.large_string())),
    "dictionaries": (
        pa.array(["x", "y"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["x", "y"], pa.large_string())),
    ),
    "widths": (pa.array([1, -2], pa.int32()), pa.array([1, -2], pa.int64())),
    "signs": (pa.array([1, 2], pa.uint8()), pa.array([1, 2], pa.int64())),
    "numbers": (pa.array([1, 2]), pa.array([1.0, 2.0])),
    "units": (pa.array([1_000, 2_000], pa.timestamp("ms")), pa.array([1, 2], pa.timestamp("s"))),
    "zones": (pa.array([1_000, 2_000], pa.timestamp("ms", "UTC")), pa.array([1, 2], pa.timestamp("s", "+01:00"))),
    "dates": (pa.array([1, 2], pa.date32()), pa.array([86_400_000, 172_800_000], pa.date64())),
    "times": (pa.array([1, 2], pa.time32("s")), pa.array([10**6, 2 * 10**6], pa.time64("us"))),
    "precision": (
        pa.array([Decimal("1.5"), Decimal(2)], pa.decimal128(5, 1)),
        pa.array([Decimal("1.5"), Decimal(2)], pa.decimal128(10, 2)),
    ),
    "structs": (pa.array([{"a": 1}, {"a": 2}], pa.struct([("a", pa.int8())])), pa.array([{"a": 1}, {"a": 2}])),
    "lists": (pa.array([[1], [2]], pa.list_(pa.int8(), 1)), pa.array([[1], [2]], pa.large_list(pa.int64()))),
}


def of_both_layouts(env: StreamExecutionEnvironment, name: str) -> tuple[DataStream, DataStream]:
    first, second = (
        env.from_arrow(pa.table({"k": keys, "t": [1, 2], column: [0, 1]})).assign_timestamps_and_watermarks(BY_TIME)
        for keys, column in zip(PAIRS[name], "ab", strict=True)
    )
    return first, second


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("name", PAIRS)
def test_streams_whose_keys_differ_in_layout_or_width_join(
    env: StreamExecutionEnvironment, name: str, parallelism: int
) -> None:
    env.set_parallelism(parallelism)
    for turn in (1, -1):
        left, right = of_both_layouts(env, name)[::turn]
        in_windows = left.join(right).where("k").equal_to("k").window(WINDOWS).apply()
        assert sorted((row.a, row.b) for row in rows(in_windows)) == [(0, 0), (1, 1)]
        in_intervals = left.key_by("k").interval_join(right.key_by("k")).between(-5, 5).join()
        assert sorted((row.a, row.b) for row in rows(in_intervals)) == [(0, 0), (1, 1)]


class Meeting(KeyedCoProcessFunction):
    """Gives the numbers of the rows of both inputs that have one key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[tuple[int, ...]]:
        self.seen.add(value[2])
        if len(met := tuple(self.seen.get())) == 2:
            yield met

    process_element2 = process_element1


@pytest.mark.parametrize("name", sorted(PAIRS.keys() - {"lists"}))
def test_connected_streams_whose_keys_differ_in_layout_share_their_state(
    env: StreamExecutionEnvironment, name: str
) -> None:
    left, right = of_both_layouts(env.set_parallelism(2), name)
    met = left.key_by("k").connect(right.key_by("k")).process(Meeting(), output_type=tuple[int, int])
    assert sorted(rows(met)) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("name", PAIRS)
def test_a_union_has_the_type_that_holds_the_rows_of_all(env: StreamExecutionEnvironment, name: str) -> None:
    first, second = (env.from_arrow(pa.table({"k": keys})) for keys in PAIRS[name])
    union = first.union(second)
    assert union.record_type is not None
    held = union.to_arrow()["k"]
    # Of two zones, that of the stream whose rows come first.
    assert name == "zones" or held.type == union.record_type.schema.field("k").type
    values = [value for keys in PAIRS[name] for value in cast_to_unified(keys, held.type).to_pylist()]
    assert sorted(map(str, held.to_pylist())) == sorted(map(str, values))
    if name != "lists":
        assert sorted(row.n for row in rows(union.key_by("k").aggregate(n=Count()))) == [1, 1, 2, 2]


A_B = pa.struct([("a", pa.int64()), ("b", pa.int64())])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array(["1"]), pa.array([1])),
        (pa.array(["x"]), pa.array([b"x"])),
        (pa.array([Decimal("0.1")]), pa.array([0.1])),
        (pa.array([0], pa.timestamp("s")), pa.array([0], pa.timestamp("s", "UTC"))),
        (pa.array([0], pa.date32()), pa.array([0], pa.timestamp("s"))),
        (pa.array([True]), pa.array([1])),
        (pa.array([{"a": 1, "b": 2}], A_B), pa.array([{"a": 1, "b": 2}], pa.struct([A_B.field("b"), A_B.field("a")]))),
    ],
    ids=["text", "bytes", "decimal", "zone", "date", "truth", "order of fields"],
)
def test_keys_that_are_no_equals_are_refused(env: StreamExecutionEnvironment, left: pa.Array, right: pa.Array) -> None:
    first, second = (env.from_arrow(pa.table({"k": keys})) for keys in (left, right))
    with pytest.raises(InvalidProgramError, match=r"no type holds both; cast one.*\.cast\('"):
        first.join(second).where("k").equal_to("k")
    if not pa.types.is_struct(left.type):  # rows of both have a type
        with pytest.raises(InvalidProgramError, match="union of streams of different types"):
            first.union(second)


@pytest.mark.parametrize("keys", [pa.array([None, 1.0, float("nan")]), pa.array([None, "x", "y"])], ids=str)
def test_null_and_nan_are_keys_that_join_themselves(env: StreamExecutionEnvironment, keys: pa.Array) -> None:
    left, right = (
        env.from_arrow(pa.table({"k": keys, "t": [1] * 3, name: range(3)})).assign_timestamps_and_watermarks(BY_TIME)
        for name in "ab"
    )
    in_windows = left.join(right).where("k").equal_to("k").window(WINDOWS).apply()
    in_intervals = left.key_by("k").interval_join(right.key_by("k")).between(-5, 5).join()
    together = left.co_group(right).where("k").equal_to("k").window(WINDOWS)
    both = together.apply(lambda lefts, rights: [Row(a=lefts[0].a, b=each.b) for each in rights])
    for joined in (in_windows, in_intervals, both):
        assert sorted((row.a, row.b) for row in rows(joined)) == [(0, 0), (1, 1), (2, 2)]
