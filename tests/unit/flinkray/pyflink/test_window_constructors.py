"""PyFlink's constructors of assigners and triggers, by position and by keyword, make what the `of` methods make."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from flinkray.pyflink.datastream import window as w


def half(element: int) -> int:
    return element // 2


CASES: list[tuple[Any, Any]] = [
    (w.TumblingEventTimeWindows(60_000, 10_000), w.TumblingEventTimeWindows.of(60_000, 10_000)),
    (w.TumblingEventTimeWindows(size=60_000, offset=-5), w.TumblingEventTimeWindows.of(60_000, -5)),
    (w.TumblingProcessingTimeWindows(60_000, 10_000), w.TumblingProcessingTimeWindows.of(60_000, 10_000)),
    (w.SlidingEventTimeWindows(60_000, 30_000, 7), w.SlidingEventTimeWindows.of(60_000, 30_000, 7)),
    (w.SlidingEventTimeWindows(size=60_000, slide=30_000, offset=7), w.SlidingEventTimeWindows.of(60_000, 30_000, 7)),
    (w.SlidingProcessingTimeWindows(60, 30, 0), w.SlidingProcessingTimeWindows.of(60, 30)),
    (w.EventTimeSessionWindows(5_000), w.EventTimeSessionWindows.with_gap(5_000)),
    (w.ProcessingTimeSessionWindows(session_gap=5_000), w.ProcessingTimeSessionWindows.with_gap(5_000)),
    (w.DynamicEventTimeSessionWindows(half), w.EventTimeSessionWindows.with_dynamic_gap(half)),
    (
        w.DynamicProcessingTimeSessionWindows(session_window_time_gap_extractor=half),
        w.ProcessingTimeSessionWindows.with_dynamic_gap(half),
    ),
    (w.CountTumblingWindowAssigner(2), w.CountTumblingWindowAssigner.of(2)),
    (w.CountTumblingWindowAssigner(window_size=2), w.CountTumblingWindowAssigner.of(2)),
    (w.CountSlidingWindowAssigner(4, 2), w.CountSlidingWindowAssigner.of(4, 2)),
    (w.CountSlidingWindowAssigner(window_size=4, window_slide=2), w.CountSlidingWindowAssigner.of(4, 2)),
    (w.GlobalWindows(), w.GlobalWindows.create()),
    (w.EventTimeTrigger(), w.EventTimeTrigger.create()),
    (w.ProcessingTimeTrigger(), w.ProcessingTimeTrigger.create()),
    (w.ContinuousEventTimeTrigger(interval=10), w.ContinuousEventTimeTrigger.of(10)),
    (w.ContinuousProcessingTimeTrigger(10), w.ContinuousProcessingTimeTrigger.of(10)),
    (w.CountTrigger(window_size=3), w.CountTrigger.of(3)),
    (w.PurgingTrigger(nested_trigger=w.CountTrigger(3)), w.PurgingTrigger.of(w.CountTrigger.of(3))),
]


@pytest.mark.parametrize(("made", "expected"), CASES)
def test_a_constructor_makes_what_the_method_of_the_class_makes(made: Any, expected: Any) -> None:
    assert made == expected
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: w.TumblingEventTimeWindows(60, 60), "the offset .60 ms. must be smaller than the size .60 ms."),
        (lambda: w.TumblingEventTimeWindows(0, 0), "size and slide must be positive"),
        (lambda: w.SlidingEventTimeWindows(60, 30, 30), "must be smaller than the slide"),
        (lambda: w.EventTimeSessionWindows(0), "the gap of a session must be positive, got 0"),
        (lambda: w.CountTumblingWindowAssigner(0), "count windows need a positive size"),
        (lambda: w.CountTrigger(0), "a count trigger needs a positive number of rows, got 0"),
        (lambda: w.ContinuousEventTimeTrigger(0), "the interval of a trigger must be positive, got 0"),
    ],
)
def test_a_constructor_refuses_what_the_method_of_the_class_refuses(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
