"""KafkaSink against a real broker."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    CsvFormat,
    InvalidProgramError,
    JobExecutionError,
    JobStatus,
    JsonFormat,
    KafkaSink,
    RawFormat,
    RestartStrategies,
    WatermarkStrategy,
)
from flinkray.testing import Crash, ScriptedSource
from tests.servers.test_kafka_source import environment
from tests.support.listening import deserted_port
from tests.support.servers.kafka import KafkaBroker
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

ROWS = [{"k": f"key {number % 7}", "v": number} for number in range(50)]


def write(sink: KafkaSink, rows: Sequence[Any], **options: Any) -> None:
    env = environment(**options)
    env.from_collection(rows).sink_to(sink)
    env.execute("write")


def test_rows_are_messages_and_equal_keys_are_in_the_partition_of_javas_client(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(3)
    write(KafkaSink(kafka.servers, topic, JsonFormat({"k": str, "v": int}), key="k"), ROWS)
    found = kafka.read(topic, 50)
    assert sorted(message.value() for message in found) == sorted(
        f'{{"k":"{row["k"]}","v":{row["v"]}}}'.encode() for row in ROWS
    )
    partitions = {message.key(): message.partition() for message in found}
    assert partitions == {
        f"key {number}".encode(): (murmur2(f"key {number}".encode()) & 0x7FFFFFFF) % 3 for number in range(7)
    }


def murmur2(data: bytes) -> int:
    """Kafka's hash of keys (org.apache.kafka.common.utils.Utils.murmur2)."""
    mask, mixer = 0xFFFFFFFF, 0x5BD1E995
    value = (0x9747B28C ^ len(data)) & mask
    for first in range(0, len(data) - len(data) % 4, 4):
        word = int.from_bytes(data[first : first + 4], "little") * mixer & mask
        word = (word ^ word >> 24) * mixer & mask
        value = (value * mixer & mask) ^ word
    rest = data[len(data) - len(data) % 4 :]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * mixer & mask
    value = (value ^ value >> 13) * mixer & mask
    return value ^ value >> 15


def test_topic_partition_and_headers_may_come_from_columns(kafka: KafkaBroker) -> None:
    one, other = kafka.create_topic(2), kafka.create_topic(2)
    sink = KafkaSink(
        kafka.servers,
        topic_column="to",
        value_format=CsvFormat({"v": int}),
        partition_column="p",
        headers_column="h",
    )
    rows = [
        {"to": one, "p": 1, "h": [{"name": "a", "value": b"x"}], "v": 1},
        {"to": other, "p": 0, "h": [], "v": 2},
    ]
    write(sink, rows)
    (first,), (second,) = kafka.read(one, 1), kafka.read(other, 1)
    assert (first.partition(), first.headers(), first.value()) == (1, [("a", b"x")], b"1")
    assert (second.partition(), second.headers(), second.value()) == (0, None, b"2")


def test_messages_have_the_event_time_of_their_rows(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    env = environment(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("v")
    rows = env.from_collection([{"v": 1_000}, {"v": 2_000}]).assign_timestamps_and_watermarks(strategy)
    rows.map(lambda row: str(row.v)).sink_to(KafkaSink(kafka.servers, topic, RawFormat()))
    env.execute("write")
    assert [message.timestamp()[1] for message in kafka.read(topic, 2)] == [1_000, 2_000]


def test_nothing_is_lost_where_a_job_fails_and_starts_again(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    env = environment(1, **{"execution.checkpointing.dir": str(tmp_path)})
    env.enable_checkpointing(20)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(5, 10))
    steps = [str(number) for number in range(300)]
    steps[150:150] = [Crash]  # type: ignore[list-item]
    env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "steps").sink_to(
        KafkaSink(kafka.servers, topic, RawFormat())
    )
    env.execute("write")
    found = [message.value().decode() for message in kafka.read(topic, 300)]
    assert set(found) == set(map(str, range(300)))


def test_a_broker_that_is_away_for_a_while_is_waited_for(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    env = environment(1)
    env.from_collection([str(number) for number in range(100)]).sink_to(KafkaSink(kafka.servers, topic, RawFormat()))
    kafka.stop(signal.SIGKILL)
    client = env.execute_async("write")
    eventually(client.status, lambda status: status is JobStatus.RUNNING)
    kafka.restart()
    client.result(90)
    assert len(kafka.read(topic, 100)) == 100


def test_a_job_that_waits_for_a_broker_is_cancelled_at_once() -> None:
    env = environment(1)
    with deserted_port() as port:
        env.from_collection(["x"]).sink_to(KafkaSink(f"127.0.0.1:{port}", "t", RawFormat()))
        client = env.execute_async("write")
        eventually(client.status, lambda status: status is JobStatus.RUNNING)
        time.sleep(1)  # the writer waits
        client.cancel()
        # A task that does not react is given 30 s.
        eventually(client.status, lambda status: status is JobStatus.CANCELED, deadline_s=20)


def test_a_message_that_cannot_be_written_names_topic_and_reason(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(**{"max.message.bytes": "1000"})
    with pytest.raises(JobExecutionError, match=rf"message for topic '{topic}' could not be written: .*MSG_SIZE"):
        write(KafkaSink(kafka.servers, topic, RawFormat()), ["x" * 5_000])
    with pytest.raises(JobExecutionError, match=r"a row cannot be written as a message: .*neither text nor bytes"):
        write(KafkaSink(kafka.servers, topic, RawFormat()), [[1, 2]])
    compacted = kafka.create_topic(**{"cleanup.policy": "compact"})
    with pytest.raises(JobExecutionError, match=r"INVALID_RECORD.*compacted wants a key for each message"):
        write(KafkaSink(kafka.servers, compacted, RawFormat()), ["x"])
    with pytest.raises(JobExecutionError, match="no column 'other'"):
        write(KafkaSink(kafka.servers, topic, JsonFormat({"v": int}), key="other"), [{"v": 1}])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": None}, "either topic= or topic_column="),
        ({"servers": ""}, "takes 'host:port'"),
        ({"key": ["a", "b"]}, "needs KafkaSink.key_format"),
        ({"client_options": {"group.id": "x"}}, "say it with group_id="),
    ],
)
def test_a_sink_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        KafkaSink(**{"servers": "host:1", "topic": "t", **given})


def test_secrets_are_not_shown() -> None:
    sink = KafkaSink("host:1", "t", client_options={"sasl.username": "ann", "sasl.password": "hidden"})
    assert "hidden" not in repr(sink)
    assert "ann" in repr(sink)
