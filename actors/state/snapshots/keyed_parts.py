"""The format of keyed state in checkpoints and savepoints, which every state backend writes and reads.

A state is a table with a row per value, list element or map entry, ordered by key group, those of a list in its order:
`group` (the key group, which is also the first column of every KEYED part, but readers get the rows without that one),
`key` (pickled), `map_key` (pickled; maps only), `value`, and `renewed` (epoch milliseconds from which the time to live
counts, or null). Values are in an Arrow column of the declared type where that gives each value back exactly as it was,
else as bytes (`actors.state.snapshots.values`). The schema's metadata says what state it is, and as "pickled" whether
values are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import pyarrow as pa

from actors.protocol.checkpoint_handles import PartKind, StatePart
from actors.state.snapshots.evolution import Evolution, type_to_bytes
from actors.state.snapshots.snapshot import KEY_GROUP_COLUMN, KeyedTable, PendingPart, StateWriter
from actors.state.snapshots.values import value_of_bytes, value_to_bytes
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.batches.row_codec import short_repr
from flinkray.batches.value_columns import to_array, to_values
from flinkray.errors import CheckpointError
from flinkray.functions.type_hints import record_type
from flinkray.persistence import loads
from flinkray.state.descriptors import StateDescriptor
from flinkray.types.records import Kind
from flinkray.types.value_types import Misfit

ROWS_PER_TABLE = 4096
"""The most rows of a table: few enough that building one does not keep the task's thread waiting for long."""

_BYTES_PER_TABLE = 64 << 20
"""The most bytes of a table, as estimated from the rows of the table before it."""
_FIRST_ROWS = 64
"""Rows of the first table, for which there is no estimate."""
_GROWTH = 8
"""How many times as many rows as the table before it a table may have."""

_EXACT_TYPES = frozenset(
    {pa.bool_(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.date32()}
    | {pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()}
)
"""Types whose columns give values back as they were. Others change values: float32 rounds, a list comes back for a
tuple and a dict for a dataclass."""

_ANY = "any"
_DECLARED = b"declared"


@dataclass(frozen=True, slots=True)
class StateFacts:
    """What a state is, as far as its rows in a checkpoint depend on it (Flink's StateMetaInfoSnapshot)."""

    name: str
    kind: str
    has_ttl: bool
    value_type: str
    """The declared type of values, as text; "any" where none was declared."""
    key_type: str
    """The declared type of a map's keys, as text."""
    column: Any = field(default=None, compare=False)
    """Arrow type of the value column; None: values are bytes."""
    declared: bytes = field(default=b"", compare=False)
    """The declared type of values (`type_to_bytes`); empty where none was declared, or an earlier version wrote it."""

    @staticmethod
    def of(descriptor: StateDescriptor, kind: str) -> StateFacts:
        value_text, column, declared = _declared(descriptor.value_type)
        key_text, _, _ = _declared(getattr(descriptor, "key_type", None))
        if kind == "aggregating":
            column = None  # the type may be that of the accumulator or of the result
        has_ttl = descriptor.active_ttl is not None
        return StateFacts(descriptor.name, kind, has_ttl, value_text, key_text, column, declared)

    @staticmethod
    def of_schema(schema: pa.Schema) -> StateFacts:
        metadata = dict(schema.metadata)
        declared = metadata.pop(_DECLARED, b"")
        texts = {name.decode(): value.decode() for name, value in metadata.items()}
        column = None if texts["pickled"] == "true" else schema.field("value").type
        has_ttl = texts["ttl"] == "true"
        return StateFacts(
            texts["state"], texts["kind"], has_ttl, texts["value_type"], texts["key_type"], column, declared
        )

    def schema(self) -> pa.Schema:
        fields = [("group", pa.uint16()), ("key", pa.binary())]
        fields += [("map_key", pa.binary())] if self.kind == "map" else []
        fields += [("value", self.column or pa.binary()), ("renewed", pa.int64())]
        metadata = {
            "state": self.name,
            "kind": self.kind,
            "ttl": "true" if self.has_ttl else "false",
            "value_type": self.value_type,
            "key_type": self.key_type,
            "pickled": "true" if self.column is None else "false",
            _DECLARED: self.declared,
        }
        return pa.schema(fields, metadata)

    def differences(self, other: StateFacts) -> list[tuple[str, str, str]]:
        """(field, own type, the other's type) of the types that both declare, and declare differently."""
        pairs = [("value_type", self.value_type, other.value_type), ("key_type", self.key_type, other.key_type)]
        return [(name, old, new) for name, old, new in pairs if _ANY not in (old, new) and old != new]


class FirstStateFacts:
    """What the first version of StateFacts is read as."""

    def __new__(cls) -> StateFacts:  # type: ignore[misc]
        facts = object.__new__(StateFacts)
        object.__setattr__(facts, "declared", b"")
        return facts


def _declared(spec: object) -> tuple[str, Any, bytes]:
    """The text of a declared type, the Arrow type of its column where that is exact, and the type as bytes."""
    if spec is None:
        return _ANY, None, b""
    declared = record_type(spec)
    if declared.kind is Kind.OBJECT:
        return _ANY, None, b""
    if declared.kind is not Kind.SCALAR:
        return str(declared), None, type_to_bytes(declared)
    arrow_type = declared.schema.field(0).type
    return str(arrow_type), arrow_type if arrow_type in _EXACT_TYPES else None, type_to_bytes(declared)


StateRow = tuple[int, bytes, bytes | None, Any, int | None]
"""Key group, pickled key, pickled map key, value, time of the last renewal (None: it does not expire)."""


class StateTableBuilder:
    """Collects rows of one state, and makes tables of them.

    Args:
        where: names operator and subtask in errors.
        is_encoded: values are bytes already, where the column is of bytes.
    """

    def __init__(self, facts: StateFacts, where: str, is_encoded: bool = False) -> None:
        self._facts = facts
        self._where = where
        self._schema = facts.schema()
        self._encodes = facts.column is None and not is_encoded
        self._rows: list[StateRow] = []
        self._most = _FIRST_ROWS

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= self._most

    def add(self, row: StateRow) -> None:
        self._rows.append(row)

    def take(self) -> KeyedTable | None:
        """Removes the rows collected so far, and returns them as a table; None if there are none."""
        rows, self._rows = self._rows, []
        if not rows:
            return None
        groups, keys, map_keys, values, renewals = zip(*rows, strict=True)
        group_array = np.array(groups, np.int32)
        columns = [pa.array(group_array.astype(np.uint16)), pa.array(keys, pa.binary())]
        if self._facts.kind == "map":
            columns.append(pa.array(map_keys, pa.binary()))
        columns += [self._values(values, keys), pa.array(renewals, pa.int64())]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        fitting = _BYTES_PER_TABLE * len(rows) // table.nbytes
        self._most = max(1, min(_GROWTH * len(rows), fitting, ROWS_PER_TABLE))
        return KeyedTable(group_array, table)

    def _values(self, values: tuple[Any, ...], keys: tuple[bytes, ...]) -> pa.Array:
        if self._facts.column is None:
            return pa.array([value_to_bytes(value) for value in values] if self._encodes else values, pa.binary())
        try:
            return to_array(values, self._facts.column)
        except Misfit as misfit:
            key = keys[next(row for row, value in enumerate(values) if value is misfit.value)]
            raise CheckpointError(
                f"{self._where}: state {self._facts.name!r} is declared with value_type={self._facts.value_type}, but "
                f"for key {short_repr(loads(key))} it holds {short_repr(misfit.value)}; declare a type that "
                "holds it, or none"
            ) from misfit


def state_tables(
    facts: StateFacts, where: str, rows: Iterator[StateRow], is_encoded: bool = False
) -> Iterator[KeyedTable]:
    """The rows as tables, so that not all are in memory at once."""
    builder = StateTableBuilder(facts, where, is_encoded)
    for row in rows:
        builder.add(row)
        if builder.is_full and (table := builder.take()) is not None:
            yield table
    if (rest := builder.take()) is not None:
        yield rest


def rows_of(
    table: pa.Table, facts: StateFacts, decode: bool = True, evolution: Evolution | None = None
) -> Iterator[StateRow]:
    """The rows of a restored table.

    Args:
        decode: False leaves the values of a column of bytes as they are.
        evolution: makes values of another type of them; raises TypeChangeError where it cannot.
    """
    values = to_values(table.column("value").combine_chunks()) if table.num_rows else []
    if facts.column is None and decode:
        values = list(map(value_of_bytes if evolution is None else evolution.of_bytes, values))
    elif evolution is not None:
        values = list(map(evolution.of, values))
    groups, keys, renewals = (table.column(name).to_pylist() for name in ("group", "key", "renewed"))
    map_keys = table.column("map_key").to_pylist() if facts.kind == "map" else [None] * len(keys)
    return zip(groups, keys, map_keys, values, renewals, strict=True)


class TablePart(PendingPart):
    """A KEYED part that is written table by table.

    Args:
        make_tables: called once, by the thread that writes; key groups ascend through all of the tables.
        release: called once, when the part is written or discarded, by any thread.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        make_tables: Callable[[], Iterator[KeyedTable]],
        owned: range,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._schema = schema
        self._make_tables: Callable[[], Iterator[KeyedTable]] | None = make_tables
        self._owned = owned
        self._release: Callable[[], None] | None = release
        self._rows = 0

    def write(self, writer: StateWriter) -> StatePart:
        make_tables = self._make_tables
        assert make_tables is not None, f"part {self._name!r} was written or discarded before"
        try:
            written = writer.write_with(lambda stream: self._write(make_tables(), stream))
        finally:
            self.discard()
        return StatePart(self._name, PartKind.KEYED, written, self._rows, (self._owned.start, self._owned.stop))

    def _write(self, tables: Iterator[KeyedTable], stream: IO[bytes]) -> None:
        schema = self._schema.insert(0, pa.field(KEY_GROUP_COLUMN, pa.int32()))
        with pa.ipc.new_stream(stream, schema) as batches:
            for table in tables:
                groups = from_numpy(table.groups.astype(np.int32, copy=False))
                batches.write_table(pa.Table.from_arrays([groups, *table.data.columns], schema=schema))
                self._rows += table.data.num_rows

    def discard(self) -> None:
        self._make_tables = None
        release, self._release = self._release, None
        if release is not None:
            release()
