"""`Time`, `Duration` and `Instant`: PyFlink's ways of making lengths and points of time.

A Time is a number of milliseconds and a Duration a timedelta, and both go wherever a length of time is taken.
"""

from __future__ import annotations

import datetime
from datetime import timedelta

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Time(int):
    """`Time.seconds(5)` and so on (PyFlink's Time): whole milliseconds."""

    def to_milliseconds(self) -> int:
        """The same as a plain int."""
        return int(self)

    def __str__(self) -> str:
        return f"{int(self)} ms"

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """So many milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """So many seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """So many minutes."""
        return Time.seconds(minutes * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        """So many hours."""
        return Time.minutes(hours * 60)

    @staticmethod
    def days(days: int) -> Time:
        """So many days of 24 hours."""
        return Time.hours(days * 24)


class Duration:
    """`Duration.of_seconds(5)` and so on (PyFlink's Duration); nanoseconds are cut to whole microseconds."""

    @staticmethod
    def of_nanos(nanos: int) -> timedelta:
        """So many nanoseconds, cut to whole microseconds."""
        return timedelta(microseconds=nanos // 1000)

    @staticmethod
    def of_millis(millis: int) -> timedelta:
        """So many milliseconds."""
        return timedelta(milliseconds=millis)

    @staticmethod
    def of_seconds(seconds: int) -> timedelta:
        """So many seconds."""
        return timedelta(seconds=seconds)

    @staticmethod
    def of_minutes(minutes: int) -> timedelta:
        """So many minutes."""
        return timedelta(minutes=minutes)

    @staticmethod
    def of_hours(hours: int) -> timedelta:
        """So many hours."""
        return timedelta(hours=hours)

    @staticmethod
    def of_days(days: int) -> timedelta:
        """So many days of 24 hours."""
        return timedelta(days=days)


class Instant:
    """Makes points of time (PyFlink's Instant): aware datetimes in UTC, which is what a column INSTANT has."""

    def __new__(cls, seconds: int, nanos: int = 0) -> datetime.datetime:  # type: ignore[misc]
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> datetime.datetime:
        """The point of time so many milliseconds after the epoch."""
        return _EPOCH + timedelta(milliseconds=epoch_milli)

    @staticmethod
    def to_epoch_milli(instant: datetime.datetime) -> int:
        """Milliseconds from the epoch to that point of time."""
        return (instant - _EPOCH) // timedelta(milliseconds=1)
