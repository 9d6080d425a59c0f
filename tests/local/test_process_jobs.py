"""Process functions in whole jobs: joins by hand, timers at the end of the input, side outputs, time to live."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    DataStream,
    JobExecutionError,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    Row,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from flinkray.functions.interfaces import OnTimerContext, ProcessContext
from tests.support.jobs import environment
from tests.support.whole_jobs import ASCENDING, rows, rows_of

UNPAID = OutputTag("unpaid", Types.TUPLE([Types.LONG(), Types.LONG()]))
UNKNOWN = OutputTag("unknown", Types.TUPLE([Types.LONG(), Types.LONG()]))
WITHIN = 200


class Payments(KeyedCoProcessFunction):
    """Orders with their payment, if it comes within some time, before or after."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.LONG()))
        self.payment = runtime_context.get_state(ValueStateDescriptor("payment", Types.LONG()))

    def process_element1(self, value: Row, ctx: ProcessContext) -> Iterator[Any]:
        yield from self.meets(value, self.order, self.payment, ctx)

    def process_element2(self, value: Row, ctx: ProcessContext) -> Iterator[Any]:
        yield from self.meets(value, self.payment, self.order, ctx)

    def meets(self, value: Row, own: Any, other: Any, ctx: ProcessContext) -> Iterator[Any]:
        timers = ctx.timer_service()
        if other.value() is None:
            own.update(value.at)
            timers.register_event_time_timer(value.at + WITHIN)
        elif abs(other.value() - value.at) < WITHIN:
            timers.delete_event_time_timer(other.value() + WITHIN)
            yield ctx.get_current_key(), min(other.value(), value.at), max(other.value(), value.at)
            other.clear()
        else:
            own.update(value.at)
            timers.register_event_time_timer(value.at + WITHIN)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        for tag, state in ((UNPAID, self.order), (UNKNOWN, self.payment)):
            if state.value() == timestamp - WITHIN:
                yield tag, (ctx.get_current_key(), state.value())
                state.clear()


def orders_and_payments() -> tuple[dict[int, int], dict[int, int]]:
    rng = random.Random(3)
    orders = {number: rng.randrange(10_000) for number in range(300) if rng.random() < 0.9}
    payments = {
        number: max(0, orders.get(number, rng.randrange(10_000)) + rng.randrange(-300, 300))
        for number in range(300)
        if rng.random() < 0.9
    }
    return orders, payments


def by_time(env: StreamExecutionEnvironment, events: dict[int, int]) -> DataStream:
    in_order = sorted(events.items(), key=lambda event: event[1])
    table = pa.table({"id": [number for number, _ in in_order], "at": [at for _, at in in_order]})
    return env.from_arrow(table, ASCENDING.with_timestamp_assigner("at")).set_parallelism(1)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_orders_meet_their_payments_and_the_rest_goes_to_side_outputs(parallelism: int, backend: str) -> None:
    orders, payments = orders_and_payments()
    env = environment({"state.backend.type": backend}, parallelism=parallelism)
    paid = by_time(env, orders).connect(by_time(env, payments)).key_by("id", "id").process(Payments())
    matched = {number for number in orders.keys() & payments.keys() if abs(orders[number] - payments[number]) < WITHIN}
    expected = [(number, *sorted((orders[number], payments[number]))) for number in matched]
    unpaid = [(number, at) for number, at in orders.items() if number not in matched]
    unknown = [(number, at) for number, at in payments.items() if number not in matched]
    assert min(map(len, (expected, unpaid, unknown))) > 0
    found = rows_of(
        env, {"paid": paid, "unpaid": paid.get_side_output(UNPAID), "unknown": paid.get_side_output(UNKNOWN)}
    )
    assert found == {
        name: sorted(each, key=repr) for name, each in zip(found, (expected, unpaid, unknown), strict=True)
    }


class Both(KeyedProcessFunction):
    """A timer in each domain, far away."""

    def process_element(self, value: Row, ctx: ProcessContext) -> None:
        ctx.timer_service().register_event_time_timer(2**63 - 1)
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 3_600_000)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.time_domain() == TimeDomain.EVENT_TIME, timestamp


def test_at_the_end_all_event_time_timers_fire_and_no_processing_time_timer_is_waited_for() -> None:
    env = environment()
    keyed = env.from_arrow(pa.table({"key": ["a", "b"]})).key_by("key")
    assert rows(keyed.process(Both())) == [("a", True, 2**63 - 1), ("b", True, 2**63 - 1)]


class Ticks(KeyedProcessFunction):
    """A timer for the past, which is due at once; and one that registers the next, three times."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.INT()))

    def process_element(self, value: Row, ctx: ProcessContext) -> None:
        self.left.update(3)
        ctx.timer_service().register_processing_time_timer(1)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        left = self.left.value()
        self.left.update(left - 1)
        if left > 1:
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 1)
        yield left, ctx.timestamp() == timestamp


def one_then_wait() -> Iterator[dict[str, str]]:
    import threading

    yield {"key": "a"}
    threading.Event().wait(20)


def test_a_processing_time_timer_for_the_past_fires_at_once_and_may_register_the_next() -> None:
    stream = environment().add_source(one_then_wait).key_by("key").process(Ticks())
    assert stream.execute_and_collect(limit=3) == [(3, True), (2, True), (1, True)]


class FirstOfKey(KeyedProcessFunction):
    """Each key's first row in an hour."""

    def open(self, runtime_context: RuntimeContext) -> None:
        ttl = StateTtlConfig.new_builder("1 h").cleanup_incrementally(10, True).cleanup_full_snapshot().build()
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN(), ttl=ttl))

    def process_element(self, value: Row, ctx: ProcessContext) -> Iterator[Any]:
        if self.seen.value() is None:
            self.seen.update(True)
            yield value.key


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_duplicates_go_with_state_that_has_a_time_to_live(backend: str) -> None:
    env = environment({"state.backend.type": backend})
    keyed = env.from_arrow(pa.table({"key": [f"k{number % 50}" for number in range(500)]})).key_by("key")
    assert rows(keyed.process(FirstOfKey())) == sorted((f"k{number}" for number in range(50)), key=repr)


class AsksForState(ProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: ProcessContext) -> None: ...


class SetsATimer(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        ctx.timer_service().register_event_time_timer(1)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (AsksForState(), r"operator 'asks' \(subtask 1 of 1\): state 'count' was asked for outside a keyed process"),
        (SetsATimer(), r"operator 'asks \(1/1\)': timers need a keyed stream; call key_by"),
    ],
    ids=["state", "timer"],
)
def test_state_and_timers_without_a_key_fail_the_job_with_the_operators_name(
    function: ProcessFunction, message: str
) -> None:
    env = environment(parallelism=1)
    env.from_sequence(1, 3).process(function).name("asks").print()
    with pytest.raises(JobExecutionError, match=message):
        env.execute()
