"""Writes data files, which the committer adds to the table once their checkpoint is complete."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.connectors.files.storage import storing
from flinkray.connectors.lake.columns import fitted, new_columns, storable
from flinkray.connectors.lake.commits import LakeFiles
from flinkray.connectors.sink import SinkWriter
from flinkray.errors import TypeMismatchError
from flinkray.types.records import Kind

_MOST_OPEN = 64
"""The most files that a subtask writes at a time, one per partition, each with a row group in memory."""


class OpenDataFile(ABC):
    """A data file that is being written."""

    @abstractmethod
    def write(self, rows: pa.RecordBatch) -> None: ...

    @abstractmethod
    def size(self) -> int:
        """Its bytes so far, with those that wait in memory."""

    @abstractmethod
    def finish(self) -> Any:
        """Ends it; gives what the committer adds to the table."""

    @abstractmethod
    def abandon(self) -> None:
        """Closes and deletes it."""


class WrittenTable(ABC):
    """A table as one subtask writes it."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns that rows have to have, exactly."""

    @abstractmethod
    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Adds columns to the table, unless another subtask was faster; `schema` has them then.

        Raises:
            TypeMismatchError: another has added one of another type, or the table cannot hold it.
        """

    @abstractmethod
    def by_partition(self, rows: pa.RecordBatch) -> Iterator[tuple[Hashable, pa.RecordBatch]]:
        """The rows of each partition, as a file of it has them."""

    @abstractmethod
    def new_file(self, partition: Any) -> OpenDataFile:
        """Begins a file for a partition that `by_partition` gave."""

    @abstractmethod
    def delete(self, file: Any) -> None:
        """Deletes a file that `finish` gave, and that no checkpoint has."""

    @abstractmethod
    def close(self) -> None: ...


class LakeWriter(SinkWriter):
    """Writes the files of one subtask: new ones for each checkpoint and partition, and where one is large enough.

    Args:
        sink_id: of the sink in one submission of a job: by it a table knows what it has.
        adds_columns: whether columns of rows that the table has not are added to it.
        where: operator, subtask and table, for errors.
    """

    def __init__(self, table: WrittenTable, sink_id: str, part_size: int, adds_columns: bool, where: str) -> None:
        self._table = table
        self._sink_id = sink_id
        self._part_size = part_size
        self._adds_columns = adds_columns
        self._where = where
        self._open: dict[Hashable, OpenDataFile] = {}
        """By partition; the one that was written to last comes last."""
        self._complete: list[Any] = []

    def write(self, batch: Batch) -> None:
        if batch.kind is Kind.OBJECT:
            raise TypeMismatchError(
                f"{self._where}: tables have columns, and these rows are Python objects; map them to rows, tuples or "
                "numbers first"
            )
        with storing(f"{self._where}: a file cannot be written"):
            if self._adds_columns and (added := new_columns(batch.data.schema, self._table.schema)):
                self._finish_all()
                self._table.add_columns(list(storable(added)))
            rows = fitted(batch.data, self._table.schema, self._where)
            for partition, part in self._table.by_partition(rows):
                self._write(partition, part)

    def prepare_commit(self, checkpoint_id: int) -> list[LakeFiles]:
        with storing(f"{self._where}: a file cannot be ended"):
            self._finish_all()
        files, self._complete = tuple(self._complete), []
        return [LakeFiles(self._sink_id, files)] if files else []

    def close(self) -> None:
        """Deletes what no checkpoint has: a restarted task writes it again."""
        open_files, self._open = list(self._open.values()), {}
        try:
            for each in open_files:
                with contextlib.suppress(Exception):  # what is given up need not be whole
                    each.abandon()
            for file in self._complete:
                self._table.delete(file)
        finally:
            self._table.close()

    def _write(self, partition: Hashable, rows: pa.RecordBatch) -> None:
        file = self._open.pop(partition, None)
        if file is None:
            if len(self._open) == _MOST_OPEN:
                self._finish(next(iter(self._open)))
            file = self._table.new_file(partition)
        self._open[partition] = file
        file.write(rows)
        if file.size() >= self._part_size:
            self._finish(partition)

    def _finish_all(self) -> None:
        for partition in list(self._open):
            self._finish(partition)

    def _finish(self, partition: Hashable) -> None:
        self._complete.append(self._open[partition].finish())
        del self._open[partition]
