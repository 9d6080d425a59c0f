"""Writes the Parquet files of a table."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.files.partitions import by_values
from flinkray.connectors.files.row_groups import DICTIONARY_BYTES, RowGroups
from flinkray.connectors.iceberg.tables import (
    IcebergPlace,
    columns_of,
    load_table,
    open_catalog,
    opened,
    pyiceberg,
    unsupported_type,
)
from flinkray.connectors.lake.columns import new_columns
from flinkray.connectors.lake.writer import OpenDataFile, WrittenTable
from flinkray.connectors.sink import SinkWriterContext
from flinkray.errors import InvalidProgramError, TypeMismatchError

_ATTEMPTS = 10
"""So often a column is added to a table that others change at the same time."""


class IcebergFile(Struct, frozen=True):
    """A complete file, as a manifest describes it.

    Args:
        spec_id: of the table's partitioning when it was written.
        partition: a value for each field of that.
        metrics: its rows, and of each column sizes, counts and bounds.
        table_id: of the table that it was written for; "" in savepoints that did not say.
    """

    path: str
    size: int
    spec_id: int
    partition: tuple[Any, ...]
    metrics: dict[str, Any]
    table_id: str = ""


def delete_file(io: Any, path: str) -> None:
    """Deletes a file of a table; does nothing where it is not there."""
    with contextlib.suppress(FileNotFoundError):
        io.delete(path)


class WrittenIcebergTable(WrittenTable):
    """A table of Iceberg as one subtask writes it, partitioned as it was when the subtask started."""

    def __init__(self, place: IcebergPlace, context: SinkWriterContext, where: str) -> None:
        self._place = place
        self._context = context
        self._where = where
        with opened(place) as table:
            self._take(table)
        self._spec = self._metadata.spec()
        self._transforms = [self._transform_of(field) for field in self._spec.fields]
        """The column of each field of the partitioning, and what makes the field's values of it."""

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        errors = pyiceberg("exceptions")
        with contextlib.closing(open_catalog(self._place)) as catalog:
            for attempt in range(1, _ATTEMPTS + 1):
                table = load_table(catalog, self._place)
                missing = new_columns(pa.schema(fields), columns_of(table.schema()))
                try:
                    if missing:
                        with table.update_schema() as update:
                            update.union_by_name(pa.schema([field.with_nullable(True) for field in missing]))
                except errors.CommitFailedException:
                    if attempt == _ATTEMPTS:
                        raise
                except (TypeError, ValueError, errors.ValidationError, unsupported_type()) as error:
                    names = ", ".join(f"{field.name!r} of type {field.type}" for field in missing)
                    raise TypeMismatchError(f"{self._where}: cannot add column {names}: {error}") from error
                else:
                    self._take(table)
                    return

    def by_partition(self, rows: pa.RecordBatch) -> Iterator[tuple[Hashable, pa.RecordBatch]]:
        if not self._transforms:
            yield (), rows
        else:
            yield from by_values(rows, [transform(_aligned(rows.column(name))) for name, transform in self._transforms])

    def new_file(self, partition: tuple[Any, ...]) -> OpenDataFile:
        stored = pyiceberg("partitioning").partition_record_value
        schema = self._metadata.schema()
        values = tuple(
            value if isinstance(value, int) else stored(field, value, schema)  # buckets are stored as they are
            for field, value in zip(self._spec.fields, partition, strict=True)
        )
        key = _PartitionKey(self._spec, values, schema)
        name = f"{self._context.subtask_index:05d}-{uuid.uuid4()}.parquet"
        path = self._locations.new_data_location(name, key if self._transforms else None)
        return _OpenIcebergFile(self._io, self._metadata, path, self._spec.spec_id, values)

    def delete(self, file: IcebergFile) -> None:
        delete_file(self._io, file.path)

    def close(self) -> None: ...

    def _take(self, table: Any) -> None:
        self._metadata = table.metadata
        self._io = table.io
        self._locations = table.location_provider()
        self._schema = columns_of(table.schema())

    def _transform_of(self, field: Any) -> tuple[str, Any]:
        schema = self._metadata.schema()
        name = schema.find_column_name(field.source_id)
        if name not in self._schema.names:
            raise InvalidProgramError(
                f"{self._where} is partitioned by {name}, and rows are written by columns only, not by fields of them"
            )
        return name, field.transform.pyarrow_transform(schema.find_type(field.source_id))


def _aligned(values: pa.Array) -> pa.Array:
    """The values in memory that PyIceberg's transforms take: in messages decimals lie at any eighth byte."""
    return values.take(from_numpy(np.arange(len(values)))) if pa.types.is_decimal(values.type) else values


class _PartitionKey(Struct):
    """What a place of a file is made of. The class of PyIceberg refuses two transforms of one column."""

    spec: Any
    values: tuple[Any, ...]
    schema: Any

    def to_path(self) -> str:
        path: str = self.spec.partition_to_path(pyiceberg("typedef").Record(*self.values), self.schema)
        return path


class _WatchedOutput:
    """The place of a file, whose stream tells how far it has been written."""

    def __init__(self, output: Any) -> None:
        self._output = output
        self.stream: Any = None

    def create(self, overwrite: bool = False) -> Any:
        self.stream = self._output.create(overwrite)
        return self.stream


class _OpenIcebergFile(OpenDataFile):
    def __init__(self, io: Any, metadata: Any, path: str, spec_id: int, partition: tuple[Any, ...]) -> None:
        self._io = io
        self._path = path
        self._spec_id = spec_id
        self._table_id = str(metadata.table_uuid)
        self._partition = partition
        self._output = io.new_output(path)
        self._watched = _WatchedOutput(self._output)
        formats = pyiceberg("io.pyarrow").ParquetFormatModel()
        properties = {"write.parquet.dict-size-bytes": str(DICTIONARY_BYTES), **metadata.properties}
        self._writer = formats.create_writer(self._watched, metadata.schema(), properties)
        self._groups = RowGroups(self._writer.write)

    def write(self, rows: pa.RecordBatch) -> None:
        self._groups.add(rows)

    def size(self) -> int:
        stream = self._watched.stream
        return self._groups.waiting_bytes + (0 if stream is None else int(stream.tell()))

    def finish(self) -> IcebergFile:
        self._groups.flush()
        metrics = self._writer.close().to_serialized_dict()
        size = len(self._output)
        return IcebergFile(self._path, size, self._spec_id, self._partition, metrics, self._table_id)

    def abandon(self) -> None:
        if self._watched.stream is not None:
            self._writer.close()
            self._io.delete(self._path)
