"""Tables whose rows are asked for by key, as the right side of `FOR SYSTEM_TIME AS OF` a processing time does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct


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


FOR_EVER = 2**53
"""How many milliseconds what was found is good where it does not change."""


class LookupCache(Struct, frozen=True):
    """What a subtask remembers of a table.

    Args:
        millis: for how long what was found for a key, or not found, is good; 0: for a batch of rows.
        rows: about how many rows, or keys, are kept at most.
        idle_millis: after how long without its key what was found is forgotten before.
        keeps_missing: whether a key that had no rows is one that is known; else it is asked for again.
    """

    millis: int = 0
    rows: int = 10_000
    idle_millis: int = FOR_EVER
    keeps_missing: bool = True


class LookupTable(ABC):
    """A table that can be asked. Travels to the tasks, so it can be pickled."""

    cache = LookupCache()

    @abstractmethod
    def reader(self, keys: Sequence[str], columns: Sequence[str]) -> LookupReader:
        """What asks for rows by these columns of the table.

        Args:
            columns: those to give, in this order; the keys are among them.
        """


class RowsLookup(LookupTable):
    """Rows that do not change, looked up in memory.

    Args:
        read: gives all rows with the columns of the table; called once in each subtask, by its thread.
    """

    cache = LookupCache(FOR_EVER)

    def __init__(self, read: Callable[[], pa.Table]) -> None:
        self._read = read

    def reader(self, keys: Sequence[str], columns: Sequence[str]) -> LookupReader:
        return _RowsReader(self._read, list(keys), list(columns))


class _RowsReader(LookupReader):
    def __init__(self, read: Callable[[], pa.Table], keys: list[str], columns: list[str]) -> None:
        self._read = read
        self._keys = keys
        self._columns = columns
        self._rows: pa.Table | None = None

    def open(self, runtime_context: Any) -> None:
        rows = self._read()
        self._rows = rows.select(self._columns)
        # Alone, since values of some types cannot go through a join.
        self._numbered = rows.select(self._keys).append_column(_NUMBER, pa.array(range(rows.num_rows)))

    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        assert self._rows is not None
        asked = pa.table(keys).cast(self._numbered.schema.remove(len(self._keys)), safe=False)
        found = self._numbered.join(asked, self._keys, join_type="left semi", use_threads=False)
        return self._rows.take(found[_NUMBER])


_NUMBER = "flinkray_number"
