"""Rules of a task's life, its inputs and its outputs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from actors.operators.functions.broadcast_process import BroadcastProcessOperator
from actors.protocol.elements import ACTIVE, IDLE, EndOfData, EndOfPartition, LatencyMarker, Watermark
from flinkray.config.configuration import Configuration
from flinkray.errors import PartitionError
from flinkray.functions.broadcast import BroadcastContext, BroadcastProcessFunction, ReadOnlyBroadcastContext
from flinkray.state.descriptors import MapStateDescriptor
from flinkray.transformations.operator_factories import BroadcastProcessFactory
from flinkray.types.records import MAX_TIMESTAMP, OutputTag, Timestamp
from tests.support.operators import code
from tests.support.tasks import END, LOG, Node, Probe, TaskHarness, numbers, plain

RULES = MapStateDescriptor("rules")


@pytest.fixture(autouse=True)
def _fresh_log() -> Iterator[None]:
    LOG.clear()
    yield
    LOG.clear()


def chain(*names: str, **options: Any) -> TaskHarness:
    """head -> ... -> tail -> network, each multiplying by 10."""
    nodes = [
        Node(
            name,
            lambda name=name: Probe(name, factor=10, fail_in=options.get(f"fail_{name}", "")),
            to=[position + 1] if position + 1 < len(names) else [],
            out=[0] if position + 1 == len(names) else [],
            inputs=[0] if position == 0 else [],
        )
        for position, name in enumerate(names)
    ]
    channels = options.get("channels", 1)
    return TaskHarness(nodes, channels=[channels], consumers=[1], max_buffers=options.get("max_buffers", 1000))


# -- life cycle --------------------------------------------------------------------------------------------------


def test_states_come_in_order_and_running_is_reported_before_any_input() -> None:
    task = chain("a", "b")
    task.task.step()
    assert task.states == ["INITIALIZING"]
    task.put(numbers(1))
    task.start()
    assert task.out() == []
    task.put(*END)
    task.run_until_idle()
    assert task.states == ["INITIALIZING", "RUNNING", "FINISHED"]


def test_operators_open_from_tail_to_head_finish_from_head_to_tail_and_close_always() -> None:
    task = chain("a", "b", "c").start()
    task.put(*END)
    task.run_until_idle()
    assert LOG == [
        "c initialize_state",
        "c open",
        "b initialize_state",
        "b open",
        "a initialize_state",
        "a open",
        "a end_input 0",
        "a finish",
        "b end_input 0",
        "b finish",
        "c end_input 0",
        "c finish",
        "c close",
        "b close",
        "a close",
    ]


def test_what_finish_emits_still_passes_the_operators_behind() -> None:
    class Buffering(Probe):
        def process_batch(self, batch: Any, input_index: int = 0) -> None: ...

        def finish(self) -> None:
            self.output.emit(numbers(7))

    task = TaskHarness(
        [Node("buffer", lambda: Buffering("buffer"), to=[1], inputs=[0]), Node("b", lambda: Probe("b"), out=[0])],
        channels=[1],
        consumers=[1],
    ).start()
    task.put(numbers(1), *END)
    task.run_until_idle()
    assert plain(task.out()) == [[7], "EndOfData", "EndOfPartition"]


def test_end_of_data_goes_out_before_end_of_partition_and_everything_before_both() -> None:
    task = chain("a").start()
    task.put(numbers(1, 2), Watermark(MAX_TIMESTAMP), *END)
    task.run_until_idle()
    assert plain(task.out()) == [[10, 20], ("mark", MAX_TIMESTAMP), "EndOfData", "EndOfPartition"]
    assert task.channel().is_released


def test_a_stop_without_draining_finishes_nothing() -> None:
    task = chain("a").start()
    task.put(EndOfData(should_drain=False), EndOfPartition())
    task.run_until_idle()
    assert task.states[-1] == "FINISHED"
    assert "a finish" not in LOG
    assert "a end_input 0" not in LOG
    assert task.out()[0] == EndOfData(should_drain=False)


def test_timers_do_not_fire_once_the_data_has_ended() -> None:
    task = chain("a").start()
    fired: list[str] = []
    context = task.operators["a"].context
    context.call_later(10, lambda: fired.append("early"), "early")
    context.call_later(100, lambda: fired.append("late"), "late")
    task.advance(20)
    task.put(EndOfData())
    task.run_until_idle()
    task.advance(200)
    assert fired == ["early"]
    assert task.time.pending == 0


def test_a_timer_that_is_cancelled_while_its_mail_waits_does_not_run() -> None:
    task = chain("a").start()
    fired: list[str] = []
    timer = task.operators["a"].context.call_later(10, lambda: fired.append("fired"), "timer")
    task.time.advance(10)
    timer.cancel()
    task.run_until_idle()
    assert fired == []


# -- failures and cancelling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["initialize_state", "open", "process_batch", "finish", "close"])
def test_an_error_in_user_code_fails_the_task_names_it_and_closes_every_operator_once(method: str) -> None:
    task = chain("a", "b", fail_b=method)
    task.task.step()
    task.put(numbers(1), *END)
    task.run_until_idle()
    assert task.states[-1] == "FAILED"
    assert isinstance(task.error, ValueError)
    assert str(task.error) == f"b fails in {method}"
    assert task.error.__notes__ == [
        "raised in operator 'b' (subtask 1 of 2)",
        "in task 'a -> b (1/2)', attempt 0",
    ]
    assert LOG.count("a close") == 1
    assert LOG.count("b close") == 1
    assert task.channel().is_released


def test_a_failed_task_holds_nothing_of_the_batch_that_it_failed_on() -> None:
    class Row:
        """Stands for the batch, which cannot be referenced weakly."""

    held: list[weakref.ref[Row]] = []

    def fail(*_arguments: Any) -> None:
        row = Row()
        held.append(weakref.ref(row))
        raise ValueError("on this row")

    task = chain("a").start()
    task.operators["a"].process_batch = fail  # type: ignore[method-assign]
    gc.disable()  # memory must not wait for the collector, which does not know how large a batch is
    try:
        task.put(numbers(1))
        task.run_until_idle()
        assert task.states[-1] == "FAILED"
        task.reports.clear()
        assert held[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("end", ["finished", "failed", "cancelled"])
def test_state_goes_with_the_end_of_its_task_without_a_garbage_collection(end: str) -> None:
    class State:
        pass

    task = chain("a", "b", fail_b="process_batch" if end == "failed" else "").start()
    operator: Any = task.operators["b"]
    operator.state = State()
    state = weakref.ref(operator.state)
    gc.disable()
    try:
        if end == "cancelled":
            task.task.cancel()
        else:
            task.put(numbers(1), *END)
        task.run_until_idle()
        assert task.states[-1] == {"finished": "FINISHED", "failed": "FAILED", "cancelled": "CANCELED"}[end]
        assert state() is None
    finally:
        gc.enable()


def test_consumers_of_a_failed_task_get_its_error_instead_of_an_end() -> None:
    task = chain("a", fail_a="process_batch").start()
    task.put(numbers(1), *END)
    task.run_until_idle()
    with pytest.raises(PartitionError, match="ValueError: a fails in process_batch"):
        task.out()


def test_code_that_cannot_be_loaded_fails_the_task_and_names_the_operator() -> None:
    task = chain("a")
    broken = structs.replace(task.deployment.operators[0], code_bytes=b"cno.such.module\nname\n.")
    structs.force_setattr(task.deployment, "operators", (broken,))
    task.run_until_idle()
    assert task.states == ["FAILED"]
    assert "task 'a (1/2)': the code of operator 'a' cannot be loaded (ModuleNotFoundError" in str(task.error)
    for way in ("ray job submit --working-dir", "flinkray run --py-files", "env.add_python_file"):
        assert way in str(task.error)


def test_a_task_can_be_cancelled_before_it_starts() -> None:
    task = chain("a")
    task.task.cancel()
    task.run_until_idle()
    assert task.states == ["CANCELED"]


def test_a_task_can_be_cancelled_while_it_has_no_input() -> None:
    task = chain("a", "b").start()
    task.run_until_idle()
    task.task.cancel()
    task.run_until_idle()
    assert task.states[-1] == "CANCELED"
    assert task.error is None
    assert LOG[-2:] == ["b close", "a close"]


def test_a_task_can_be_cancelled_while_it_is_back_pressured() -> None:
    task = chain("a", max_buffers=1).start()
    task.put(numbers(1), numbers(2), numbers(3))
    task.run_until_idle()
    task.task.cancel()
    task.run_until_idle()
    assert task.states[-1] == "CANCELED"
    assert task.out() == []


def test_a_cancel_reaches_an_operator_that_waits_for_a_mail() -> None:
    task = TaskHarness([Node("w", lambda: Waiting("w"), inputs=[0])], channels=[1]).start()
    Looking.look = staticmethod(lambda _values: task.task.cancel())
    task.put(numbers(1))
    task.run_until_idle()
    assert task.states[-1] == "CANCELED"
    assert "user code must not see it" not in LOG


def test_cancelling_twice_or_after_the_end_changes_nothing() -> None:
    task = chain("a").start()
    task.put(*END)
    task.run_until_idle()
    task.task.cancel()
    task.task.cancel()
    assert task.states == ["INITIALIZING", "RUNNING", "FINISHED"]


def test_an_event_for_a_task_at_its_end_is_dropped() -> None:
    task = chain("a").start()
    task.task.cancel()
    task.run_until_idle()
    task.task.deliver_event(task.deployment.operators[0].operator_id, "too late")
    assert task.states[-1] == "CANCELED"


def test_a_broken_channel_fails_the_task() -> None:
    task = chain("a").start()
    task.channel().fail(PartitionError("the producer is gone"))
    task.run_until_idle()
    assert task.states[-1] == "FAILED"
    assert "the producer is gone" in str(task.error)


# -- inputs ------------------------------------------------------------------------------------------------------


def two_inputs(channels: list[int], inputs: list[Any]) -> TaskHarness:
    nodes = [Node("co", lambda: Probe("co", inputs=len(inputs)), out=[0], inputs=inputs)]
    return TaskHarness(nodes, channels=channels, consumers=[1]).start()


def test_inputs_take_turns_when_both_have_data() -> None:
    task = two_inputs([1, 1], [0, 1])
    task.put(numbers(1), numbers(2), numbers(3), gate=0)
    task.put(numbers(10), numbers(20), gate=1)
    task.run_until_idle()
    probe = task.operators["co"]
    assert isinstance(probe, Probe)
    assert probe.seen == [(0, [1]), (1, [10]), (0, [2]), (1, [20]), (0, [3])]


class CountsRules(BroadcastProcessFunction):
    """For each row the number of rules so far."""

    def process_element(self, value: int, ctx: ReadOnlyBroadcastContext) -> Iterator[int]:
        yield len(list(ctx.get_broadcast_state(RULES).items()))

    def process_broadcast_element(self, value: int, ctx: BroadcastContext) -> None:
        ctx.get_broadcast_state(RULES)[value] = value


def test_in_batch_mode_rows_wait_for_the_end_of_what_is_broadcast() -> None:
    described = code(BroadcastProcessFactory(CountsRules(), (RULES,)), None, None)
    nodes = [Node("co", lambda: BroadcastProcessOperator(described), out=[0], inputs=[0, 1])]
    batch = Configuration({"execution.runtime-mode": "batch"})
    task = TaskHarness(nodes, channels=[1, 1], consumers=[1], configuration=batch).start()
    task.put(numbers(5), numbers(6), *END, gate=0)
    task.put(numbers(1), gate=1)
    task.run_until_idle()
    assert task.out() == []
    task.put(numbers(2), *END, gate=1)
    task.run_until_idle()
    assert plain(task.out()) == [[2], [2], "EndOfData", "EndOfPartition"]


def test_each_input_ends_on_its_own_and_the_task_with_the_last() -> None:
    task = two_inputs([1, 1], [0, 1])
    task.put(*END, gate=1)
    task.run_until_idle()
    assert LOG[-1] == "co end_input 1"
    task.put(numbers(5), *END, gate=0)
    task.run_until_idle()
    assert LOG[-3:] == ["co end_input 0", "co finish", "co close"]
    assert plain(task.out()) == [[5], "EndOfData", "EndOfPartition"]


def test_a_two_input_operator_has_the_lower_watermark_of_its_inputs() -> None:
    task = two_inputs([1, 1], [0, 1])
    task.put(Watermark(Timestamp(5)), gate=0)
    task.run_until_idle()
    assert task.out() == []
    assert task.task.metrics().watermark is None
    task.put(Watermark(Timestamp(3)), gate=1)
    task.run_until_idle()
    assert plain(task.out()) == [("mark", 3)]
    assert task.task.metrics().watermark == 3


def test_united_gates_act_as_one_input_whose_valve_numbers_channels_through() -> None:
    task = two_inputs([1, 2], [(0, 1)])
    task.put(Watermark(Timestamp(9)), gate=0)
    task.put(Watermark(Timestamp(7)), gate=1, channel=0)
    task.run_until_idle()
    assert task.out() == []
    task.put(numbers(1), Watermark(Timestamp(8)), gate=1, channel=1)
    task.run_until_idle()
    assert plain(task.out()) == [[1], ("mark", 7)]
    for gate, channel in ((0, 0), (1, 0)):
        task.put(*END, gate=gate, channel=channel)
    task.run_until_idle()
    assert not task.task.is_done
    task.put(*END, gate=1, channel=1)
    task.run_until_idle()
    assert task.states[-1] == "FINISHED"


def test_an_idle_channel_does_not_hold_the_watermark_and_all_idle_is_passed_on() -> None:
    task = chain("a", channels=2).start()
    task.put(Watermark(Timestamp(5)), channel=0)
    task.put(IDLE, channel=1)
    task.run_until_idle()
    assert plain(task.out()) == [("mark", 5)]
    task.put(IDLE, channel=0)
    task.run_until_idle()
    assert plain(task.out()) == ["idle"]
    task.put(ACTIVE, Watermark(Timestamp(6)), channel=0)
    task.run_until_idle()
    assert plain(task.out()) == ["active", ("mark", 6)]


def test_credit_is_returned_when_the_batch_has_been_processed_not_before() -> None:
    task = TaskHarness([Node("look", lambda: Looking("look"), inputs=[0])], channels=[1]).start()
    seen = []

    def look(_values: list[int]) -> None:
        seen.append(task.channel().recycled)

    Looking.look = staticmethod(look)
    task.put(numbers(1), numbers(2))
    task.run_until_idle()
    assert seen == [0, 1]
    assert task.channel().recycled == 2


class Looking(Probe):
    """Lets the test look around in the middle of a batch."""

    look: Any = None

    def process_batch(self, batch: Any, input_index: int = 0) -> None:
        type(self).look(batch.data.column(0).to_pylist())


class Waiting(Looking):
    """Waits for another mail, and takes whatever Exception comes of it."""

    def process_batch(self, batch: Any, input_index: int = 0) -> None:
        super().process_batch(batch)
        try:
            self.context.yield_to_mailbox()
        except Exception:
            LOG.append("user code must not see it")


# -- outputs -----------------------------------------------------------------------------------------------------


LATE, OTHER = OutputTag("late"), OutputTag("other")


class Splitting(Probe):
    """Even numbers to the main output, odd ones aside."""

    def process_batch(self, batch: Any, input_index: int = 0) -> None:
        values = batch.data.column(0).to_pylist()
        self.output.emit(numbers(*(value for value in values if value % 2 == 0)))
        self.output.emit_side(OutputTag("late"), numbers(*(value for value in values if value % 2)))


def test_a_tagged_batch_goes_only_over_edges_with_an_equal_tag_and_an_untagged_one_only_over_edges_without() -> None:
    task = TaskHarness(
        [
            Node("split", lambda: Splitting("split"), to=[1, (2, 0, LATE)], out=[0, (1, LATE), (2, OTHER)], inputs=[0]),
            Node("main", lambda: Probe("main")),
            Node("side", lambda: Probe("side")),
        ],
        channels=[1],
        consumers=[1, 1, 1],
    ).start()
    task.put(numbers(1, 2, 3), Watermark(Timestamp(4)))
    task.run_until_idle()
    assert [plain(task.out(result)) for result in range(3)] == [
        [[2], ("mark", 4)],
        [[1, 3], ("mark", 4)],
        [("mark", 4)],
    ]
    main, side = task.operators["main"], task.operators["side"]
    assert isinstance(main, Probe)
    assert isinstance(side, Probe)
    assert main.seen == [(0, [2]), ("mark", 4)]
    assert side.seen == [(0, [1, 3]), ("mark", 4)]


def test_an_empty_batch_is_dropped() -> None:
    task = TaskHarness(
        [Node("split", lambda: Splitting("split"), to=[1], inputs=[0]), Node("next", lambda: Probe("next"))],
        channels=[1],
    ).start()
    task.put(numbers(1))
    task.run_until_idle()
    assert "next process_batch" not in LOG


def test_a_latency_marker_bypasses_process_batch_and_goes_to_one_channel_only() -> None:
    task = TaskHarness([Node("a", lambda: Probe("a"), out=[0], inputs=[0])], channels=[1], consumers=[3]).start()
    marker = LatencyMarker(task.time.now - 40, "source", 0)
    task.put(marker)
    task.run_until_idle()
    assert sorted(task.out(0, subpartition) for subpartition in range(3)) == [[], [], [marker]]
    assert "a process_batch" not in LOG
    assert [(each.count, each.p50) for each in task.task.metrics().latencies] == [(1, 40.0)]


def test_neighbouring_row_functions_are_fused_and_others_are_not() -> None:
    nodes = [
        Node("a", lambda: Probe("a"), to=[1], inputs=[0], is_row=True),
        Node("b", lambda: Probe("b"), to=[2], is_row=True),
        Node("c", lambda: Probe("c"), to=[3]),
        Node("d", lambda: Probe("d"), to=[4, 5], is_row=True),
        Node("e", lambda: Probe("e"), to=[(6, 0, LATE)], is_row=True),
        Node("f", lambda: Probe("f"), to=[7], out=[0], is_row=True),
        Node("g", lambda: Probe("g"), is_row=True),
        Node("h", lambda: Probe("h"), is_row=True),
    ]
    task = TaskHarness(nodes, channels=[1], consumers=[1]).start()
    assert list(task.operators) == ["a+b", "c", "d", "e", "f", "g", "h"]
    task.put(numbers(1), *END)
    task.run_until_idle()
    assert plain(task.out())[0] == [1]
    assert "a+b finish" in LOG


# -- back pressure, idleness, metrics ----------------------------------------------------------------------------


def test_a_task_takes_no_input_without_room_for_its_output_and_mails_still_run() -> None:
    task = chain("a", max_buffers=2).start()
    task.put(numbers(1), numbers(2), numbers(3), numbers(4))
    task.run_until_idle()
    assert LOG.count("a process_batch") == 2
    ran: list[str] = []
    task.operators["a"].context.execute(lambda: ran.append("mail"), "mail")
    task.run_until_idle()
    assert ran == ["mail"]
    assert plain(task.out()) == [[10], [20]]
    task.run_until_idle()
    assert plain(task.out()) == [[30], [40]]


def test_waiting_for_room_counts_as_back_pressured_and_waiting_for_input_as_idle() -> None:
    task = chain("a", max_buffers=1).start()
    task.run_until_idle()
    task.advance(100)
    task.put(numbers(1), numbers(2))
    task.run_until_idle()
    task.advance(300)
    task.out()
    task.run_until_idle()
    task.out()
    task.run_until_idle()
    task.advance(50)
    metrics = task.task.metrics()
    assert (metrics.idle_ms, metrics.backpressured_ms, metrics.busy_ms) == (150, 300, 0)


def test_figures_show_what_waits_before_and_behind_the_task() -> None:
    task = chain("a").start()
    task.run_until_idle()
    task.put(numbers(1), numbers(2), numbers(3))
    assert task.task.metrics().input_queue == 3
    task.run_until_idle()
    metrics = task.task.metrics()
    assert 0 < metrics.output_queue <= metrics.output_limit, "nobody reads what it makes"
    assert metrics.input_queue == 3 - metrics.records_in
    task.out()
    assert task.task.metrics().output_queue == 0


def test_time_in_mails_is_busy_not_idle() -> None:
    task = chain("a").start()
    task.run_until_idle()
    task.operators["a"].context.execute(lambda: task.time.advance(30), "slow")
    task.run_until_idle()
    metrics = task.task.metrics()
    assert (metrics.idle_ms, metrics.busy_ms) == (0, 30)


def test_an_operator_that_wants_no_input_holds_the_task_until_one_of_its_mails_changes_that() -> None:
    class Full(Probe):
        is_full = False

        @property
        def is_available(self) -> bool:
            return not self.is_full

        def process_batch(self, batch: Any, input_index: int = 0) -> None:
            super().process_batch(batch)
            self.is_full = True

        def handle_coordinator_event(self, event: Any) -> None:
            self.is_full = False

    task = TaskHarness(
        [Node("a", lambda: Probe("a"), to=[1], inputs=[0]), Node("full", lambda: Full("full"), out=[0])],
        channels=[1],
        consumers=[1],
    ).start()
    task.put(numbers(1), numbers(2))
    task.run_until_idle()
    assert plain(task.out()) == [[1]]
    task.advance(70)
    assert task.task.metrics().backpressured_ms == 70
    task.task.deliver_event(task.deployment.operators[1].operator_id, "room")
    task.run_until_idle()
    assert plain(task.out()) == [[2]]


def test_figures_count_rows_batches_and_bytes_on_both_sides_and_come_with_the_last_report() -> None:
    task = chain("a").start()
    task.operators["a"].context.add_accumulator("seen", 0).add(2)
    task.put(numbers(1, 2), numbers(3), *END)
    task.run_until_idle()
    metrics = task.reports[-1].metrics
    assert (metrics.records_in, metrics.batches_in, metrics.bytes_in) == (3, 2, 24)
    assert (metrics.records_out, metrics.batches_out, metrics.bytes_out) == (3, 2, 24)
    assert metrics.accumulators == {"seen": 2}


def test_a_mail_that_requeues_itself_does_not_keep_input_from_the_operator() -> None:
    task = chain("a").start()
    context = task.operators["a"].context

    def again() -> None:
        LOG.append("mail")
        if LOG.count("mail") < 5:
            context.execute(again, "again")

    LOG.clear()
    context.execute(again, "again")
    task.put(numbers(1), numbers(2))
    task.run_until_idle()
    assert LOG[:4] == ["mail", "a process_batch", "mail", "a process_batch"]


def test_settings_reach_the_operators_from_the_job_configuration() -> None:
    configuration = Configuration({"flinkray.batch.target-rows": 7, "metrics.latency.interval": "3 s"})
    task = TaskHarness([Node("a", lambda: Probe("a"), inputs=[0])], channels=[1], configuration=configuration).start()
    context = task.operators["a"].context
    assert (context.batch_rows, context.latency_interval_ms, context.auto_watermark_interval_ms) == (7, 3000, 200)
    assert (context.subtask, context.operator_name, context.job_name) == ("1 of 2", "a", "test job")


def test_a_missing_cached_file_is_named_with_those_that_there_are() -> None:
    task = chain("a").start()
    task.packed["model"] = b""
    context = task.operators["a"].context
    with pytest.raises(Exception, match="no cached file 'modle'; did you mean 'model'"):
        context.cached_file("modle")
