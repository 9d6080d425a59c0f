"""The values of each group in the order in which they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from actors.columns.ordering import order_by
from actors.columns.take import take
from actors.keys.index import Ids, KeyIndex
from actors.keys.state_tables import StateRows
from actors.operators.tables.aggregates.states.arguments import Taken
from actors.operators.tables.aggregates.states.group_state import Captured, GroupState
from actors.operators.tables.rows.row_store import RowStore
from flinkray.batches.numpy_arrays import from_numpy


class ValueLists(GroupState):
    """Values are added at the end. What is taken back is the first one that is equal; where there is none, nothing.

    Args:
        types: of the columns of a value.
    """

    has_row_per_group = False

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._store = RowStore(pa.schema([(str(place), each) for place, each in enumerate(types)]))

    def of(self, groups: Ids) -> tuple[Ids, pa.RecordBatch]:
        """The values of these groups, in order, and for each the place of its group: (places, values)."""
        places, slots = self._store.of_keys(groups)
        return places, self._store.take(slots)

    def add(self, taken: Taken) -> None:
        rows, values = taken.rows, taken.batch
        if rows.weights is None:
            self._store.add(rows.groups[rows.places], values)
            return
        added, gone = np.flatnonzero(rows.weights > 0), np.flatnonzero(rows.weights < 0)
        self._store.add(rows.groups[rows.places[added]], take(values, from_numpy(added)))
        self._take_back(rows.groups[rows.places[gone]], take(values, from_numpy(gone)))
        self._store.compact()

    def _take_back(self, groups: Ids, values: pa.RecordBatch) -> None:
        touched = np.unique(groups)
        places, slots = self._store.of_keys(touched)
        both = pa.concat_batches([self._store.take(slots), values])
        of_both = np.concatenate([touched[places], groups])
        keys = pa.RecordBatch.from_arrays([from_numpy(of_both), *both.columns], names=["group", *both.schema.names])
        numbers = KeyIndex().ids(keys)
        there, gone = _ranks(numbers[: len(slots)], numbers[len(slots) :])
        self._store.remove(slots[np.isin(there, gone)])

    # -- as the state of groups

    def grow(self, size: int) -> None:
        """Groups without values take no room."""

    def reset(self, groups: Ids) -> None:
        self._store.remove(self._store.of_keys(groups)[1])

    def retain(self, groups: Ids) -> None:
        live = self._store.live_keys()
        new_ids = np.zeros(int(max(live.max(initial=0), groups.max(initial=0))) + 1, np.int64)
        new_ids[groups] = np.arange(len(groups))
        self._store.renumber_keys(new_ids)

    def capture(self, groups: Ids) -> Captured:
        captured = self._store.capture()
        return Captured(captured.keys, captured.columns)

    def restore(self, groups: Ids, columns: Mapping[str, pa.Array]) -> None:
        self._store.restore(StateRows(None, columns, {}, len(groups)), groups)


def _ranks(*columns: Ids) -> list[Ids]:
    """Equal numbers for the first rows with a number in each of the columns, for the second ones, and so on."""
    largest = max(len(each) for each in columns) + 1
    found = []
    for numbers in columns:
        order = order_by(numbers)
        ordered = numbers[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        lengths = np.diff(starts, append=len(ordered))
        ranks = np.empty(len(numbers), np.int64)
        ranks[order] = np.arange(len(ordered)) - np.repeat(starts, lengths)
        found.append(numbers * largest + ranks)
    return found
