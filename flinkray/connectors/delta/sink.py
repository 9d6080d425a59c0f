"""Tables of Delta Lake as a sink."""

from __future__ import annotations

import copy
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from flinkray.connectors.committer import Committer
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.delta.commits import DeltaCommitter
from flinkray.connectors.delta.data_files import WrittenDeltaTable
from flinkray.connectors.delta.tables import create_table, open_table, place_of
from flinkray.connectors.lake.writer import LakeWriter
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import InvalidProgramError, operator_label
from flinkray.functions.type_hints import record_type


class DeltaSink(Sink):
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
        if partition_by and schema is None:
            raise InvalidProgramError(
                "DeltaSink(partition_by=...) is for a table that it creates; give schema= as well, or leave it out"
            )
        for name, value in (("part_size", part_size), ("compact_after", compact_after)):
            if value is not None and value < 1:
                raise InvalidProgramError(f"DeltaSink({name}=...) is at least 1, got {value!r}")
        self._place = place_of(table, storage_options)
        self._schema = None if schema is None else record_type(schema).schema
        self._partition_by = tuple(partition_by)
        self._adds_columns = add_columns
        self._part_size = part_size
        self._compact_after = compact_after
        self._sink_id = ""

    def __repr__(self) -> str:
        return f"DeltaSink({self._place.uri!r})"

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return DeliveryGuarantee.EXACTLY_ONCE

    @property
    def commits_globally(self) -> bool:
        return True

    def prepare(self) -> DeltaSink:
        """The sink of one submission, by whose name the table will know it; the table is there then."""
        if self._schema is None:
            open_table(self._place)
        else:
            create_table(self._place, self._schema, self._partition_by)
        prepared = copy.copy(self)
        prepared._sink_id = f"flinkray-{uuid.uuid4().hex}"
        return prepared

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        subtask = f"{context.subtask_index + 1} of {context.parallelism}"
        where = f"{operator_label(context.operator_name, subtask)}: {self._place.uri}"
        table = WrittenDeltaTable(self._place, context, where)
        return LakeWriter(table, self._sink_id, self._part_size, self._adds_columns, where)

    def create_global_committer(self) -> Committer:
        return DeltaCommitter(self._place, self._compact_after)
