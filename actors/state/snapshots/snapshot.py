"""What operators hand to a checkpoint, and what they get back from one.

A snapshot is taken in two steps: `Operator.snapshot_state` runs in the task's thread and must be quick, so it only
copies what will change; `PendingPart.write` serialises and writes, on another thread, while the task goes on.
"""

from __future__ import annotations

import enum
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import take_rows_as_table
from actors.columns.ordering import order_by
from actors.protocol.checkpoint_handles import PartKind, SharedFile, StateBytes, StatePart
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.batches.pickling import dumps
from flinkray.persistence import PROTOCOL, loads

KEY_GROUP_COLUMN = "__key_group"
"""Name of the first column of a KEYED part's table; int32, ascending."""


class StateWriter(Protocol):
    """Where the parts of one subtask's snapshot go. Used by one thread, which is not the task's."""

    def write(self, data: bytes | memoryview) -> StateBytes:
        """Writes bytes that are in memory."""

    def write_with(self, write: Callable[[IO[bytes]], None]) -> StateBytes:
        """Writes what `write` streams: for state that should not be in memory at once."""

    def write_shared(self, name: str, local_path: str) -> SharedFile:
        """Copies a local file to the directory of files that the job's checkpoints share."""


class PendingPart(ABC):
    """A part of a snapshot whose content does not change any more, and that is yet to be written."""

    @abstractmethod
    def write(self, writer: StateWriter) -> StatePart:
        """Serialises and writes the part. Called at most once, off the task's thread."""

    def discard(self) -> None:
        """Frees what the part holds, as it will not be written (any more). Any thread; also called after `write`."""


class ListMode(enum.Enum):
    """How the items of a list are distributed when a job is restored (see PartKind)."""

    SPLIT = PartKind.SPLIT
    UNION = PartKind.UNION
    GATHERED = PartKind.GATHERED
    BROADCAST = PartKind.BROADCAST


@dataclass
class OperatorSnapshot:
    """The state of one operator at one barrier."""

    parts: list[PendingPart] = field(default_factory=list)

    def add_keyed(self, name: str, make_table: Callable[[], KeyedTable], owned: range) -> None:
        """Adds keyed state.

        Args:
            make_table: runs off the task's thread, so that it must hold copies of what the task changes.
            owned: the key groups of the subtask.
        """
        self.parts.append(_KeyedPart(name, make_table, owned))

    def add_list(self, name: str, items: Iterable[Any], mode: ListMode = ListMode.SPLIT) -> None:
        """Adds operator state. The items are pickled at once, so they may change afterwards."""
        pickled = [dumps(item) for item in items]
        self.parts.append(_ListPart(name, pickled, mode))

    def discard(self) -> None:
        for part in self.parts:
            part.discard()


class KeyedTable(Struct, frozen=True):
    """Rows of keyed state, in the order of their key groups, and within a group in the order in which they came."""

    groups: npt.NDArray[np.int32]
    """The key group of each row, ascending."""
    data: pa.Table
    """Any columns that the operator wants back, its keys among them. Schema metadata is kept."""

    @staticmethod
    def of(groups: npt.NDArray[Any], data: pa.Table) -> KeyedTable:
        """Orders rows by key group.

        Args:
            groups: the key group of each row of `data` (`actors.keys.hashes.key_groups`), in any order.
        """
        order = order_by(groups)
        return KeyedTable(groups[order].astype(np.int32), take_rows_as_table(data, order))

    def within(self, owned: range) -> pa.Table:
        """The rows whose key groups are in the range."""
        first, end = np.searchsorted(self.groups, [owned.start, owned.stop])
        return self.data.slice(first, end - first)


class RestoredState(Protocol):
    """An operator subtask's state as it was in the checkpoint that the task starts from. The task's thread reads it."""

    @property
    def checkpoint_id(self) -> int: ...

    @property
    def is_rescaled(self) -> bool:
        """The operator had another parallelism, so that none of its former subtasks corresponds to this one."""

    def names(self) -> frozenset[str]:
        """The names of all parts."""

    def keyed(self, name: str) -> Iterator[pa.Table]:
        """The rows of a KEYED part whose key groups this subtask owns, as several tables; none if there is no such
        part.

        Raises:
            CheckpointError: a file is missing or damaged; names it and the operator.
        """

    def items(self, name: str) -> list[Any]:
        """The items of a list that are this subtask's; empty if there is no such part. Raises what `keyed` does."""

    def native(self, name: str) -> Iterator[NativeState]:
        """What a state backend wrote in its own format, for each former subtask that owned some of the key groups."""


class NativeState(Protocol):
    """Files that a state backend wrote as one subtask's part. Reading raises what `RestoredState.keyed` does."""

    @property
    def key_groups(self) -> range:
        """The key groups of the subtask that wrote the files."""

    def description(self) -> bytes:
        """The bytes that the backend wrote as the part's data."""

    def shared_files(self) -> tuple[SharedFile, ...]: ...

    def fetch(self, file: SharedFile, local_path: str) -> None:
        """Copies a file to a local path, and checks it."""


class _KeyedPart(PendingPart):
    def __init__(self, name: str, make_table: Callable[[], KeyedTable], owned: range) -> None:
        self._name = name
        self._make_table: Callable[[], KeyedTable] | None = make_table
        self._owned = owned

    def write(self, writer: StateWriter) -> StatePart:
        make_table, self._make_table = self._make_table, None
        assert make_table is not None, "a part is written once"
        table = make_table()
        written = writer.write_with(lambda stream: write_keyed_table(table, stream))
        owned = (self._owned.start, self._owned.stop)
        return StatePart(self._name, PartKind.KEYED, written, table.data.num_rows, owned)

    def discard(self) -> None:
        self._make_table = None


def write_keyed_table(table: KeyedTable, stream: IO[bytes]) -> None:
    """Writes a KEYED part: an Arrow IPC stream, with the key groups as its first column."""
    whole = table.data.add_column(0, pa.field(KEY_GROUP_COLUMN, pa.int32()), from_numpy(table.groups))
    with pa.ipc.new_stream(stream, whole.schema) as writer:
        writer.write_table(whole, max_chunksize=65_536)


def read_keyed_table(stream: Any, owned: range) -> Iterator[pa.Table]:
    """Reads the rows of a KEYED part whose key groups are in the range, as several tables.

    Args:
        stream: whatever pa.ipc.open_stream takes.
    """
    for batch in pa.ipc.open_stream(stream):
        groups = as_numpy(batch.column(0))
        table = pa.Table.from_batches([batch]).drop_columns([KEY_GROUP_COLUMN])
        rows = KeyedTable(groups, table).within(owned)
        if rows.num_rows:
            yield rows


class _ListPart(PendingPart):
    def __init__(self, name: str, items: list[bytes], mode: ListMode) -> None:
        self._name = name
        self._items = items
        self._mode = mode

    def write(self, writer: StateWriter) -> StatePart:
        written = writer.write(pickle.dumps(self._items, PROTOCOL))
        kind: PartKind = self._mode.value
        return StatePart(self._name, kind, written, len(self._items))


def read_list(data: bytes, first: int = 0, end: int | None = None) -> list[Any]:
    """Reads the items of a list part from index `first` to before `end`."""
    return [loads(item) for item in pickle.loads(data)[first:end]]
