"""Whether the kinds of rows that a source gives are such."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy
from flinkray.connectors.source import Source
from flinkray.errors import InvalidProgramError, TypeMismatchError
from flinkray.types.rows import RowKind

_VALUES = [kind.value for kind in RowKind]


def check_kinds(batch: Batch, source: Source, where: str) -> None:
    """Refuses kinds that a source has not announced, since consumers of inserts would take them for these, and what is
    no kind.

    Args:
        batch: has kinds.
        where: names the operator in errors.
    """
    kinds = batch.row_kinds
    if not source.is_changelog:
        raise InvalidProgramError(
            f"{where}: {type(source).__name__} gives rows with kinds, so it must say that it gives a "
            "changelog: let its is_changelog be true"
        )
    if kinds.type != pa.int8() or kinds.null_count or len(kinds) != batch.num_rows:
        raise TypeMismatchError(
            f"{where}: {type(source).__name__} gives {len(kinds)} kinds of type {kinds.type}, {kinds.null_count} of "
            f"them null, for {batch.num_rows} rows; a batch has one of type int8 for each row"
        )
    values = as_numpy(kinds)
    wrong = values[values.view(np.uint8) > max(_VALUES)]  # the negative ones are above 127
    if wrong.size:
        raise TypeMismatchError(
            f"{where}: {type(source).__name__} gives a row of kind {wrong[0]}; kinds are the values of RowKind, "
            f"{', '.join(map(str, _VALUES))}"
        )
