"""The keys of buffered rows, numbered; those of a join's two inputs together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from actors.columns.large_columns import Columns
from actors.keys.hashes import key_columns
from actors.keys.index import Ids, KeyIndex
from actors.keys.state_tables import StateRows
from actors.operators.windows.base.compaction import has_doubled
from flinkray.batches.batch import Batch
from flinkray.errors import TypeMismatchError, operator_label
from flinkray.types.keys import KeySelector

# Keys without rows are forgotten when there are more of them than others. They are looked for first when there are this
# many keys.
_FEWEST_LOOKED_AT = 4096


class BufferedKeys:
    """Numbers the keys of all inputs, which may call their key columns differently.

    Args:
        selectors: the key of each input; None, for the only input: there is one key for all.
        where: names operator and subtask in errors, for example "join (1/2)".
    """

    def __init__(self, selectors: Sequence[KeySelector | None], where: str) -> None:
        self._selectors = selectors
        self._where = where
        self._index = KeyIndex()
        self._last_count = 0

    def __len__(self) -> int:
        """A number above those of all keys."""
        return max(1, len(self._index))

    def ids(self, batch: Batch, input_index: int) -> Ids:
        """The number of each row's key.

        Raises:
            TypeMismatchError: no type holds these keys and those that came before, of either input.
        """
        selector = self._selectors[input_index]
        if selector is None:
            return np.zeros(batch.num_rows, np.int64)
        columns = key_columns(batch, selector, self._where)
        if len(self._selectors) == 1:
            return self._index.ids(columns)
        names = [str(index) for index in range(columns.num_columns)]
        try:
            return self._index.ids(pa.RecordBatch.from_arrays(columns.columns, names=names))
        except TypeMismatchError as error:
            raise TypeMismatchError(self._mismatch(columns.schema.types, input_index)) from error

    def _mismatch(self, types: list[pa.DataType], input_index: int) -> str:
        known = self._index.key_columns()
        before = [] if known is None else known.schema.types
        first, second = self._selectors
        return (
            f"{operator_label(self._where)}: it compares key ({first}) of its first input with key ({second}) of its "
            f"second: in the {('first', 'second')[input_index]} that is {_joined(types)}, and keys so far are "
            f"{_joined(before)}; cast both to one type before key_by"
        )

    def restored_ids(self, part: StateRows) -> Ids:
        """The number of each row's key, for rows of a snapshot whose keys `columns` gave."""
        return np.zeros(part.num_rows, np.int64) if part.keys is None else self._index.restored_ids(part.keys)

    def take(self, ids: Ids) -> Columns | None:
        """The keys with these numbers, one row for each; None: there is one key for all."""
        return self._index.take(ids) if len(self._index) else None

    def columns(self) -> Columns | None:
        return self._index.key_columns()

    def forget_unused(self, live: Iterable[Ids]) -> Ids | None:
        """Forgets the keys that are not in `live`, if these are most.

        Looks only when there are twice as many keys as when it last did.

        Returns:
            `new_ids`: key n has the number `new_ids[n]` from now on; None: nothing changed.
        """
        if not has_doubled(len(self._index), self._last_count, _FEWEST_LOOKED_AT):
            return None
        is_used = np.zeros(len(self._index), np.bool_)
        for ids in live:
            is_used[ids] = True
        used = np.flatnonzero(is_used)
        is_worth_it = 2 * len(used) <= len(self._index)
        new_ids = np.cumsum(is_used) - 1
        if is_worth_it:
            self._index.retain(used)
        self._last_count = len(self._index)
        return new_ids if is_worth_it else None


def _joined(types: list[pa.DataType]) -> str:
    return ", ".join(map(str, types))
