"""The rows that an operator of tables keeps by key, each with a slot; what joins, ranks and retractions stand on.

It lies in memory. What uses it gives batches of keys and rows and gets batches of them, so that a store on disk could
take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Column
from actors.columns.ordering import distinct
from actors.keys.index import Ids
from actors.keys.state_tables import StateRows
from actors.operators.tables.rows.key_lists import KeyLists
from actors.operators.tables.rows.stored_columns import StoredColumns, taken_of
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

_ROW = "row:"
_NUMBER = "number:"
_FEWEST_DEAD = 4096
_SWEPT_AT_ONCE = 4096


class Numbers(Struct, frozen=True):
    """Numbers that lie beside the rows, one per row: a count, say, or when a row was last written."""

    dtype: npt.DTypeLike
    fill: int = 0


class CapturedRows(Struct, frozen=True):
    """The rows as they were at a barrier; `columns` may be called once, on any thread."""

    keys: Ids
    """The key of each row."""
    columns: Callable[[], dict[str, Column]]


class RowStore:
    """Rows by key and slot. A slot is a row's until `compact`: between two calls of that, slots may be held.

    Belongs to the task's thread. Keys are dense numbers, as a KeyIndex gives them.

    Args:
        schema: of all rows.
        numbers: what lies beside each row, by name.
        on_retain: called with the slots of the rows that are left when slots become others: the first of them is 0.
    """

    def __init__(
        self,
        schema: pa.Schema,
        numbers: Mapping[str, Numbers] | None = None,
        on_retain: Callable[[Ids], None] = lambda _: None,
    ) -> None:
        self.schema = schema
        self._numbers = dict(numbers or {})
        self._on_retain = on_retain
        self._clear()

    def _clear(self) -> None:
        self._columns = StoredColumns(self.schema)
        self._lists = KeyLists()
        self._listed = 0
        """So many slots are in the lists of their keys, or gone: the others are added when lists are read."""
        self._keys: Ids = np.zeros(0, np.int64)
        self._is_live = np.zeros(0, np.bool_)
        self._beside: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(0, each.dtype) for name, each in self._numbers.items()
        }
        self._slots = 0
        self._dead = 0
        self._swept = 0

    def __len__(self) -> int:
        """How many rows there are."""
        return self._slots - self._dead

    def add(self, keys: Ids, rows: pa.RecordBatch, **numbers: npt.NDArray[Any] | int) -> Ids:
        """Adds a row for each key, behind those that it has; gives their slots, which ascend.

        Args:
            numbers: of each row, or one for all; those that are not given have their fill.
        """
        first, count = self._slots, rows.num_rows
        self._columns.append(rows)
        self._slots += count
        self._make_room()
        slots = np.arange(first, self._slots)
        self._keys[first : self._slots] = keys
        self._is_live[first : self._slots] = True
        for name, each in self._numbers.items():
            self._beside[name][first : self._slots] = numbers.get(name, each.fill)
        return slots

    def remove(self, slots: Ids) -> None:
        """Removes the rows of these distinct slots, which are there."""
        self._is_live[slots] = False
        self._dead += len(slots)

    def of_keys(self, keys: Ids) -> tuple[Ids, Ids]:
        """The slots of the rows of these keys, in the order of the keys, of each in order of arrival; and for each its
        place in `keys`: (places, slots)."""
        if self._listed < self._slots:
            new = self._listed + np.flatnonzero(self._is_live[self._listed : self._slots])
            self._lists.add(self._keys[new], new)
            self._listed = self._slots
        places, slots = self._lists.of(keys)
        if not self._dead:
            return places, slots
        is_live = self._is_live[slots]
        if 2 * int(np.count_nonzero(is_live)) < len(slots):  # most of what is found is gone
            has_dead = np.bincount(places[~is_live], minlength=len(keys)) > 0
            self._lists.retain(distinct(keys[has_dead]), self._is_live)
        return places[is_live], slots[is_live]

    def take(self, slots: Ids, columns: list[int] | None = None) -> pa.RecordBatch:
        """The rows of these slots; all columns, or those at these places."""
        return self._columns.take(slots, columns)

    @property
    def bytes_per_row(self) -> int:
        """About how many bytes a row takes, on average."""
        return self._columns.bytes_per_row

    def are_live(self) -> npt.NDArray[np.bool_]:
        """Whether the row of each slot is there; to be read only, until rows are added or removed."""
        return self._is_live[: self._slots]

    def live_slots(self) -> Ids:
        """The slots of all rows."""
        return np.flatnonzero(self._is_live[: self._slots])

    def keys_of(self, slots: Ids) -> Ids:
        """The key of the row of each slot."""
        return self._keys[slots]

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """The numbers beside the rows by slot, to read and to write; until rows are added, or `compact` is called."""
        return self._beside[name]

    def sweep(self, name: str, before: int) -> Ids:
        """Slots of rows that are there and whose number `name` is below `before`, of the next piece of the store:
        whoever calls it batch after batch has seen all rows in the end, and never waits for that."""
        begin = self._swept if self._swept < self._slots else 0
        end = min(begin + _SWEPT_AT_ONCE, self._slots)
        self._swept = end
        found = self._is_live[begin:end] & (self._beside[name][begin:end] < before)
        return begin + np.flatnonzero(found)

    def compact(self) -> None:
        """Forgets the rows that were removed where they are more than those that are left. Slots are others then."""
        if self._dead > max(_FEWEST_DEAD, self._slots - self._dead):
            self._retain(np.flatnonzero(self._is_live[: self._slots]), lambda keys: keys)

    def live_keys(self) -> Ids:
        """The keys that have rows; some several times."""
        return self._keys[: self._slots][self._is_live[: self._slots]]

    def renumber_keys(self, new_ids: Ids) -> None:
        """Gives key n the number `new_ids[n]`. Slots are others then."""
        self._retain(np.flatnonzero(self._is_live[: self._slots]), lambda keys: new_ids[keys])

    def _retain(self, slots: Ids, renumbered: Callable[[Ids], Ids]) -> None:
        columns, keys = self._columns, renumbered(self._keys[slots])
        beside = {name: numbers[slots] for name, numbers in self._beside.items()}
        columns.retain(slots)
        self._clear()
        self._columns, self._keys, self._beside = columns, keys, beside
        self._slots = len(slots)
        self._is_live = np.ones(len(slots), np.bool_)
        self._on_retain(slots)

    def _make_room(self) -> None:
        if self._slots <= len(self._keys):
            return
        more = max(2 * len(self._keys), self._slots) - len(self._keys)
        self._keys = np.concatenate([self._keys, np.zeros(more, np.int64)])
        self._is_live = np.concatenate([self._is_live, np.zeros(more, np.bool_)])
        for name, numbers in self._beside.items():
            self._beside[name] = np.concatenate([numbers, np.zeros(more, numbers.dtype)])

    # -- snapshots

    def capture(self) -> CapturedRows:
        """The rows as they are now, in order of arrival."""
        slots = np.flatnonzero(self._is_live[: self._slots])
        chunks = self._columns.chunks
        beside = {name: numbers[slots] for name, numbers in self._beside.items()}
        schema = self.schema

        def columns() -> dict[str, Column]:
            rows = taken_of(chunks, slots) or schema.empty_table()
            found = {f"{_ROW}{place}": column for place, column in enumerate(rows.columns)}
            return found | {_NUMBER + name: from_numpy(numbers) for name, numbers in beside.items()}

        return CapturedRows(self._keys[slots], columns)

    def restore(self, part: StateRows, keys: Ids) -> None:
        """Adds the rows of a part of a snapshot, behind those that are there.

        Args:
            keys: the number of each row's key.
        """
        arrays = [part.columns[f"{_ROW}{place}"].cast(field.type) for place, field in enumerate(self.schema)]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema) if arrays else _without_columns(part.num_rows)
        numbers = {name: as_numpy(part.columns[_NUMBER + name]) for name in self._numbers}
        self.add(keys, rows, **numbers)


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
