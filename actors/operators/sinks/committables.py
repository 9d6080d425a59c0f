"""Committables on their way between the writers and the committer of a sink, and from there on.

From writers to a global committer it is a row each; in streams of committables that users see, messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from actors.state.snapshots.pickling import dumps
from flinkray.batches import pickling
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode, short_repr
from flinkray.connectors.committer import CommittableSummary, CommittableWithLineage
from flinkray.persistence import loads
from flinkray.types.records import Kind
from flinkray.types.type_info import OBJECT_TYPE

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


def encode_messages(summary: CommittableSummary, committables: Sequence[Any]) -> Batch:
    """Rows of a stream of committables: the summary of a subtask and checkpoint, and its committables."""
    lineages = [CommittableWithLineage(each, summary.checkpoint_id, summary.subtask_index) for each in committables]
    column = pa.array([pickling.dumps(each) for each in (summary, *lineages)], pa.binary())
    return Batch(pa.RecordBatch.from_arrays([column], schema=OBJECT_TYPE.schema), Kind.OBJECT)


def decode_messages(batch: Batch) -> list[Any]:
    """The committables of a stream of committables.

    Raises:
        TypeError: something else is on it.
    """
    found = []
    for each in decode(batch):
        if isinstance(each, CommittableWithLineage):
            found.append(each.committable)
        elif not isinstance(each, CommittableSummary):
            raise TypeError(
                f"a pre-commit topology gives {short_repr(each)}, which cannot be committed; let it give "
                "CommittableWithLineage"
            )
    return found
