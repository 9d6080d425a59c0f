"""Rules of a slot: what it answers to commands, and what it reports, with the host played by the test."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import pytest
from msgspec.structs import replace

from actors.hosts.in_process import InProcessMetrics, InProcessObjectStore
from actors.operators.contract.operator import Operator
from actors.protocol.checkpoint_handles import InlineState, TaskSnapshot
from actors.protocol.elements import CheckpointBarrier, CheckpointOptions
from actors.protocol.operator_events import AddSplits, NoMoreSplits, ReaderRegistered, RowsCollected
from actors.protocol.ports import Address, BatchesRef, Cancellable, DeliveryFailed, Loop, MetricSink, SessionId
from actors.protocol.resources import AllocationId
from actors.protocol.serialized_value import SerializedValue
from actors.protocol.task_messages import (
    AcknowledgeCheckpoint,
    CancelTask,
    ChannelDescriptor,
    DeclineCheckpoint,
    DeliverOperatorEvent,
    GateDescriptor,
    MetricsReported,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEventSent,
    PartitionDescriptor,
    SubmitTask,
    TaskDeployment,
    TaskStateChanged,
    TriggerCheckpoint,
)
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState, read_list
from actors.task_slot import TaskSlot
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.connectors.collect.sink import CollectSink
from flinkray.connectors.sequence.source import SequenceSource
from flinkray.errors import FlinkrayError
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import MapFactory, OperatorFactory, SinkFactory, SourceFactory
from flinkray.transformations.partitioning import RebalancePartitioner
from flinkray.types.records import JobId, OperatorId
from graphs.execution_graph import AttemptId, PartitionId
from graphs.job_graph import JobVertexId, ResultPartitionType, TaskKind
from tests.support.tasks import STEPS, ManualTime, Node, configs, numbers

SLOT, EXECUTOR = Address("slot"), Address("executor")
SESSION, LEASE = SessionId("session"), AllocationId("lease")


@dataclass
class FakeContext:
    """An EndpointContext in one thread: loops are stepped, and messages kept."""

    address: Address = SLOT
    time: ManualTime = field(default_factory=ManualTime)
    memory: InProcessMetrics = field(default_factory=InProcessMetrics)
    loops: list[tuple[str, Loop]] = field(default_factory=list)
    taking_turns: list[str] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)
    inbox: deque[Any] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.objects = InProcessObjectStore()

    @property
    def clock(self) -> ManualTime:
        return self.time

    @property
    def timers(self) -> ManualTime:
        return self.time

    @property
    def metrics(self) -> MetricSink:
        return self.memory

    @property
    def shares_process(self) -> bool:
        return False

    def random(self, name: str) -> random.Random:
        return random.Random(name)

    def tell(self, address: Address, message: Any, payloads: Sequence[BatchesRef] = ()) -> None:
        assert address == EXECUTOR, "a slot on its own talks to its TaskExecutor only"
        self.told.append(message)

    def tell_self(self, message: Any) -> None:
        self.inbox.append(message)

    def tell_self_later(self, delay_ms: float, message: Any) -> Cancellable:
        return self.time.call_later(delay_ms, lambda: self.inbox.append(message))

    def watch(self, address: Address) -> None: ...

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], Any]) -> None:
        try:
            self.inbox.append(done(work(), None))
        except Exception as error:
            self.inbox.append(done(None, error))

    def start_loop(self, name: str, loop: Loop, takes_turns: bool = False) -> None:
        self.loops.append((name, loop))
        if takes_turns:
            self.taking_turns.append(name)

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
    slot.tell(*(SubmitTask.of(SESSION, each) for each in deployments))


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
        return DeliverOperatorEvent(SESSION, LEASE, producer.attempt_id, operator_id, SerializedValue(event))

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


def test_tasks_take_turns_and_the_network_waits_for_nobody(slot: SlotHarness) -> None:
    producer, consumer = producer_and_consumer()
    submit(slot, producer, consumer)
    assert sorted(slot.context.taking_turns) == sorted([producer.task_name, consumer.task_name])
    assert {name for name, _ in slot.context.loops} == {"network", *slot.context.taking_turns}


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
    slot.tell(
        DeliverOperatorEvent(
            SESSION, LEASE, AttemptId("x"), producer.operators[0].operator_id, SerializedValue(NoMoreSplits())
        )
    )
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
    slot.slot.on_message(SubmitTask.of(SESSION, broken), ())  # type: ignore[arg-type]
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


@dataclass
class Summing(Operator):
    """Keeps a sum."""

    total: int = 0
    completed: list[int] = field(default_factory=list)

    def initialize_state(self, restored: RestoredState | None) -> None:
        self.total = sum(restored.items("total")) if restored is not None else 0

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self.total += sum(batch.data.column(0).to_pylist())
        self.output.emit(batch)

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = OperatorSnapshot()
        snapshot.add_list("total", [self.total])
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.completed.append(checkpoint_id)


class Giving(Summing):
    """Gives what the test puts in, when it is told to."""

    def handle_coordinator_event(self, event: Any) -> None:
        self.process_batch(numbers(*event))


@pytest.fixture
def two_tasks(slot: SlotHarness, monkeypatch: pytest.MonkeyPatch) -> dict[str, Summing]:
    """giving | summing, whose channel is a local one; the giver has a gate on which nothing ever comes."""
    made: dict[str, Summing] = {"giving": Giving(), "summing": Summing()}
    monkeypatch.setattr("actors.task_slot.create_operator", lambda _codes, names: made[names[0]])
    silent = GateDescriptor(0, 0, (ChannelDescriptor(PartitionId("nobody's"), 0, SLOT),))
    partition = PartitionDescriptor(PartitionId("p"), ResultPartitionType.PIPELINED_BOUNDED, 1, False)
    gate = GateDescriptor(0, 0, (ChannelDescriptor(PartitionId("p"), 0, SLOT),))
    giving = deployment("giving", [Node("giving", Operator, out=[0], inputs=[0])], [partition], [silent])
    summing = deployment("summing", [Node("summing", Operator, inputs=[0])], gates=[gate])
    submit(slot, giving, summing)
    return made


def give(slot: SlotHarness, *values: int) -> None:
    slot.tell(
        DeliverOperatorEvent(SESSION, LEASE, AttemptId("giving"), OperatorId("id of giving"), SerializedValue(values))
    )


def put_barrier(slot: SlotHarness, attempt: str, checkpoint_id: int, options: CheckpointOptions) -> None:
    """As if its silent channel brought one."""
    running = slot.slot._running[AttemptId(attempt)].task
    running._opened_checkpoints.on_barrier(0, CheckpointBarrier(checkpoint_id, 0, options))
    slot.run_until_idle()


def totals(slot: SlotHarness) -> dict[tuple[str, int], int]:
    """By attempt and checkpoint."""
    return {(each.attempt_id, each.checkpoint_id): _total(each.snapshot) for each in slot.told(AcknowledgeCheckpoint)}


def _total(snapshot: TaskSnapshot) -> int:
    (state,) = snapshot.operators.values()
    data = next(part.data for part in state.parts if part.name == "total")
    assert isinstance(data, InlineState)
    (total,) = read_list(data.data)
    return int(total)


@pytest.mark.usefixtures("two_tasks")
@pytest.mark.parametrize("is_unaligned", [False, True])
def test_a_barrier_goes_from_task_to_task_and_both_acknowledge(slot: SlotHarness, is_unaligned: bool) -> None:
    give(slot, 1, 2)
    put_barrier(slot, "giving", 1, CheckpointOptions(is_unaligned=is_unaligned))
    give(slot, 3)
    assert totals(slot) == {("giving", 1): 3, ("summing", 1): 3}
    put_barrier(slot, "giving", 2, CheckpointOptions(is_unaligned=is_unaligned))
    assert totals(slot)[AttemptId("summing"), 2] == 6


def test_notices_reach_the_operators_of_the_attempt_that_they_name(
    slot: SlotHarness, two_tasks: dict[str, Summing]
) -> None:
    for attempt in ("giving", "somebody else"):
        slot.tell(NotifyCheckpointComplete(SESSION, LEASE, AttemptId(attempt), 4))
        slot.tell(NotifyCheckpointAborted(SESSION, LEASE, AttemptId(attempt), 5))
    assert {name: operator.completed for name, operator in two_tasks.items()} == {"giving": [4], "summing": []}


@pytest.mark.usefixtures("two_tasks")
def test_a_trigger_reaches_the_task_and_one_for_nobody_is_dropped(slot: SlotHarness) -> None:
    """The giver's channel has not ended: the barrier waits for the end of its data, and nothing is acknowledged."""
    for attempt in ("giving", "somebody else"):
        slot.tell(TriggerCheckpoint(SESSION, LEASE, AttemptId(attempt), 1, 0, CheckpointOptions()))
    assert not slot.told(AcknowledgeCheckpoint)
    assert not slot.told(DeclineCheckpoint)
    slot.tell(CancelTask(SESSION, LEASE, AttemptId("giving")))
    slot.tell(TriggerCheckpoint(SESSION, LEASE, AttemptId("giving"), 2, 0, CheckpointOptions()))
    assert slot.states("giving")[-1] == "CANCELED"


@pytest.mark.usefixtures("two_tasks")
def test_a_slot_ends_when_an_acknowledgement_does_not_get_through(slot: SlotHarness) -> None:
    """The checkpoint could be complete without its task knowing; its end makes the job start from the last one."""
    put_barrier(slot, "giving", 1, CheckpointOptions())
    lost = slot.told(AcknowledgeCheckpoint)[0]
    with pytest.raises(FlinkrayError, match="AcknowledgeCheckpoint of giving did not reach executor: too large"):
        slot.tell(DeliveryFailed(EXECUTOR, lost, "too large"))


def test_a_message_that_no_slot_understands_is_an_error(slot: SlotHarness) -> None:
    with pytest.raises(TypeError, match="does not understand 'hello'"):
        slot.tell("hello")
