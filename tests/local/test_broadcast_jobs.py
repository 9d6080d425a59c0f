"""Streams that are enriched from broadcast state, as whole jobs."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    BroadcastProcessFunction,
    BroadcastStream,
    CollectSink,
    ConnectedStreams,
    DataStream,
    InvalidProgramError,
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    Row,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flinkray.batches.row_codec import decode
from flinkray.functions.broadcast import (
    BroadcastContext,
    KeyedBroadcastContext,
    KeyedReadOnlyBroadcastContext,
    OnTimerBroadcastContext,
    ReadOnlyBroadcastContext,
)
from tests.support.jobs import environment
from tests.support.whole_jobs import ASCENDING, rows, rows_of

RATES = MapStateDescriptor("rates", key_type=pa.string())
UNKNOWN = OutputTag("unknown", Types.TUPLE([Types.STRING(), Types.LONG()]))


class Converts(KeyedBroadcastProcessFunction):
    """Each amount with the rate of its currency as of its event time, however late the rate's row arrives."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))

    def process_element(self, value: Row, ctx: KeyedReadOnlyBroadcastContext) -> None:
        self.waiting.add((value.at, value.currency, value.amount))
        ctx.timer_service().register_event_time_timer(value.at)

    def process_broadcast_element(self, value: Row, ctx: KeyedBroadcastContext) -> None:
        state = ctx.get_broadcast_state(RATES)
        state[value.currency] = sorted([*(state[value.currency] or ()), (value.at, value.rate)])

    def on_timer(self, timestamp: int, ctx: OnTimerBroadcastContext) -> Iterator[Any]:
        rates = ctx.get_broadcast_state(RATES)
        waiting = list(self.waiting)
        for _, currency, amount in (row for row in waiting if row[0] == timestamp):
            versions = [version for version in rates[currency] or () if version[0] <= timestamp]
            if versions:
                yield ctx.get_current_key(), timestamp, amount * versions[-1][1]
            else:
                yield UNKNOWN, (currency, timestamp)
        self.waiting.update([row for row in waiting if row[0] != timestamp])


def amounts_and_rates() -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    rng = random.Random(5)
    at = sorted(rng.randrange(10_000) for _ in range(400))
    amounts = {
        "customer": [rng.choice("abcdefgh") for _ in at],
        "currency": [rng.choice(["EUR", "USD", "JPY"]) for _ in at],
        "amount": [rng.randrange(1, 100) for _ in at],
        "at": at,
    }
    changes = sorted(rng.sample(range(500, 10_000), 60))
    rates = {
        "currency": [rng.choice(["EUR", "USD", "JPY"]) for _ in changes],
        "rate": [rng.randrange(1, 9) for _ in changes],
        "at": changes,
    }
    return amounts, rates


def converted(amounts: dict[str, list[Any]], rates: dict[str, list[Any]]) -> tuple[list[Any], list[Any]]:
    """The expected amounts, found by searching the rates of each currency."""
    known: list[Any] = []
    unknown: list[Any] = []
    for customer, currency, amount, at in zip(*amounts.values(), strict=True):
        versions = [(time, rate) for each, rate, time in zip(*rates.values(), strict=True) if each == currency]
        index = bisect_right([time for time, _ in versions], at)
        if index:
            known.append((customer, at, amount * versions[index - 1][1]))
        else:
            unknown.append((currency, at))
    return sorted(known, key=repr), sorted(unknown, key=repr)


def timed(env: StreamExecutionEnvironment, columns: dict[str, list[Any]]) -> DataStream:
    return env.from_arrow(pa.table(columns), ASCENDING.with_timestamp_assigner("at")).set_parallelism(1)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_amounts_get_the_rate_of_their_time_from_broadcast_state(parallelism: int, backend: str) -> None:
    amounts, rates = amounts_and_rates()
    env = environment({"state.backend.type": backend}, parallelism=parallelism)
    stream = timed(env, amounts).key_by("customer").connect(timed(env, rates).broadcast(RATES)).process(Converts())
    known, unknown = converted(amounts, rates)
    assert unknown, "some amounts are older than any rate"
    assert rows_of(env, {"known": stream, "unknown": stream.get_side_output(UNKNOWN)}) == {
        "known": known,
        "unknown": unknown,
    }


class Allowed(BroadcastProcessFunction):
    """Lets through what the broadcast rules allow; gives the rest once all rules are there."""

    def process_element(self, value: int, ctx: ReadOnlyBroadcastContext) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        yield value, sorted(rules) if not rules.is_empty() else None

    def process_broadcast_element(self, value: int, ctx: BroadcastContext) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(value, True)
        ctx.get_broadcast_state(COUNTS).put("rules", (ctx.get_broadcast_state(COUNTS).get("rules") or 0) + 1)
        yield SEEN, ctx.get_broadcast_state(COUNTS).get("rules")


RULES = MapStateDescriptor("rules", Types.BOOLEAN(), key_type=Types.LONG())
COUNTS = MapStateDescriptor("counts", Types.LONG(), key_type=Types.STRING())
SEEN = OutputTag("seen", Types.LONG())


def test_every_subtask_gets_every_broadcast_row_and_has_all_states() -> None:
    env = environment(parallelism=3)
    rules = env.from_collection([1, 2]).set_parallelism(1).broadcast(RULES, COUNTS)
    stream = env.from_sequence(1, 10).connect(rules).process(Allowed())
    found = rows_of(env, {"main": stream, "seen": stream.get_side_output(SEEN)})
    assert [value for value, _ in sorted(found["main"])] == list(range(1, 11))
    assert all(rules in (None, [1], [2], [1, 2]) for _, rules in found["main"])
    assert found["seen"] == [1, 1, 1, 2, 2, 2]


TOTAL = ValueStateDescriptor("total", pa.int64())


class Resets(KeyedBroadcastProcessFunction):
    """Running totals, which a broadcast row sets to its value for every key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: Row, ctx: KeyedReadOnlyBroadcastContext) -> None:
        self.total.update((self.total.value() or 0) + value.value)
        ctx.timer_service().register_event_time_timer(2**62)

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastContext) -> None:
        ctx.apply_to_keyed_state(TOTAL, lambda _key, total: total.update(0))

    def on_timer(self, timestamp: int, ctx: OnTimerBroadcastContext) -> Iterator[Any]:
        yield ctx.get_current_key(), 0 <= (self.total.value() or 0) <= 10


def test_broadcast_rows_change_the_state_of_all_keys() -> None:
    env = environment(parallelism=2)
    keyed = env.from_arrow(pa.table({"key": ["a", "b", "c"] * 10, "value": [1] * 30})).key_by("key")
    stream = keyed.connect(env.from_collection([0, 0]).broadcast(RULES)).process(Resets())
    assert rows(stream) == [("a", True), ("b", True), ("c", True)]


# -- a job that goes on from a savepoint


class AddsRules(BroadcastProcessFunction):
    def process_element(self, value: int, ctx: ReadOnlyBroadcastContext) -> Iterator[Any]:
        yield tuple(sorted(ctx.get_broadcast_state(RULES).keys()))

    def process_broadcast_element(self, value: int, ctx: BroadcastContext) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(value, True)
        yield SEEN, value


def one_then_wait() -> Iterator[int]:
    import threading

    yield 1
    threading.Event().wait(30)


def test_broadcast_state_is_in_every_subtask_after_a_restore_with_more_of_them(tmp_path: Path) -> None:
    env = environment()
    stream = env.add_source(one_then_wait).connect(env.add_source(one_then_wait).broadcast(RULES))
    seen = stream.process(AddsRules()).uid("adds").get_side_output(SEEN)
    seen.sink_to(CollectSink("seen"))
    client = env.execute_async()
    try:
        rules = (row for batch in client.collected("seen") for row in decode(batch))
        assert list(islice(rules, 2)) == [1, 1]
        savepoint = client.stop_with_savepoint(str(tmp_path), timeout=30)
    finally:
        client.close()
    options = {"execution.state-recovery.path": savepoint, "execution.state-recovery.ignore-unclaimed-state": True}
    env = environment(options, parallelism=5)
    no_rules = env.from_collection([], type_info=Types.LONG()).uid("no rules").broadcast(RULES)
    restored = env.from_sequence(1, 10).uid("numbers").rebalance().connect(no_rules).process(AddsRules()).uid("adds")
    assert rows(restored) == [(1,)] * 10


# -- programs that cannot run


def streams() -> tuple[DataStream, DataStream]:
    env = environment()
    return env.from_sequence(1, 3), env.from_sequence(1, 3)


def test_without_descriptors_broadcast_is_a_way_of_partitioning() -> None:
    first, second = streams()
    assert type(second.broadcast()) is DataStream
    assert type(first.connect(second.broadcast())) is ConnectedStreams
    assert type(second.broadcast(RULES)) is BroadcastStream


def test_a_function_of_the_wrong_kind_is_an_error_that_names_the_right_one() -> None:
    first, second = streams()
    rules = second.broadcast(RULES)
    with pytest.raises(InvalidProgramError, match=r"Converts is a KeyedBroadcastProcessFunction: key the first"):
        first.connect(rules).process(Converts())
    with pytest.raises(
        InvalidProgramError, match="Allowed is a BroadcastProcessFunction, and the first stream is keyed"
    ):
        first.key_by(lambda value: value).connect(rules).process(Allowed())
    with pytest.raises(InvalidProgramError, match="takes a BroadcastProcessFunction or KeyedBroadcastProcessFunction"):
        first.connect(rules).process(print)  # type: ignore[arg-type]


def test_descriptors_that_cannot_be_are_errors() -> None:
    _, second = streams()
    with pytest.raises(InvalidProgramError, match="two states are named 'rules'"):
        second.broadcast(RULES, MapStateDescriptor("rules"))
    with pytest.raises(InvalidProgramError, match="takes MapStateDescriptors, not ValueStateDescriptor"):
        second.broadcast(TOTAL)  # type: ignore[call-overload]
    timed_rules = MapStateDescriptor("rules", ttl=StateTtlConfig.new_builder("1 h").build())
    with pytest.raises(InvalidProgramError, match="'rules' has a time to live, which only keyed state can have"):
        second.broadcast(timed_rules)


def test_streams_of_two_environments_cannot_be_connected() -> None:
    first, _ = streams()
    _, second = streams()
    with pytest.raises(InvalidProgramError, match="different environments"):
        first.connect(second.broadcast(RULES))


def test_watermarks_of_a_broadcast_stream_hold_event_time_back() -> None:
    """Without any watermark of the rates, no timer fires before their end."""
    env = environment()
    no_watermarks = WatermarkStrategy.no_watermarks()
    amounts = {"customer": ["a"], "currency": ["EUR"], "amount": [7], "at": [5]}
    rates = env.from_arrow(pa.table({"currency": ["EUR"], "rate": [3], "at": [1]}), no_watermarks)
    stream = timed(env, amounts).key_by("customer").connect(rates.broadcast(RATES)).process(Converts())
    assert rows(stream) == [("a", 5, 21)]


class CountsRates(BroadcastProcessFunction):
    """The number of rates that each row could have used."""

    def process_element(self, value: int, ctx: ReadOnlyBroadcastContext) -> Iterator[int]:
        yield len(list(ctx.get_broadcast_state(RATES).items()))

    def process_broadcast_element(self, value: int, ctx: BroadcastContext) -> None:
        ctx.get_broadcast_state(RATES)[str(value)] = value


class CountsRatesByKey(KeyedBroadcastProcessFunction):
    process_element = CountsRates.process_element
    process_broadcast_element = CountsRates.process_broadcast_element


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("function", [CountsRates(), CountsRatesByKey()])
def test_in_batch_mode_broadcast_state_is_complete_before_the_first_row(function: Any, is_sorted: bool) -> None:
    env = environment(
        {
            "execution.runtime-mode": "batch",
            "execution.sorted-inputs.enabled": is_sorted,
            "flinkray.batch.target-rows": 1,
        }
    )
    values = env.from_sequence(1, 50)
    stream = values.key_by(lambda value: value % 3) if isinstance(function, CountsRatesByKey) else values
    counted = stream.connect(env.from_sequence(1, 50).broadcast(RATES)).process(function)
    assert rows(counted) == [50] * 50
