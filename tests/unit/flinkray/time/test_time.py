"""Watermark strategies, window assigners and durations."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from flinkray import SlidingEventTimeWindows, Time, TumblingEventTimeWindows, WatermarkStrategy, Window
from flinkray.time.durations import to_millis
from flinkray.time.watermarks import WatermarkGenerator
from flinkray.types.records import MIN_TIMESTAMP
from tests.support.api import batch_of


def generator(strategy: WatermarkStrategy) -> WatermarkGenerator:
    assert strategy.generator is not None
    return strategy.generator()


def watermark_after(strategy: WatermarkStrategy, *timestamps: int) -> int | None:
    made = generator(strategy)
    assert made.on_batch(batch_of(*timestamps), pa.array(timestamps, pa.int64())) is None
    return made.on_periodic_emit()


def test_the_watermark_is_the_highest_time_minus_the_bound_minus_one() -> None:
    assert watermark_after(WatermarkStrategy.for_bounded_out_of_orderness(5), 10, 30, 20) == 24
    assert watermark_after(WatermarkStrategy.for_monotonous_timestamps(), 10, 30, 20) == 29


def test_there_is_no_watermark_before_any_row() -> None:
    assert generator(WatermarkStrategy.for_bounded_out_of_orderness(5)).on_periodic_emit() is None
    assert WatermarkStrategy.no_watermarks().generator is None


def test_the_watermark_never_goes_back_when_later_rows_are_older() -> None:
    made = generator(WatermarkStrategy.for_monotonous_timestamps())
    for times in ([50], [20, 30]):
        made.on_batch(batch_of(*times), pa.array(times, pa.int64()))
        assert made.on_periodic_emit() == 49


def test_the_watermark_stops_at_the_smallest_time() -> None:
    assert watermark_after(WatermarkStrategy.for_bounded_out_of_orderness(5), MIN_TIMESTAMP + 3) == MIN_TIMESTAMP


def test_each_split_has_a_generator_of_its_own() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    assert generator(strategy) is not generator(strategy)


def test_a_strategy_is_extended_by_copies_and_pickles() -> None:
    plain = WatermarkStrategy.for_bounded_out_of_orderness("5 s")
    full = plain.with_timestamp_assigner("at").with_idleness("1 min").with_watermark_alignment("group", 100)
    assert plain.assigner is None
    assert (full.assigner, full.idle_timeout_ms, full.alignment_group) == ("at", 60_000, "group")
    assert (full.alignment_max_drift_ms, full.alignment_update_interval_ms) == (100, 1000)
    assert pickle.loads(pickle.dumps(full)) == full


# -- windows


def test_the_end_of_a_window_is_excluded() -> None:
    assert Window(0, 10).max_timestamp() == 9


def test_assigners_take_durations_of_any_kind() -> None:
    for size in (10_000, "10 s", timedelta(seconds=10), Time.seconds(10)):
        assert TumblingEventTimeWindows.of(size) == TumblingEventTimeWindows.of(10_000)
    assert SlidingEventTimeWindows.of("1 min", "10 s", "1 s").offset_ms == 1000
    assert TumblingEventTimeWindows.of("1 h", -900_000).offset_ms == -900_000


@pytest.mark.parametrize("offset", [9, -9, 0])
def test_an_offset_may_be_anything_below_the_slide(offset: int) -> None:
    assert SlidingEventTimeWindows.of(100, 10, offset).offset_ms == offset


@pytest.mark.parametrize("offset", [10, 11, -10, 99])
def test_an_offset_must_be_smaller_than_the_slide_even_where_it_is_smaller_than_the_size(offset: int) -> None:
    with pytest.raises(ValueError, match=r"smaller than the slide \(10 ms\)"):
        SlidingEventTimeWindows.of(100, 10, offset)
    with pytest.raises(ValueError, match=r"smaller than the size \(10 ms\)"):
        TumblingEventTimeWindows.of(10, offset)


def test_a_window_has_a_length() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        TumblingEventTimeWindows.of(0)
    with pytest.raises(ValueError, match="must be positive"):
        SlidingEventTimeWindows.of(10, 0)


# -- durations


@pytest.mark.parametrize(
    ("duration", "millis"),
    [
        (0, 0),
        (7, 7),
        (timedelta(minutes=2), 120_000),
        ("250 ms", 250),
        ("1.5 s", 1500),
        ("2min", 120_000),
        ("1 hour", 3_600_000),
        ("2 days", 172_800_000),
        (" 10 S ", 10_000),
        ("12", 12),
    ],
)
def test_a_duration_in_any_form_is_whole_milliseconds(duration: Any, millis: int) -> None:
    assert to_millis(duration) == millis


@pytest.mark.parametrize("duration", [-1, timedelta(microseconds=1), "1.5 ms", "10 parsecs", "soon", ""])
def test_what_is_no_duration_names_the_argument(duration: Any) -> None:
    with pytest.raises(ValueError, match=r"^gap"):
        to_millis(duration, "gap")


@pytest.mark.parametrize("duration", [True, 1.5, None])
def test_what_is_of_no_type_for_durations_names_the_argument(duration: Any) -> None:
    with pytest.raises(TypeError, match=r"^gap is a duration"):
        to_millis(duration, "gap")
