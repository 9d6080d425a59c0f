"""State of windows goes on in the same windows: rows that were put into others are refused, not mixed with new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkray import (
    Count,
    CountEvictor,
    CountTrigger,
    DataStream,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    OutputTag,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from flinkray.errors import IncompatibleStateError
from flinkray.testing import Harness, OneInputHarness, TwoInputHarness

Build = Callable[..., DataStream]
MINUTE = TumblingEventTimeWindows.of("1 min")
SLIDING = SlidingEventTimeWindows.of("1 min", "20 s")
PURGING = PurgingTrigger.of(EventTimeTrigger.create())
LATE = OutputTag("late")


def listed(_key: Any, _context: Any, rows: Any) -> list[Any]:
    return [[row.v for row in rows]]


def joined(one: DataStream, other: DataStream, assigner: WindowAssigner) -> Any:
    return one.join(other).where("k").equal_to("k").window(assigner)


KINDS: dict[str, Callable[..., Any]] = {
    "aggregates": lambda stream, assigner: stream.key_by("k").window(assigner).aggregate(n=Count()),
    "reduce": lambda stream, assigner: (
        stream.key_by("k").window(assigner).reduce(lambda one, other: one._replace(v=one.v + other.v))
    ),
    "process": lambda stream, assigner: stream.key_by("k").window(assigner).process(listed),
    "a trigger": lambda stream, assigner: stream.key_by("k").window(assigner).trigger(PURGING).process(listed),
    "aggregates and a trigger": lambda stream, assigner: (
        stream.key_by("k").window(assigner).trigger(PURGING).aggregate(n=Count())
    ),
    "an evictor": lambda stream, assigner: (
        stream.key_by("k").window(assigner).evictor(CountEvictor.of(9)).aggregate(n=Count())
    ),
    "without keys": lambda stream, assigner: stream.window_all(assigner).aggregate(n=Count()),
    "join": lambda one, other, assigner: joined(one, other, assigner).apply(lambda a, b: (a.v, b.v)),
    "join of columns": lambda one, other, assigner: joined(one, other, assigner).apply(),
    "join with a trigger": lambda one, other, assigner: (
        joined(one, other, assigner).trigger(PURGING).apply(lambda a, b: (a.v, b.v))
    ),
}
TWO_INPUTS = frozenset(kind for kind in KINDS if kind.startswith("join"))
IN_BACKEND = [kind for kind in KINDS if "trigger" in kind or "evictor" in kind]


def harness(build: Build, inputs: int = 1, saved: bytes | None = None, backend: str = "hashmap") -> Harness:
    settings: Any = {"options": {"state.backend.type": backend}}
    if saved is not None:
        settings["restore_from"] = saved
    made: Harness = (OneInputHarness if inputs == 1 else TwoInputHarness).of(build, **settings)  # type: ignore[attr-defined]
    return made


def with_row(build: Build, inputs: int = 1, backend: str = "hashmap") -> bytes:
    with harness(build, inputs, backend=backend) as before:
        before._inputs[0].process({"k": 1, "v": 1}, 50_000)
        return before.snapshot()


@pytest.mark.parametrize(
    ("kind", "backend"), [*((kind, "hashmap") for kind in KINDS), *((kind, "rocksdb") for kind in IN_BACKEND)]
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MINUTE, TumblingEventTimeWindows.of("2 min")),
        (MINUTE, TumblingEventTimeWindows.of("1 min", "30 s")),
        (MINUTE, SlidingEventTimeWindows.of("2 min", "1 min")),
        (SlidingEventTimeWindows.of("90 s", "1 min"), MINUTE),
        (SLIDING, SlidingEventTimeWindows.of("1 min", "30 s")),
        (SLIDING, SlidingEventTimeWindows.of("2 min", "20 s")),
    ],
)
def test_windows_of_another_size_slide_offset_or_time_are_refused(
    kind: str, before: WindowAssigner, after: WindowAssigner, backend: str
) -> None:
    inputs = 2 if kind in TWO_INPUTS else 1
    saved = with_row(lambda *streams: KINDS[kind](*streams, before), inputs, backend)
    with pytest.raises(IncompatibleStateError, match=r"written for windows of \d+ ms every .* has windows of \d+ ms"):
        harness(lambda *streams: KINDS[kind](*streams, after), inputs, saved, backend)
    harness(lambda *streams: KINDS[kind](*streams, before), inputs, saved, backend).close()


@pytest.mark.parametrize("kind", KINDS)
def test_shorter_windows_of_the_same_slices_go_on_where_contents_are_kept_by_slice(kind: str) -> None:
    """Those that end after the watermark have all of their rows."""
    inputs, build = 2 if kind in TWO_INPUTS else 1, KINDS[kind]
    with harness(lambda *streams: build(*streams, SlidingEventTimeWindows.of("2 min", "1 min")), inputs) as before:
        for each in before._inputs:
            each.process({"k": 1, "v": 1}, 50_000)
            each.process({"k": 1, "v": 1}, 70_000)
            each.watermark(65_000)
        saved = before.snapshot()
    if kind not in ("aggregates", "process", "without keys", "join", "join of columns"):
        with pytest.raises(IncompatibleStateError, match=r"for windows of 120000 ms .* has windows of 60000 ms"):
            harness(lambda *streams: build(*streams, MINUTE), inputs, saved)
        return
    with harness(lambda *streams: build(*streams, MINUTE), inputs, saved) as after:
        for each in after._inputs:
            each.watermark(1_000_000)
        assert [time for _, time in after.results_with_timestamps()] == [119_999]


@pytest.mark.parametrize("kind", KINDS)
def test_windows_by_the_clock_do_not_go_on_with_those_of_event_time(kind: str) -> None:
    inputs, by_clock = 2 if kind in TWO_INPUTS else 1, TumblingProcessingTimeWindows.of("1 min")
    saved = with_row(lambda *streams: KINDS[kind](*streams, MINUTE), inputs)
    with pytest.raises(IncompatibleStateError, match=r"its state was written .*another uid"):
        harness(lambda *streams: KINDS[kind](*streams, by_clock), inputs, saved)


@pytest.mark.parametrize("kind", KINDS)
def test_windows_without_contents_may_become_others(kind: str) -> None:
    inputs = 2 if kind in TWO_INPUTS else 1
    with harness(lambda *streams: KINDS[kind](*streams, MINUTE), inputs) as before:
        saved = before.snapshot()
    wider = TumblingEventTimeWindows.of("2 min")
    with harness(lambda *streams: KINDS[kind](*streams, wider), inputs, saved) as after:
        for each in after._inputs:
            each.process({"k": 1, "v": 1}, 0)
            each.watermark(1_000_000)
        assert len(after.results()) == 1


@pytest.mark.parametrize("process", [False, True], ids=["aggregates", "functions"])
def test_windows_of_another_number_of_rows_are_refused(process: bool) -> None:
    def windows(rows: int) -> Build:
        def build(stream: DataStream) -> DataStream:
            counted = stream.key_by("k").count_window(rows)
            return counted.process(listed) if process else counted.aggregate(n=Count())

        return build

    saved = with_row(windows(3))
    with pytest.raises(IncompatibleStateError, match=r"of 3 rows .*(of 5 rows)"):
        harness(windows(5), saved=saved)


@pytest.mark.parametrize("process", [False, True], ids=["aggregates", "functions"])
def test_open_sessions_keep_their_ends_when_the_gap_changes(process: bool) -> None:
    def sessions(gap: str) -> Build:
        def build(stream: DataStream) -> DataStream:
            windows = stream.key_by("k").window(EventTimeSessionWindows.with_gap(gap))
            return windows.process(listed) if process else windows.aggregate(n=Count())

        return build

    saved = with_row(sessions("10 s"))
    with harness(sessions("1 min"), saved=saved) as after:
        (only,) = after._inputs
        only.process({"k": 1, "v": 2}, 61_000)
        only.watermark(59_999)
        assert after.results_with_timestamps()[0][1] == 59_999
        only.watermark(120_999)
        assert [time for _, time in after.results_with_timestamps()] == [59_999, 120_999]


def test_sessions_by_the_clock_do_not_go_on_with_those_of_event_time() -> None:
    saved = with_row(lambda stream: KINDS["aggregates"](stream, EventTimeSessionWindows.with_gap("1 min")))
    by_clock = ProcessingTimeSessionWindows.with_gap("1 min")
    with pytest.raises(IncompatibleStateError, match=r"sessions in event time.*sessions in processing time"):
        harness(lambda stream: KINDS["aggregates"](stream, by_clock), saved=saved)


def test_another_trigger_goes_on_with_the_rows_that_are_there() -> None:
    def fired_at(rows: int) -> Build:
        return lambda stream: (
            stream.key_by("k").window(GlobalWindows.create()).trigger(CountTrigger.of(rows)).process(listed)
        )

    with harness(fired_at(2), saved=with_row(fired_at(3))) as after:
        after._inputs[0].process({"k": 1, "v": 2}, 1)
        assert after.results() == [[1, 2]]


@pytest.mark.parametrize("kind", ["aggregates", "reduce", "process"])
def test_the_allowed_lateness_may_change(kind: str) -> None:
    def late(seconds: int) -> Build:
        def build(stream: DataStream) -> Any:
            windows = stream.key_by("k").window(MINUTE).allowed_lateness(seconds * 1_000).side_output_late_data(LATE)
            if kind == "aggregates":
                return windows.aggregate(n=Count())
            return windows.process(listed) if kind == "process" else windows.reduce(lambda one, _: one)

        return build

    with harness(late(0)) as before:
        before._inputs[0].process({"k": 1, "v": 1}, 50_000)
        before._inputs[0].process({"k": 1, "v": 1}, 70_000)
        before._inputs[0].watermark(65_000)
        saved = before.snapshot()
    with harness(late(60), saved=saved) as after:
        after._inputs[0].watermark(125_000)
        after._inputs[0].process({"k": 1, "v": 2}, 71_000)
        assert [time for _, time in after.results_with_timestamps()] == [119_999, 119_999]


def test_rows_that_were_kept_for_another_interval_are_refused() -> None:
    def within(lower: int, upper: int) -> Build:
        def build(one: DataStream, other: DataStream) -> DataStream:
            return (
                one.key_by("k")
                .interval_join(other.key_by("k"))
                .between(lower, upper)
                .process(lambda left, right, _context: [(left.v, right.v)])
            )

        return build

    saved = with_row(within(-5, 5), 2)
    with pytest.raises(IncompatibleStateError, match=r"rows that are -5 ms to 5 ms apart.*-5 ms to 60 ms apart"):
        harness(within(-5, 60), 2, saved)
    harness(within(-5, 5), 2, saved).close()
