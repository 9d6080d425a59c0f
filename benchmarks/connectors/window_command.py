"""`python -m benchmarks kafka-window`: windows between two topics of Kafka, beside Flink SQL and PyFlink."""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
from rich.console import Console

from benchmarks.comparison import Figures
from benchmarks.definitions import BENCH_DIRECTORY
from benchmarks.engines import ENGINES, NotSetUp, python_of, set_up_jars, variables
from benchmarks.process_tree import Measured, RunFailed
from benchmarks.process_tree import run as run_tree
from benchmarks.report import append_lines, print_table

JARS = ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",)
JARS_VARIABLE = "FLINK_KAFKA_JARS"
APIS = {"flinkray": "", "flink-sql": "sql", "pyflink": "datastream"}
FEW = 100
KEYS = 10_007
ROWS_PER_MS = 10


@click.command("kafka-window")
@click.option("--rows", type=click.IntRange(10_000), default=1_000_000, show_default=True)
@click.option("--pyflink-rows", type=click.IntRange(1_000), default=100_000, show_default=True, help="PyFlink's.")
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
@click.option("--target", type=click.Choice(("ray", "local")), default="ray", show_default=True, help="flinkray's.")
@click.option("--parallelism", type=click.IntRange(1), default=2, show_default=True)
@click.option("--deadline", type=float, default=600.0, show_default=True, help="Seconds after which a run is ended.")
@click.option("--environments", type=click.Path(path_type=Path), default=BENCH_DIRECTORY, help="Where they are.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Appends a JSON object per line.")
def kafka_window(
    rows: int,
    pyflink_rows: int,
    runs: int,
    target: str,
    parallelism: int,
    deadline: float,
    environments: Path,
    json_file: Path | None,
) -> None:
    """Sums and counts by key in windows, from JSON in a topic to JSON in another, by each engine in turns."""
    from examples.servers import ServerUnavailable
    from examples.servers.kafka import KafkaBroker

    errors = Console(stderr=True)
    with contextlib.ExitStack() as running:
        try:
            broker = running.enter_context(KafkaBroker.running())
        except ServerUnavailable as unavailable:
            raise click.ClickException(str(unavailable)) from None
        job = _Job(broker, parallelism, target, environments, deadline)
        sizes = {engine: pyflink_rows if engine == "pyflink" else rows for engine in APIS}
        startups = {engine: job.run(engine, FEW) for engine in APIS}
        found: dict[str, list[Measured]] = {engine: [] for engine in APIS}
        for number in range(1, runs + 1):
            for engine in APIS:
                errors.print(f"kafka-window: {engine}: run {number}", markup=False)
                found[engine].append(job.run(engine, sizes[engine]))
    figures = [_figures(each, target, parallelism, sizes[each], startups[each], found[each]) for each in APIS]
    if json_file is not None:
        append_lines(json_file, figures)
    print_table(figures, Console(width=None if sys.stdout.isatty() else 160))


class _Job:
    """The job as each engine has it, over topics of one broker."""

    def __init__(self, broker: Any, parallelism: int, target: str, environments: Path, deadline_s: float) -> None:
        self._broker = broker
        self._parallelism = parallelism
        self._target = target
        self._environments = environments
        self._deadline_s = deadline_s
        self._sources: dict[int, str] = {}

    def run(self, engine: str, rows: int) -> Measured:
        """Runs it over so many messages, and looks at what came out.

        Raises:
            click.ClickException: the engine is not set up, failed, or counted other rows than there are.
        """
        if rows not in self._sources:
            self._sources[rows] = self._source(rows)
        target = self._topic()
        arguments = [self._broker.servers, self._sources[rows], target, str(self._parallelism)]
        try:
            if engine == "flinkray":
                command = [sys.executable, "-m", "benchmarks.connectors.window", *arguments, "--where", self._target]
                measured = run_tree(command, variables(ENGINES[engine]), self._deadline_s, True)
            else:
                python = python_of(ENGINES["flink-sql"], self._environments)
                command = [str(python), "-m", "benchmarks.peers.flink_kafka", APIS[engine], *arguments]
                jars = set_up_jars(self._environments, JARS, "flink-kafka-jars")
                names = {**variables(ENGINES["flink-sql"], self._environments), JARS_VARIABLE: str(jars)}
                measured = run_tree(command, names, self._deadline_s, True)
        except (NotSetUp, RunFailed) as error:
            raise click.ClickException(f"{engine}: {error}") from None
        counted = self._counted(target)
        if counted != rows:
            raise click.ClickException(f"{engine} counted {counted:,} of {rows:,} messages")
        return measured

    def _topic(self) -> str:
        name = f"bench_{uuid.uuid4().hex[:12]}"
        self._broker.add_topic(name, self._parallelism)
        return name

    def _source(self, rows: int) -> str:
        """A topic with that many orders, whose event time rises in each partition."""
        from confluent_kafka import Producer

        topic = self._topic()
        producer = Producer({"bootstrap.servers": self._broker.servers, "linger.ms": 50})
        for number in range(rows):
            value = (
                f'{{"id": {number}, "customer": {number * 2_654_435_761 % KEYS}, "price": {number % 1000 / 4}, '
                f'"word": "green", "ts": {1_700_000_000_000 + number // ROWS_PER_MS}}}'
            )
            while True:
                try:
                    producer.produce(topic, value, partition=number % self._parallelism)
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(self._deadline_s):
            raise click.ClickException(f"the broker took not all of {rows:,} messages")
        return topic

    def _counted(self, topic: str) -> int:
        """How many messages the windows say that they have counted.

        Raises:
            click.ClickException: the broker cannot be read.
        """
        import msgspec
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        consumer: Any = Consumer(
            {"bootstrap.servers": self._broker.servers, "group.id": "check", "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(self._parallelism)])
        counted = 0
        ended: set[int] = set()
        until = time.monotonic() + self._deadline_s
        while len(ended) < self._parallelism:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    counted += msgspec.json.decode(message.value())["n"]
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise click.ClickException(f"topic {topic} cannot be read: {message.error()}")
            if time.monotonic() > until:
                raise click.ClickException(f"topic {topic} could not be read in {self._deadline_s:.0f} s")
        consumer.close()
        return counted


def _figures(
    engine: str, target: str, parallelism: int, rows: int, startup: Measured, runs: Sequence[Measured]
) -> Figures:
    more = rows - FEW
    rates = [more / max(1e-3, run.output["seconds"] - startup.output["seconds"]) for run in runs]
    return Figures(
        workload="kafka-window",
        engine=engine,
        mode=target if engine == "flinkray" else "",
        parallelism=parallelism,
        rows=rows,
        unit="rows/s",
        runs=len(runs),
        median=median(rates),
        min=min(rates),
        max=max(rates),
        cpu_s_per_million=median(run.cpu_s - startup.cpu_s for run in runs) / more * 1e6,
        peak_mib=max(run.peak_mib for run in runs),
    )
