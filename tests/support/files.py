"""Files of every format, and reading them as a source does."""

from __future__ import annotations

import json
from pathlib import Path

import cloudpickle
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from pyarrow import fs

from flinkray import (
    FileSource,
)
from flinkray.batches.batch import Batch
from flinkray.connectors.files.formats import FileSplit
from flinkray.connectors.files.writing.commits import FileCommittable
from flinkray.connectors.files.writing.open_files import FileKind
from flinkray.connectors.source import SourceBatch
from tests.support.api import Assignments, FakeSubtaskContext, ThreadedRun

TABLE = pa.table({"n": list(range(100)), "word": [f"w{n}" if n % 7 else None for n in range(100)]})
FORMATS = ["parquet", "csv", "json", "arrow", "orc", "avro"]


def write(path: Path, format: str, table: pa.Table = TABLE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if format == "parquet":
        pq.write_table(table, path, row_group_size=30)
    elif format == "csv":
        pyarrow.csv.write_csv(table, path)
    elif format == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif format in ("orc", "avro"):
        batches = table.to_batches(max_chunksize=30)
        with fs.LocalFileSystem().open_output_stream(str(path), compression=None) as stream:
            file = FileKind.of(format).open(stream, table.schema, str(path), FileCommittable("", ""))
            for batch in batches:
                file.write(batch)
            file.finish()
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=30)


def splits_of(source: FileSource) -> list[FileSplit]:
    assignments = Assignments()
    enumerator = source.prepare().create_enumerator(assignments)
    while not assignments.ended:
        enumerator.handle_split_request(0)
    return assignments.assigned.get(0, [])


def read(source: FileSource, splits: list[FileSplit] | None = None, batch_rows: int = 8) -> list[Batch]:
    shipped = cloudpickle.loads(cloudpickle.dumps(source.prepare()))
    run = ThreadedRun(
        shipped, FakeSubtaskContext(batch_rows=batch_rows), splits_of(source) if splits is None else splits
    )
    batches = []
    while isinstance(polled := run.poll(), SourceBatch):
        batches.append(polled.batch)
    run.reader.close()
    return batches


def table_of(batches: list[Batch]) -> pa.Table:
    return pa.Table.from_batches([batch.data for batch in batches])
