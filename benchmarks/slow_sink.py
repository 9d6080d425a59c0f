"""A sink that holds its job up."""

from __future__ import annotations

import time
from typing import Any

from flinkray import Batch, Sink, SinkWriter


class SlowSink(Sink):
    """Sleeps for every batch, and keeps none."""

    def __init__(self, seconds_per_batch: float) -> None:
        self._seconds_per_batch = seconds_per_batch

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return _SlowWriter(self._seconds_per_batch)


class _SlowWriter(SinkWriter):
    """Sleeps for every batch."""

    def __init__(self, seconds_per_batch: float) -> None:
        self._seconds_per_batch = seconds_per_batch

    def write(self, batch: Batch) -> None:
        time.sleep(self._seconds_per_batch)

    def close(self) -> None: ...
