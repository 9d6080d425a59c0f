"""Tables of Delta Lake as a sink."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from flinkray.connectors.committer import Committer
from flinkray.connectors.delta.commits import DeltaCommitter
from flinkray.connectors.delta.data_files import WrittenDeltaTable
from flinkray.connectors.delta.tables import check_writable, columns_of, create_table, open_table, place_of
from flinkray.connectors.lake.sink import LakeSink
from flinkray.connectors.lake.writer import WrittenTable
from flinkray.connectors.sink import SinkWriterContext
from flinkray.errors import InvalidProgramError


class DeltaSink(LakeSink):
    """Rows into a table of Delta Lake, exactly once: one commit to the table per checkpoint. Comes with
    `flinkray[delta]`.

    Each subtask writes Parquet files of its own, new ones for each checkpoint and partition. When the checkpoint is
    complete, one committer adds the files of all to the table, under a transaction identifier by which a second attempt
    knows that it need not. A commit that conflicts with another writer's is tried again.

    Rows are added, never changed: a changelog is refused. Columns are found by name, and cast where nothing is lost.
    What lost tasks had written is in no version of the table; the table's vacuum deletes it.

    Args:
        table: a local path or a URI ("s3://bucket/orders").
        schema: creates the table, where there is none, with these columns, as `output_type=`; None: it has to be there.
        partition_by: columns by which it is created.
        storage_options: keys, regions and the like, as the package deltalake takes them; shown nowhere.
        add_columns: columns that rows have and the table has not are added to it; else they are an error. They are
            there as soon as such rows come, and null until these are committed.
        part_size: in bytes: a file ends after the batch that makes it as large. Rows that wait for their row group
            count as what they take in memory.
        compact_after: after so many commits the committer makes large files of small ones, which holds the next commit
            back meanwhile; None: somebody else does that (the table's optimize).
    """

    def __init__(
        self,
        table: str | os.PathLike[str],
        schema: Any = None,
        partition_by: Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
        add_columns: bool = False,
        part_size: int = 128 << 20,
        compact_after: int | None = None,
    ) -> None:
        super().__init__(place_of(table, storage_options), schema, partition_by, add_columns, part_size)
        if compact_after is not None and compact_after < 1:
            raise InvalidProgramError(f"DeltaSink(compact_after=...) is at least 1, got {compact_after!r}")
        self._compact_after = compact_after

    def _check_table(self) -> None:
        table = open_table(self._place)
        check_writable(table, self._place)
        self._check_compaction(columns_of(table), table.metadata().partition_columns)

    def _create_table(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        self._check_compaction(schema, partition_by)
        create_table(self._place, schema, partition_by)

    def _check_compaction(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """The package escapes bytes that are values of partitions once more when it compacts files, and writes -1.05
        as "-1.-5", after which nobody can open the table."""
        for name in partition_by if self._compact_after is not None else ():
            kind = schema.field(name).type
            if pa.types.is_binary(kind) or pa.types.is_decimal(kind):
                raise InvalidProgramError(
                    f"DeltaSink(compact_after=...): a table partitioned by {name!r} of type {kind} cannot be compacted"
                    ", as its values would become others; leave it out, or partition by text"
                )

    def _written_table(self, context: SinkWriterContext, where: str) -> WrittenTable:
        return WrittenDeltaTable(self._place, context, where)

    def create_global_committer(self) -> Committer:
        return DeltaCommitter(self._place, self._compact_after)
