"""What hosts share whose endpoints all live in one process: batches by reference, and metrics in memory."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence

from actors.protocol.ports import BatchesRef
from flinkray.batches.batch import Batch


class InProcessBatches:
    """A reference to batches that are in this process: it holds the batches themselves (a BatchesRef)."""

    __slots__ = ("__weakref__", "batches")

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = batches


class InProcessObjectStore:
    """An ObjectStore that shares batches as they are, without copies."""

    def put(self, batches: Sequence[Batch]) -> InProcessBatches:
        return InProcessBatches(batches)


class InProcessPayloads:
    """The batches that a message's references stand for (its Payloads)."""

    def __init__(self, refs: Sequence[BatchesRef]) -> None:
        self._refs = refs

    def __len__(self) -> int:
        return len(self._refs)

    def __getitem__(self, index: int) -> Sequence[Batch]:
        ref = self._refs[index]
        assert isinstance(ref, InProcessBatches)
        return ref.batches


class InProcessMetrics:
    """A MetricSink that keeps the last value of each gauge and the sum of each counter, by name and tags. Any
    thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)

    def count(self, name: str, increase: float, tags: dict[str, str]) -> None:
        with self._lock:
            self._values[name, tuple(sorted(tags.items()))] += increase

    def gauge(self, name: str, value: float, tags: dict[str, str]) -> None:
        with self._lock:
            self._values[name, tuple(sorted(tags.items()))] = value

    def values(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """A copy of all values."""
        with self._lock:
            return dict(self._values)
