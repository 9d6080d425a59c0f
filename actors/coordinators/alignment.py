"""How far the sources of one alignment group have come, and how far each may go (Flink's watermark alignment)."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable

from flinkray.types.records import MAX_TIMESTAMP, Millis, Timestamp


class WatermarkAlignment:
    """What the readers of a job have reported, by group. One for all source coordinators of a job; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reported: dict[str, dict[Hashable, Timestamp]] = defaultdict(dict)

    def report(self, group: str, reader: Hashable, watermark: Timestamp) -> None:
        """The reader's watermark; MAX_TIMESTAMP when it is idle or at its end, so that nobody waits for it."""
        with self._lock:
            self._reported[group][reader] = watermark

    def forget(self, group: str, reader: Hashable) -> None:
        """The reader is lost; until its successor reports, nobody waits for it."""
        with self._lock:
            self._reported[group].pop(reader, None)

    def limit(self, group: str, max_drift_ms: Millis) -> Timestamp:
        """A reader of the group whose watermark is above this must wait; MAX_TIMESTAMP: nobody must."""
        with self._lock:
            lowest = min(self._reported[group].values(), default=MAX_TIMESTAMP)
        return Timestamp(min(MAX_TIMESTAMP, lowest + max_drift_ms))
