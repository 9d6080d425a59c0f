"""What is known of a stream's records while the program is being written, so that wrong names fail where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from flinkray.errors import InvalidProgramError, UnknownColumnError
from flinkray.expressions.tree import Alias, Column, Expression
from flinkray.types.records import SCALAR_COLUMN, Kind, RecordType
from flinkray.types.type_unification import unify_types


@dataclass(frozen=True, slots=True)
class KnownType:
    """The record type of a stream, or only its column names, or nothing (then the first batch decides at run time)."""

    record_type: RecordType | None = None
    columns: tuple[str, ...] | None = None

    @staticmethod
    def of(record_type: RecordType | None) -> KnownType:
        if record_type is None:
            return UNKNOWN
        # A pickled object has one binary column that no program means when it names a column.
        columns = (SCALAR_COLUMN,) if record_type.kind is Kind.OBJECT else tuple(record_type.schema.names)
        return KnownType(record_type, columns)

    @staticmethod
    def of_columns(columns: Iterable[str] | None) -> KnownType:
        return UNKNOWN if columns is None else KnownType(None, tuple(columns))

    def require(self, columns: Iterable[str], where: str) -> None:
        """Checks that the columns exist, as far as that is known.

        Raises:
            UnknownColumnError: one does not; it names the nearest one that does.
        """
        if self.columns is None:
            return
        for column in columns:
            if column not in self.columns:
                raise UnknownColumnError(column, self.columns, where)

    # -- what column operations make of it; each gives rows, whatever the kind was before

    def projected(self, new: Sequence[tuple[str, Expression]], keep_all: bool) -> KnownType:
        """The type with new columns from expressions, after (`keep_all`) or in place of the present ones."""
        if not keep_all:
            return self._typed([name for name, _ in new], dict(new))
        if self.columns is None:
            return UNKNOWN
        fresh = dict(new)
        return self._typed([*self.columns, *(name for name in fresh if name not in self.columns)], fresh)

    def with_column(self, name: str, arrow_type: pa.DataType) -> KnownType:
        """The type with a further column."""
        if self.record_type is None:
            return KnownType.of_columns(None if self.columns is None else (*self.columns, name))
        return KnownType.of(RecordType(Kind.ROW, self.record_type.schema.append(pa.field(name, arrow_type))))

    def dropped(self, columns: Iterable[str]) -> KnownType:
        if self.columns is None:
            return UNKNOWN
        gone = set(columns)
        return self._typed([name for name in self.columns if name not in gone], {})

    def renamed(self, renames: Mapping[str, str]) -> KnownType:
        if self.columns is None:
            return UNKNOWN
        new = {renames.get(name, name): Column(name) for name in self.columns}
        if len(new) < len(self.columns):
            raise InvalidProgramError(f"rename would give two columns the same name: {dict(renames)}")
        return self._typed(list(new), dict(new))

    def _typed(self, names: Sequence[str], changed: Mapping[str, Expression]) -> KnownType:
        """The type of these columns; with Arrow types only where each changed column is a copy of one of known type."""
        fields = [self._field(name, changed.get(name, Column(name))) for name in names]
        known = [field for field in fields if field is not None]
        if len(known) < len(fields):
            return KnownType.of_columns(names)
        return KnownType.of(RecordType(Kind.ROW, pa.schema(known)))

    def _field(self, name: str, expression: Expression) -> pa.Field | None:
        while isinstance(expression, Alias):
            expression = expression.expression
        if self.record_type is None or not isinstance(expression, Column):
            return None
        return self.record_type.schema.field(expression.name).with_name(name)


UNKNOWN = KnownType()


def check_same_types(types: Sequence[KnownType]) -> KnownType:
    """What is known of the union of streams of these types: columns have the types that hold those of all streams.

    Raises:
        InvalidProgramError: two of them are known to differ by more than the layout or the width of a column.
    """
    known = [(position, type_) for position, type_ in enumerate(types, start=1) if type_.columns is not None]
    if not known:
        return UNKNOWN
    first_position, united = known[0]
    for position, type_ in known[1:]:
        merged = _united(united, type_)
        if merged is None:
            raise InvalidProgramError(
                f"union of streams of different types: stream {first_position} has {_describe(united)}, stream "
                f"{position} has {_describe(type_)}; bring them to one type with select, rename or map first"
            )
        united = merged
    return united


def _united(left: KnownType, right: KnownType) -> KnownType | None:
    """The type of rows of both types; None: there is none."""
    if left.columns != right.columns:
        return None
    if left.record_type is None or right.record_type is None:
        return left if right.record_type is None else right
    if left.record_type.kind is not right.record_type.kind:
        return None
    fields = []
    for one, other in zip(left.record_type.schema, right.record_type.schema, strict=True):
        merged = unify_types(one.type, other.type)
        if merged is None:
            return None
        fields.append(one.with_type(merged).with_nullable(one.nullable or other.nullable))
    return KnownType.of(RecordType(left.record_type.kind, pa.schema(fields, left.record_type.schema.metadata)))


def _describe(type_: KnownType) -> str:
    return str(type_.record_type) if type_.record_type else f"columns {', '.join(type_.columns or ())}"
