"""`Time` and `Duration`: PyFlink's ways of making a length of time. They give a timedelta."""

from __future__ import annotations

from datetime import timedelta


class Time:
    """`Time.seconds(5)` and so on (PyFlink's Time)."""

    @staticmethod
    def milliseconds(milliseconds: int) -> timedelta:
        return timedelta(milliseconds=milliseconds)

    @staticmethod
    def seconds(seconds: int) -> timedelta:
        return timedelta(seconds=seconds)

    @staticmethod
    def minutes(minutes: int) -> timedelta:
        return timedelta(minutes=minutes)

    @staticmethod
    def hours(hours: int) -> timedelta:
        return timedelta(hours=hours)

    @staticmethod
    def days(days: int) -> timedelta:
        return timedelta(days=days)


class Duration:
    """`Duration.of_seconds(5)` and so on (PyFlink's Duration)."""

    @staticmethod
    def of_millis(millis: int) -> timedelta:
        return timedelta(milliseconds=millis)

    @staticmethod
    def of_seconds(seconds: int) -> timedelta:
        return timedelta(seconds=seconds)

    @staticmethod
    def of_minutes(minutes: int) -> timedelta:
        return timedelta(minutes=minutes)

    @staticmethod
    def of_hours(hours: int) -> timedelta:
        return timedelta(hours=hours)

    @staticmethod
    def of_days(days: int) -> timedelta:
        return timedelta(days=days)
