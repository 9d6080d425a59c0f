"""Writes the Parquet files of a table."""

from __future__ import annotations

import json
import posixpath
import re
import uuid
from collections.abc import Hashable, Iterator, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct, structs
from pyarrow import fs

from flinkray.connectors.delta.tables import (
    DeltaPlace,
    check_writable,
    columns_of,
    delta_schema,
    deltalake,
    file_system,
    open_table,
)
from flinkray.connectors.files.partitions import DEFAULT_PARTITION, by_values
from flinkray.connectors.files.row_groups import DICTIONARY_BYTES, RowGroups
from flinkray.connectors.files.writing.commits import delete_file
from flinkray.connectors.lake.columns import new_columns
from flinkray.connectors.lake.writer import OpenDataFile, WrittenTable
from flinkray.connectors.sink import SinkWriterContext
from flinkray.errors import TypeMismatchError

_UNUSUAL = re.compile(r"[^\w.=+-]", re.ASCII)
_LONGEST_NAME = 128
"""Of a directory; file systems take 255 bytes."""
_ATTEMPTS = 10
"""So often a column is added to a table that others change at the same time."""


class DeltaFile(Struct, frozen=True):
    """A complete file, as the table's log describes it.

    Args:
        path: in the table.
        partition_values: of each column that the table is partitioned by, as text.
        statistics: JSON.
        table_id: of the table that it was written for; "" in savepoints that did not say.
        columns: that are in it, and their types.
    """

    path: str
    size: int
    modified_ms: int
    partition_values: dict[str, str | None]
    statistics: str
    table_id: str = ""
    columns: tuple[tuple[str, str], ...] = ()


class WrittenDeltaTable(WrittenTable):
    """A table of Delta Lake as one subtask writes it."""

    def __init__(self, place: DeltaPlace, context: SinkWriterContext, where: str) -> None:
        self._place = place
        self._context = context
        self._where = where
        self._system = file_system(place)
        self._take(open_table(place))

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        package = deltalake()
        for attempt in range(1, _ATTEMPTS + 1):
            table = open_table(self._place)
            missing = new_columns(pa.schema(fields), columns_of(table))
            try:
                if missing:
                    wanted = pa.schema([field.with_nullable(True) for field in missing])
                    table.alter.add_columns(list(delta_schema(wanted).fields))
            except package.exceptions.CommitFailedError:
                if attempt == _ATTEMPTS:
                    raise
            except Exception as error:  # the package raises some as they are, with frames of its own in the text
                names = ", ".join(f"{field.name!r} of type {field.type}" for field in missing)
                why = str(error).splitlines()[0]
                raise TypeMismatchError(f"{self._where}: cannot add column {names}: {why}") from error
            else:
                self._take(table)
                return

    def by_partition(self, rows: pa.RecordBatch) -> Iterator[tuple[Hashable, pa.RecordBatch]]:
        if not self._partitioned_by:
            yield (), rows
            return
        texts = [partition_texts(rows.column(name)) for name in self._partitioned_by]
        yield from by_values(rows.drop_columns(list(self._partitioned_by)), texts)

    def new_file(self, partition: tuple[str | None, ...]) -> OpenDataFile:
        # A path says nothing of values, which the log has: it only helps people who look.
        parts = [
            _UNUSUAL.sub("_", f"{name}={value or DEFAULT_PARTITION}")[:_LONGEST_NAME]
            for name, value in zip(self._partitioned_by, partition, strict=True)
        ]
        name = f"part-{self._context.subtask_index:05d}-{uuid.uuid4()}.zstd.parquet"
        values = dict(zip(self._partitioned_by, partition, strict=True))
        begun = DeltaFile(
            posixpath.join(*parts, name), 0, self._context.now_ms(), values, "", self._table_id, self._columns
        )
        return _OpenDeltaFile(self._system, begun, self._stored)

    def delete(self, file: DeltaFile) -> None:
        delete_file(self._system, file.path)

    def close(self) -> None: ...

    def _take(self, table: Any) -> None:
        check_writable(table, self._place)
        self._schema = columns_of(table)
        self._table_id = table.metadata().id
        self._partitioned_by = tuple(table.metadata().partition_columns)
        self._stored = pa.schema([field for field in self._schema if field.name not in self._partitioned_by])
        self._columns = tuple((field.name, str(field.type)) for field in self._stored)


def partition_texts(values: pa.Array) -> pa.Array:
    """How the log writes values of a column that a table is partitioned by; bytes as \\u0061\\u0062."""
    if not pa.types.is_binary(values.type):
        return values.cast(pa.string())
    encoded = values.dictionary_encode()
    texts = ["".join(f"\\u{byte:04X}" for byte in value) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


class _OpenDeltaFile(OpenDataFile):
    def __init__(self, system: fs.FileSystem, begun: DeltaFile, schema: pa.Schema) -> None:
        self._system = system
        self._begun = begun
        if posixpath.dirname(begun.path):
            system.create_dir(posixpath.dirname(begun.path), recursive=True)
        self._stream = system.open_output_stream(begun.path, compression=None)
        self._writer = pq.ParquetWriter(
            self._stream, schema, compression="zstd", dictionary_pagesize_limit=DICTIONARY_BYTES
        )
        self._groups = RowGroups(lambda rows: self._writer.write_table(rows, row_group_size=rows.num_rows))

    def write(self, rows: pa.RecordBatch) -> None:
        self._groups.add(rows)

    def size(self) -> int:
        return int(self._stream.tell()) + self._groups.waiting_bytes

    def finish(self) -> DeltaFile:
        self._groups.flush()
        self._writer.close()
        size = int(self._stream.tell())
        self._stream.close()
        return structs.replace(self._begun, size=size, statistics=statistics(self._writer.writer.metadata))

    def abandon(self) -> None:
        try:
            self._writer.close()  # else it closes itself later, on a stream that is closed
        finally:
            self._stream.close()
        self._system.delete_file(self._begun.path)


def statistics(footer: pq.FileMetaData) -> str:
    """What the table's log says of a file's rows, by which readers pass over files: their number; and of each column
    its nulls, least and greatest value, where Parquet has them as such.

    Floating point numbers are left out, since Parquet's extremes leave out NaN, which is the greatest to Delta; so are
    truth values, which have no order there.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(footer.num_columns):
        found = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
        name = footer.schema.column(index).path
        if "." in name or any(each.statistics is None for each in found):
            continue
        if all(each.statistics.has_null_count for each in found):
            nulls[name] = sum(each.statistics.null_count for each in found)
        try:
            extremes = [(each.statistics.min, each.statistics.max) for each in found if each.statistics.has_min_max]
        except (OverflowError, ValueError):  # a time that Python cannot hold
            continue
        if len(extremes) == len(found) and extremes and _has_extremes(extremes[0][0]):
            least[name] = _json(min(first for first, _ in extremes))
            greatest[name] = _json(max(last for _, last in extremes))
    return json.dumps({"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls})


def _has_extremes(value: Any) -> bool:
    return isinstance(value, int | str | date) and not isinstance(value, bool)


def _json(value: int | str | date) -> int | str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
