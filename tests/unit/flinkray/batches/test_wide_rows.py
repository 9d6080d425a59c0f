"""Sources of wide rows make batches of fewer rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkray.connectors.collection.source import TableSource
from flinkray.connectors.datagen.source import DataGenSource, SequenceField
from flinkray.connectors.source import Source, SourceBatch

WIDE = {f"c{index}": lambda rows: rows * 0.5 for index in range(200)}


class _ReaderContext:
    batch_rows = 65_536

    def send_split_request(self) -> None: ...

    def notify_available(self) -> None: ...

    def split_finished(self, split_id: str) -> None: ...

    def now_ms(self) -> int:
        return 0


class _EnumeratorContext:
    parallelism = 1


def _read(source: Any) -> Iterator[pa.RecordBatch]:
    reader = source.create_reader(_ReaderContext())
    reader.add_splits(source.create_enumerator(_EnumeratorContext()).snapshot_state(1))
    reader.notify_no_more_splits()
    while isinstance(polled := reader.poll(), SourceBatch):
        yield polled.batch.data


@pytest.mark.parametrize(
    "source",
    [
        DataGenSource(WIDE, 20_000),
        TableSource(pa.table({name: make(np.arange(20_000)) for name, make in WIDE.items()})),
        TableSource(pa.table({"text": ["x" * 1_000_000] * 20})),
    ],
    ids=["generated", "table", "long text"],
)
def test_a_batch_of_wide_rows_holds_eight_mebibytes_at_most(source: Source) -> None:
    batches = list(_read(source))
    assert sum(batch.num_rows for batch in batches) in (20, 20_000)
    assert len(batches) > 1
    assert max(batch.nbytes for batch in batches) <= (8 << 20) + 4096


def test_batches_of_narrow_rows_are_as_large_as_they_may_be() -> None:
    assert [batch.num_rows for batch in _read(DataGenSource({"i": SequenceField()}, 70_000))] == [65_536, 4_464]


def test_a_row_larger_than_a_batch_should_be_comes_alone() -> None:
    table = pa.table({"text": ["x" * 9_000_000] * 3})
    assert [batch.num_rows for batch in _read(TableSource(table))] == [1, 1, 1]
