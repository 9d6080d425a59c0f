"""Tables of Iceberg as a sink."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from flinkray.connectors.committer import Committer
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.iceberg.commits import IcebergCommitter
from flinkray.connectors.iceberg.data_files import WrittenIcebergTable
from flinkray.connectors.iceberg.tables import create_table, opened, place_of
from flinkray.connectors.lake.writer import LakeWriter
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import InvalidProgramError, operator_label
from flinkray.functions.type_hints import record_type


class IcebergSink(Sink):
    """Rows into a table of Iceberg, exactly once: one snapshot of the table per checkpoint. Comes with
    `flinkray[iceberg]`.

    Each subtask writes Parquet files of its own, new ones for each checkpoint and partition. When the checkpoint is
    complete, one committer adds the files of all to the table, in a snapshot whose summary names sink and checkpoint: a
    second attempt looks for it among the table's snapshots. So a savepoint can be restored without its rows coming
    twice as long as these have not expired. A commit that conflicts with another writer's is tried again.

    Rows are added, never changed: a changelog is refused. Columns are found by name, and cast where nothing is lost.
    What lost tasks had written is in no snapshot; removing orphan files of the table deletes it.

    Args:
        table: its name with that of its namespace: "shop.orders".
        catalog: the properties of the catalog, as PyIceberg takes them: `{"type": "rest", "uri": ...}`; shown nowhere.
            Empty: those that PyIceberg's own configuration has under the catalog's name.
        catalog_name: the catalog's name.
        schema: creates the table, where there is none, with these columns, as `output_type=`; None: it has to be there.
        partition_by: by what it is created: columns, or "year(c)", "month(c)", "day(c)", "hour(c)", "bucket(16, c)" and
            "truncate(4, c)" of one.
        add_columns: columns that rows have and the table has not are added to it; else they are an error. They are
            there as soon as such rows come, and null until these are committed.
        part_size: in bytes: a file ends after the batch that makes it as large. Rows that wait for their row group
            count as what they take in memory.
    """

    def __init__(
        self,
        table: str,
        catalog: Mapping[str, str] | None = None,
        catalog_name: str = "default",
        schema: Any = None,
        partition_by: Sequence[str] = (),
        add_columns: bool = False,
        part_size: int = 128 << 20,
    ) -> None:
        if partition_by and schema is None:
            raise InvalidProgramError(
                "IcebergSink(partition_by=...) is for a table that it creates; give schema= as well, or leave it out"
            )
        if part_size < 1:
            raise InvalidProgramError(f"IcebergSink(part_size=...) is at least 1 byte, got {part_size!r}")
        self._place = place_of(table, catalog or {}, catalog_name, "IcebergSink")
        self._schema = None if schema is None else record_type(schema).schema
        self._partition_by = tuple(partition_by)
        self._adds_columns = add_columns
        self._part_size = part_size
        self._sink_id = ""

    def __repr__(self) -> str:
        return f"IcebergSink({str(self._place)!r})"

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return DeliveryGuarantee.EXACTLY_ONCE

    @property
    def commits_globally(self) -> bool:
        return True

    def prepare(self) -> IcebergSink:
        """The sink of one submission, by whose name the table will know it; the table is there then."""
        if self._schema is None:
            with opened(self._place):
                pass
        else:
            create_table(self._place, self._schema, self._partition_by)
        prepared = copy.copy(self)
        prepared._sink_id = uuid.uuid4().hex
        return prepared

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        subtask = f"{context.subtask_index + 1} of {context.parallelism}"
        where = f"{operator_label(context.operator_name, subtask)}: {self._place}"
        table = WrittenIcebergTable(self._place, context, where)
        return LakeWriter(table, self._sink_id, self._part_size, self._adds_columns, where)

    def create_global_committer(self) -> Committer:
        return IcebergCommitter(self._place)
