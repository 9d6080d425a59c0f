"""Reads the files of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from msgspec import structs

from flinkray.batches.normalization import LayoutNormalizer
from flinkray.connectors.delta.log import DeltaSplit
from flinkray.connectors.delta.tables import DeltaPlace, file_system
from flinkray.connectors.files.formats import FileSplit, ParquetFiles
from flinkray.connectors.files.storage import explained
from flinkray.connectors.lake.columns import fitted
from flinkray.connectors.source import SourceReaderContext
from flinkray.connectors.subtask import subtask_label
from flinkray.connectors.threaded_splits import ThreadedSplitReader
from flinkray.errors import RecordError
from flinkray.types.records import Kind

_ESCAPED_BYTES = re.compile(r"(?:\\u00[0-9A-Fa-f]{2})+")


class DeltaReader(ThreadedSplitReader[DeltaSplit]):
    """Reads files one after another, in exactly the columns of the source.

    Args:
        fields: what is read of the columns; None: all.
    """

    def __init__(
        self, context: SourceReaderContext, place: DeltaPlace, schema: pa.Schema, fields: frozenset[str] | None
    ) -> None:
        super().__init__(context, Kind.ROW)
        self._place = place
        self._schema = schema
        self._format = ParquetFiles(fields)
        self._system = file_system(place)
        self._where = f"{subtask_label(context)}: {place.uri}"
        # Files that deltalake has written anew have text in layouts that Arrow does not cast.
        self._normalizer = LayoutNormalizer(self._where)

    def parts(self, split: DeltaSplit) -> Iterator[tuple[pa.RecordBatch, DeltaSplit]]:
        stored = pa.schema([field for field in self._schema if field.name not in split.partition_values])
        file = FileSplit(split.path, split.path, self._system, row=split.row)
        try:
            for data, left in self._format.read(file, stored, self._context.batch_rows):
                whole = self._with_all_columns(self._normalizer.normalize(data), split)
                yield fitted(whole, self._schema, self._where), structs.replace(split, row=left.row)
        except FileNotFoundError as error:
            raise RecordError(
                f"{self._where} has lost {split.path}; keep what a version has (vacuum) while jobs read it"
            ) from error
        except (pa.ArrowException, OSError) as error:
            raise RecordError(f"{self._where}: {split.path} cannot be read: {explained(error)}") from error

    def _with_all_columns(self, data: pa.RecordBatch, split: DeltaSplit) -> pa.RecordBatch:
        """The rows of a file with those columns that the log has; null in those that the table had not yet."""
        columns = []
        for field in self._schema:
            if field.name in split.partition_values:
                value = partition_value(split.partition_values[field.name], field.type)
                columns.append(pa.repeat(value, data.num_rows))
            elif field.name in data.schema.names:
                columns.append(data.column(field.name))
            else:
                columns.append(pa.nulls(data.num_rows, field.type))
        return pa.RecordBatch.from_arrays(columns, names=self._schema.names)


def partition_value(text: str | None, kind: pa.DataType) -> Any:
    """A value of a column that a table is partitioned by, from how the log writes it."""
    if not text:  # the log writes null as either
        return pa.scalar(None, kind)
    if pa.types.is_binary(kind):
        value = bytes.fromhex(text.replace("\\u00", "")) if _ESCAPED_BYTES.fullmatch(text) else text.encode()
        return pa.scalar(value, kind)
    if pa.types.is_timestamp(kind):
        return pa.scalar(text.removesuffix("Z"), pa.string()).cast(pa.timestamp(kind.unit)).cast(kind)
    return pa.scalar(text, pa.string()).cast(kind)
