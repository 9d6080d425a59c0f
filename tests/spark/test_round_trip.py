"""DataFrames through a source and a sink, driven by hand, on both kinds of session."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.commits import requests_of

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from actors.spark.bridge import SparkBridge
from actors.spark.spill import SpillBlockStore
from flinkray.errors import ConfigurationError, InvalidProgramError, NoResourceAvailableError, UnknownColumnError
from flinkray.spark import init_spark, stop_spark
from tests.support.spark_io import SourceDriver, WriterContext, write_all

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated"),  # PySpark 3.5's own
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas >= 3"),  # of which flinkray uses none
    pytest.mark.filterwarnings("ignore:.*socket:ResourceWarning"),  # py4j leaves its sockets to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # ... which finds them
]


@pytest.fixture(scope="module", params=["plain", pytest.param("ray", marks=pytest.mark.ray)])
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """One session per kind for the whole module; the JVM of one has ended before the next starts."""
    on_ray = request.param == "ray"
    if on_ray:
        request.getfixturevalue("ray_cluster")
    zone = {"spark.sql.session.timeZone": "America/New_York"}  # not UTC, so that a wrong zone shows
    yield init_spark("round-trip", on_ray=on_ray, configs=zone if on_ray else {**zone, "spark.master": "local[2]"})
    stop_spark()


def through(
    dataframe: DataFrame, parallelism: int = 1, order_by: str | None = None, batch_rows: int = 1000
) -> DataFrame:
    """Spark -> source -> sink -> Spark."""
    bridge = SparkBridge(dataframe.sparkSession)
    source = bridge.source(dataframe, order_by)
    batches = SourceDriver(source.prepare(), parallelism, batch_rows).drain()
    sink, finish = bridge.sink(source.output_type)
    write_all(sink.prepare(), batches)
    return finish(None)


def rows(dataframe: DataFrame) -> list[Any]:
    return [tuple(row) for row in dataframe.collect()]


INNER = T.StructType().add("when", T.TimestampType()).add("tags", T.ArrayType(T.StringType()))
ALL_TYPES = (
    T.StructType()
    .add("bool", T.BooleanType())
    .add("byte", T.ByteType())
    .add("short", T.ShortType())
    .add("int", T.IntegerType())
    .add("long", T.LongType(), nullable=False)
    .add("float", T.FloatType())
    .add("double", T.DoubleType())
    .add("text", T.StringType())
    .add("binary", T.BinaryType())
    .add("date", T.DateType())
    .add("timestamp", T.TimestampType())
    .add("local", T.TimestampNTZType())
    .add("small", T.DecimalType(5, 2))
    .add("large", T.DecimalType(38, 10))
    .add("interval", T.DayTimeIntervalType())
    .add("nothing", T.NullType())
    .add("list", T.ArrayType(T.DecimalType(10, 1), containsNull=False))
    .add("map", T.MapType(T.StringType(), T.TimestampType()))
    .add("struct", INNER)
    .add("deep", T.ArrayType(T.MapType(T.StringType(), INNER)))
)
NOON = datetime.datetime(2013, 7, 1, 12, 0, 0, 123456)
VALUES = [
    (
        True, -128, -(2**15), -(2**31), -(2**63), 1.5, math.pi, "zażółć", b"\x00\xff", datetime.date(1582, 10, 15),
        NOON, NOON, Decimal("-999.99"), Decimal("1234567890123456789012345678.0123456789"),
        datetime.timedelta(days=-3, microseconds=7), None, [Decimal("1.5"), Decimal("-2.0")],
        {"a": NOON, "b": None}, (NOON, ["x", None]), [{"k": (NOON, [])}, None],
    ),
    (None, None, None, None, 0, *[None] * 15),
    (
        False, 127, 2**15 - 1, 2**31 - 1, 2**63 - 1, -0.0, math.inf, "", b"", datetime.date(9999, 12, 31),
        datetime.datetime(1970, 1, 1), datetime.datetime(1, 1, 1), Decimal("0.00"), Decimal("0E-10"),
        datetime.timedelta(0), None, [], {}, (None, None), [],
    ),
]  # fmt: skip


def test_every_type_survives_the_round_trip(spark: SparkSession) -> None:
    dataframe = spark.createDataFrame(VALUES, ALL_TYPES)
    back = through(dataframe)
    assert [field.dataType.simpleString() for field in back.schema] == [
        field.dataType.simpleString() for field in ALL_TYPES
    ]
    assert rows(back) == rows(dataframe)


def test_a_column_without_arrow_type_is_named(spark: SparkSession) -> None:
    dataframe = spark.sql("select 1 as fine, interval '3' month as term")
    with pytest.raises(InvalidProgramError, match="'term'"):
        SparkBridge(spark).source(dataframe)


def test_order_by_an_unknown_column_offers_the_nearest(spark: SparkSession) -> None:
    with pytest.raises(UnknownColumnError, match="did you mean 'id'"):
        SparkBridge(spark).source(spark.range(3), "idd")


# Names that Spark reads as something else where they are looked up.
ODD_NAMES = ["sepal.width", "a`b", "*", "x", "X", "A.x", " ", "ä.`*`"]


def test_columns_may_have_any_names_also_such_as_differ_in_case_alone(spark: SparkSession) -> None:
    given = spark.range(3).select(*(F.col("id") + position for position in range(len(ODD_NAMES)))).toDF(*ODD_NAMES)
    found = through(given, order_by="sepal.width")
    assert found.columns == ODD_NAMES
    assert rows(found) == [tuple(range(first, first + len(ODD_NAMES))) for first in range(3)]


def test_many_partitions_keep_every_row_in_order(spark: SparkSession) -> None:
    dataframe = spark.range(0, 10_000, 1, 12).withColumn("text", F.concat(F.lit("row "), "id"))
    assert rows(through(dataframe, batch_rows=77)) == [(number, f"row {number}") for number in range(10_000)]


def test_several_subtasks_read_every_row_once(spark: SparkSession) -> None:
    found = rows(through(spark.range(0, 5_000, 1, 6), parallelism=3))
    assert sorted(found) == [(number,) for number in range(5_000)]


def test_order_by_sorts_across_partitions_and_each_subtask_only_moves_forward(spark: SparkSession) -> None:
    shuffled = spark.range(0, 300_000, 1, 7).withColumn("key", F.hash("id"))
    source = SparkBridge(spark).source(shuffled, "key").prepare()
    found = SourceDriver(source, 2, batch_rows=10_000).drain()
    keys = [[value for batch in batches for value in batch.data.column("key").to_pylist()] for batches in found]
    assert all(values == sorted(values) for values in keys)
    assert min(len(values) for values in keys) > 50_000
    assert sum(len(values) for values in keys) == 300_000


def test_a_dataframe_without_rows_keeps_its_columns(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], ALL_TYPES)
    back = through(empty, parallelism=2)
    assert back.columns == ALL_TYPES.names
    assert back.count() == 0


def test_empty_partitions_and_one_row_are_fine(spark: SparkSession) -> None:
    assert rows(through(spark.range(0, 1_000, 1, 8).where("id = 777"), parallelism=2)) == [(777,)]


def test_the_result_can_be_read_again_and_joined(spark: SparkSession) -> None:
    back = through(spark.range(100))
    assert back.count() == 100
    assert back.join(spark.range(50, 150), "id").count() == 50
    assert back.groupBy((F.col("id") % 2).alias("odd")).count().count() == 2


def test_each_submission_runs_the_dataframe_anew_and_a_failed_one_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    def explode(_batches: Any) -> Any:
        raise ValueError("bad row")

    spark.conf.set("spark.flinkray.spillDirectory", str(tmp_path))
    try:
        source = SparkBridge(spark).source(spark.range(10))
        first, second = source.prepare(), source.prepare()
        assert first.store.store_id != second.store.store_id
        before = sorted(tmp_path.iterdir())
        with pytest.raises(Exception, match="bad row"):
            SparkBridge(spark).source(spark.range(10).mapInArrow(explode, "id long")).prepare()
        assert sorted(tmp_path.iterdir()) == before
        first.store.close()
        second.store.close()
        assert not list(tmp_path.iterdir())
    finally:
        spark.conf.unset("spark.flinkray.spillDirectory")


def test_a_committing_sink_hands_each_checkpoint_over_once_in_order(spark: SparkSession) -> None:
    handed: list[tuple[int | None, list[Any]]] = []
    bridge = SparkBridge(spark)
    sink = bridge.committing_sink(lambda frame, checkpoint: handed.append((checkpoint, rows(frame)))).prepare()
    batches = SourceDriver(bridge.source(spark.range(0, 30, 1, 1)).prepare(), batch_rows=10).drain()[0]
    writer, committer = sink.create_writer(WriterContext()), sink.create_committer()
    for checkpoint, batch in zip((41, 42), batches, strict=False):
        writer.write(batch)
        prepared = writer.prepare_commit(1)
        writer.snapshot_state(checkpoint)
        committer.commit(requests_of(prepared))
        committer.commit(requests_of(prepared))
    writer.write(batches[2])
    writer.flush(end_of_input=True)
    committer.commit(requests_of(writer.prepare_commit(1)))
    numbers = [(number,) for number in range(30)]
    assert handed == [(41, numbers[:10]), (42, numbers[10:20]), (None, numbers[20:])]


@pytest.mark.usefixtures("spark")
def test_only_one_session_at_a_time() -> None:
    with pytest.raises(ConfigurationError, match="stop_spark"):
        init_spark("second", on_ray=False)


def test_executors_that_do_not_fit_are_refused_with_what_there_is(spark: SparkSession) -> None:
    if not spark.sparkContext.master.startswith("ray"):
        pytest.skip("a plain session asks Ray for nothing")
    from actors.hosts.ray.resources import require_free

    with pytest.raises(NoResourceAvailableError, match=r"900 Spark executors need 900 CPUs .* of \d+ CPUs"):
        require_free(900, 1 << 30, "900 Spark executors")


def test_rows_of_a_source_outlive_its_session(spark: SparkSession) -> None:
    """The last test of the session: it ends it, as programs do to give the executors' CPUs back before a job."""
    source = SparkBridge(spark).source(spark.range(0, 1_000, 1, 4)).prepare()
    stop_spark()
    batches = SourceDriver(source).drain()[0]
    assert sum(batch.num_rows for batch in batches) == 1_000
    source.store.close()
    if isinstance(source.store, SpillBlockStore):
        assert not Path(source.store.store_id).exists()
