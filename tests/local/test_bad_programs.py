"""What is wrong with the use of windows, joins, state, timers, keys and async calls is said where the user can mend it.

Wrong arguments where they are given; what shows only while rows come with operator, subtask, value and the user's line.
"""

# ruff: noqa: ARG005  (functions that fail, or are never called)

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    ContinuousEventTimeTrigger,
    Count,
    CountEvictor,
    CountTrigger,
    DataStream,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    InvalidProgramError,
    JobExecutionError,
    KeyedProcessFunction,
    KeyedStream,
    ListStateDescriptor,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    PurgingTrigger,
    ReduceFunction,
    RuntimeContext,
    SlidingEventTimeWindows,
    TimeEvictor,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TypeMismatchError,
    UserFunctionError,
    ValueStateDescriptor,
    WatermarkStrategy,
    WindowAssigner,
    WindowedStream,
)
from tests.support.jobs import environment

ROWS = [{"key": "a", "value": 1, "at": 1}, {"key": "a", "value": 2, "at": 2}, {"key": "b", "value": 3, "at": 12}]
TEN = TumblingEventTimeWindows.of(10)
IN_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")


def events() -> DataStream:
    return environment(parallelism=1).from_collection(ROWS).assign_timestamps_and_watermarks(IN_TIME)


def keyed() -> KeyedStream:
    return events().key_by("key")


def windowed(assigner: Any = TEN) -> WindowedStream:
    return keyed().window(assigner)


def pair(second_rows: list[dict[str, Any]] = ROWS) -> tuple[DataStream, DataStream]:
    env = environment(parallelism=1)
    first, second = (
        env.from_collection(rows).assign_timestamps_and_watermarks(IN_TIME) for rows in (ROWS, second_rows)
    )
    return first, second


def failure(stream: DataStream) -> str:
    """Runs the job of this stream, and gives the text of its error, in which nothing of the runtime may be."""
    with pytest.raises(JobExecutionError) as caught:
        list(stream.name("mine").execute_and_collect())
    text = str(caught.value)
    assert "mine" in text, "the operator is not named"
    assert "subtask 1 of 1" in text or "(1/1)" in text, "the subtask is not named"
    assert "/actors/" not in text, "the runtime's own frames hide the user's line"
    return text


# -- wrong arguments are refused where they are given

WRONG_DURATIONS: dict[str, tuple[Callable[[], object], str]] = {
    "text": (lambda: TumblingEventTimeWindows.of("soon"), r"size: cannot read 'soon' as a duration; write for example"),
    "fraction": (lambda: TumblingEventTimeWindows.of(1.5), r"size is a duration .*, not 1\.5"),  # type: ignore[arg-type]
    "nothing": (lambda: TumblingEventTimeWindows.of(None), "size is a duration .*, not None"),  # type: ignore[arg-type]
    "microseconds": (lambda: TumblingEventTimeWindows.of(timedelta(microseconds=1)), "whole number of milliseconds"),
    "negative size": (lambda: TumblingEventTimeWindows.of(-10), "size must not be negative, got -10"),
    "size of zero": (lambda: TumblingEventTimeWindows.of(0), "size and slide must be positive"),
    "slide of zero": (lambda: SlidingEventTimeWindows.of(10, 0), "size and slide must be positive"),
    "offset like the size": (lambda: TumblingEventTimeWindows.of(10, 10), r"offset \(10 ms\) .*smaller than the size"),
    "offset like the slide": (
        lambda: SlidingEventTimeWindows.of(10, 5, 5),
        r"offset \(5 ms\) .*smaller than the slide",
    ),
    "negative gap": (lambda: EventTimeSessionWindows.with_gap(-1), "gap must not be negative, got -1"),
    "gap of zero": (lambda: EventTimeSessionWindows.with_gap(0), "gap of a session must be positive, got 0"),
    "interval of a trigger": (lambda: ContinuousEventTimeTrigger.of("x"), "interval: cannot read 'x' as a duration"),
    "size of an evictor": (lambda: TimeEvictor.of(-1), "window_size must not be negative, got -1"),
    "lateness": (lambda: windowed().allowed_lateness("late"), "allowed_lateness: cannot read 'late' as a duration"),
    "bound of an interval": (
        lambda: keyed().interval_join(keyed()).between("soon", 1),
        "interval_join|lower_bound: cannot read 'soon' as a duration",
    ),
    "timeout": (lambda: events().async_map(abs, timeout="x"), "timeout: cannot read 'x' as a duration"),
}


@pytest.mark.parametrize("wrong", WRONG_DURATIONS)
def test_a_wrong_duration_is_refused_with_its_name_and_value(wrong: str) -> None:
    use, message = WRONG_DURATIONS[wrong]
    with pytest.raises((ValueError, TypeError, InvalidProgramError), match=message):
        use()


class Nothing(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1


class Longest(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return []


SEVEN: Any = 7

WRONG_OBJECTS: dict[str, tuple[Callable[[], object], str]] = {
    "assigner class": (lambda: windowed(TumblingEventTimeWindows), "window takes an assigner such as .*, not <class"),
    "text for an assigner": (lambda: windowed("10 s"), "window takes an assigner such as .*, not '10 s'"),
    "trigger for an assigner": (lambda: windowed(CountTrigger.of(1)), "window takes an assigner .*, not CountTrigger"),
    "trigger class": (lambda: windowed().trigger(EventTimeTrigger), "trigger takes a Trigger such as .*, not <class"),  # type: ignore[arg-type]
    "evictor for a trigger": (lambda: windowed().trigger(CountEvictor.of(1)), "trigger takes a Trigger such as"),  # type: ignore[arg-type]
    "evictor class": (lambda: windowed().evictor(CountEvictor), "evictor takes an Evictor such as .*, not <class"),  # type: ignore[arg-type]
    "purging a class": (lambda: PurgingTrigger.of(CountTrigger), "PurgingTrigger.of takes a Trigger such as"),  # type: ignore[arg-type]
    "count of text": (lambda: CountTrigger.of("3"), "positive number of rows, got '3'"),  # type: ignore[arg-type]
    "count of zero": (lambda: CountTrigger.of(0), "positive number of rows, got 0"),
    "threshold of text": (lambda: DeltaTrigger.of("x", max), "the threshold is a number, not 'x'"),  # type: ignore[arg-type]
    "no delta function": (lambda: DeltaTrigger.of(1, "x"), "the delta function is a function of two rows"),  # type: ignore[arg-type]
    "evictor's threshold": (lambda: DeltaEvictor.of(None, max), "the threshold is a number, not None"),  # type: ignore[arg-type]
    "tag of text": (lambda: windowed().side_output_late_data("late"), "takes an OutputTag, such as .*, not 'late'"),  # type: ignore[arg-type]
    "side output of text": (lambda: events().get_side_output("late"), "get_side_output takes an OutputTag"),  # type: ignore[arg-type]
    "function class": (lambda: windowed().reduce(Nothing), r"it is a class, so write it with \(\)"),  # type: ignore[arg-type]
    "window function class": (lambda: windowed().process(Longest), r"it is a class, so write it with \(\)"),  # type: ignore[arg-type]
    "another function": (lambda: windowed().reduce(Longest()), "Longest has no method reduce"),  # type: ignore[arg-type]
    "aggregate class": (lambda: windowed().aggregate(rows=Count), "rows is no aggregate such as"),  # type: ignore[arg-type]
    "count window of text": (lambda: keyed().count_window("1"), "size is a number of rows, not '1'"),  # type: ignore[arg-type]
    "type in words": (lambda: events().map(abs, output_type="string"), "'string' is no type of records. Give a"),
    "key that is a number": (lambda: events().key_by(SEVEN), "key_by takes column names, or one function, not 7"),
    "join without keys": (lambda: pair()[0].join(pair()[1]).window(TEN), "join|different environments"),
    "capacity of zero": (lambda: events().async_map(abs, capacity=0), "number of rows that may be under way, not 0"),
    "name that is a number": (lambda: events().name(5), "name must be a text that is not empty, got 5"),  # type: ignore[arg-type]
    "empty uid": (lambda: events().uid(""), "uid must be a text that is not empty, got ''"),
    "slots without a name": (lambda: events().slot_sharing_group(None), "slot sharing group must be a text"),  # type: ignore[arg-type]
    "co-location by a number": (lambda: events().co_location_group(1), "co-location group must be a text"),  # type: ignore[arg-type]
    "feedback of a number": (lambda: events().iterate().close_with(5), "close_with takes a stream .*, not 5"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong", WRONG_OBJECTS)
def test_an_object_of_a_wrong_type_is_refused_with_what_is_wanted(wrong: str) -> None:
    use, message = WRONG_OBJECTS[wrong]
    with pytest.raises((ValueError, TypeError, InvalidProgramError), match=message):
        use()


class ShortProcess(KeyedProcessFunction):
    def process_element(self, value: Any) -> Any:  # type: ignore[override]
        return [value]


FUNCTIONS: tuple[Any, Any, Any] = (lambda: 1, lambda a: a, lambda a, b: a)
NONE, ONE, TWO = FUNCTIONS
WRONG_PARAMETERS: dict[str, tuple[Callable[[], object], str]] = {
    "map": (lambda: events().map(NONE), r"takes \(\), and is called with \(value\)"),
    "key": (lambda: events().key_by(TWO), r"takes \(a, b\), and is called with \(value\)"),
    "reduce": (lambda: keyed().reduce(ONE), r"takes \(a\), and is called with \(value1, value2\)"),
    "window reduce": (lambda: windowed().reduce(ONE), r"takes \(a\), and is called with \(value1, value2\)"),
    "window": (lambda: windowed().process(TWO), r"\(a, b\), .* with \(key, context, elements\)"),
    "window after reduce": (
        lambda: windowed().reduce(TWO, ONE),
        r"takes \(a\), .* with \(key, context, elements\)",
    ),
    "all windows": (lambda: events().window_all(TEN).process(ONE), r"\(a\), .* with \(context, elements\)"),
    "process": (lambda: keyed().process(ShortProcess()), r"process_element takes \(value\), .* with \(value, ctx\)"),
    "interval join": (
        lambda: keyed().interval_join(keyed()).between(0, 1).process(TWO),
        r"\(a, b\), .* \(left, right, ctx\)|environments",
    ),
}


@pytest.mark.parametrize("operation", WRONG_PARAMETERS)
def test_a_function_with_other_parameters_is_refused_before_the_program_runs(operation: str) -> None:
    use, message = WRONG_PARAMETERS[operation]
    with pytest.raises(InvalidProgramError, match=message):
        use()


def test_functions_whose_parameters_do_not_show_and_optional_ones_are_taken() -> None:
    events().map(str)
    events().map(sorted)
    windowed().reduce(operator.add)
    windowed().process(print)


def test_keys_of_different_types_cannot_be_joined() -> None:
    first, second = pair([{"key": 1, "at": 1}])
    with pytest.raises(InvalidProgramError, match=r"'key' is string and key 'key' is int64.*cast one of them"):
        first.join(second).where("key").equal_to("key").window(TEN).apply()


def test_windows_that_merge_need_an_aggregate_that_can() -> None:
    class Rows(AggregateFunction):
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: Any, accumulator: int) -> int:
            return accumulator + 1

        def get_result(self, accumulator: int) -> int:
            return accumulator

    with pytest.raises(InvalidProgramError, match="EventTimeSessionWindows merges windows, so Rows needs a merge"):
        windowed(EventTimeSessionWindows.with_gap(5)).aggregate(Rows())


# -- triggers, evictors and assigners of the user's own


class Trying(Trigger):
    """Fires at the end of the window, unless the method of that name is to fail or to give something else."""

    def __init__(self, method: str, fails: bool = True) -> None:
        self._method = method
        self._fails = fails

    def _do(self, method: str, result: TriggerResult) -> Any:
        if method != self._method:
            return result
        if self._fails:
            raise ValueError(f"no {method} today")
        return True

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        ctx.register_event_time_timer(window.max_timestamp())
        return self._do("on_element", TriggerResult.CONTINUE)

    def on_event_time(self, time: int, window: Any, ctx: Any) -> Any:
        return self._do("on_event_time", TriggerResult.FIRE)

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> Any:
        return TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: Any) -> None:
        self._do("clear", TriggerResult.CONTINUE)


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("on_element", "Row(key='a', value=1, at=1)"),
        ("on_event_time", "Window(start=0, end=10) of key 'a'"),
        ("clear", "Window(start=0, end=10) of key 'a'"),
    ],
)
def test_a_trigger_that_fails_names_the_row_or_the_window_and_key(method: str, value: str) -> None:
    text = failure(windowed().trigger(Trying(method)).reduce(lambda a, b: a))
    assert f"ValueError: no {method} today; the value was {value}" in text
    assert 'raise ValueError(f"no {method} today")' in text


def test_a_trigger_must_give_a_trigger_result() -> None:
    text = failure(windowed().trigger(Trying("on_element", fails=False)).reduce(lambda a, b: a))
    assert "on_element of Trying must return a TriggerResult, not True" in text


class Refusing(Evictor):
    def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
        raise ValueError("keep them")

    def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
        return elements


def test_an_evictor_that_fails_names_the_window_and_key() -> None:
    text = failure(windowed().evictor(Refusing()).reduce(lambda a, b: a))
    assert "ValueError: keep them; the value was Window(start=0, end=10) of key 'a'" in text


class Giving(WindowAssigner):
    """Gives the same for every row."""

    def __init__(self, windows: Any, trigger: Any) -> None:
        self._windows = windows
        self._trigger = trigger

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return self._windows

    def get_default_trigger(self, env: Any = None) -> Any:
        return self._trigger

    def is_event_time(self) -> bool:
        return True


@pytest.mark.parametrize("windows", [None, [(0, 10)], 5])
def test_an_assigner_must_give_windows(windows: Any) -> None:
    text = failure(windowed(Giving(windows, EventTimeTrigger.create())).reduce(lambda a, b: a))
    assert f"assign_windows of Giving must return a list of windows such as Window(start, end), not {windows}" in text


def test_an_assigner_must_have_a_trigger_unless_the_program_sets_one() -> None:
    assigner = Giving([], None)
    with pytest.raises(
        InvalidProgramError, match=r"get_default_trigger of Giving must return a Trigger.*not None; or set"
    ):
        windowed(assigner).reduce(lambda a, b: a)
    first, second = pair()
    with pytest.raises(InvalidProgramError, match="get_default_trigger of Giving must return a Trigger"):
        first.co_group(second).where("key").equal_to("key").window(assigner).apply(lambda a, b: [])
    windowed(assigner).trigger(CountTrigger.of(1)).reduce(lambda a, b: a)


@pytest.mark.parametrize("gap", [0, -1, "x"])
def test_a_dynamic_gap_must_be_positive(gap: Any) -> None:
    with pytest.raises(JobExecutionError, match=rf"operator 'mine'.*positive number of milliseconds, got {gap!r}.*Row"):
        list(
            windowed(EventTimeSessionWindows.with_dynamic_gap(lambda row: gap))
            .aggregate(rows=Count())
            .name("mine")
            .execute_and_collect()
        )


# -- window functions


def test_a_window_function_that_fails_names_the_window_and_key() -> None:
    text = failure(windowed().process(lambda key, context, rows: [1 / 0]))
    assert "ZeroDivisionError: division by zero; the value was Window(start=0, end=10) of key 'a'" in text
    assert "[1 / 0]" in text


@pytest.mark.parametrize("result", [5, "abc"])
def test_a_window_function_must_give_a_list(result: Any) -> None:
    text = failure(windowed().process(lambda key, context, rows: result))
    assert f"must yield its results (or return a list of them, or None), not return {result!r}" in text


def test_a_window_function_gives_values_of_one_type() -> None:
    text = failure(windowed().process(lambda key, context, rows: [1, "x"]))
    assert "value 'x' (str) does not fit int, as the first value is; set output_type=" in text


def test_a_window_function_gives_values_of_the_declared_type() -> None:
    text = failure(windowed().process(lambda key, context, rows: ["x"], output_type=pa.int64()))
    assert "value 'x' (str) does not fit int64; set output_type=" in text


def test_a_reduction_gives_rows_of_the_streams_type() -> None:
    text = failure(windowed().reduce(lambda a, b: 5))
    assert "value 5 (int) does not fit a Row" in text


def test_a_delta_function_that_fails_names_the_row() -> None:
    trigger = DeltaTrigger.of(1.0, lambda old, new: new.weight)
    text = failure(windowed(GlobalWindows.create()).trigger(trigger).reduce(lambda a, b: a))
    assert "this row has no column 'weight'; columns: key, value, at; the value was Row(key='a', value=2, at=2)" in text


# -- state and timers


class Using(KeyedProcessFunction):
    """Calls the functions given."""

    def __init__(self, at_open: Any = None, at_row: Any = None, at_timer: Any = None) -> None:
        self._calls = at_open, at_row, at_timer

    def open(self, runtime_context: RuntimeContext) -> None:
        if self._calls[0]:
            self._calls[0](runtime_context)

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self._calls[1]:
            self._calls[1](ctx)
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if self._calls[2]:
            self._calls[2](ctx)


NUMBER = ValueStateDescriptor("number", pa.int64())


def two_types(context: RuntimeContext) -> None:
    context.get_state(NUMBER)
    context.get_state(ValueStateDescriptor("number", pa.string()))


def two_kinds(context: RuntimeContext) -> None:
    context.get_state(NUMBER)
    context.get_list_state(ListStateDescriptor("number", pa.int64()))


WRONG_STATE: dict[str, tuple[Callable[[RuntimeContext], object], str]] = {
    "read in open": (lambda context: context.get_state(NUMBER).value(), "there is no current key here"),
    "another type": (two_types, "declared with value_type=int64 and is now declared with value_type=string"),
    "another kind": (two_kinds, "'number' is a value state and cannot be used as a list state too"),
    "descriptor of a list": (
        lambda context: context.get_state(ListStateDescriptor("number")),  # type: ignore[arg-type]
        "a value state takes a ValueStateDescriptor, not ListStateDescriptor",
    ),
    "name": (
        lambda context: context.get_list_state("number"),  # type: ignore[arg-type]
        "a list state takes a ListStateDescriptor, not 'number'",
    ),
}


@pytest.mark.parametrize("wrong", WRONG_STATE)
def test_wrong_use_of_state_is_named(wrong: str) -> None:
    use, message = WRONG_STATE[wrong]
    assert message in failure(keyed().process(Using(at_open=use)))


class Unkeyed(ProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(NUMBER)

    def process_element(self, value: Any, ctx: Any) -> Any:
        return None


def test_state_without_a_key_says_to_key_the_stream() -> None:
    text = failure(events().process(Unkeyed()))
    assert "state 'number' was asked for outside a keyed process function" in text
    assert "key_by" in text


def test_timers_without_a_key_say_to_key_the_stream() -> None:
    text = failure(events().process(lambda value, ctx: ctx.timer_service().register_event_time_timer(5)))
    assert "timers need a keyed stream; call key_by(...)" in text


def test_a_timer_in_the_past_fires_with_the_next_watermark() -> None:
    class Past(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(-1_000)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.get_current_key(), timestamp

    assert sorted(keyed().process(Past()).execute_and_collect()) == [("a", -1_000), ("b", -1_000)]


def test_a_timer_beyond_64_bits_is_refused() -> None:
    text = failure(keyed().process(Using(at_row=lambda ctx: ctx.timer_service().register_event_time_timer(2**63))))
    assert "fits 64 bits; 9223372036854775808 does not" in text


def test_a_timer_that_fails_names_its_time_and_key() -> None:
    text = failure(keyed().process(Using(at_timer=lambda ctx: 1 / 0)))
    assert "ZeroDivisionError: division by zero; the value was timer 5 of key 'a'" in text


def test_a_typed_side_output_refuses_other_values() -> None:
    tag = OutputTag("numbers", pa.int64())
    text = failure(keyed().process(lambda value, ctx: [(tag, "x")]))
    assert "value 'x' (str) does not fit int64; set OutputTag('numbers', output_type)=" in text


# -- keys

WRONG_KEYS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "fails": (lambda row: row.weight, "this row has no column 'weight'; columns: key, value, at; the value was Row"),
    "list": (lambda row: [row.key], "the key ['a'] (key) has a list or dict in it"),
    "dict": (lambda row: {"key": row.key}, "the key {'key': 'a'} (key) has a list or dict in it"),
    "set": (lambda row: {1}, "Arrow cannot hold {1} (set). Return numbers, text"),
    "two types": (lambda row: 1 if row.value == 1 else "x", "must have one Arrow type: 'x' is not int"),
}


@pytest.mark.parametrize("wrong", WRONG_KEYS)
@pytest.mark.parametrize("operation", ["window", "process"])
def test_a_key_that_cannot_be_one_is_named(wrong: str, operation: str) -> None:
    function, message = WRONG_KEYS[wrong]
    stream = events().name("source of keys").key_by(function)
    if operation == "window":
        used = stream.window(TEN).process(lambda key, context, rows: [1]).name("mine")
    else:
        used = stream.process(lambda value, ctx: [1]).name("mine")
    with pytest.raises(JobExecutionError) as caught:
        list(used.execute_and_collect())
    text = str(caught.value)
    assert message in text
    assert "(1/1)" in text
    assert "/actors/" not in text
    assert isinstance(caught.value.__cause__, UserFunctionError if wrong == "fails" else TypeMismatchError)


def test_null_is_a_key() -> None:
    stream = events().key_by(lambda row: None).window(TEN).process(lambda key, context, rows: [(key, len(list(rows)))])
    assert sorted(stream.execute_and_collect()) == [(None, 1), (None, 2)]


# -- async calls


class Asking(AsyncFunction):
    def __init__(self, result: Any) -> None:
        self._result = result

    async def async_invoke(self, value: Any) -> Any:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def asked(function: Any, timeout: Any = "10 s") -> DataStream:
    return AsyncDataStream.ordered_wait(events(), function, timeout=timeout, capacity=2)


def test_an_async_function_that_never_returns_runs_into_its_timeout() -> None:
    class Never(Asking):
        async def async_invoke(self, value: Any) -> Any:
            await asyncio.Event().wait()

    text = failure(asked(Never(None), "50 ms"))
    assert "no result within 50 ms, in 1 attempts; allow a longer timeout" in text
    assert "the value was Row(key='a', value=1, at=1)" in text


def test_an_async_function_that_raises_names_the_value() -> None:
    text = failure(asked(Asking(ValueError("no answer"))))
    assert "ValueError: no answer; the value was Row(key='a'" in text
    assert "raise self._result" in text


@pytest.mark.parametrize(
    ("result", "fault"), [(None, "cannot be none"), (5, "should be of list type"), ("abc", "should be of list type")]
)
def test_an_async_function_must_give_a_list(result: Any, fault: str) -> None:
    text = failure(asked(Asking(result)))
    assert f"The result of AsyncFunction {fault}" in text
    assert f"must return a list of results (an empty one for none), not {result!r}" in text


def test_an_async_function_may_give_none_or_many() -> None:
    assert list(asked(Asking([])).execute_and_collect()) == []
    assert list(asked(Asking([1, 2])).execute_and_collect()) == [1, 2] * 3


def test_async_functions_of_a_wrong_kind_are_refused() -> None:
    class Blocking(AsyncFunction):
        def async_invoke(self, value: Any) -> Any:
            return [value]

    with pytest.raises(InvalidProgramError, match=r"Blocking\.async_invoke must be declared with 'async def'"):
        asked(Blocking())
    with pytest.raises(InvalidProgramError, match="an AsyncFunction is needed, not <class"):
        asked(Asking)
