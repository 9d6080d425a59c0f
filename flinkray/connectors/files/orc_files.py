"""Reading ORC files: a split is a range of stripes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import fs, orc

from flinkray.connectors.files.formats import SPLIT_BYTES, FileFormat, FileSplit, from_row, projected, ranges


class OrcFiles(FileFormat):
    """ORC files.

    Args:
        fields: what is read, as in `columns_to_read`; the rest is null. None: all.
    """

    shows_types = True

    def __init__(self, fields: frozenset[str] | None = None) -> None:
        self._fields = fields

    def schema(self, system: fs.FileSystem, path: str) -> pa.Schema:
        with system.open_input_file(path) as file:
            return orc.ORCFile(file).schema

    def splits(self, system: fs.FileSystem, path: str, size: int) -> list[tuple[int, int | None]]:
        with system.open_input_file(path) as file:
            found = orc.ORCFile(file)
            stripes = found.nstripes
            return ranges([found.content_length // max(stripes, 1)] * stripes, SPLIT_BYTES)

    def read(self, split: FileSplit, schema: pa.Schema, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        with split.filesystem.open_input_file(split.path) as file:
            found = orc.ORCFile(file)
            stop = found.nstripes if split.stop is None else split.stop
            batches = projected(
                found.schema.names,
                schema,
                self._fields,
                lambda paths: (found.read_stripe(stripe, paths) for stripe in range(split.start, stop)),
            )
            yield from from_row(batches, split, batch_rows)
