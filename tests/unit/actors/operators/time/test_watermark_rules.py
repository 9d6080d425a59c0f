"""Rules of event time that concern whole sources and assigners: alignment, idleness, user generators, missing times."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from actors.operators.contract.input_status import InputStatus
from actors.operators.sources.operator import SourceOperator
from actors.operators.time.timestamps import TimestampsAndWatermarksOperator, WatermarkTracker, assign_timestamps
from actors.protocol.elements import ACTIVE, IDLE, CheckpointOptions, Watermark
from actors.protocol.operator_events import ReaderRegistered, WatermarkLimited, WatermarkReported
from flinkray import DataStream, KeyedProcessFunction, KeyedStream, OutputTag, TimeDomain, TumblingEventTimeWindows
from flinkray.batches.batch import Batch
from flinkray.connectors.source import (
    Boundedness,
    ReaderStatus,
    Source,
    SourceBatch,
    SourceProgress,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import InvalidProgramError, NullTimestampError, UserFunctionError
from flinkray.testing import KeyedHarness
from flinkray.time.watermarks import WatermarkGenerator, WatermarkStrategy
from flinkray.transformations.operator_factories import SourceFactory, TimestampsAndWatermarksFactory
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from tests.support.operators import OperatorHarness, as_batch, code

LATE = OutputTag("late")
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
ALIGNED = MONOTONOUS.with_watermark_alignment("group", 10, 500)


class Reader(SourceReader):
    """Gives what the test puts into it."""

    def __init__(self, context: SourceReaderContext, can_pause: bool) -> None:
        self.context = context
        self.can_pause = can_pause
        self.items: deque[SourceBatch | SourceProgress] = deque()
        self.paused: set[str] = set()
        self.polls = 0

    def start(self) -> None: ...

    def poll(self) -> SourceBatch | SourceProgress | ReaderStatus:
        self.polls += 1
        for item in self.items:
            if item.split_id not in self.paused:
                self.items.remove(item)
                return item
        return ReaderStatus.NOTHING_AVAILABLE

    def add_splits(self, splits: Sequence[Any]) -> None: ...

    def notify_no_more_splits(self) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return []

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> bool:
        self.paused = (self.paused | set(to_pause)) - set(to_resume)
        return self.can_pause

    def close(self) -> None: ...


class Scripted(Source):
    def __init__(self, can_pause: bool = True) -> None:
        self.can_pause = can_pause
        self.readers: list[Reader] = []

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        raise AssertionError("the test stands for the coordinator")

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        self.readers.append(Reader(context, self.can_pause))
        return self.readers[-1]


class SourceHarness(OperatorHarness):
    """A source operator: rows are put into its reader, and read as a task would."""

    def __init__(self, strategy: WatermarkStrategy, can_pause: bool = True, **settings: Any) -> None:
        source = Scripted(can_pause)
        self.source_operator = SourceOperator(code(SourceFactory(source, strategy)))
        super().__init__(self.source_operator, operator_name="events", **settings)
        self.reader = source.readers[0]

    def put(self, split_id: str, *times: int) -> None:
        """One batch whose values are their times; reads all that there is."""
        self.reader.items.append(SourceBatch(as_batch(list(times), times), split_id))
        self.read()

    def say(self, split_id: str, watermark: int | None = None, is_idle: bool | None = None) -> None:
        mark = None if watermark is None else Timestamp(watermark)
        self.reader.items.append(SourceProgress(split_id, mark, is_idle))
        self.read()

    def read(self) -> None:
        while self.source_operator.emit_next() is InputStatus.MORE_AVAILABLE:
            pass

    def limit(self, highest: int) -> None:
        self.source_operator.handle_coordinator_event(WatermarkLimited(Timestamp(highest)))
        self.read()

    def reported(self) -> list[int]:
        sent, self.context.sent_to_coordinator = self.context.sent_to_coordinator, []
        return [event.watermark for event in sent if isinstance(event, WatermarkReported)]


# -- the two times


def test_rows_at_or_below_the_watermark_are_late_and_those_above_it_are_not() -> None:
    def build(stream: KeyedStream) -> DataStream:
        return stream.window(TumblingEventTimeWindows.of(1)).side_output_late_data(LATE).reduce(max)

    with KeyedHarness.of(build, key=lambda _value: 0) as harness:
        harness.watermark(5)
        harness.process_batch([4, 5, 6], timestamps=[4, 5, 6])
        harness.end_input()
        assert (harness.side_output(LATE), harness.results()) == ([4, 5], [6])


class BothTimes(KeyedProcessFunction):
    def process_element(self, value: int, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(value)
        ctx.timer_service().register_processing_time_timer(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
        yield ctx.time_domain(), timestamp


def test_event_time_goes_by_watermarks_and_processing_time_by_the_clock() -> None:
    with KeyedHarness(BothTimes(), key=lambda value: value) as harness:
        harness.process(100)
        harness.watermark(100)
        assert harness.results() == [(TimeDomain.EVENT_TIME, 100)]
        harness.clear_output()
        harness.advance_time(100)
        assert harness.results() == [(TimeDomain.PROCESSING_TIME, 100)]


# -- alignment of splits


def test_a_split_that_is_ahead_of_its_group_is_paused_and_resumed_while_others_are_read_on() -> None:
    source = SourceHarness(ALIGNED)
    source.put("fast", 100)
    source.put("slow", 20)
    source.advance(200)
    source.limit(30)
    assert source.reader.paused == {"fast"}
    source.put("fast", 101)
    source.put("slow", 25)
    assert source.output.rows == [100, 20, 25]
    source.limit(99)
    assert source.reader.paused == set()
    assert source.output.rows == [100, 20, 25, 101]


def test_a_split_is_paused_as_soon_as_it_is_ahead_not_only_at_the_next_limit() -> None:
    source = SourceHarness(ALIGNED)
    source.put("a", 10)
    source.put("b", 10)
    source.limit(30)
    source.put("a", 50)
    assert source.reader.paused == set()
    source.advance(200)
    assert source.reader.paused == {"a"}


def test_a_single_split_is_not_paused_the_source_itself_waits() -> None:
    source = SourceHarness(ALIGNED)
    source.put("a", 100)
    source.advance(200)
    source.limit(30)
    polls = source.reader.polls
    source.put("a", 101)
    assert (source.reader.paused, source.reader.polls) == (set(), polls)
    source.limit(99)
    assert source.output.rows == [100, 101]


def test_the_split_that_is_left_is_resumed_when_the_slow_one_ends() -> None:
    source = SourceHarness(ALIGNED)
    source.put("a", 100)
    source.put("b", 10)
    source.advance(200)
    source.limit(30)
    assert source.reader.paused == {"a"}
    source.reader.context.split_finished("b")
    source.read()
    source.advance(200)
    assert source.reader.paused == set()


def test_a_paused_split_or_source_does_not_turn_idle() -> None:
    source = SourceHarness(ALIGNED.with_idleness(400))
    source.put("a", 100)
    source.put("b", 100)
    source.advance(200)
    source.limit(30)
    source.advance(10_000)
    assert IDLE not in source.output.elements
    source.limit(200)
    source.advance(10_000)
    assert source.output.elements[-1] == IDLE


def test_a_reader_that_cannot_hold_splits_back_is_an_error_unless_that_is_allowed() -> None:
    source = SourceHarness(ALIGNED, can_pause=False)
    allowed = SourceHarness(ALIGNED, can_pause=False, allows_unaligned_splits=True)
    for each in (source, allowed):
        each.put("a", 100)
        each.put("b", 10)
        each.advance(200)
    with pytest.raises(InvalidProgramError, match=r"'events \(1/1\)': Reader .*allow-unaligned-source-splits: true"):
        source.limit(30)
    allowed.limit(30)


def test_a_source_reports_its_watermark_nothing_before_it_has_one_and_the_end_of_time_while_idle() -> None:
    source = SourceHarness(ALIGNED.with_idleness(1_000))
    assert isinstance(source.context.sent_to_coordinator[0], ReaderRegistered)
    source.advance(500)
    assert source.reported() == [MAX_TIMESTAMP], "without splits nobody waits for it"
    source.put("a", 100)
    source.advance(100)
    assert source.reported() == []
    source.advance(400)
    assert source.reported() == [99]
    source.advance(2_000)
    assert source.reported()[-1] == MAX_TIMESTAMP


def test_a_source_with_splits_and_no_watermark_reports_nothing() -> None:
    source = SourceHarness(WatermarkStrategy.no_watermarks().with_watermark_alignment("group", 10, 500))
    source.put("a", 100)
    source.advance(5_000)
    assert source.reported() == []


# -- what the source itself says


def test_watermarks_of_the_source_itself_count_per_split_beside_those_of_the_strategy() -> None:
    source = SourceHarness(MONOTONOUS)
    source.put("a", 50)
    source.put("b", 10)
    source.say("b", watermark=30)
    assert source.output.watermarks == []
    source.advance(200)
    assert source.output.watermarks == [30]
    source.say("b", watermark=20)
    source.say("b", watermark=70)
    assert source.output.watermarks == [30, 49]


def test_a_source_says_that_it_is_idle_until_a_row_or_a_watermark_comes() -> None:
    source = SourceHarness(WatermarkStrategy.no_watermarks())
    source.say("a", watermark=5)
    source.say("a", is_idle=True)
    source.advance(1_000)
    source.say("a", is_idle=True)
    source.say("a", watermark=7)
    source.say("a", is_idle=True)
    source.put("a", 9)
    source.say("a", is_idle=True)
    source.say("a", is_idle=False)
    plain = [element for element in source.output.elements if not isinstance(element, Batch)]
    assert plain == [Watermark(Timestamp(5)), IDLE, ACTIVE, Watermark(Timestamp(7)), IDLE, ACTIVE, IDLE, ACTIVE]


# -- idleness


def test_time_without_room_at_the_output_does_not_make_a_source_idle() -> None:
    source = SourceHarness(MONOTONOUS.with_idleness(1_000))
    source.put("a", 5)
    for _ in range(50):
        source.context.backpressured_ms += 200
        source.advance(200)
    assert IDLE not in source.output.elements
    source.advance(1_600)
    assert source.output.elements[-1] == IDLE


def test_time_in_which_the_operators_behind_are_at_work_does_not_make_a_split_idle() -> None:
    source = SourceHarness(MONOTONOUS.with_idleness(300))
    output = source.output
    emit, is_slow = output.emit, True

    def emit_slowly(batch: Batch) -> None:
        """As a function that is chained to the source, and has the task's mails run while it waits."""
        emit(batch)
        for _ in range(4 if is_slow else 0):
            source.advance(200)

    output.emit = emit_slowly  # type: ignore[method-assign]
    source.put("b", 1)
    for time in range(1_000, 9_000, 1_000):
        source.put("a", time)
        source.advance(10)
    source.put("b", 500)
    assert output.watermarks == [0, 499], "b held the watermark, though none of its rows were read for six seconds"
    is_slow = False
    for time in range(9_000, 13_000, 1_000):
        source.put("a", time)
        source.advance(200)
    assert output.watermarks[-1] > 499, "a split without rows is left out all the same, once others are read in time"


def assigner(strategy: WatermarkStrategy) -> OperatorHarness:
    operator = TimestampsAndWatermarksOperator(code(TimestampsAndWatermarksFactory(strategy)))
    return OperatorHarness(operator, operator_name="assign")


def test_time_without_room_at_the_output_does_not_make_an_assigner_idle() -> None:
    harness = assigner(MONOTONOUS.with_timestamp_assigner("t").with_idleness(1_000))
    harness.push({"t": [5]})
    for _ in range(50):
        harness.context.backpressured_ms += 200
        harness.advance(200)
    assert IDLE not in harness.output.elements
    harness.advance(1_600)
    assert harness.output.elements[-1] == IDLE


def test_time_in_which_the_operators_behind_are_at_work_does_not_make_an_assigner_idle() -> None:
    harness = assigner(MONOTONOUS.with_timestamp_assigner("t").with_idleness(300))
    output = harness.output
    emit = output.emit

    def emit_slowly(batch: Batch) -> None:
        emit(batch)
        for _ in range(4):
            harness.advance(200)

    output.emit = emit_slowly  # type: ignore[method-assign]
    for time in (5, 6):
        harness.push({"t": [time]})
    assert IDLE not in output.elements, "the second row waited, and is late behind inputs that went on"
    harness.advance(200)
    harness.advance(400)
    assert output.elements[-1] == IDLE


# -- generators of users


class AtMarkers(WatermarkGenerator):
    """A punctuated generator: event time has reached what a marker row says."""

    def on_batch(self, batch: Batch, timestamps: pa.Array) -> Timestamp | None:
        is_marker = pc.equal(batch.data.column("kind"), "marker")
        highest = pc.max(timestamps.filter(is_marker)).as_py()
        return None if highest is None else Timestamp(highest)

    def on_periodic_emit(self) -> Timestamp | None:
        return None


def test_a_punctuated_generator_gives_watermarks_at_special_rows_only() -> None:
    harness = assigner(WatermarkStrategy.for_generator(AtMarkers).with_timestamp_assigner("t"))
    harness.push({"t": [5, 9], "kind": ["row", "row"]})
    harness.advance(1_000)
    assert harness.output.watermarks == []
    harness.push({"t": [12, 7], "kind": ["row", "marker"]})
    assert harness.output.watermarks == [7]


class Failing(WatermarkGenerator):
    def __init__(self, where: str) -> None:
        if where == "__init__":
            raise ValueError("a bad start")
        self.where = where

    def on_batch(self, batch: Batch, timestamps: pa.Array) -> Timestamp | None:
        if self.where == "on_batch":
            raise ValueError("a bad batch")
        return None

    def on_periodic_emit(self) -> Timestamp | None:
        raise ValueError("a bad time")


@pytest.mark.parametrize(
    ("where", "message"),
    [("__init__", "a bad start"), ("on_batch", "a bad batch"), ("on_periodic_emit", "a bad time")],
)
def test_an_error_of_a_users_generator_names_the_operator_and_shows_the_users_line(where: str, message: str) -> None:
    strategy = WatermarkStrategy.for_generator(lambda: Failing(where))

    def drive() -> None:
        harness = assigner(strategy.with_timestamp_assigner("t"))
        harness.push({"t": [5]})
        harness.advance(200)

    def drive_source() -> None:
        source = SourceHarness(strategy)
        source.put("a", 5)
        source.advance(200)

    for driven, name in ((drive, "assign"), (drive_source, "events")):
        with pytest.raises(UserFunctionError, match=rf"'{name}.*ValueError: {message}") as caught:
            driven()
        assert f'raise ValueError("{message}")' in str(caught.value)


# -- rows without event time


def test_a_row_without_event_time_is_an_error_where_no_assigner_gives_it_one() -> None:
    harness = assigner(MONOTONOUS)
    with pytest.raises(NullTimestampError, match=r"'assign \(1/1\)': the operator before it .* row 1 "):
        harness.push([7, 8], timestamps=[1, None])  # type: ignore[list-item]


def test_an_assigner_function_sees_the_minimum_for_a_row_without_event_time() -> None:
    batch = as_batch([7, 8], timestamps=[1, None])  # type: ignore[list-item]
    assert assign_timestamps(batch, lambda _value, time: max(time, 0), "test").to_pylist() == [1, 0]
    assert assign_timestamps(batch, lambda _value, time: time, "test").to_pylist() == [1, MIN_TIMESTAMP]


# -- snapshots of what the source said


def test_a_watermark_of_the_source_itself_is_in_the_snapshot() -> None:
    tracker = WatermarkTracker(MONOTONOUS)
    tracker.on_source(Timestamp(40), None)
    after = WatermarkTracker(MONOTONOUS)
    after.restore(tracker.snapshot())
    assert after.watermark == 40


def test_a_snapshot_can_be_taken_while_splits_are_paused() -> None:
    source = SourceHarness(ALIGNED)
    source.put("a", 100)
    source.put("b", 10)
    source.advance(200)
    source.limit(30)
    assert source.operator.snapshot_state(1, CheckpointOptions()) is not None
