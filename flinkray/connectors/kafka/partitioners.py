"""Which partition of its topic a row goes to, where neither its key nor a column says it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any


class KafkaPartitioner(ABC):
    """Chooses a partition for each row that a KafkaSink writes (Flink's KafkaPartitioner). Picklable; each subtask has
    a copy of its own, which is asked in the task's thread.
    """

    def open(self, subtask_index: int, parallelism: int) -> None:
        """Called once, before the first row, with the sink's subtask and how many of them there are."""

    @abstractmethod
    def partition(self, row: Any, key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]) -> int:
        """One of the topic's partitions.

        Args:
            row: as a row function sees it.
            key: of the message; None: it has none.
            value: of the message; None: it says that the row with that key is gone.
            partitions: all that the topic had when it was first written to, in order; never empty.
        """


class FixedPartitioner(KafkaPartitioner):
    """Each subtask writes to one partition of a topic, subtasks to different ones as far as there are so many."""

    def __init__(self) -> None:
        self._subtask = 0

    def open(self, subtask_index: int, parallelism: int) -> None:
        self._subtask = subtask_index

    def partition(self, row: Any, key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]) -> int:
        return self.of(partitions)

    def of(self, partitions: Sequence[int]) -> int:
        """The one for all rows."""
        return partitions[self._subtask % len(partitions)]
