"""Time zones: which there are, and event time as clocks show it."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import pytest

from flinkray.time.zone_names import is_time_zone
from flinkray.time.zones import millis_ahead, to_instant_millis, to_local_millis

HOUR = 3_600_000
CHANGES = {"America/New_York": (1710054000000, 1730613600000), "Australia/Lord_Howe": (1728142200000, 1712415600000)}
"""The instants at which clocks go on and back, in 2024."""


def test_zones_are_named_as_in_flink() -> None:
    right = ("UTC", "GMT", "America/New_York", "Asia/Kolkata", "GMT-08:00", "GMT+18:00")
    wrong = ("", "Mars/Oslo", "UTC+8", "+08:00", "GMT-8", "GMT+19:00", "GMT+18:30", "EST", "../UTC", "local time")
    assert [name for name in right if not is_time_zone(name)] == []
    assert [name for name in wrong if is_time_zone(name)] == []


def shown(instant: int, zone: str) -> int:
    """What clocks show, by Python's own time zones."""
    at = dt.datetime.fromtimestamp(instant / 1000, zoneinfo.ZoneInfo(zone))
    return round(at.replace(tzinfo=dt.UTC).timestamp() * 1000)


@pytest.mark.parametrize("zone", CHANGES)
def test_local_event_time_never_goes_back_and_waits_for_what_clocks_show_twice(zone: str) -> None:
    step = HOUR // 12
    for change in CHANGES[zone]:
        instants = range(change - 3 * HOUR, change + 3 * HOUR, step)
        local = [to_local_millis(each, zone) for each in instants]
        assert local == sorted(local)
        for place, (instant, reached) in enumerate(zip(instants, local, strict=True)):
            later = [shown(each, zone) for each in instants[place + 1 :]]
            assert reached == min([shown(instant, zone), *(each - 1 for each in later)])
            # Back again it is no later than it was: what is said to be over is.
            assert to_instant_millis(reached, zone) <= instant


def test_the_instant_of_a_time_that_clocks_never_show_is_the_end_of_the_gap() -> None:
    on, back = CHANGES["America/New_York"]
    assert to_instant_millis(on - 5 * HOUR + HOUR // 2, "America/New_York") == on
    assert to_instant_millis(back - 5 * HOUR + HOUR // 2, "America/New_York") == back + HOUR // 2
    assert to_instant_millis(0, "GMT-08:00") == 8 * HOUR
    assert to_local_millis(0, "GMT-08:00") == -8 * HOUR


def test_clocks_are_ahead_by_the_same_apart_from_whole_steps_where_summer_time_moves_them_by_such() -> None:
    ahead = {
        ("UTC", 24 * HOUR): 0,
        ("GMT-08:00", 24 * HOUR): 16 * HOUR,
        ("Asia/Kolkata", 24 * HOUR): 11 * HOUR // 2,
        ("Asia/Kolkata", HOUR): HOUR // 2,
        ("America/New_York", HOUR): 0,
        ("America/New_York", 2 * HOUR): None,
        ("Australia/Lord_Howe", HOUR // 2): 0,
        ("Australia/Lord_Howe", HOUR): None,
        ("Africa/Casablanca", 2 * HOUR): None,
    }
    assert {each: millis_ahead(*each) for each in ahead} == ahead
