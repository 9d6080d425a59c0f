"""Sinks that write exactly once into real servers and tables of a lake, in jobs on Ray whose processes die.

`-m "kafka or postgres or redis or nats" --recovery` runs all of them, each time with other victims.
"""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from flinkray import (
    Configuration,
    DataGenSource,
    DeliveryGuarantee,
    JobClient,
    JsonFormat,
    KafkaSink,
    NatsSink,
    PostgresSink,
    RedisSink,
    Sink,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from tests.support.lake import TABLES
from tests.support.recovery import run_with_kills

pytestmark = [pytest.mark.ray, pytest.mark.recovery, pytest.mark.timeout(400), pytest.mark.usefixtures("ray_cluster")]

RUNS = 20
ROWS = 60_000
ROWS_PER_SECOND = 3_000
KINDS = ("TaskSlot", "TaskExecutor", "JobMaster")


def number(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return rows


@dataclass(frozen=True)
class Target:
    """Where rows go: a sink, the numbers that a reader finds behind it, and how its server, if any, dies and comes
    back."""

    sink: Sink
    read: Callable[[], list[int]]
    restart: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class SinkJob:
    """Numbers at a steady pace into a sink."""

    directory: Path
    target: Target
    options: dict[str, object] = field(default_factory=dict)

    def submit(self) -> JobClient:
        options = {
            "parallelism.default": 2,
            "execution.target": "ray",
            "execution.checkpointing.interval": "300 ms",
            "execution.checkpointing.dir": str(self.directory / "checkpoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 50,
            "restart-strategy.fixed-delay.delay": "100 ms",
            **self.options,
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
        source = DataGenSource({"n": number}, ROWS, rows_per_second=ROWS_PER_SECOND)
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(self.target.sink)
        return env.execute_async("numbers")

    def check(self) -> None:
        found = Counter(self.target.read())
        lost = [each for each in range(ROWS) if each not in found]
        doubled = [each for each, times in found.items() if times > 1]
        assert (len(found), lost[:5], doubled[:5]) == (ROWS, [], [])


def _kafka(request: pytest.FixtureRequest) -> Target:
    kafka: Any = request.getfixturevalue("kafka")
    topic = kafka.create_topic(2)
    sink = KafkaSink(kafka.servers, topic, JsonFormat({"n": int}), delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)

    def restart() -> None:
        kafka.stop(signal.SIGKILL)
        kafka.restart()

    return Target(sink, lambda: [int(each.value()[5:-1]) for each in kafka.read(topic, ROWS)], restart)


def _redis(request: pytest.FixtureRequest) -> Target:
    redis: Any = request.getfixturevalue("redis")
    stream = f"kills-{random.SystemRandom().getrandbits(40):x}"

    def restart() -> None:
        redis.stop()
        redis.restart()

    return Target(
        RedisSink(redis.url, stream), lambda: [int(each[b"n"]) for _, each in redis.client.xrange(stream)], restart
    )


def _nats(request: pytest.FixtureRequest) -> Target:
    nats: Any = request.getfixturevalue("nats")
    stream = nats.create_stream()

    def restart() -> None:
        nats.stop()
        nats.restart()

    sink = NatsSink(
        nats.url,
        f"{stream}.rows",
        JsonFormat({"n": int}),
        stream=stream,
        marks=f"{stream}.marks",
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
    )
    return Target(sink, lambda: [int(each[5:-1]) for each in nats.read(stream, f"{stream}.rows")], restart)


def _postgres(request: pytest.FixtureRequest, prepared: bool = False) -> Target:
    postgres: Any = request.getfixturevalue("postgres")
    table = f"kills_{random.SystemRandom().getrandbits(40):x}"
    postgres.execute(f"CREATE TABLE {table} (n bigint)")

    def restart() -> None:
        postgres.stop()
        postgres.start()

    sink = PostgresSink(postgres.uri, table, prepared=prepared)
    return Target(sink, lambda: [row[0] for row in postgres.execute(f"SELECT n FROM {table}")], restart)


def _lake(request: pytest.FixtureRequest, name: str) -> Target:
    table = TABLES[name](request.getfixturevalue("tmp_path"))
    request.addfinalizer(table.close)
    sink = table.sink(schema=pa.schema({"n": pa.int64()}))
    return Target(sink, lambda: table.read().column("n").to_pylist())


SERVERS = {
    "kafka": pytest.param(_kafka, marks=pytest.mark.kafka),
    "redis": pytest.param(_redis, marks=pytest.mark.redis),
    "nats": pytest.param(_nats, marks=pytest.mark.nats),
    "postgres": pytest.param(_postgres, marks=pytest.mark.postgres),
    "postgres prepared": pytest.param(lambda request: _postgres(request, True), marks=pytest.mark.postgres),
}
TARGETS = {**SERVERS, **{name: partial(_lake, name=name) for name in TABLES}}


@pytest.fixture
def waiting() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.parametrize("make", TARGETS.values(), ids=TARGETS)
def test_every_row_is_there_once_whoever_dies(
    request: pytest.FixtureRequest, tmp_path: Path, make: Callable[[pytest.FixtureRequest], Target], seed: int
) -> None:
    victims = random.Random(f"kills {seed}").choices(KINDS, k=4)
    recoveries = run_with_kills(SinkJob(tmp_path, make(request)), victims)
    print("", *recoveries, sep="\n  ")


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.parametrize("make", SERVERS.values(), ids=SERVERS)
def test_every_row_is_there_once_though_the_server_dies_too(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    make: Callable[[pytest.FixtureRequest], Target],
    seed: int,
    waiting: ThreadPoolExecutor,
) -> None:
    target = make(request)
    after_s = 8 + random.Random(f"server {seed}").random() * 4

    def restart() -> None:
        threading.Event().wait(after_s)
        target.restart()

    restarted = waiting.submit(restart)
    recoveries = run_with_kills(SinkJob(tmp_path, target), ("TaskSlot",))
    restarted.result(60)
    print("", *recoveries, sep="\n  ")
