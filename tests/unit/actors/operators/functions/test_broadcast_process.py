"""Broadcast process functions: what each side may do, watermarks, snapshots at any parallelism, against a model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.contract.operator import Operator
from actors.operators.functions.broadcast_process import BroadcastProcessOperator
from actors.operators.registry import create_operator
from actors.protocol.elements import Watermark
from actors.state.keyed.options import StateOptions
from flinkray.errors import IncompatibleStateError, InvalidProgramError, UserFunctionError
from flinkray.functions.broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastContext,
    BroadcastProcessFunction,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedReadOnlyBroadcastContext,
    OnTimerBroadcastContext,
    ReadOnlyBroadcastContext,
)
from flinkray.functions.interfaces import RuntimeContext, TimeDomain
from flinkray.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkray.transformations.operator_factories import BroadcastProcessFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MIN_TIMESTAMP, OutputTag
from tests.support.keyed_state import BACKENDS, Mean
from tests.support.operators import OperatorHarness, code
from tests.support.rescaling import Subtasks
from tests.support.state import restored_from, write_snapshot

KEY = ColumnKey(("key",))
RULES = MapStateDescriptor("rules", pa.int64(), key_type=pa.string())
OTHER = MapStateDescriptor("other")
SIDE = OutputTag("side", pa.string())
COUNT = ValueStateDescriptor("count", pa.int64())


def operator(function: BaseBroadcastProcessFunction, key: Any = None, *descriptors: MapStateDescriptor) -> Operator:
    return BroadcastProcessOperator(code(BroadcastProcessFactory(function, descriptors or (RULES,)), key, None))


def harness(
    function: BaseBroadcastProcessFunction, key: Any = None, *descriptors: MapStateDescriptor, **settings: Any
) -> OperatorHarness:
    return OperatorHarness(operator(function, key, *descriptors), keys=(key, None), **settings)


class Calls(BroadcastProcessFunction):
    """Does what the rows say: `(state method, arguments)`, on the side that they come from."""

    def __init__(self, descriptor: Any = RULES) -> None:
        self.descriptor = descriptor

    def process_element(self, value: Any, ctx: ReadOnlyBroadcastContext) -> Iterator[Any]:
        yield from self.call(value, ctx)

    def process_broadcast_element(self, value: Any, ctx: BroadcastContext) -> Iterator[Any]:
        yield from self.call(value, ctx)

    def call(self, value: Any, ctx: Any) -> Iterator[Any]:
        method, *arguments = value
        result = getattr(ctx.get_broadcast_state(self.descriptor), method)(*arguments)
        yield repr(list(result) if isinstance(result, Iterator) else result)


ELEMENT, BROADCAST = 0, 1


def test_what_a_broadcast_row_puts_is_read_by_rows_of_the_other_stream() -> None:
    driver = harness(Calls())
    driver.push([("put", "a", 1)], input_index=BROADCAST)
    driver.push([("__setitem__", "b", 2)], input_index=BROADCAST)
    driver.output.clear()
    for index in (ELEMENT, BROADCAST):
        driver.push([("get", "a"), ("get", "x"), ("contains", "a"), ("__contains__", "x")], input_index=index)
        driver.push([("__getitem__", "b"), ("__getitem__", "x")], input_index=index)
        driver.push([("items",), ("keys",), ("values",), ("is_empty",), ("__iter__",)], input_index=index)
    one_side = ["1", "None", "True", "False", "2", "None"]
    one_side += ["[('a', 1), ('b', 2)]", "['a', 'b']", "[1, 2]", "False", "['a', 'b']"]
    assert driver.output.rows == one_side * 2


def test_broadcast_rows_remove_and_clear() -> None:
    driver = harness(Calls())
    driver.push([("put_all", {"a": 1, "b": 2, "c": 3})], input_index=BROADCAST)
    driver.push([("remove", "a"), ("remove", "x"), ("__delitem__", "b")], input_index=BROADCAST)
    driver.push([("items",)])
    driver.push([("clear",)], input_index=BROADCAST)
    driver.push([("is_empty",)])
    assert [driver.output.rows[index] for index in (-3, -1)] == ["[('c', 3)]", "True"]


@pytest.mark.parametrize(
    "call",
    [
        ("put", "a", 1),
        ("put_all", {"a": 1}),
        ("remove", "a"),
        ("clear",),
        ("__setitem__", "a", 1),
        ("__delitem__", "a"),
    ],
    ids=lambda call: call[0],
)
def test_writing_in_process_element_is_an_error_that_says_where_to_write(call: tuple[Any, ...]) -> None:
    driver = harness(Calls())
    message = r"'op' \(subtask 1 of 1\): broadcast state 'rules' can only be read here.*process_broadcast_element"
    with pytest.raises(InvalidProgramError, match=message):
        driver.push([call])


@pytest.mark.parametrize("side", [ELEMENT, BROADCAST])
def test_a_state_that_was_not_declared_is_an_error_that_names_those_that_were(side: int) -> None:
    driver = harness(Calls(MapStateDescriptor("rulez")), None, RULES, OTHER)
    with pytest.raises(InvalidProgramError, match="'rulez' was not declared; the states are 'rules', 'other'"):
        driver.push([("items",)], input_index=side)


def test_a_state_asked_for_with_another_type_or_as_another_kind_is_an_error() -> None:
    driver = harness(Calls(MapStateDescriptor("rules", pa.string())))
    with pytest.raises(InvalidProgramError, match=r"declared with value_type=int64 .* value_type=string"):
        driver.push([("items",)])
    driver = harness(Calls(ValueStateDescriptor("rules")))
    with pytest.raises(InvalidProgramError, match="takes a MapStateDescriptor, not ValueStateDescriptor"):
        driver.push([("items",)])


class Sides(KeyedBroadcastProcessFunction):
    """Counts per key, sets a timer from the rules, and gives side outputs from everywhere."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: KeyedReadOnlyBroadcastContext) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        delay = ctx.get_broadcast_state(RULES).get("delay")
        if delay is not None:
            ctx.timer_service().register_event_time_timer(value.at + delay)
            ctx.timer_service().register_processing_time_timer(delay)
        yield f"{ctx.get_current_key()} {self.count.value()} {ctx.timestamp()} {ctx.current_watermark()}"
        yield SIDE, f"element {value.key}"

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastContext) -> Iterator[Any]:
        name, number = value
        ctx.get_broadcast_state(RULES)[name] = number
        yield SIDE, f"broadcast {ctx.timestamp()} {ctx.current_processing_time()} {ctx.current_watermark()}"

    def on_timer(self, timestamp: int, ctx: OnTimerBroadcastContext) -> Iterator[Any]:
        domain = "event" if ctx.time_domain() == TimeDomain.EVENT_TIME else "processing"
        delay = ctx.get_broadcast_state(RULES)["delay"]
        yield f"{domain} {timestamp} {ctx.timestamp()} {ctx.get_current_key()} {self.count.value()} {delay}"
        yield SIDE, f"timer {ctx.get_current_key()}"


def test_the_keyed_side_has_state_and_timers_and_timers_read_the_broadcast_state() -> None:
    driver = harness(Sides(), KEY)
    driver.push([("delay", 10)], [3], input_index=BROADCAST)
    driver.push({"key": ["a", "b", "a"], "at": [1, 2, 1]}, [1, 2, 3])
    assert driver.output.rows == [f"a 1 1 {MIN_TIMESTAMP}", f"b 1 2 {MIN_TIMESTAMP}", f"a 2 3 {MIN_TIMESTAMP}"]
    driver.output.clear()
    driver.watermark(20, ELEMENT)
    assert driver.output.elements == [], "event time is the lower one of both streams"
    driver.watermark(11, BROADCAST)
    assert driver.output.rows == ["event 11 11 a 2 10"]
    assert driver.output.elements[-1] == Watermark(11)
    assert driver.output.timestamps == [11]
    driver.output.clear()
    driver.advance(10)
    assert driver.output.rows == ["processing 10 10 a 2 10", "processing 10 10 b 1 10"]
    assert driver.output.timestamps == [None, None]
    assert driver.output.side("side") == ["timer a", "timer b"]


def test_side_outputs_come_from_both_sides_with_the_tags_type() -> None:
    driver = harness(Sides(), KEY)
    driver.context.clock.now = 7
    driver.push([("delay", 10)], [3], input_index=BROADCAST)
    driver.push({"key": ["a"], "at": [1]}, [1])
    assert driver.output.side("side") == [f"broadcast 3 7 {MIN_TIMESTAMP}", "element a"]


class OnBroadcast(KeyedBroadcastProcessFunction):
    """Calls what a test gives, on the broadcast side."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: KeyedReadOnlyBroadcastContext) -> None:
        self.count.update((self.count.value() or 0) + value.number)

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastContext) -> Any:
        return self.call(self, ctx)


@pytest.mark.parametrize("backend", BACKENDS)
def test_there_is_no_keyed_state_and_no_timer_on_the_broadcast_side(backend: str) -> None:
    refusals = {
        "there is no current key here": lambda function, _: function.count.value(),
        r"timer_service\(\) is not known in process_broadcast_element": lambda _, ctx: ctx.timer_service(),
        r"get_current_key\(\) is not known in process_broadcast_element": lambda _, ctx: ctx.get_current_key(),
        r"time_domain\(\) is known in on_timer only": lambda _, ctx: ctx.time_domain(),
    }
    for message, call in refusals.items():
        with harness(OnBroadcast(call), KEY, state_options=StateOptions(backend)) as driver:
            driver.push({"key": ["a"], "number": [1]})
            with pytest.raises(InvalidProgramError, match=message):
                driver.push(["x"], input_index=BROADCAST)


# -- apply_to_keyed_state

LIST, MAP = ListStateDescriptor("list"), MapStateDescriptor("map")
REDUCING = ReducingStateDescriptor("reducing", function=lambda a, b: a + b)
AGGREGATING = AggregatingStateDescriptor("aggregating", function=Mean())


class AllKinds(KeyedBroadcastProcessFunction):
    """Writes every kind of state for each row; a broadcast row lists and changes them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(COUNT)
        self.list = runtime_context.get_list_state(LIST)
        self.map = runtime_context.get_map_state(MAP)
        self.reducing = runtime_context.get_reducing_state(REDUCING)
        self.aggregating = runtime_context.get_aggregating_state(AGGREGATING)

    def process_element(self, value: Any, ctx: KeyedReadOnlyBroadcastContext) -> None:
        self.value.update(value.number)
        self.list.add_all([value.number, value.number])
        self.map.put_all({value.number: "x", "k": "y"})
        self.reducing.add(value.number)
        self.aggregating.add(value.number)

    def process_broadcast_element(self, value: str, ctx: KeyedBroadcastContext) -> Iterator[Any]:
        seen: list[Any] = []
        if value == "list":
            ctx.apply_to_keyed_state(COUNT, lambda key, state: seen.append((key, state.value())))
            ctx.apply_to_keyed_state(LIST, lambda key, state: seen.append((key, state.get())))
            ctx.apply_to_keyed_state(MAP, lambda key, state: seen.append((key, sorted(state.items(), key=repr))))
            ctx.apply_to_keyed_state(REDUCING, lambda key, state: seen.append((key, state.get())))
            ctx.apply_to_keyed_state(AGGREGATING, lambda key, state: seen.append((key, state.get())))
        else:
            ctx.apply_to_keyed_state(COUNT, lambda key, state: state.clear() if key == value else state.update(0))
            ctx.apply_to_keyed_state(LIST, lambda _key, state: state.clear())
        yield repr(sorted(seen, key=repr))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_is_applied_to_the_state_of_every_key_once_and_may_change_it(backend: str) -> None:
    with harness(AllKinds(), KEY, state_options=StateOptions(backend)) as driver:
        driver.push({"key": ["a", "b", "a"], "number": [1, 2, 3]})
        driver.push(["list"], input_index=BROADCAST)
        expected = [
            ("a", 3),
            ("b", 2),
            ("a", [1, 1, 3, 3]),
            ("b", [2, 2]),
            ("a", [("k", "y"), (1, "x"), (3, "x")]),
            ("b", [("k", "y"), (2, "x")]),
            ("a", 4),
            ("b", 2),
            ("a", (4, 2)),
            ("b", (2, 1)),
        ]
        assert driver.output.rows == [repr(sorted(expected, key=repr))]
        driver.push(["a", "list"], input_index=BROADCAST)
        left = [("b", 0), *expected[4:]]
        assert driver.output.rows[-1] == repr(sorted(left, key=repr))


def test_after_a_function_was_applied_there_is_no_current_key() -> None:
    def apply_then_read(function: OnBroadcast, ctx: Any) -> None:
        ctx.apply_to_keyed_state(COUNT, lambda _key, _state: None)
        function.count.value()

    driver = harness(OnBroadcast(apply_then_read), KEY)
    driver.push({"key": ["a"], "number": [1]})
    with pytest.raises(InvalidProgramError, match="no current key"):
        driver.push(["x"], input_index=BROADCAST)


def test_what_the_applied_function_raises_is_the_users_error() -> None:
    driver = harness(OnBroadcast(lambda _, ctx: ctx.apply_to_keyed_state(COUNT, lambda _key, _state: 1 // 0)), KEY)
    driver.push({"key": ["a"], "number": [1]})
    with pytest.raises(UserFunctionError, match=r"'op' \(subtask 1 of 1\): ZeroDivisionError.*the value was 'x'"):
        driver.push(["x"], input_index=BROADCAST)


def test_an_applied_function_that_yields_is_an_error() -> None:
    def gives(_key: Any, _state: Any) -> Iterator[int]:
        yield 1

    driver = harness(OnBroadcast(lambda _, ctx: ctx.apply_to_keyed_state(COUNT, gives)), KEY)
    with pytest.raises(InvalidProgramError, match="must not yield"):
        driver.push(["x"], input_index=BROADCAST)


def test_a_keyed_function_on_a_stream_without_keys_is_an_error() -> None:
    with pytest.raises(InvalidProgramError, match="Sides is a function for keyed streams"):
        harness(Sides())


def test_state_asked_for_by_a_function_without_keys_is_an_error() -> None:
    class Asks(Calls):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(COUNT)

    with pytest.raises(InvalidProgramError, match="'count' was asked for outside a keyed process function"):
        harness(Asks())


def test_a_timer_without_keys_is_an_error_and_times_are_readable() -> None:
    class Sets(Calls):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield ctx.current_watermark(), ctx.timer_service().current_processing_time()
            ctx.timer_service().register_event_time_timer(1)

    driver = harness(Sets())
    with pytest.raises(InvalidProgramError, match=r"timers need a keyed stream"):
        driver.push([1])


def test_the_registry_makes_the_operator() -> None:
    made = create_operator([code(BroadcastProcessFactory(Calls(), (RULES,)))], ["op"])
    assert isinstance(made, BroadcastProcessOperator)


# -- snapshots


def test_a_snapshot_has_the_broadcast_state_of_its_moment() -> None:
    first = harness(Calls())
    first.push([("put", "a", 1)], input_index=BROADCAST)
    saved = first.snapshot()
    first.push([("put", "a", 2)], input_index=BROADCAST)
    second = harness(Calls(), restored=restored_from([saved], range(128)))
    second.push([("items",)])
    assert second.output.rows == ["[('a', 1)]"]


def test_after_rescaling_each_subtask_has_the_copy_of_a_former_one_in_turn() -> None:
    """Each subtask reads the copy of its own index, further ones begin again at the first (as in Flink)."""
    saved = []
    for index in range(2):
        former = harness(Calls(), subtask_index=index, parallelism=2)
        former.push([("put", "of", index)], input_index=BROADCAST)
        saved.append(write_snapshot(former.snapshot()))
    for parallelism, copies in ((1, [0]), (2, [0, 1]), (5, [0, 1, 0, 1, 0])):
        found = []
        for index in range(parallelism):
            restored = restored_from(saved, range(128), index, parallelism)
            later = harness(Calls(), restored=restored, subtask_index=index, parallelism=parallelism)
            later.push([("get", "of")])
            found += later.output.rows
        assert found == [str(copy) for copy in copies]


def test_broadcast_state_that_is_not_declared_any_more_is_kept() -> None:
    first = harness(Calls(), None, RULES, OTHER)
    first.push([("put", "a", 1)], input_index=BROADCAST)
    between = harness(Calls(OTHER), None, OTHER, restored=restored_from([first.snapshot()], range(128)))
    last = harness(Calls(), None, RULES, restored=restored_from([between.snapshot()], range(128)))
    last.push([("get", "a")])
    assert last.output.rows == ["1"]


def test_keyed_state_of_the_same_name_is_another_state() -> None:
    class Both(KeyedBroadcastProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.keyed = runtime_context.get_map_state(RULES)

        def process_element(self, value: Any, ctx: KeyedReadOnlyBroadcastContext) -> Iterator[Any]:
            self.keyed["k"] = value.number
            yield dict(self.keyed.items()) == {"k": value.number}, dict(ctx.get_broadcast_state(RULES).items()) == {}

        def process_broadcast_element(self, value: Any, ctx: Any) -> None: ...

    driver = harness(Both(), KEY)
    driver.push({"key": ["a"], "number": [1]})
    again = harness(Both(), KEY, restored=restored_from([driver.snapshot()], range(128)))
    again.push({"key": ["a"], "number": [2]})
    assert driver.output.rows == again.output.rows == [(True, True)]


def test_a_list_of_the_same_name_in_the_checkpoint_is_an_error() -> None:
    first = harness(Calls())
    first.operator._store.get_list_state(ListStateDescriptor("late"))  # type: ignore[attr-defined]
    saved = first.snapshot()
    with pytest.raises(IncompatibleStateError, match="'late' was saved as a list state"):
        harness(Calls(), None, MapStateDescriptor("late"), restored=restored_from([saved], range(128)))


# -- against a model


class Prices(KeyedBroadcastProcessFunction):
    """Amounts times the newest price of their item, per customer; a timer gives the total with the price by then."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", pa.int64()))

    def process_element(self, value: Any, ctx: KeyedReadOnlyBroadcastContext) -> Iterator[Any]:
        price = ctx.get_broadcast_state(RULES).get(value.item)
        if price is None:
            yield SIDE, value.item
            return
        self.total.update((self.total.value() or 0) + price)
        ctx.timer_service().register_event_time_timer(value.at)
        yield value.key, price, self.total.value()

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastContext) -> None:
        item, price = value
        state = ctx.get_broadcast_state(RULES)
        if price < 0:
            state.remove(item)
        else:
            state.put(item, price)
        if price == 0:
            ctx.apply_to_keyed_state(ValueStateDescriptor("total", pa.int64()), lambda _key, total: total.update(0))

    def on_timer(self, timestamp: int, ctx: OnTimerBroadcastContext) -> Iterator[Any]:
        prices = sorted(price for _, price in ctx.get_broadcast_state(RULES).items())
        yield ctx.get_current_key(), timestamp, sum(prices)


class PriceModel:
    """What Prices does, with plain dicts."""

    def __init__(self) -> None:
        self.prices: dict[str, int] = {}
        self.totals: dict[str, int] = {}
        self.timers: set[tuple[int, str]] = set()
        self.rows: list[Any] = []
        self.side: list[str] = []

    def element(self, key: str, item: str, at: int) -> None:
        if item not in self.prices:
            self.side.append(item)
            return
        self.totals[key] = self.totals.get(key, 0) + self.prices[item]
        self.timers.add((at, key))
        self.rows.append((key, self.prices[item], self.totals[key]))

    def broadcast(self, item: str, price: int) -> None:
        if price < 0:
            self.prices.pop(item, None)
        else:
            self.prices[item] = price
        if price == 0:
            self.totals = dict.fromkeys(self.totals, 0)

    def watermark(self, time: int) -> None:
        self.rows += [(key, at, sum(self.prices.values())) for at, key in self.timers if at <= time]
        self.timers = {timer for timer in self.timers if timer[0] > time}


@pytest.mark.parametrize(
    ("backend", "seed", "steps"), [*(("hashmap", seed, 80) for seed in range(6)), ("rocksdb", 6, 40)]
)
def test_random_rows_prices_and_restores_agree_with_a_model(seed: int, backend: str, steps: int) -> None:
    rng, model, time = random.Random(seed), PriceModel(), 0

    def make() -> Operator:
        return operator(Prices(), KEY)

    options = StateOptions(backend)
    subtasks = Subtasks(make, (KEY, None), parallelism=2, state_options=options)
    rows: list[Any] = []
    side: list[str] = []

    def take() -> None:
        for each in subtasks.harnesses:
            rows.extend(each.output.rows)
            side.extend(each.output.side("side"))
            each.output.clear()

    for _ in range(steps):
        match rng.randrange(6):
            case 0 | 1 | 2:
                chosen = [(rng.choice("abcdef"), rng.choice("xyz"), time + rng.randrange(50)) for _ in range(8)]
                keys, items, at = zip(*chosen, strict=True)
                subtasks.push({"key": list(keys), "item": list(items), "at": list(at)}, list(at), ELEMENT)
                for row in chosen:
                    model.element(*row)
            case 3:
                price = rng.choice(("x", "y", "z")), rng.randrange(-1, 4)
                for each in subtasks.harnesses:
                    each.push([price], [time], BROADCAST)
                model.broadcast(*price)
            case 4:
                time += rng.randrange(30)
                subtasks.watermark(time, inputs=2)
                model.watermark(time)
            case 5:
                take()
                subtasks = subtasks.rescaled(rng.randrange(1, 5))
        take()
        assert sorted(rows, key=repr) == sorted(model.rows, key=repr), f"seed {seed}"
        assert sorted(side) == sorted(model.side), f"seed {seed}"
    assert min(len(model.rows), len(model.side)) > 0
    for each in subtasks.harnesses:
        each.operator.close()
