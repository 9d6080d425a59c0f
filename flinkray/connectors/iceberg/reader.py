"""Reads the files of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from msgspec import structs

from flinkray.connectors.files.storage import explained
from flinkray.connectors.iceberg.log import IcebergSplit
from flinkray.connectors.iceberg.tables import IcebergPlace, opened, pyiceberg
from flinkray.connectors.lake.columns import fitted
from flinkray.connectors.source import SourceReaderContext
from flinkray.connectors.subtask import subtask_label
from flinkray.connectors.threaded_splits import ThreadedSplitReader
from flinkray.errors import RecordError
from flinkray.types.records import Kind


class IcebergReader(ThreadedSplitReader[IcebergSplit]):
    """Reads files one after another, in exactly the columns of the source.

    Args:
        table_schema: the table's columns with their ids, by which files know them, as JSON of Iceberg.
        fields: what is read of the columns; None: all.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        place: IcebergPlace,
        schema: pa.Schema,
        table_schema: str,
        fields: frozenset[str] | None,
    ) -> None:
        super().__init__(context, Kind.ROW)
        self._place = place
        self._schema = schema
        self._table_schema = table_schema
        asked = None if fields is None else {field.partition(".")[0] for field in fields} | fields
        names = [name for name in schema.names if asked is None or name in asked]
        self._names = names or schema.names[:1]  # rows count
        self._scan: Any = None

    def parts(self, split: IcebergSplit) -> Iterator[tuple[pa.RecordBatch, IcebergSplit]]:
        context = self._context
        where = f"{subtask_label(context)}: {split.path} of {self._place}"
        skip = split.row
        try:
            for data in self._of_file(split):
                for offset in range(min(skip, data.num_rows), data.num_rows, context.batch_rows):
                    rows = data.slice(offset, context.batch_rows)
                    split = structs.replace(split, row=split.row + rows.num_rows)
                    yield fitted(rows, self._schema, where), split
                skip = max(0, skip - data.num_rows)
        except FileNotFoundError as error:
            raise RecordError(f"{where} is gone; keep what a snapshot has while jobs read it") from error
        except (pa.ArrowException, OSError) as error:
            raise RecordError(f"{where} cannot be read: {explained(error)}") from error

    def _of_file(self, split: IcebergSplit) -> Iterator[pa.RecordBatch]:
        files = pyiceberg("io.pyarrow")
        if self._scan is None:
            self._scan = self._new_scan()
        io, scan = self._scan
        task = _task(split)
        deletes = files._read_all_delete_files(io, [task]) if task.delete_files else {}
        # What there is besides puts all rows of a file into memory before it gives the first.
        batches: Iterator[pa.RecordBatch] = scan._record_batches_from_scan_tasks_and_deletes([task], deletes)
        return batches

    def _new_scan(self) -> tuple[Any, Any]:
        schema = pyiceberg("schema").Schema.model_validate_json(self._table_schema)
        with opened(self._place) as table:
            scan = pyiceberg("io.pyarrow").ArrowScan(
                table.metadata, table.io, schema.select(*self._names), pyiceberg("expressions").AlwaysTrue()
            )
            return table.io, scan


def _task(split: IcebergSplit) -> Any:
    manifest = pyiceberg("manifest")
    data = _data_file(split.path, split.format, manifest.DataFileContent.DATA, split.partition, split.rows, split.size)
    data.spec_id = split.spec_id
    deletes = {_data_file(path, format, manifest.DataFileContent.POSITION_DELETES) for path, format in split.deletes}
    return pyiceberg("table").FileScanTask(data, deletes)


def _data_file(
    path: str, format: str, content: Any, partition: tuple[Any, ...] = (), rows: int = 0, size: int = 0
) -> Any:
    manifest = pyiceberg("manifest")
    return manifest.DataFile.from_args(
        content=content,
        file_path=path,
        file_format=manifest.FileFormat(format),
        partition=pyiceberg("typedef").Record(*partition),
        record_count=rows,
        file_size_in_bytes=size,
    )
