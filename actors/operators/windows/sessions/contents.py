"""What sessions contain: built-in aggregates in columns, or what the user's functions make of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.ordering import distinct
from actors.keys.state_tables import StateRows, check_same
from actors.operators.aggregates.accumulators import grown, renumbered
from actors.operators.aggregates.aggregate_columns import AggregateColumns
from actors.operators.contract.operator import OperatorContext, label_of
from actors.operators.functions.shared_values import FrozenValues, SharedValues, decoded, encoded
from actors.operators.windows.sessions.session_table import SessionIds
from actors.operators.windows.user_functions.contents import Fold
from actors.operators.windows.user_functions.contents_by_key import NOTHING
from actors.user_code.errors import raise_attributed
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.batches.row_codec import snapshot as copy_of
from flinkray.errors import operator_label

# In the metadata of snapshots.
_KIND = "sessions"
_BUILT_IN = "of built-in aggregates"
_OF_FUNCTIONS = "of user functions"

# The column of a snapshot with what functions have made.
_CONTENTS = "contents"

# What a session shares with snapshots that are not written yet.
_NOTHING_SHARED, _VALUES_SHARED, _ALL_SHARED = 0, 1, 2


class FrozenContents(ABC):
    """The contents of sessions at a barrier; any thread may read them."""

    @abstractmethod
    def columns(self, sessions: SessionIds) -> dict[str, pa.Array]:
        """A row for each of these distinct sessions."""

    @abstractmethod
    def metadata(self) -> dict[str, bytes]:
        """What `restore` needs beside the columns."""


class SessionContents(ABC):
    """The contents of all sessions, by session. Those that `grow` made room for are empty. Belongs to the task's
    thread."""

    @abstractmethod
    def grow(self, size: int) -> None:
        """Makes room for the sessions 0 ... size - 1."""

    @abstractmethod
    def add(self, batch: Batch, sessions: SessionIds, first_position: int) -> None:
        """Adds each row to its session; rows are numbered from `first_position` in order of arrival."""

    @abstractmethod
    def merge(self, sessions: SessionIds, targets: SessionIds) -> None:
        """Adds what `sessions[i]`, which are distinct, contain to the end of what `targets[i]` contain."""

    @abstractmethod
    def drop(self, sessions: SessionIds) -> None:
        """Drops the contents of these sessions, which are over and not asked for again."""

    @abstractmethod
    def renumber(self, old: SessionIds, new: SessionIds, size: int) -> None:
        """Keeps only the distinct sessions `old`, of which `old[i]` is `new[i]` from now on, and makes room for the
        sessions 0 ... size - 1."""

    @abstractmethod
    def freeze(self, size: int) -> FrozenContents:
        """The contents of the sessions 0 ... size - 1 as they are now. Quick."""

    @abstractmethod
    def restore(self, part: StateRows, sessions: SessionIds) -> None:
        """Restores row i of a snapshot as `sessions[i]`, which is empty.

        Raises:
            CheckpointError: the snapshot was written for something else.
        """


class AggregatedSessions(SessionContents):
    """Built-in aggregates: a session's number is that of its accumulator in all columns."""

    def __init__(self, aggregates: AggregateColumns, where: str) -> None:
        self._aggregates = aggregates
        self._where = where

    def grow(self, size: int) -> None:
        self._aggregates.grow(size)

    def add(self, batch: Batch, sessions: SessionIds, first_position: int) -> None:
        self._aggregates.add(batch.data, sessions, first_position)

    def merge(self, sessions: SessionIds, targets: SessionIds) -> None:
        self._aggregates.merge(self._aggregates, sessions, targets)

    def drop(self, sessions: SessionIds) -> None:
        pass  # arrays have elements for them until they are squeezed out

    def renumber(self, old: SessionIds, new: SessionIds, size: int) -> None:
        self._aggregates.renumber(old, new, size)

    def freeze(self, size: int) -> FrozenContents:
        return _FrozenAggregates(self._aggregates.copy(size))

    def restore(self, part: StateRows, sessions: SessionIds) -> None:
        if _KIND in part.metadata:  # older versions had no sessions of another kind in such a part
            check_same(part, _KIND, _BUILT_IN, operator_label(self._where))
        self._aggregates.merge(self._aggregates.loaded(part), np.arange(part.num_rows), sessions)


class _FrozenAggregates(FrozenContents):
    def __init__(self, aggregates: AggregateColumns) -> None:
        self._aggregates = aggregates

    def columns(self, sessions: SessionIds) -> dict[str, pa.Array]:
        return self._aggregates.columns(sessions)

    def metadata(self) -> dict[str, bytes]:
        return {_KIND: _BUILT_IN.encode(), **self._aggregates.metadata()}


class FoldedSessions(SessionContents):
    """A list of rows, a reduced value or an accumulator per session, as Python objects."""

    def __init__(self, fold: Fold, context: OperatorContext) -> None:
        self._fold = fold
        self._context = context
        self._contents: list[Any] = []
        """What each session contains."""
        self._after_copy = _NOTHING_SHARED if fold.copy is copy_of else _VALUES_SHARED
        self._snapshots: SharedValues[list[Any]] = SharedValues()
        self._shared: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        """What each session shares with snapshots, where there are such snapshots."""

    def grow(self, size: int) -> None:
        self._shared = grown(self._shared, size, _NOTHING_SHARED)
        self._contents.extend([NOTHING] * (size - len(self._contents)))

    def add(self, batch: Batch, sessions: SessionIds, first_position: int) -> None:
        self._unshare(sessions, self._fold.copy, self._after_copy)
        contents, add = self._contents, self._fold.add
        value: Any = None
        try:
            for value, session in zip(decode(batch), sessions.tolist(), strict=True):
                contents[session] = add(contents[session], value)
        except BaseException as error:
            raise_attributed(self._context.operator_name, self._context.subtask, value, error)

    def merge(self, sessions: SessionIds, targets: SessionIds) -> None:
        self._unshare(np.concatenate([sessions, targets]), self._fold.copy, self._after_copy)
        np.maximum.at(self._shared, targets, self._shared[sessions])
        contents = self._contents
        order = np.argsort(sessions)  # of arrival
        for session, target in zip(sessions[order].tolist(), targets[order].tolist(), strict=True):
            merged, absorbed = contents[target], contents[session]
            try:
                contents[target] = self._fold.merge(merged, absorbed)
            except BaseException as error:
                raise_attributed(self._context.operator_name, self._context.subtask, (merged, absorbed), error)
        self.drop(sessions)

    def exposed(self, sessions: SessionIds) -> list[Any]:
        """What these sessions contain, for the user's function, which may change the values that it gets."""
        self._unshare(sessions, copy_of, _NOTHING_SHARED)
        return [self._contents[session] for session in sessions.tolist()]

    def _unshare(self, sessions: SessionIds, copy: Callable[[Any], Any], still_shared: int) -> None:
        """Copies what these sessions share with snapshots, if it is more than `still_shared`, as it may change."""
        if not self._snapshots.current():
            return
        shared = distinct(sessions[self._shared[sessions] > still_shared])
        for session in shared.tolist():
            if self._contents[session] is not NOTHING:
                self._contents[session] = copy(self._contents[session])
        self._shared[shared] = still_shared

    def drop(self, sessions: SessionIds) -> None:
        for session in sessions.tolist():
            self._contents[session] = NOTHING

    def renumber(self, old: SessionIds, new: SessionIds, size: int) -> None:
        renumbered_contents = [NOTHING] * size
        for old_session, new_session in zip(old.tolist(), new.tolist(), strict=True):
            renumbered_contents[new_session] = self._contents[old_session]
        self._contents = renumbered_contents
        self._shared = renumbered(self._shared, old, new, size, _NOTHING_SHARED)

    def freeze(self, size: int) -> FrozenContents:
        self._shared[:size] = _ALL_SHARED
        return _FrozenFolds(self._snapshots.freeze(self._contents), label_of(self._context))

    def restore(self, part: StateRows, sessions: SessionIds) -> None:
        check_same(part, _KIND, _OF_FUNCTIONS, label_of(self._context))
        for session, contents in zip(sessions.tolist(), decoded(part.columns[_CONTENTS]), strict=True):
            self._contents[session] = contents


class _FrozenFolds(FrozenContents):
    def __init__(self, contents: FrozenValues[list[Any]], where: str) -> None:
        self._contents = contents
        self._where = where

    def columns(self, sessions: SessionIds) -> dict[str, pa.Array]:
        values = (self._contents.values[session] for session in sessions.tolist())
        return {_CONTENTS: encoded(values, lambda row: f"{self._where}: the session in cell {sessions[row]}")}

    def metadata(self) -> dict[str, bytes]:
        return {_KIND: _OF_FUNCTIONS.encode()}
