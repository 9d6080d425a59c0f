"""Reading Avro files, which are made of records, one after another. One split per file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa
from pyarrow import fs

from flinkray.batches.value_columns import to_array
from flinkray.connectors.files.formats import FileFormat, FileSplit, present
from flinkray.connectors.formats.avro import READ_ERRORS
from flinkray.connectors.formats.avro_types import arrow_schema
from flinkray.extras import import_package
from flinkray.types.value_types import Misfit, Unholdable

_BUFFER_BYTES = 1 << 20


class AvroFiles(FileFormat):
    """Files of Avro records in blocks, with their schema (object container files)."""

    shows_types = True

    def schema(self, system: fs.FileSystem, path: str) -> pa.Schema:
        with system.open_input_file(path) as stream:
            return arrow_schema(blocks_of(stream).writer_schema)

    def splits(self, system: fs.FileSystem, path: str, size: int) -> list[tuple[int, int | None]]:
        return [(0, None)] if size else []

    def read(self, split: FileSplit, schema: pa.Schema, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        with split.filesystem.open_input_file(split.path) as stream:
            blocks = blocks_of(stream)
            found = arrow_schema(blocks.writer_schema)
            read = pa.schema([found.field(name) for name in present(found.names, schema)])
            for records, left in record_lists(blocks, split, batch_rows):
                yield pa.RecordBatch.from_arrays([_column(records, field) for field in read], schema=read), left


def blocks_of(stream: pa.NativeFile, schema: Any = None) -> Any:
    """The blocks of a file, whose records are decoded when they are asked for.

    Args:
        schema: of the records that are made of those in the file, by Avro's rules of resolution; None: the file's.
    Raises:
        ValueError: it is no Avro file.
    """
    package = import_package("fastavro", "reading Avro files")
    try:
        return package.block_reader(io.BufferedReader(stream, _BUFFER_BYTES), schema)
    except READ_ERRORS as error:
        raise ValueError(f"it does not begin as Avro files do: {error}") from error


def record_lists(blocks: Any, split: FileSplit, batch_rows: int) -> Iterator[tuple[list[dict[str, Any]], FileSplit]]:
    """The records behind those that were read before, each list with the split as it is after it. Blocks that were read
    are not decoded."""
    records = _records_from(blocks, split.row)
    while True:
        try:
            some = list(islice(records, batch_rows))
        except READ_ERRORS as error:
            raise ValueError(f"a block behind row {split.row} is damaged: {error}") from error
        if not some:
            return
        split = replace(split, row=split.row + len(some))
        yield some, split


def _records_from(blocks: Any, skip: int) -> Iterator[dict[str, Any]]:
    for block in blocks:
        if skip < block.num_records:
            yield from islice(block, skip, None)
        skip = max(0, skip - block.num_records)


def _column(records: list[dict[str, Any]], field: pa.Field) -> pa.Array:
    try:
        return to_array([record[field.name] for record in records], field.type)
    except (Misfit, Unholdable, pa.ArrowException) as error:
        raise ValueError(f"column {field.name!r} of {field.type}: {error}") from error
