"""KafkaSink exactly once: what readers of committed messages see while jobs and brokers die."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    CommitRequest,
    DeliveryGuarantee,
    JobStatus,
    KafkaSink,
    KafkaSource,
    RawFormat,
    RestartStrategies,
    WatermarkStrategy,
)
from flinkray.connectors.kafka.clients import KafkaError
from flinkray.connectors.kafka.transactions.committer import KafkaCommitter
from flinkray.connectors.kafka.transactions.coordinators import KafkaTransaction, TransactionCoordinators
from flinkray.connectors.kafka.transactions.transactional_ids import transactional_id
from flinkray.testing import Crash, ScriptedSource
from tests.servers.test_kafka_source import environment
from tests.support.api import FakeSubtaskContext
from tests.support.gated_source import TARGET_ROWS, GatedSource
from tests.support.servers.kafka import KafkaBroker
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

ROWS = 300


def sink(kafka: KafkaBroker, topic: str, **settings: Any) -> KafkaSink:
    exactly_once = DeliveryGuarantee.EXACTLY_ONCE
    return KafkaSink(kafka.servers, topic, RawFormat(), delivery_guarantee=exactly_once, **settings)


def committed(kafka: KafkaBroker, topic: str, count: int) -> list[str]:
    return [message.value().decode() for message in kafka.read(topic, count)]


def context(restored_checkpoint_id: int | None = None) -> FakeSubtaskContext:
    subtask = FakeSubtaskContext()
    subtask.restored_checkpoint_id = restored_checkpoint_id
    return subtask


@pytest.fixture
def coordinators(kafka: KafkaBroker) -> TransactionCoordinators:
    return TransactionCoordinators(kafka.servers, {})


WRITER = """
    import os
    from tests.servers.test_kafka_transactions import context, sink
    from tests.support.operators import as_batch

    class Broker:
        servers = {servers!r}

    writer = sink(Broker, {topic!r}, transactional_id_prefix={prefix!r}).create_writer(context({restored}))
    writer.write(as_batch(["kept"]))
    writer.flush(end_of_input=False)
    (transaction,) = writer.prepare_commit({restored} + 1)
    writer.write(as_batch(["lost"]))
    writer.flush(end_of_input=False)
    print(transaction.transactional_id, transaction.producer_id, transaction.epoch, flush=True)
    os._exit(0)
"""


def written_by_one_who_died(kafka: KafkaBroker, topic: str, prefix: str, restored: int = 3) -> KafkaTransaction:
    """A transaction that a process prepared, which died in the middle of the next."""
    program = textwrap.dedent(WRITER).format(servers=kafka.servers, topic=topic, prefix=prefix, restored=restored)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    name, producer_id, epoch = done.stdout.split()
    return KafkaTransaction(name, int(producer_id), int(epoch))


def test_another_process_commits_what_a_writer_that_died_prepared_and_aborts_what_it_had_begun(
    kafka: KafkaBroker, coordinators: TransactionCoordinators
) -> None:
    topic = kafka.create_topic()
    transaction = written_by_one_who_died(kafka, topic, "died")
    assert len([each for each in coordinators.open_ids() if each.startswith("died-")]) == 2
    committer = KafkaCommitter(coordinators)
    for _ in range(2):  # a failure may repeat it
        committer.commit([CommitRequest(transaction, 4)])
    writer = sink(kafka, topic, transactional_id_prefix="died").create_writer(context(4))
    assert not [each for each in coordinators.open_ids() if each.startswith("died-")]
    committer.commit([CommitRequest(transaction, 4)])
    writer.close()
    assert committed(kafka, topic, 1) == ["kept"]


def test_what_was_aborted_before_it_was_committed_is_an_error_and_what_nobody_knows_is_given_up(
    kafka: KafkaBroker, coordinators: TransactionCoordinators
) -> None:
    topic = kafka.create_topic()
    transaction = written_by_one_who_died(kafka, topic, "late")
    coordinators.abort([transaction.transactional_id])
    committer = KafkaCommitter(coordinators)
    with pytest.raises(KafkaError, match=r"of checkpoint 4 was aborted.*longer than transaction.timeout.ms"):
        committer.commit([CommitRequest(transaction, 4)])
    unknown = CommitRequest(KafkaTransaction(transactional_id("never", 0, 0), 1, 0), 4)
    committer.commit([unknown])
    assert "do not know transaction 'never-0-0-" in unknown.reason


def test_transactions_of_other_subtasks_jobs_and_of_the_checkpoint_are_left_alone(
    kafka: KafkaBroker, coordinators: TransactionCoordinators
) -> None:
    topic = kafka.create_topic()
    transaction = written_by_one_who_died(kafka, topic, "mine", restored=7)
    other = written_by_one_who_died(kafka, topic, "mine-too")
    sink(kafka, topic, transactional_id_prefix="mine").create_writer(context(8)).close()
    left = coordinators.open_ids()
    assert transaction.transactional_id in left
    assert other.transactional_id in left
    assert sum(each.startswith("mine-0-") for each in left) == 1
    coordinators.abort([each for each in left if each.startswith("mine")])


def test_a_job_without_checkpoints_commits_at_its_end(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    env = environment(1)
    env.from_collection(list(map(str, range(10)))).sink_to(sink(kafka, topic))
    env.execute("write")
    assert committed(kafka, topic, 10) == list(map(str, range(10)))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_that_fails_and_starts_again_writes_each_row_once(
    kafka: KafkaBroker, tmp_path: Path, parallelism: int
) -> None:
    topic = kafka.create_topic(2)
    env = environment(parallelism, **{"execution.checkpointing.dir": str(tmp_path)})
    env.enable_checkpointing(20)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(9, 10))
    steps: list[Any] = list(map(str, range(ROWS)))
    for place in (250, 120, 60):
        steps.insert(place, Crash)
    rows = env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "steps").set_parallelism(1)
    rows.rebalance().map(lambda value: value).sink_to(sink(kafka, topic))
    env.execute("write")
    assert Counter(committed(kafka, topic, ROWS)) == Counter(map(str, range(ROWS)))


def test_a_broker_that_dies_before_commits_is_waited_for(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    env = environment(1, **{"execution.checkpointing.dir": str(tmp_path), **TARGET_ROWS})
    env.enable_checkpointing(100)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(20, 500))
    source = GatedSource(list(map(str, range(ROWS))), tmp_path / "gate")
    env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").sink_to(sink(kafka, topic))
    client = env.execute_async("write")
    eventually(client.status, lambda status: status is JobStatus.RUNNING)
    eventually(lambda: len(kafka.read(topic, 0)) > 0)
    kafka.stop(signal.SIGKILL)
    (tmp_path / "gate").touch()
    kafka.restart()  # takes seconds, in which nobody answers
    client.result(120)
    assert Counter(committed(kafka, topic, ROWS)) == Counter(map(str, range(ROWS)))


def test_a_job_that_is_rescaled_while_it_runs_reads_and_writes_each_row_once(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    origin, topic = kafka.create_topic(3), kafka.create_topic(2)
    env = environment(2, **{"execution.checkpointing.dir": str(tmp_path), **TARGET_ROWS})
    env.enable_checkpointing(100)
    source = KafkaSource(kafka.servers, [origin], RawFormat(), group_id=origin)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "messages")
    rows.key_by(lambda value: value).reduce(lambda _, value: value).sink_to(sink(kafka, topic))
    client = env.execute_async("rescaled")
    eventually(client.status, lambda status: status is JobStatus.RUNNING)
    written = 0
    for parallelism in (3, 1, 2):
        for partition in range(3):
            kafka.write(origin, list(map(str, range(written, written + 100))), partition)
            written += 100
        assert set(client.rescale(parallelism, timeout=60).values()) == {parallelism}
    assert Counter(committed(kafka, topic, written)) == Counter(map(str, range(written)))
    client.stop_with_savepoint(str(tmp_path / "savepoints"), timeout=60)
    assert Counter(committed(kafka, topic, written)) == Counter(map(str, range(written)))
