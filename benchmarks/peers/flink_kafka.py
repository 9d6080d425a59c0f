"""Windows between two topics of Kafka in Flink SQL and in PyFlink's DataStream. Run in the environment of apache-flink.

python -m benchmarks.peers.flink_kafka sql HOST:PORT SOURCE TARGET 2    # prints {"seconds": ...}
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyflink.common import Duration, Row, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from pyflink.datastream.window import Time, TumblingEventTimeWindows
from pyflink.table import EnvironmentSettings, TableEnvironment

JARS = "FLINK_KAFKA_JARS"
"""Names the directory of the connector's jar."""
WINDOW_S, DISORDER_S = 10, 1
COLUMNS = (
    ("id", Types.LONG()),
    ("customer", Types.LONG()),
    ("price", Types.DOUBLE()),
    ("word", Types.STRING()),
    ("ts", Types.LONG()),
)
RESULT = Types.ROW_NAMED(
    ["customer", "window_start", "window_end", "total", "n"],
    [Types.LONG(), Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.LONG()],
)


def jars() -> str:
    return ";".join(f"file://{jar}" for jar in sorted(Path(os.environ[JARS]).glob("*.jar")))


def sql(servers: str, source: str, target: str, parallelism: int) -> float:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "pipeline.jars": jars(),
        "pipeline.object-reuse": "true",
        "parallelism.default": str(parallelism),
        "table.local-time-zone": "UTC",
    }.items():
        env.get_config().set(key, value)
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json'"
    env.execute_sql(
        f"""CREATE TABLE messages (id BIGINT, customer BIGINT, price DOUBLE, word STRING, ts BIGINT,
        rowtime AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR rowtime AS rowtime - INTERVAL '{DISORDER_S}' SECOND)
        WITH ({kafka}, 'topic' = '{source}', 'scan.startup.mode' = 'earliest-offset',
        'scan.bounded.mode' = 'latest-offset')"""
    )
    env.execute_sql(
        f"""CREATE TABLE results (customer BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3), total DOUBLE,
        n BIGINT) WITH ({kafka}, 'topic' = '{target}')"""
    )
    started = time.monotonic()
    env.execute_sql(
        f"""INSERT INTO results SELECT customer, window_start, window_end, SUM(price), COUNT(*)
        FROM TABLE(TUMBLE(TABLE messages, DESCRIPTOR(rowtime), INTERVAL '{WINDOW_S}' SECOND))
        GROUP BY customer, window_start, window_end"""
    ).wait()
    return time.monotonic() - started


class ByColumn(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[4])


class SumAndCount(AggregateFunction):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Any, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator

    def merge(self, one: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        return one[0] + other[0], one[1] + other[1]


class WithWindow(ProcessWindowFunction):
    def process(self, key: int, context: Any, elements: Iterable[tuple[float, int]]) -> Iterable[Row]:
        for total, n in elements:
            yield Row(key, context.window().start, context.window().end, total, n)


def datastream(servers: str, source: str, target: str, parallelism: int) -> float:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_jars(*jars().split(";"))
    env.set_parallelism(parallelism)
    env.get_config().enable_object_reuse()
    names, types = map(list, zip(*COLUMNS, strict=True))
    reads = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(names, types)).build()
    messages = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(reads)
        .build()
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(DISORDER_S))
    writes = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(target)
        .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(RESULT).build())
        .build()
    )
    results = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(writes).build()
    (
        env.from_source(messages, WatermarkStrategy.no_watermarks(), "messages")
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(ByColumn()))
        .key_by(lambda row: row[1], Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.seconds(WINDOW_S)))
        .aggregate(
            SumAndCount(),
            WithWindow(),
            accumulator_type=Types.TUPLE([Types.DOUBLE(), Types.LONG()]),
            output_type=RESULT,
        )
        .sink_to(results)
    )
    started = time.monotonic()
    env.execute("windows")
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("api", choices=("sql", "datastream"))
    parser.add_argument("servers")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("parallelism", type=int)
    given = parser.parse_args()
    run = sql if given.api == "sql" else datastream
    seconds = run(given.servers, given.source, given.target, given.parallelism)
    print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
