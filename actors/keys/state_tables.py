"""How columnar operators put state by key into the tables of a snapshot, and get it back from several of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Column, Columns, coalesced, take_rows_as_table
from actors.keys.hashes import key_groups
from actors.keys.index import Ids
from actors.operators.contract.operator import OperatorContext, label_of
from actors.state.snapshots.snapshot import KeyedTable
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.errors import CheckpointError, IncompatibleStateError

# Key columns come first. Their names, which may be any text, get a prefix; other columns may have equal names.
_KEY = "key:"
_WIDTH = "key columns"


class StateRows(Struct, frozen=True):
    """Rows of restored state that have the same columns."""

    keys: pa.RecordBatch | None
    """The key columns of the rows; None: the operator is not keyed."""
    columns: Mapping[str, pa.Array]
    metadata: Mapping[str, bytes]
    num_rows: int

    def columns_of(self, name: str) -> dict[str, pa.Array]:
        """The columns that are called `name:short`, by their short name, which has no colon; `name` may have some."""
        prefix = f"{name}:"
        behind = {column: column[len(prefix) :] for column in self.columns if column.startswith(prefix)}
        return {short: self.columns[column] for column, short in behind.items() if ":" not in short}

    def take(self, rows: npt.NDArray[np.int64]) -> StateRows:
        indices = from_numpy(rows)
        keys = None if self.keys is None else self.keys.take(indices)
        columns = {name: column.take(indices) for name, column in self.columns.items()}
        return StateRows(keys, columns, self.metadata, len(rows))


class KeyedTables(Struct, frozen=True):
    """Makes the tables of keyed state of one operator subtask; any thread may call it."""

    max_parallelism: int
    owned: range
    where: str

    @staticmethod
    def of(context: OperatorContext) -> KeyedTables:
        return KeyedTables(context.max_parallelism, context.key_group_range, label_of(context))

    def make(
        self,
        keys: Columns | None,
        ids: Ids | None,
        columns: Mapping[str, Column],
        metadata: Mapping[str, bytes],
    ) -> KeyedTable:
        """A table of `columns`, whose row i belongs to key `ids[i]`.

        Args:
            keys: the key columns, a row per key; None: the operator is not keyed, so all rows stay together.
            ids: the row of `keys` that each row belongs to; None: row i belongs to key i.
            metadata: is stored in the schema, and comes back with the rows.
        """
        if keys is None:
            rows = len(next(iter(columns.values())))
            return self.grouped(np.full(rows, self.owned.start, np.int32), columns, metadata)
        batches = [keys] if isinstance(keys, pa.RecordBatch) else keys.to_batches()
        groups = np.concatenate([key_groups(batch, self.max_parallelism) for batch in batches])
        if ids is not None:
            groups, keys = groups[ids], take_rows_as_table(keys, ids)
        self._check(groups, keys)
        key_columns = [(_KEY + name, column) for name, column in zip(keys.schema.names, keys.columns, strict=True)]
        return _table(groups, [*key_columns, *columns.items()], {**metadata, _WIDTH: str(len(key_columns)).encode()})

    def grouped(
        self, groups: npt.NDArray[np.int32], columns: Mapping[str, pa.Array], metadata: Mapping[str, bytes]
    ) -> KeyedTable:
        """A table whose row i is of key group `groups[i]`; keys, if there are any, are among the `columns`."""
        return _table(groups, list(columns.items()), {**metadata, _WIDTH: b"0"})

    def _check(self, groups: npt.NDArray[np.int32], keys: Columns) -> None:
        """Raises CheckpointError where a row is of another subtask's key group: it would not be found when restored."""
        strange = np.flatnonzero((groups < self.owned.start) | (groups >= self.owned.stop))
        if len(strange):
            key = keys.slice(int(strange[0]), 1).to_pylist()[0]
            raise CheckpointError(
                f"{self.where}: the key {key} belongs to key group {groups[strange[0]]}, which is another subtask's. A "
                "key column changed its type on the way, and with it how its values are told apart (such as the unit "
                "of times); cast the column to one type before key_by"
            )


def _table(
    groups: npt.NDArray[np.int32], columns: Sequence[tuple[str, Column]], metadata: Mapping[str, bytes]
) -> KeyedTable:
    schema = pa.schema([(name, column.type) for name, column in columns], metadata)
    return KeyedTable.of(groups, pa.Table.from_arrays([column for _, column in columns], schema=schema))


def state_rows(pieces: Iterable[pa.Table]) -> list[StateRows]:
    """The pieces of a part, coalesced: those with the same columns in as few StateRows as have room for their text, in
    order; rows of one key may be in several."""
    by_schema: list[list[pa.Table]] = []
    for piece in pieces:
        for tables in by_schema:
            if tables[0].schema.equals(piece.schema, check_metadata=True):
                tables.append(piece)
                break
        else:
            by_schema.append([piece])
    batches = [[batch for table in tables for batch in table.to_batches()] for tables in by_schema]
    return [_rows_of(batch) for same in batches for batch in coalesced(same)]


def _rows_of(batch: pa.RecordBatch) -> StateRows:
    metadata = {name.decode(): value for name, value in batch.schema.metadata.items()}
    width = int(metadata[_WIDTH])
    keys = None
    if width:
        names = [name.removeprefix(_KEY) for name in batch.schema.names[:width]]
        keys = pa.RecordBatch.from_arrays(batch.columns[:width], names=names)
    columns = dict(zip(batch.schema.names[width:], batch.columns[width:], strict=True))
    return StateRows(keys, columns, metadata, batch.num_rows)


def check_same(rows: StateRows, name: str, now: str, where: str) -> None:
    """Raises IncompatibleStateError where the metadata `name` of restored rows is not what the program says now."""
    then = rows.metadata.get(name, b"").decode()
    if then != now:
        raise IncompatibleStateError(
            f"{where}: its state was written for {name} {then}, and the program has {now} now. Go back to that, or "
            "give the operator another uid to start it without state"
        )


def same_rows(pieces: Iterable[pa.Table], name: str, now: str, where: str) -> list[StateRows]:
    """As `state_rows`; raises as `check_same` where one of the pieces differs."""
    parts = state_rows(pieces)
    for part in parts:
        check_same(part, name, now, where)
    return parts


def types_to_bytes(types: Mapping[str, pa.DataType]) -> bytes:
    """Types by name as bytes, for the metadata of a table."""
    return bytes(pa.schema(list(types.items())).serialize())


def types_from_bytes(data: bytes) -> dict[str, pa.DataType]:
    """The types that `types_to_bytes` stored."""
    schema = pa.ipc.read_schema(pa.py_buffer(data))
    return dict(zip(schema.names, schema.types, strict=True))
