"""What of a changelog reaches a sink."""

from __future__ import annotations

import pyarrow.compute as pc

from flinkray.batches.batch import Batch
from flinkray.types.changelogs import ChangelogMode
from flinkray.types.rows import RowKind


def accepted_changes(batch: Batch, mode: ChangelogMode) -> Batch:
    """The rows of a changelog that a sink of this mode takes, with kinds, also where all are inserts."""
    batch = batch.with_kinds(batch.row_kinds)
    if mode is not ChangelogMode.UPSERT:
        return batch
    is_taken = pc.not_equal(batch.kinds, RowKind.UPDATE_BEFORE.value)
    return batch if is_taken.true_count == batch.num_rows else batch.filter(is_taken)
