"""Spark Structured Streaming: built-in operators, pandas functions for W5. Run in the virtual environment of pyspark.

The stream has ten micro-batches of numbered rows, and two more whose time is far ahead, so that every window closes.
W4 is missing: a running aggregate gives a result per key and micro-batch, not per row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import pandas_udf

from benchmarks.definitions import (
    DISORDER_MS,
    KEYS,
    LEAST_Z,
    MULTIPLIER,
    RIGHT_SHARE,
    ROWS_PER_MS,
    WINDOW_MS,
    Order,
    right_rows,
    serve,
)

BATCHES = 10
FLUSHING_BATCHES = 2
FAR_S = 4_000_000_000
DEADLINE_S = 3_600.0


def numbers(spark: SparkSession, rows: int, parallelism: int) -> DataFrame:
    """Columns i, k and v; rows from number `rows` on only carry time forward."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", -(-rows // BATCHES))
    i = F.col("value")
    return stream.option("numPartitions", parallelism).load().select(
        i.alias("i"), (i * MULTIPLIER % KEYS).alias("k"), (i * F.lit(0.5)).alias("v")
    )  # fmt: skip


def timed(frame: DataFrame, rows: int, spread: int, rows_per_ms: int) -> DataFrame:
    milliseconds = F.floor(F.col("i") * spread / rows_per_ms)
    far = F.timestamp_seconds(F.lit(FAR_S))
    ts = F.when(F.col("i") < rows, F.timestamp_millis(milliseconds)).otherwise(far)
    # The filter looks at the time, so Spark leaves it behind the watermark, which has to see the far rows.
    stream = frame.withColumn("ts", ts).withWatermark("ts", f"{DISORDER_MS} milliseconds").where(F.col("ts") < far)
    return stream.withColumn("window", tumbling())


def tumbling() -> Column:
    return F.window("ts", f"{WINDOW_MS} milliseconds")


def results(spark: SparkSession, order: Order) -> DataFrame:
    rows = numbers(spark, order.rows, order.parallelism)
    if order.workload in ROWS_PER_MS:
        rows_per_ms = ROWS_PER_MS[order.workload]
        left = timed(rows, order.rows, 1, rows_per_ms)
        if order.workload.startswith("W2"):
            sums = left.groupBy("k", "window").agg(F.sum("v").alias("total"), F.count("*").alias("n"))
            return sums.select("total", "n")
        count = right_rows(order.rows)
        right = timed(numbers(spark, count, order.parallelism), count, RIGHT_SHARE, rows_per_ms)
        joined = left.join(right.withColumnRenamed("v", "w"), ["k", "window"])
        return joined.select("v", "w")
    rows = rows.where(F.col("i") < order.rows)
    if order.workload == "W3x":
        x = rows.select((F.col("i") * 2 + 1).alias("x"))
        return x.where(F.col("x") % 3 == 0).select(F.expr("x div 3").alias("x"))

    def z_of(v: pd.Series, k: pd.Series) -> pd.Series:
        return np.sqrt(v) * np.log1p(k)

    z = pandas_udf(z_of, "double")
    return rows.select(z("v", "k").alias("z")).where(F.col("z") > LEAST_Z)


def run(order: Order) -> tuple[Iterator[tuple[Any, ...]] | None, float]:
    builder = SparkSession.builder.master(f"local[{order.parallelism}]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", order.parallelism).getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    kept: list[tuple[Any, ...]] = []
    writer = results(spark, order).writeStream.outputMode("append")
    if order.checks:
        writer = writer.foreachBatch(lambda frame, _: kept.extend(map(tuple, frame.collect())))
    else:
        writer = writer.format("noop")
    started = time.monotonic()
    query = writer.start()
    while not _has_done(query, BATCHES + FLUSHING_BATCHES):
        if query.awaitTermination(0.02) or time.monotonic() - started > DEADLINE_S:
            raise RuntimeError("the query ended, or took too long")
    seconds = time.monotonic() - started
    query.stop()
    return iter(kept), seconds


def _has_done(query: Any, batches: int) -> bool:
    progress = query.lastProgress
    return progress is not None and progress["batchId"] >= batches - 1


if __name__ == "__main__":
    serve(run)
