"""Rules of a slot: what it answers to commands, and what it reports, with the host played by the test."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
import pytest

from actors.hosts.local import LocalObjectStore, MemoryMetrics
from actors.messages import (
    AddSplits,
    AllocationId,
    CancelTask,
    ChannelDescriptor,
    DeliverOperatorEvent,
    GateDescriptor,
    MetricsReported,
    NoMoreSplits,
    OperatorEventSent,
    PartitionDescriptor,
    ReaderRegistered,
    RowsCollected,
    SessionId,
    SubmitTask,
    TaskDeployment,
    TaskStateChanged,
)
from actors.ports import Address, BatchRef, Cancellable, DeliveryFailed, Loop, MetricSink
from actors.task_slot import TaskSlot
from flinkray.config import Configuration
from flinkray.connectors.collect import CollectSink
from flinkray.connectors.sequence import SequenceSource
from flinkray.errors import FlinkrayError
from flinkray.operator_factories import MapFactory, OperatorFactory, SinkFactory, SourceFactory
from flinkray.partitioning import RebalancePartitioner
from flinkray.types import JobId
from flinkray.watermarks import WatermarkStrategy
from graphs.execution_graph import AttemptId, PartitionId
from graphs.job_graph import JobVertexId, ResultPartitionType, TaskKind
from tests.support.tasks import STEPS, ManualTime, Node, configs

SLOT, EXECUTOR = Address("slot"), Address("executor")
SESSION, LEASE = SessionId("session"), AllocationId("lease")


@dataclass
class FakeContext:
    """An EndpointContext in one thread: loops are stepped, and messages kept."""

    address: Address = SLOT
    time: ManualTime = field(default_factory=ManualTime)
    memory: MemoryMetrics = field(default_factory=MemoryMetrics)
    loops: list[tuple[str, Loop]] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)
    inbox: deque[Any] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.objects = LocalObjectStore()

    @property
    def clock(self) -> ManualTime:
        return self.time

    @property
    def timers(self) -> ManualTime:
        return self.time

    @property
    def metrics(self) -> MetricSink:
        return self.memory

    def random(self, name: str) -> random.Random:
        return random.Random(name)

    def tell(self, address: Address, message: Any, payloads: Sequence[BatchRef] = ()) -> None:
        assert address == EXECUTOR, "a slot on its own talks to its TaskExecutor only"
        self.told.append(message)

    def tell_self(self, message: Any) -> None:
        self.inbox.append(message)

    def tell_self_later(self, delay_ms: float, message: Any) -> Cancellable:
        return self.time.call_later(delay_ms, lambda: self.inbox.append(message))

    def watch(self, address: Address) -> None: ...

    def start_loop(self, name: str, loop: Loop) -> None:
        self.loops.append((name, loop))

    def fatal(self, error: BaseException) -> None:
        raise error


class SlotHarness:
    """A slot, stepped by the test."""

    def __init__(self) -> None:
        self.context = FakeContext()
        self.slot = TaskSlot(self.context, EXECUTOR, Configuration())  # type: ignore[arg-type]
        self.slot.on_start()

    def tell(self, *messages: Any) -> None:
        for message in messages:
            self.slot.on_message(message, ())  # type: ignore[arg-type]
        self.run_until_idle()

    def run_until_idle(self) -> None:
        for _ in range(STEPS):
            while self.context.inbox:
                self.slot.on_message(self.context.inbox.popleft(), ())  # type: ignore[arg-type]
            stepped = [loop.step() for _, loop in self.context.loops if not loop.is_done]
            if not any(stepped) and not self.context.inbox:
                return
        raise AssertionError("still busy")

    def advance(self, by_ms: int) -> None:
        self.context.time.advance(by_ms, self.run_until_idle)
        self.run_until_idle()

    def told(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.context.told if isinstance(message, kind)]

    def states(self, attempt: str) -> list[str]:
        return [change.state for change in self.told(TaskStateChanged) if change.attempt_id == attempt]


@pytest.fixture
def slot() -> SlotHarness:
    return SlotHarness()


def deployment(
    attempt: str,
    nodes: Sequence[Node],
    partitions: Sequence[PartitionDescriptor] = (),
    gates: Sequence[GateDescriptor] = (),
) -> TaskDeployment:
    return TaskDeployment(
        job_id=JobId("job"),
        job_name="test job",
        attempt_id=AttemptId(attempt),
        vertex_id=JobVertexId(attempt),
        vertex_name=attempt,
        kind=TaskKind.ONE_INPUT,
        subtask_index=0,
        parallelism=1,
        max_parallelism=128,
        attempt_number=0,
        allocation_id=LEASE,
        operators=configs(nodes, RebalancePartitioner()),
        head_node=0,
        partitions=tuple(partitions),
        gates=tuple(gates),
        configuration=Configuration(),
    )


def producer_and_consumer(function: Callable[[int], int] = lambda x: x * 2) -> tuple[TaskDeployment, TaskDeployment]:
    """numbers -> map | rebalance | collect, as two tasks of one slot."""
    source: OperatorFactory = SourceFactory(SequenceSource(1, 5), WatermarkStrategy.no_watermarks())
    partition = PartitionDescriptor(PartitionId("p"), ResultPartitionType.PIPELINED_BOUNDED, 1, False)
    gate = GateDescriptor(0, 0, (ChannelDescriptor(PartitionId("p"), 0, SLOT),))
    return (
        deployment(
            "producer", [Node("numbers", source, to=[1]), Node("map", MapFactory(function), out=[0])], [partition]
        ),
        deployment("consumer", [Node("collect", SinkFactory(CollectSink("rows")), inputs=[0])], gates=[gate]),
    )


def submit(slot: SlotHarness, *deployments: TaskDeployment) -> None:
    slot.tell(*(SubmitTask(SESSION, each) for each in deployments))


def answer_split_request(slot: SlotHarness, producer: TaskDeployment) -> None:
    """Plays the coordinator: all splits, then no more."""
    enumerator_context = _Enumeration()
    enumerator = SequenceSource(1, 5).create_enumerator(enumerator_context)
    enumerator.start()
    enumerator.add_reader(0)
    while not enumerator_context.has_no_more:
        enumerator.handle_split_request(0)
    operator_id = producer.operators[0].operator_id

    def deliver(event: Any) -> DeliverOperatorEvent:
        return DeliverOperatorEvent(SESSION, LEASE, producer.attempt_id, operator_id, event)

    slot.tell(deliver(AddSplits(cloudpickle.dumps(enumerator_context.splits))), deliver(NoMoreSplits()))


@dataclass
class _Enumeration:
    splits: list[Any] = field(default_factory=list)
    has_no_more: bool = False
    parallelism: int = 1
    registered_readers: frozenset[int] = frozenset({0})

    def now_ms(self) -> int:
        return 0

    def assign_splits(self, splits: Sequence[Any], subtask_index: int) -> None:
        self.splits.extend(splits)

    def signal_no_more_splits(self, subtask_index: int) -> None:
        self.has_no_more = True

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None: ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None: ...


def test_two_tasks_of_a_slot_run_from_split_to_collected_rows(slot: SlotHarness) -> None:
    producer, consumer = producer_and_consumer()
    submit(slot, consumer, producer)
    assert slot.told(OperatorEventSent)[0].event == ReaderRegistered(0)
    answer_split_request(slot, producer)
    rows = [sent.event for sent in slot.told(OperatorEventSent) if isinstance(sent.event, RowsCollected)]
    assert [value for event in rows for value in event.batch.data.column(0).to_pylist()] == [2, 4, 6, 8, 10]
    for attempt in ("producer", "consumer"):
        assert slot.states(attempt) == ["INITIALIZING", "RUNNING", "FINISHED"]


def test_the_last_figures_go_before_the_terminal_state(slot: SlotHarness) -> None:
    producer, consumer = producer_and_consumer()
    submit(slot, producer, consumer)
    answer_split_request(slot, producer)
    told = slot.context.told
    for attempt, counts in (("producer", (5, 5)), ("consumer", (5, 5))):
        end = next(
            index
            for index, each in enumerate(told)
            if isinstance(each, TaskStateChanged) and each.state == "FINISHED" and each.attempt_id == attempt
        )
        before = told[end - 1]
        assert isinstance(before, MetricsReported)
        metrics = before.metrics[AttemptId(attempt)]
        assert (metrics.records_in, metrics.records_out) == counts


def test_metrics_are_reported_periodically_while_tasks_run(slot: SlotHarness) -> None:
    producer, consumer = producer_and_consumer()
    submit(slot, producer, consumer)
    slot.advance(2500)
    reports = slot.told(MetricsReported)
    assert [sorted(report.metrics) for report in reports] == [["consumer", "producer"]] * 2
    exported = slot.context.memory.values()
    tags = (("job_name", "test job"), ("subtask_index", "0"), ("task_name", "producer"))
    assert exported["task_idle_ms_per_second", tags] == 1000
    assert exported["task_busy_ms_per_second", tags] == 0
    assert ("task_watermark_ms", tags) not in exported


def test_metrics_of_ended_tasks_are_exported_once_and_not_reported_again(slot: SlotHarness) -> None:
    producer, consumer = producer_and_consumer()
    submit(slot, producer, consumer)
    answer_split_request(slot, producer)
    reports = len(slot.told(MetricsReported))
    slot.advance(3000)
    assert len(slot.told(MetricsReported)) == reports
    exported = slot.context.memory.values()
    assert (
        exported["task_records_out", (("job_name", "test job"), ("subtask_index", "0"), ("task_name", "producer"))] == 5
    )


def test_a_failing_function_is_reported_with_the_task_and_the_users_line(slot: SlotHarness) -> None:
    producer, consumer = producer_and_consumer(lambda x: 1 // (x - 3))
    submit(slot, producer, consumer)
    answer_split_request(slot, producer)
    failed = slot.told(TaskStateChanged)
    first = next(change for change in failed if change.state == "FAILED")
    assert first.attempt_id == "producer", "the consumer's complaint comes after the reason"
    assert first.error is not None
    assert "ZeroDivisionError" in first.error.message
    assert "operator 'map'" in first.error.message
    assert "in task 'producer (1/1)', attempt 0" in first.error.exception().__notes__


def test_a_cancelled_task_reports_it_and_unknown_attempts_are_ignored(slot: SlotHarness) -> None:
    producer, _ = producer_and_consumer()
    submit(slot, producer)
    slot.tell(CancelTask(SESSION, LEASE, AttemptId("somebody else")))
    slot.tell(DeliverOperatorEvent(SESSION, LEASE, AttemptId("x"), producer.operators[0].operator_id, NoMoreSplits()))
    slot.tell(CancelTask(SESSION, LEASE, producer.attempt_id))
    assert slot.states("producer") == ["INITIALIZING", "RUNNING", "CANCELED"]
    slot.tell(CancelTask(SESSION, LEASE, producer.attempt_id))
    assert slot.states("producer")[-1] == "CANCELED"


def test_a_task_that_is_submitted_twice_runs_once(slot: SlotHarness) -> None:
    producer, _ = producer_and_consumer()
    submit(slot, producer, producer)
    assert slot.states("producer") == ["INITIALIZING", "RUNNING"]


def test_the_slot_does_not_load_code_on_its_own_thread(slot: SlotHarness) -> None:
    producer, _ = producer_and_consumer()
    broken = replace(
        producer, operators=tuple(replace(each, code_bytes=b"not a pickle") for each in producer.operators)
    )
    slot.slot.on_message(SubmitTask(SESSION, broken), ())  # type: ignore[arg-type]
    assert slot.states("producer") == []
    slot.run_until_idle()
    assert slot.states("producer") == ["FAILED"]


def test_a_slot_ends_when_rows_or_states_of_its_tasks_do_not_get_through(slot: SlotHarness) -> None:
    """Its end fails the job, which otherwise would wait for ever, or end without these rows."""
    producer, consumer = producer_and_consumer()
    submit(slot, producer, consumer)
    answer_split_request(slot, producer)
    rows = next(sent for sent in slot.told(OperatorEventSent) if isinstance(sent.event, RowsCollected))
    for lost in (rows, slot.told(TaskStateChanged)[-1]):
        with pytest.raises(FlinkrayError, match=f"{type(lost).__name__} of consumer did not reach executor: too large"):
            slot.tell(DeliveryFailed(EXECUTOR, lost, "too large"))


def test_figures_that_do_not_get_through_are_not_missed(slot: SlotHarness) -> None:
    producer, _ = producer_and_consumer()
    submit(slot, producer)
    slot.advance(1000)
    slot.tell(DeliveryFailed(EXECUTOR, slot.told(MetricsReported)[0], "lost"))
    assert slot.states("producer") == ["INITIALIZING", "RUNNING"]


def test_a_message_that_no_slot_understands_is_an_error(slot: SlotHarness) -> None:
    with pytest.raises(TypeError, match="does not understand 'hello'"):
        slot.tell("hello")
