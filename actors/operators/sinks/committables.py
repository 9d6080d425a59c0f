"""Committables on their way from the writers of a sink to its global committer: a row each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from actors.state.snapshots.pickling import dumps
from flinkray.batches.batch import Batch
from flinkray.persistence import loads

_SCHEMA = pa.schema(
    [pa.field("checkpoint_id", pa.int64(), nullable=False), pa.field("committable", pa.large_binary(), nullable=False)]
)


def encode_committables(checkpoint_id: int, committables: Sequence[Any]) -> Batch:
    """Rows of what a writer prepared for a checkpoint."""
    columns = [
        pa.repeat(pa.scalar(checkpoint_id, pa.int64()), len(committables)),
        pa.array(map(dumps, committables), pa.large_binary()),
    ]
    return Batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))


def decode_committables(batch: Batch) -> Iterator[tuple[int, list[Any]]]:
    """Checkpoint ids with what was prepared for each, in the order of the rows."""
    checkpoint_ids, pickled = (column.to_pylist() for column in batch.data.columns)
    rows = zip(checkpoint_ids, pickled, strict=True)
    for checkpoint_id, group in groupby(rows, key=lambda row: int(row[0])):
        yield checkpoint_id, [loads(committable) for _, committable in group]
