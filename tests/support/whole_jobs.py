"""Running small programs to their end in this process, and getting what their streams gave."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from flinkray import (
    Batch,
    CollectSink,
    DataStream,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    WatermarkGenerator,
    WatermarkStrategy,
)
from flinkray.batches.row_codec import decode
from flinkray.types.records import Timestamp

ONE_ROW_BATCHES = {"flinkray.batch.target-rows": 1}
ASCENDING = WatermarkStrategy.for_monotonous_timestamps()


class Punctuated(WatermarkGenerator):
    """A watermark after each batch: no row is later than the last one. With batches of one row time is exact."""

    def on_batch(self, batch: Batch, timestamps: pa.Array) -> Timestamp:
        return Timestamp(timestamps[-1].as_py() - 1)

    def on_periodic_emit(self) -> None:
        return None


def rows(stream: DataStream) -> list[Any]:
    """What the stream gives, sorted by how it reads, since subtasks have no order among them."""
    return sorted(stream.execute_and_collect(), key=repr)


def in_order(stream: DataStream) -> list[Any]:
    """What the stream gives, in the order in which it came: one that says something in one subtask, or per key."""
    return list(stream.execute_and_collect())


def rows_of(env: StreamExecutionEnvironment, streams: Mapping[str, DataStream]) -> dict[str, list[Any]]:
    """What several streams of one program give, each sorted as by `rows`."""
    return {name: sorted(values, key=repr) for name, values in rows_in_order(env, streams).items()}


def rows_in_order(env: StreamExecutionEnvironment, streams: Mapping[str, DataStream]) -> dict[str, list[Any]]:
    """What several streams of one program give. All are taken at the same time: a stream of which nobody takes rows
    holds back the sources that it shares with others."""
    for name, stream in streams.items():
        stream.sink_to(CollectSink(name))
    client = env.execute_async()
    try:

        def taken(name: str) -> list[Any]:
            return [row for batch in client.collected(name) for row in decode(batch)]

        with ThreadPoolExecutor(len(streams)) as pool:
            found = dict(zip(streams, pool.map(taken, streams), strict=True))
        client.result(timeout=30)
    finally:
        client.close()
    return found


def timed(env: StreamExecutionEnvironment, *events: tuple[Any, ...], names: tuple[str, ...]) -> DataStream:
    """Rows of these columns in one subtask, with the column `at` as event time and a watermark after each batch."""
    columns = {name: [event[index] for event in events] for index, name in enumerate(names)}
    strategy = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner("at")
    return env.from_arrow(pa.table(columns), strategy).set_parallelism(1)


def cities(env: StreamExecutionEnvironment) -> DataStream:
    """Three rows of a city and its highest and lowest temperature."""
    return env.from_arrow(pa.table({"city": ["Oslo", "Rome", "Lima"], "high": [4, 15, 27], "low": [-2, 7, 19]}))


class WhereItRuns(MapFunction):
    """Gives for each value what its runtime context says of where it runs."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context
        self.is_closed = False

    def map(self, value: int) -> tuple[str, str, int, int, int, str]:
        context = self.context
        return (
            context.get_task_name(),
            context.get_task_name_with_subtasks(),
            context.get_number_of_parallel_subtasks(),
            context.get_max_number_of_parallel_subtasks(),
            context.get_attempt_number(),
            context.get_job_name(),
        )
