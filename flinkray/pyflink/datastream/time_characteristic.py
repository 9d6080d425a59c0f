"""`pyflink.datastream.time_characteristic`, as it was before PyFlink 2."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeCharacteristic"]


class TimeCharacteristic(Enum):
    """Which time a program had where its operators did not say it."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
