"""What formats of changes share whose messages are JSON: an envelope, with rows in it and what becomes of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.formats.message_format import ChangelogFormat, shown
from flinkray.errors import InvalidProgramError
from flinkray.types.records import RecordType
from flinkray.types.rows import RowKind

TAKEN_BACK = from_numpy(np.array([RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value], np.int8))
"""The kinds of rows that are as they were before a change."""


class EnvelopeFormat(ChangelogFormat):
    """Messages with rows in an envelope.

    Args:
        schema: the columns of the rows, as JsonFormat takes them, or one, which says how they are written. None, for
            writing alone: all that rows have.
    """

    def __init__(self, schema: Any = None) -> None:
        self._rows = schema if isinstance(schema, JsonFormat) else JsonFormat(schema)
        self._envelope: JsonFormat | None = None
        if schema is not None:
            self._envelope = self._rows.of_columns(self._envelope_of(self._rows.record_type.schema))

    @abstractmethod
    def _envelope_of(self, rows: pa.Schema) -> pa.Schema:
        """What is read of a message whose rows have these columns."""

    @property
    def record_type(self) -> RecordType:
        if self._envelope is None:
            name = type(self).__name__
            raise InvalidProgramError(f"{name} needs the columns that are to be read: {name}({{'name': str}})")
        return self._rows.record_type


def not_empty(messages: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The messages that have any byte, and the index of each: an empty one is none."""
    sizes = np.asarray(pc.binary_length(messages))
    present = np.flatnonzero(sizes)
    return (messages if len(present) == len(messages) else messages.filter(pa.array(sizes > 0))), present


def rows_of_changes(
    is_update: npt.NDArray[np.bool_], is_delete: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], pa.Array]:
    """Of changes, in order, the rows that they give: the index of the change, whether it is the row as it was before,
    and its kind."""
    rows = np.repeat(np.arange(len(is_update)), 1 + is_update)
    is_before = is_delete[rows] | (is_update[rows] & np.append(rows[:-1] == rows[1:], False))
    kinds = np.where(is_before, RowKind.UPDATE_BEFORE.value, RowKind.UPDATE_AFTER.value)
    kinds[~is_update[rows]] = RowKind.INSERT.value
    kinds[is_delete[rows]] = RowKind.DELETE.value
    return rows, is_before, pa.array(kinds, pa.int8())


def check_known(messages: pa.Array, op: pa.Array, name: str, known: Sequence[str]) -> None:
    """Refuses messages that do something else.

    Raises:
        ValueError: names the first of them.
    """
    is_known = pc.is_in(op, pa.array(known, pa.string()))
    if pc.any(pc.invert(is_known)).as_py():
        first = pc.index(is_known, False).as_py()
        raise ValueError(
            f"{name} is {op[first].as_py()!r}, not {', '.join(known[:-1])} or {known[-1]}: "
            f"{shown(messages[first].as_py())}"
        )
