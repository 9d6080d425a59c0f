"""The types that keys of one stream may have: they widen from batch to batch, and never turn into others.

Keys of two types that no type holds (a number and a text) are refused wherever the rows of a stream were cut into
batches: within a batch when its keys are made into columns (`hashes.py`), and between batches here.
"""

from __future__ import annotations

import pyarrow as pa

from flinkray.batches.row_codec import short_repr
from flinkray.batches.value_columns import to_values
from flinkray.errors import TypeMismatchError
from flinkray.types.value_types import unify_types


class KeyTypes:
    """The types of the keys that came so far. Belongs to one thread."""

    def __init__(self) -> None:
        self._types: list[pa.DataType] | None = None

    def add(self, columns: pa.RecordBatch, where: str) -> None:
        """Notes the types of a batch's key columns.

        Args:
            where: names the task or operator in the error.
        Raises:
            TypeMismatchError: no type holds these keys and those that came before; names a column and a key.
        """
        types = columns.schema.types
        if types == self._types or not columns.num_rows:
            return
        if self._types is None:
            self._types = [_decoded(each) for each in types]
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
