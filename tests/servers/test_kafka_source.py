"""KafkaSource against a real broker."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    Configuration,
    Count,
    DataStream,
    JobCanceledError,
    JobExecutionError,
    JobStatus,
    JsonFormat,
    KafkaOffsets,
    KafkaSource,
    KeyedProcessFunction,
    RawFormat,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from tests.support.rest import RestClient
from tests.support.servers.kafka import KafkaBroker
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


def environment(parallelism: int = 2, **options: Any) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration({"execution.target": "local", "parallelism.default": parallelism, **options})
    )


def stream(source: KafkaSource, **options: Any) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return environment(**options).from_source(source, strategy, "messages")


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [str(number).encode() for number in range(start, start + count)]


def values(rows: Any) -> list[str]:
    return sorted((row if isinstance(row, str) else row.value for row in rows), key=int)


def test_a_topic_is_read_to_its_end_with_what_its_messages_have(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(2)
    kafka.write(topic, [b'{"i": 1}', None], 0, key=b"k", headers=[("h", b"x")], timestamp=1_000)
    kafka.write(topic, [b'{"i": 2}'], 1, timestamp=2_000)
    metadata = ["topic", "partition", "offset", "timestamp", "key", "headers"]
    source = KafkaSource(kafka.servers, [topic], JsonFormat({"i": int}), metadata, stop="latest")
    rows = sorted(stream(source).execute_and_collect(), key=lambda row: row.i)
    assert [(row.topic, row.partition, row.offset, row.key, row.i) for row in rows] == [
        (topic, 0, 0, b"k", 1),
        (topic, 1, 0, None, 2),
    ]
    assert [int(row.timestamp.timestamp() * 1000) for row in rows] == [1_000, 2_000]
    assert [header["value"] for header in rows[0].headers] == [b"x"]


def test_the_event_time_is_the_messages_own(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    for timestamp in (500, 900, 1_100):
        kafka.write(topic, [b'{"k": "a"}'], timestamp=timestamp)
    source = KafkaSource(kafka.servers, [topic], JsonFormat({"k": str}), stop="latest")
    windows = stream(source).key_by("k").window(TumblingEventTimeWindows.of("1 s")).aggregate(n=Count())
    assert [(row.window_start, row.n) for row in windows.execute_and_collect()] == [(0, 2), (1_000, 1)]


STARTS: dict[str, tuple[Any, list[int]]] = {
    "earliest": ("earliest", [0, 1, 2, 3, 4]),
    "latest": ("latest", []),
    "timestamp": (KafkaOffsets.timestamp(2_500), [2, 3, 4]),
    "timestamp behind all": (KafkaOffsets.timestamp(9_000), []),
    "offsets": (KafkaOffsets.at({}, fallback="latest"), []),
    "committed": (KafkaOffsets.committed("earliest"), [0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize("name", STARTS)
def test_where_a_topic_is_begun(kafka: KafkaBroker, name: str) -> None:
    topic = kafka.create_topic()
    for number in range(5):
        kafka.write(topic, numbers(1, number), timestamp=(number + 1) * 1_000)
    start, expected = STARTS[name]
    source = KafkaSource(kafka.servers, [topic], RawFormat(), start=start, stop="latest", group_id=topic)
    assert values(stream(source).execute_and_collect()) == list(map(str, expected))


def test_it_ends_where_it_is_to_end_also_where_transactions_leave_offsets_out(kafka: KafkaBroker) -> None:
    from confluent_kafka import Producer

    topic = kafka.create_topic(2)
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": topic})
    producer.init_transactions(30)
    for commits in (True, False, True, False):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, b"1" if commits else b"0", partition=partition)
        producer.flush(30)
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
    source = KafkaSource(kafka.servers, [topic], RawFormat(), stop="latest")
    assert list(stream(source).execute_and_collect()) == ["1"] * 4
    source = KafkaSource(kafka.servers, [topic], RawFormat(), stop="latest", isolation="read_uncommitted")
    assert Counter(stream(source).execute_and_collect()) == {"1": 4, "0": 4}
    source = KafkaSource(
        kafka.servers, [topic], RawFormat(), stop=KafkaOffsets.at({(topic, 0): 1}), isolation="read_uncommitted"
    )
    assert list(stream(source).execute_and_collect()) == ["1"]


class Collected:
    """The rows of a running job, taken on a thread."""

    def __init__(self, rows: Any) -> None:
        self.rows: list[Any] = []
        self._results = rows
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        with contextlib.suppress(JobCanceledError):
            for row in self._results:
                self.rows.append(row)

    def stop(self) -> None:
        self._results.close()
        self._thread.join(30)


@pytest.fixture
def running() -> Iterator[Any]:
    started: list[Collected] = []

    def start(results: DataStream) -> Collected:
        started.append(Collected(results.execute_and_collect()))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def waits_for(gate: Path, came: Path) -> Any:
    def hold(value: Any) -> Any:
        came.touch()
        return eventually(gate.exists, deadline_s=60) and value

    return hold


def test_how_many_messages_wait_is_measured(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    kafka.write(topic, numbers(1))
    env = environment(1, **{"rest.port": 0, "metrics.fetcher.update-interval": "50 ms"})
    source = KafkaSource(kafka.servers, [topic], RawFormat())
    held = env.from_source(source, WatermarkStrategy.no_watermarks(), "messages").map(
        waits_for(tmp_path / "gate", tmp_path / "came")
    )
    held.print()
    client = env.execute_async("pending")
    try:
        http = RestClient(client.web_url)
        eventually((tmp_path / "came").exists)
        (vertex,) = http.get(f"/jobs/{client.job_id}").value["vertices"]
        path = f"/jobs/{client.job_id}/vertices/{vertex['id']}/subtasks/metrics"

        def waiting() -> list[float]:
            answer = http.get(f"{path}?get=Source__messages.pendingRecords&agg=sum").value
            return [each["sum"] for each in answer]

        kafka.write(topic, numbers(50))
        eventually(waiting, lambda found: found == [50])
        (tmp_path / "gate").touch()
        eventually(waiting, lambda found: found == [0])
    finally:
        client.cancel()


def test_new_partitions_and_topics_are_found(kafka: KafkaBroker, running: Any) -> None:
    topic = kafka.create_topic()
    source = KafkaSource(kafka.servers, rf"{topic}.*", RawFormat(), start="latest", discovery_interval="200 ms")
    found = running(stream(source))
    kafka.write(topic, numbers(1))
    eventually(lambda: found.rows or kafka.write(topic, numbers(1)))
    kafka.add_partitions(topic, 3)
    kafka.write(topic, numbers(1, 100), 2)
    eventually(lambda: "100" in found.rows, deadline_s=60)


class Counting(KeyedProcessFunction):
    """How often each value has come, in state, as a line of a file."""

    def __init__(self, file: str) -> None:
        self._file = file

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self._count.update((self._count.value() or 0) + 1)
        with Path(self._file).open("a", encoding="utf-8") as file:
            file.write(f"{value} {self._count.value()}\n")


def test_nothing_is_read_twice_or_lost_over_savepoints_at_another_parallelism(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic, seen = kafka.create_topic(3), tmp_path / "seen"
    seen.touch()
    for partition in range(3):
        kafka.write(topic, numbers(3_000, 10_000 * partition), partition)
    savepoint: str | None = None
    for number, parallelism in enumerate((2, 3, 1)):
        options = {} if savepoint is None else {"execution.state-recovery.path": savepoint}
        env = environment(parallelism, **options)
        source = KafkaSource(kafka.servers, [topic], RawFormat(), group_id=topic)
        rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "messages").uid("messages")
        rows.key_by(identity).process(Counting(str(seen))).uid("counts").print()
        client = env.execute_async("counts")
        enough = 3_000 * (number + 1)
        eventually(client.status, lambda status: status is JobStatus.RUNNING)
        eventually(lambda: len(lines(seen)) >= enough, deadline_s=60)  # noqa: B023
        savepoint = client.stop_with_savepoint(str(tmp_path / str(number)), timeout=60)
        client.result(60)
    expected = sorted(f"{10_000 * partition + number} 1" for partition in range(3) for number in range(3_000))
    assert sorted(lines(seen)) == expected
    assert committed(kafka, topic) == 9_000


def identity(value: Any) -> Any:
    return value


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def committed(kafka: KafkaBroker, topic: str) -> int:
    """How many messages the group has read, as it says at the broker."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": topic})
    offsets = consumer.committed([TopicPartition(topic, number) for number in range(3)], timeout=30)
    consumer.close()
    return sum(max(0, each.offset) for each in offsets)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no such topic": ({"topics": ["absent"]}, r"topic 'absent' is not there.*Topics: .*topic-"),
    "nobody there": ({"servers": "127.0.0.1:1"}, r"no broker answers at 127\.0\.0\.1:1; are they running"),
    "no committed offset": ({"start": "committed", "group_id": "nobody"}, r"no offset that is committed.*fallback="),
    "what cannot be read": (
        {"value_format": JsonFormat({"i": int})},
        r"message at offset 0 of partition 0 of topic 'topic-.*cannot be read as row<i: int64>: no JSON object",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_with_the_way_out(kafka: KafkaBroker, name: str) -> None:
    topic = kafka.create_topic()
    kafka.write(topic, [b"x"])
    given, message = BAD[name]
    source = KafkaSource(**{"servers": kafka.servers, "topics": [topic], "stop": "latest", **given})
    with pytest.raises(JobExecutionError, match=f"(?s){message}"):
        list(stream(source).execute_and_collect())


def test_messages_that_cannot_be_read_are_left_out_if_asked_for(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.write(topic, [b'{"i": 1}', b"x", b'{"i": 2}'])
    source = KafkaSource(kafka.servers, [topic], JsonFormat({"i": int}), stop="latest", bad_messages="skip")
    assert [row.i for row in stream(source).execute_and_collect()] == [1, 2]


def test_an_offset_whose_messages_were_deleted_is_an_error_that_names_it(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.write(topic, numbers(3))
    source = KafkaSource(kafka.servers, [topic], RawFormat(), start=KafkaOffsets.at({(topic, 0): 7}))
    with pytest.raises(JobExecutionError, match=r"partition 0 of topic 'topic-.*cannot be read on at offset 7"):
        list(stream(source, parallelism=1).execute_and_collect())
