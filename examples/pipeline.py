"""Spark cleans flights and weather, a streaming job watches the delays hour by hour, and Spark writes the report.

    python examples/pipeline.py [--target ray|local] [--out DIR] [--parallelism N]

Input: examples/data, all flights that left New York City's airports in 2013, and the hourly weather there.

1. PySpark drops cancelled flights and computes when each was to depart and did depart.
2. Flights stream in the order of the schedule; event time is the departure, up to a day behind. Per airport and hour
   of departure: flights, mean and worst delay in minutes, share of flights more than 15 minutes late.
3. Each such row meets the weather of its airport and hour; hours without weather go to a side output.
4. An alert is raised per airport when three hours in a row, of 5 flights or more each, have a mean delay above 30
   minutes, once per such run of hours.
5. Rows go back to Spark, which adds the airports' names.

Output: DIR/hourly and DIR/alerts as Parquet; the ten worst hours and the number of alerts on the terminal.
With --target ray (the default) Spark's executors and the job's slots share one Ray cluster, a local one if none runs;
with --target local everything runs in this process, beside a plain local Spark.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flinkray import (
    Avg,
    CoGroupFunction,
    Configuration,
    Count,
    DataStream,
    KeyedProcessFunction,
    Max,
    OutputTag,
    ProcessFunction,
    Row,
    RuntimeContext,
    SparkSink,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
    col,
    if_else,
)
from flinkray.dashboard import ray_dashboard
from flinkray.functions.interfaces import ProcessContext
from flinkray.spark import init_spark, stop_spark

DATA = Path(__file__).parent / "data"
HOUR_MS = 3_600_000

HOURLY_WITH_WEATHER = pa.schema(
    [
        ("origin", pa.string()),
        ("window_start", pa.int64()),
        ("window_end", pa.int64()),
        ("flights", pa.int64()),
        ("mean_delay", pa.float64()),
        ("worst_delay", pa.int64()),
        ("late_share", pa.float64()),
        ("temp", pa.float64()),
        ("wind_speed", pa.float64()),
        ("precip", pa.float64()),
        ("visib", pa.float64()),
    ]
)
ALERT = pa.schema([("origin", pa.string()), ("window_start", pa.int64()), ("mean_delay", pa.float64())])

NO_WEATHER = OutputTag("hours without weather", HOURLY_WITH_WEATHER)


# -- Spark: clean ------------------------------------------------------------------------------------------------


def read_flights(spark: SparkSession) -> DataFrame:
    """Flights that departed: origin, dep_delay (minutes), sched_ms and departed_ms (epoch milliseconds)."""
    flights = spark.read.parquet(str(DATA / "flights.parquet"))
    scheduled = F.unix_millis("time_hour") + F.col("minute") * 60_000
    return (
        flights.dropna(subset=["dep_delay"])
        .withColumn("sched_ms", scheduled)
        .withColumn("departed_ms", F.col("sched_ms") + F.col("dep_delay") * 60_000)
        .select("origin", "dep_delay", "sched_ms", "departed_ms")
    )


def read_weather(spark: SparkSession) -> DataFrame:
    """One complete observation per airport and hour; hour_ms is the start of the hour."""
    weather = spark.read.parquet(str(DATA / "weather.parquet"))
    return (
        weather.dropDuplicates(["origin", "time_hour"])
        .dropna(subset=["temp", "wind_speed", "precip", "visib"])
        .select("origin", F.unix_millis("time_hour").alias("hour_ms"), "temp", "wind_speed", "precip", "visib")
    )


# -- flinkray: watch ---------------------------------------------------------------------------------------------


class MeetWeather(CoGroupFunction):
    """The rows of one airport and hour, with its weather, or with nulls where there is none."""

    def co_group(self, first: Iterable[Row], second: Iterable[Row]) -> Iterator[dict[str, Any]]:
        observed = next(iter(second), None)
        for hour in first:
            yield {
                "origin": hour.origin,
                "window_start": hour.window_start,
                "window_end": hour.window_end,
                "flights": hour.flights,
                "mean_delay": hour.mean_delay,
                "worst_delay": hour.worst_delay,
                "late_share": hour.late_share,
                "temp": observed and observed.temp,
                "wind_speed": observed and observed.wind_speed,
                "precip": observed and observed.precip,
                "visib": observed and observed.visib,
            }


class SetAsideWithoutWeather(ProcessFunction):
    """Hours without weather leave by the side output."""

    def process_element(self, value: Row, ctx: ProcessContext) -> Iterator[Any]:
        yield (NO_WEATHER, value) if value.temp is None else value


class DelayAlert(KeyedProcessFunction):
    """Raises an alert at the third of consecutive bad hours, and not again until the run of bad hours is over."""

    HOURS, LEAST_FLIGHTS, DELAY = 3, 5, 30.0

    def open(self, runtime_context: RuntimeContext) -> None:
        # (start of the last bad hour, bad hours in a row, their flights, their minutes of delay)
        self.run = runtime_context.get_state(ValueStateDescriptor("run"))

    def process_element(self, value: Row, ctx: ProcessContext) -> Iterator[dict[str, Any]]:
        if value.flights < self.LEAST_FLIGHTS or value.mean_delay <= self.DELAY:
            self.run.clear()
            return
        last, hours, flights, minutes = self.run.value() or (None, 0, 0, 0.0)
        if last is None or value.window_start != last + HOUR_MS:
            hours, flights, minutes = 0, 0, 0.0
        hours, flights = hours + 1, flights + value.flights
        minutes += value.mean_delay * value.flights
        self.run.update((value.window_start, hours, flights, minutes))
        if hours == self.HOURS:
            mean = minutes / flights
            yield {"origin": value.origin, "window_start": value.window_start, "mean_delay": mean}


def hourly_delays(flights: DataStream) -> DataStream:
    return (
        flights.with_columns(late=if_else(col("dep_delay") > 15, 1.0, 0.0))
        .key_by("origin")
        .window(TumblingEventTimeWindows.of(timedelta(hours=1)))
        .aggregate(flights=Count(), mean_delay=Avg("dep_delay"), worst_delay=Max("dep_delay"), late_share=Avg("late"))
        .name("hourly delays")
        .uid("hourly-delays")
    )


def build(env: StreamExecutionEnvironment, spark: SparkSession) -> tuple[DataStream, DataStream, DataStream]:
    """The streams of hours with weather, hours without, and alerts."""
    flights = env.from_spark(
        read_flights(spark),
        order_by="sched_ms",
        name="flights",
        watermark_strategy=WatermarkStrategy.for_bounded_out_of_orderness(timedelta(hours=24)).with_timestamp_assigner(
            "departed_ms"
        ),
    )
    weather = env.from_spark(
        read_weather(spark),
        order_by="hour_ms",
        name="weather",
        watermark_strategy=WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("hour_ms"),
    )
    hourly = hourly_delays(flights)
    met = (
        hourly.co_group(weather)
        .where("origin")
        .equal_to("origin")
        .window(TumblingEventTimeWindows.of(timedelta(hours=1)))
        .apply(MeetWeather(), output_type=HOURLY_WITH_WEATHER)
        .process(SetAsideWithoutWeather(), output_type=HOURLY_WITH_WEATHER)
    )
    alerts = hourly.key_by("origin").process(DelayAlert(), output_type=ALERT).name("delay alerts").uid("delay-alerts")
    return met, met.get_side_output(NO_WEATHER), alerts


# -- Spark: report -----------------------------------------------------------------------------------------------


def with_times(rows: DataFrame, *columns: str) -> DataFrame:
    """Epoch milliseconds as timestamps."""
    for column in columns:
        rows = rows.withColumn(column, F.timestamp_millis(column))
    return rows


def run(target: str, out: Path, parallelism: int) -> None:
    spark = init_spark(
        "flinkray-pipeline",
        on_ray=target == "ray",
        configs={"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "4"},
    )
    try:
        airports = spark.read.csv(str(DATA / "airports.csv"), header=True).select(F.col("faa").alias("origin"), "name")
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration({"execution.target": target, "parallelism.default": parallelism})
        )
        if dashboard := ray_dashboard():
            print(f"Ray dashboard: {dashboard}")
        met, without_weather, alerts = build(env, spark)

        def write_hourly(rows: DataFrame, _checkpoint_id: int | None) -> None:
            named = with_times(rows.join(F.broadcast(airports), "origin"), "window_start", "window_end")
            others = [name for name in HOURLY_WITH_WEATHER.names if name != "origin"]
            named.select("origin", "name", *others).write.mode("overwrite").parquet(str(out / "hourly"))

        def write_alerts(rows: DataFrame, _checkpoint_id: int | None) -> None:
            with_times(rows, "window_start").write.mode("overwrite").parquet(str(out / "alerts"))

        # Without checkpoints each is called once, at the end; hours without weather are only counted.
        missing: list[int] = []
        met.sink_to(SparkSink(write_hourly)).name("to Spark: hourly")
        alerts.sink_to(SparkSink(write_alerts)).name("to Spark: alerts")
        without_weather.sink_to(SparkSink(lambda rows, _: missing.append(rows.count()))).name("to Spark: no weather")
        result = env.execute("flight delays")
        print(f"the streaming job took {result.runtime_ms / 1000:.1f} s")
        report(spark, out, sum(missing))
    finally:
        stop_spark()


def report(spark: SparkSession, out: Path, hours_without_weather: int) -> None:
    hourly = spark.read.parquet(str(out / "hourly"))
    print("The ten worst hours (at least 5 flights):")
    hourly.where("flights >= 5").orderBy(F.desc("mean_delay")).drop("window_end").show(10, truncate=False)
    alerts = spark.read.parquet(str(out / "alerts")).count() if (out / "alerts").exists() else 0
    print(f"{hourly.count()} hours with weather are in {out / 'hourly'}; {hours_without_weather} had none")
    print(f"{alerts} alerts are in {out / 'alerts'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=("ray", "local"), default="ray", help="where the streaming job runs")
    parser.add_argument("--out", type=Path, default=Path("flights-report"), help="directory for the Parquet output")
    parser.add_argument("--parallelism", type=int, default=2, help="subtasks per operator")
    arguments = parser.parse_args()
    run(arguments.target, arguments.out, arguments.parallelism)


if __name__ == "__main__":
    main()
