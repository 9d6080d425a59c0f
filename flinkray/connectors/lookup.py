"""Tables whose rows are asked for by key, as the right side of `FOR SYSTEM_TIME AS OF` a processing time does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa


class LookupReader(ABC):
    """Asks a table in one subtask. The task's thread calls all of it, and waits."""

    def open(self, runtime_context: Any) -> None:
        """Called once, before anything is asked."""

    @abstractmethod
    def lookup(self, keys: pa.RecordBatch) -> pa.Table | pa.RecordBatch:
        """All rows that have one of these keys, in any order, with the columns that were asked for.

        Args:
            keys: distinct ones without NULL, in columns by the names of the table.
        """

    def close(self) -> None:
        """Called once, also where the job failed."""


class LookupTable(ABC):
    """A table that can be asked. Travels to the tasks, so it can be pickled.

    `cache_ms` says for how long what was found, or not found, is good; 0: for a batch of rows. A subtask keeps about
    `cache_rows` rows at most.
    """

    cache_ms: int = 0
    cache_rows: int = 10_000

    @abstractmethod
    def reader(self, keys: Sequence[str], columns: Sequence[str]) -> LookupReader:
        """What asks for rows by these columns of the table.

        Args:
            columns: those to give, in this order; the keys are among them.
        """
