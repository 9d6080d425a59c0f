"""Tables of Iceberg as a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from flinkray.connectors.committer import Committer
from flinkray.connectors.iceberg.commits import IcebergCommitter
from flinkray.connectors.iceberg.data_files import WrittenIcebergTable
from flinkray.connectors.iceberg.tables import create_table, opened, place_of
from flinkray.connectors.lake.sink import LakeSink
from flinkray.connectors.lake.writer import WrittenTable
from flinkray.connectors.sink import SinkWriterContext


class IcebergSink(LakeSink):
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
        place = place_of(table, catalog or {}, catalog_name, type(self).__name__)
        super().__init__(place, schema, partition_by, add_columns, part_size)

    def _check_table(self) -> None:
        with opened(self._place):
            pass

    def _create_table(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        create_table(self._place, schema, partition_by)

    def _written_table(self, context: SinkWriterContext, where: str) -> WrittenTable:
        return WrittenIcebergTable(self._place, context, where)

    def create_global_committer(self) -> Committer:
        return IcebergCommitter(self._place)
