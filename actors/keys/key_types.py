"""The types that keys of one stream may have: they widen from batch to batch, and never turn into others.

Keys of two types that no type holds (a number and a text) are refused wherever the rows of a stream were cut into
batches: within a batch when its keys are made into columns (`hashes.py`), and between batches here. State has the types
of its keys, too: a program that keys by something else would find none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from actors.state.snapshots.snapshot import ListMode, OperatorSnapshot, RestoredState
from flinkray.batches.row_codec import short_repr
from flinkray.batches.value_columns import to_values
from flinkray.errors import IncompatibleStateError, TypeMismatchError
from flinkray.types.object_type import PICKLED, ObjectType
from flinkray.types.type_unification import have_same_fields, unify_types

_PART = "key types"
"""The part of a snapshot with the types of the keys, where the keys themselves are pickled."""


class KeyTypes:
    """The types of the keys that came so far, and of those in the state that was restored. Belongs to one thread."""

    def __init__(self) -> None:
        self._types: list[pa.DataType] | None = None
        self._saved: list[pa.DataType] | None = None
        """The types of the keys in the restored state, until keys of this program have come."""

    def add(self, columns: pa.RecordBatch, where: str) -> None:
        """Notes the types of a batch's key columns.

        Args:
            where: names the task or operator in the error.
        Raises:
            TypeMismatchError: no type holds these keys and those that came before; names a column and a key.
            IncompatibleStateError: nor do those in the state hold them; names both types.
        """
        types = columns.schema.types
        if types == self._types or not columns.num_rows:
            return
        if self._saved is not None:
            check_saved_types(self._saved, types, f"{where}: ")
            self._saved = None
        if self._types is None:
            self._types = [_decoded(each) for each in types]
            return
        if has_objects([*self._types, *types]):
            self._types = unified_with_objects(self._types, types)
            return
        if len(types) != len(self._types):
            key = tuple(column[0].as_py() for column in columns.columns)
            raise TypeMismatchError(
                f"{where}: the key {short_repr(key)} has {len(types)} columns, and earlier keys had "
                f"{len(self._types)}; give every key as many"
            )
        unified = []
        for name, old, column in zip(columns.schema.names, self._types, columns.columns, strict=True):
            try:
                unified.append(unified_key_type(name, old, _decoded(column.type), column))
            except TypeMismatchError as error:
                raise TypeMismatchError(f"{where}: {error}") from None
        self._types = unified

    def written(self) -> bytes:
        """The types as a snapshot that has keys holds them; empty before the first key."""
        return b"" if self._types is None else bytes(_schema_of(self._types).serialize())

    def add_to(self, snapshot: OperatorSnapshot) -> None:
        """Adds the types to a snapshot that has keys, as a part of their own."""
        if self._types is not None:
            snapshot.add_list(_PART, [self.written()], ListMode.GATHERED)

    def restore(self, restored: RestoredState) -> None:
        """Takes over the types that `add_to` put into a snapshot; one of an earlier version has none."""
        self.restore_written(restored.items(_PART))

    def restore_written(self, of_subtasks: Iterable[bytes]) -> None:
        """Takes over the types of the keys of all former subtasks."""
        for written in filter(None, of_subtasks):
            types = pa.ipc.read_schema(pa.py_buffer(written)).types
            self._types = types if self._types is None else _of_all(self._types, types)
        self._saved = self._types


def check_saved_types(saved: Sequence[pa.DataType], now: Sequence[pa.DataType], where: str = "") -> None:
    """Checks that keys whose columns have the types `now` are found among keys in state.

    Args:
        where: begins the error.
    Raises:
        IncompatibleStateError: they are not, as another type has other keys and hashes; names both types.
    """
    types = [_decoded(each) for each in now]
    if has_objects(types):
        return  # keys of whatever type
    if len(saved) != len(types) or not all(map(_has_same_keys, saved, types)):
        raise IncompatibleStateError(
            f"{where}its state has keys of type {_joined(saved)}, and the program keys it by type {_joined(types)} "
            "now, by which nothing of it would be found. Key by something of the former type, or give the operator "
            "another uid to start it without state"
        )


def _has_same_keys(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether equal values of both types are the same key, and have the same hash."""
    if isinstance(old, ObjectType) and old != PICKLED:
        old = old.storage_type
    if pa.types.is_null(old) or pa.types.is_null(new):
        return True
    return have_same_fields(old, new) and unify_types(old, new) is not None


def _of_all(types: list[pa.DataType], others: list[pa.DataType]) -> list[pa.DataType]:
    """The types that hold the keys of several subtasks of one program."""
    if has_objects(types) or has_objects(others):
        return unified_with_objects(types, others)
    return [unify_types(*both) or both[0] for both in zip(types, others, strict=True)]


def has_objects(types: Iterable[pa.DataType]) -> bool:
    """Whether these are the types of keys that are Python objects."""
    return any(isinstance(each, ObjectType) for each in types)


def unified_with_objects(old: Sequence[pa.DataType], new: Sequence[pa.DataType]) -> list[pa.DataType]:
    """The types that hold keys of both types, of which at least one is that of Python objects."""
    return list(old) if list(old) == list(new) else [PICKLED]


def _schema_of(types: Iterable[pa.DataType]) -> pa.Schema:
    return pa.schema([(str(index), each) for index, each in enumerate(types)])


def _joined(types: Iterable[pa.DataType]) -> str:
    return ", ".join(map(str, types))


def unified_key_type(name: str, old: pa.DataType, new: pa.DataType, column: pa.Array) -> pa.DataType:
    """The type that holds keys of both types, of which `column` has the new one.

    Raises:
        TypeMismatchError: there is none.
    """
    unified = unify_types(old, new)
    if unified is None:
        values = to_values(column.drop_null().slice(0, 1))
        example = f", such as {short_repr(values[0])}" if values else ""
        raise TypeMismatchError(
            f"key column {name!r} was {old} and is {new} now{example}: keys of both cannot be compared. Cast the "
            "column to one type before key_by, or have the key function give one"
        )
    return unified


def _decoded(arrow_type: pa.DataType) -> pa.DataType:
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
