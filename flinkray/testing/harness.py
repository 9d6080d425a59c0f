"""Harnesses: a function, or any transformation of streams, driven by a test in its own thread, in milliseconds.

After Flink's operator test harnesses. Nothing is started; the test says what comes in, and when time goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypedDict, TypeVar, Unpack

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import RowEncoder, decode
from flinkray.config.configuration import Configuration
from flinkray.connectors.collection.source import streamed_table
from flinkray.connectors.discard.sink import DiscardSink
from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.functions.interfaces import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from flinkray.functions.type_hints import record_type
from flinkray.plugins import load_plugin
from flinkray.streams.connected_streams import ConnectedStreams
from flinkray.streams.data_stream import DataStream
from flinkray.streams.environment import StreamExecutionEnvironment
from flinkray.streams.keyed_stream import KeyedStream
from flinkray.testing.clock import ManualClock
from flinkray.testing.driver import PLUGINS, HarnessDriver, HarnessInput
from flinkray.testing.elements import Watermark
from flinkray.time.durations import Duration, to_millis
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.types.records import Kind, OutputTag, Timestamp


class HarnessSettings(TypedDict, total=False):
    """The keyword arguments that all harnesses take."""

    type_info: Any
    """The type of the values that come in, as in `from_collection`; a tuple of two for two inputs. Default: taken from
    the first values."""
    clock: ManualClock
    """Processing time. Default: a clock that stands at 0."""
    options: Mapping[str, Any]
    """Options of the configuration by their keys, such as {"state.backend.type": "rocksdb"}."""
    restore_from: bytes
    """What `snapshot` gave in another harness of the same transformation: this one goes on from there."""


class Input:
    """An input of a harness: what comes in, in the order of the calls."""

    def __init__(self, driver: HarnessDriver, index: int, type_info: Any) -> None:
        self._driver = driver
        self._index = index
        declared = None if type_info is None else record_type(type_info)
        self._encoder = RowEncoder(f"input {index + 1} of the harness", "1 of 1", declared, "type_info")

    def process(self, value: Any, timestamp: int | None = None) -> None:
        """One value; `timestamp` is its event time in epoch milliseconds.

        Raises:
            UserFunctionError: a function raised; the message has its traceback, `__cause__` is what it raised.
        """
        self.process_batch([value], None if timestamp is None else [timestamp])

    def process_batch(self, values: Any, timestamps: Sequence[int | None] | None = None) -> None:
        """Several values as one batch: a list of them, a DataFrame, or a pa.Table or RecordBatch of rows."""
        times = None if timestamps is None else pa.array(timestamps, pa.int64())
        for batch in self._batches(values, times):
            self._driver.push(self._index, batch)

    def watermark(self, timestamp: int) -> None:
        """Event time has reached it: timers and windows that are due fire."""
        self._driver.watermark(self._index, Timestamp(timestamp))

    def idle(self) -> None:
        """Nothing will come for a while: the other inputs' watermarks count alone."""
        self._driver.status(self._index, True)

    def active(self) -> None:
        """Ends `idle`; to be called before further values or watermarks."""
        self._driver.status(self._index, False)

    def end_input(self) -> None:
        """The end of a bounded input: event time goes to its end, so that all timers and windows fire, then the
        operators finish, once all inputs have ended."""
        self._driver.end(self._index)

    def _batches(self, values: Any, times: pa.Array | None) -> list[Batch]:
        if isinstance(values, pa.RecordBatch):
            values = pa.Table.from_batches([values])
        if hasattr(values, "__arrow_c_stream__"):
            table = streamed_table(values).replace_schema_metadata(None).combine_chunks()
            return [Batch(data, Kind.ROW, times) for data in table.to_batches()]
        return [self._encoder.encode(values, times)] if len(values) else []


class Harness:
    """Base of all harnesses (see OneInputHarness). Use one as a context manager, so that functions are closed."""

    def __init__(self, build: Callable[..., DataStream], number_of_inputs: int, settings: HarnessSettings) -> None:
        _check_names(settings)
        self.clock = settings.get("clock") or ManualClock()
        configuration = Configuration({**settings.get("options", {}), "parallelism.default": 1})
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        type_info = settings.get("type_info")
        types = type_info if isinstance(type_info, tuple) and number_of_inputs > 1 else (type_info,) * number_of_inputs
        streams = [
            env.from_source(HarnessInput(index), WatermarkStrategy.no_watermarks(), f"input {index + 1}", each)
            for index, each in enumerate(types)
        ]
        result = build(*streams)
        if not isinstance(result, DataStream):
            raise InvalidProgramError(f"a harness is for a transformation that gives a DataStream, not {result!r}")
        result.sink_to(DiscardSink())
        pipeline = env._pipeline("harness", should_prepare=False)
        driver = load_plugin(PLUGINS, "harness")
        self._driver: HarnessDriver = driver(pipeline, self.clock, settings.get("restore_from"))
        self._inputs = [Input(self._driver, index, each) for index, each in enumerate(types)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the functions; no effect the second time."""
        self._driver.close()

    def advance_time(self, duration: Duration) -> None:
        """Processing time goes on by milliseconds, a timedelta, or a text such as "10 s"; what is due in it fires at
        its time, in order: timers, processing-time windows, periodic watermarks, idleness."""
        self._driver.advance(to_millis(duration, "duration"))

    # -- what came out -------------------------------------------------------------------------------------------

    def results(self) -> list[Any]:
        """The values of the main output so far (since `clear_output`), in order."""
        return [value for batch in self._result_batches() for value in decode(batch)]

    def results_with_timestamps(self) -> list[tuple[Any, int | None]]:
        """The values of the main output so far, each with its event time (epoch milliseconds), or None where it has
        none."""
        return [pair for batch in self._result_batches() for pair in _timed(batch)]

    def side_output(self, tag: OutputTag) -> list[Any]:
        """The values that went to that side output so far, in order."""
        return [value for batch in self._driver.side_output(tag) for value in decode(batch)]

    def output(self) -> list[Any]:
        """The values of the main output with the `Watermark`s, `Idle`s and `Active`s between them, in order."""
        elements: list[Any] = []
        for element in self._driver.output:
            elements.extend(decode(element) if isinstance(element, Batch) else [element])
        return elements

    def watermark_out(self) -> int | None:
        """The last watermark that came out; None before the first."""
        found = [element.timestamp for element in self._driver.output if isinstance(element, Watermark)]
        return found[-1] if found else None

    def clear_output(self) -> None:
        """Forgets what came out so far, side outputs included."""
        self._driver.clear_output()

    # -- state ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """A barrier comes: all state as a savepoint has it, for `restore_from=` of another harness. The harness goes
        on. It can be written to a file, for a test that a later version of the function still reads it."""
        return self._driver.snapshot()

    def num_keyed_state_entries(self) -> int:
        """How many pairs of a key and a state there are, as a snapshot would have them: none that has expired."""
        return self._driver.count_entries()

    def num_event_time_timers(self) -> int:
        """The number of event-time timers that are set, over all keys."""
        return self._driver.count_timers("event time")

    def num_processing_time_timers(self) -> int:
        """The number of processing-time timers that are set, over all keys."""
        return self._driver.count_timers("processing time")

    def _result_batches(self) -> list[Batch]:
        return [element for element in self._driver.output if isinstance(element, Batch)]


def _timed(batch: Batch) -> list[tuple[Any, int | None]]:
    times = [None] * batch.num_rows if batch.timestamps is None else batch.timestamps.to_pylist()
    return list(zip(decode(batch), times, strict=True))


class OneInputHarness(Harness):
    """A map, flat_map, filter or process function, or any transformation of one stream (`of`).

    ```python
    with OneInputHarness(SplitWords()) as harness:
        harness.process("to be or", timestamp=5)
        assert harness.results() == ["to", "be", "or"]

    def per_minute(clicks):
        return clicks.key_by("user").window(TumblingEventTimeWindows.of("1 min")).aggregate(clicks=Count())

    with OneInputHarness.of(per_minute) as harness:
        harness.process({"user": "ann"}, timestamp=1_000)
        harness.watermark(59_999)
        assert harness.results() == [Row(user="ann", window_start=0, window_end=60_000, clicks=1)]
    ```

    The function is used as it is, not a copy, and its `open` has been called. What is processed has passed all
    operators when the call returns.
    """

    def __init__(self, function: Any, output_type: Any = None, **settings: Unpack[HarnessSettings]) -> None:
        super().__init__(lambda stream: _applied(stream, function, output_type), 1, settings)

    @classmethod
    def of(cls, build: Callable[[DataStream], DataStream], **settings: Unpack[HarnessSettings]) -> OneInputHarness:
        """A harness of what `build` makes of the input stream."""
        return _harness_of(OneInputHarness, build, 1, settings)

    def process(self, value: Any, timestamp: int | None = None) -> None:
        """One value; `timestamp` is its event time in epoch milliseconds.

        Raises:
            UserFunctionError: a function raised; the message has its traceback, `__cause__` is what it raised.
        """
        self._inputs[0].process(value, timestamp)

    def process_batch(self, values: Any, timestamps: Sequence[int | None] | None = None) -> None:
        """Several values as one batch: a list of them, a DataFrame, or a pa.Table or RecordBatch of rows."""
        self._inputs[0].process_batch(values, timestamps)

    def watermark(self, timestamp: int) -> None:
        """Event time has reached it: timers and windows that are due fire."""
        self._inputs[0].watermark(timestamp)

    def idle(self) -> None:
        """The input says that nothing will come for a while."""
        self._inputs[0].idle()

    def active(self) -> None:
        """Ends `idle`; to be called before further values or watermarks."""
        self._inputs[0].active()

    def end_input(self) -> None:
        """The end of a bounded input: event time goes to its end, so that all timers and windows fire, then the
        operators finish."""
        self._inputs[0].end_input()


class KeyedHarness(OneInputHarness):
    """A process function (or map, flat_map, filter, reduce) of a keyed stream, or any transformation of one (`of`).

    ```python
    with KeyedHarness(SessionTimeout(), key="user") as harness:
        harness.process({"user": "ann", "page": "/"}, timestamp=1_000)
        assert harness.num_event_time_timers() == 1
        saved = harness.snapshot()
    with KeyedHarness(SessionTimeout(), key="user", restore_from=saved) as harness:
        harness.watermark(31_000)
        assert harness.results() == ["ann left"]
    ```

    Args:
        key: what `key_by` takes: a column, several as a tuple, or a function.
    """

    def __init__(self, function: Any, key: Any, output_type: Any = None, **settings: Unpack[HarnessSettings]) -> None:
        Harness.__init__(self, lambda stream: _applied(_keyed(stream, key), function, output_type), 1, settings)

    @classmethod
    def of(  # type: ignore[override]
        cls, build: Callable[[KeyedStream], DataStream], key: Any, **settings: Unpack[HarnessSettings]
    ) -> KeyedHarness:
        """A harness of what `build` makes of the keyed input stream."""
        return _harness_of(KeyedHarness, lambda stream: build(_keyed(stream, key)), 1, settings)


class TwoInputHarness(Harness):
    """A function for two connected streams, or any transformation of two streams (`of`), such as a join.

    ```python
    with TwoInputHarness(Enrich()) as harness:
        harness.second.process({"id": 1, "name": "ann"})
        harness.first.process({"id": 1}, timestamp=5)
        harness.watermark(10)  # of both inputs; harness.first.watermark(10) is of one
        assert harness.results() == ["ann"]
    ```
    """

    def __init__(self, function: Any, output_type: Any = None, **settings: Unpack[HarnessSettings]) -> None:
        super().__init__(lambda one, two: _applied_to_two(one.connect(two), function, output_type), 2, settings)

    @classmethod
    def of(
        cls, build: Callable[[DataStream, DataStream], DataStream], **settings: Unpack[HarnessSettings]
    ) -> TwoInputHarness:
        """A harness of what `build` makes of the two input streams."""
        return _harness_of(TwoInputHarness, build, 2, settings)

    @property
    def first(self) -> Input:
        """The input of the first stream."""
        return self._inputs[0]

    @property
    def second(self) -> Input:
        """The input of the second stream."""
        return self._inputs[1]

    def watermark(self, timestamp: int) -> None:
        """Event time has reached it on both inputs."""
        for each in self._inputs:
            each.watermark(timestamp)

    def end_input(self) -> None:
        """Both inputs end, the first one first."""
        for each in self._inputs:
            each.end_input()


class KeyedTwoInputHarness(TwoInputHarness):
    """A function for two connected keyed streams.

    ```python
    with KeyedTwoInputHarness(MatchPayments(), key1="order_id", key2="order") as harness:
        harness.first.process({"order_id": 7, "total": 30})
        harness.second.process({"order": 7, "paid": 30})
        assert harness.results() == [7]
    ```

    Args:
        key1: what `key_by` of connected streams takes for the first input.
        key2: the same for the second input.
    """

    def __init__(
        self, function: Any, key1: Any, key2: Any, output_type: Any = None, **settings: Unpack[HarnessSettings]
    ) -> None:
        def build(one: DataStream, two: DataStream) -> DataStream:
            return _applied_to_two(one.connect(two).key_by(key1, key2), function, output_type)

        Harness.__init__(self, build, 2, settings)


_H = TypeVar("_H", bound=Harness)


def _harness_of(
    kind: type[_H], build: Callable[..., DataStream], number_of_inputs: int, settings: HarnessSettings
) -> _H:
    harness = kind.__new__(kind)
    Harness.__init__(harness, build, number_of_inputs, settings)
    return harness


def _check_names(settings: HarnessSettings) -> None:
    """Raises TypeError for an argument that no harness takes, which would be without effect."""
    for name in settings:
        if name not in HarnessSettings.__annotations__:
            known = HarnessSettings.__annotations__
            raise TypeError(
                f"a harness has no argument {name!r}{did_you_mean(name, known)}; besides those of its function it "
                f"takes {', '.join(known)}"
            )


def _keyed(stream: DataStream, key: Any) -> KeyedStream:
    return stream.key_by(*key) if isinstance(key, tuple) else stream.key_by(key)


def _applied(stream: DataStream, function: Any, output_type: Any) -> DataStream:
    match function:
        case ProcessFunction():
            return stream.process(function, output_type)
        case MapFunction():
            return stream.map(function, output_type)
        case FlatMapFunction():
            return stream.flat_map(function, output_type)
        case FilterFunction():
            return stream.filter(function)
        case ReduceFunction() if isinstance(stream, KeyedStream):
            return stream.reduce(function, output_type)
    raise _which(function, "OneInputHarness.of(lambda stream: stream.map(function))")


def _applied_to_two(streams: ConnectedStreams, function: Any, output_type: Any) -> DataStream:
    match function:
        case CoProcessFunction():
            return streams.process(function, output_type)
        case CoMapFunction():
            return streams.map(function, output_type)
        case CoFlatMapFunction():
            return streams.flat_map(function, output_type)
    raise _which(function, "TwoInputHarness.of(lambda one, two: one.connect(two).map(function))")


def _which(function: Any, way_out: str) -> InvalidProgramError:
    if isinstance(function, type):
        return InvalidProgramError(f"a harness runs a function, and {function.__name__} is a class: write it with ()")
    return InvalidProgramError(
        f"a harness cannot tell what {type(function).__name__} is for; say how it is applied, as in {way_out}"
    )
