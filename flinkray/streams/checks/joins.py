"""Keys of two streams that meet in one operator, and the columns of a columnar join."""

from __future__ import annotations

import pyarrow as pa

from flinkray.errors import InvalidProgramError
from flinkray.streams.checks.known_types import UNKNOWN, KnownType
from flinkray.transformations.operator_factories import RIGHT_SUFFIX
from flinkray.types.keys import ColumnKey, KeySelector
from flinkray.types.records import Kind, RecordType
from flinkray.types.type_unification import have_same_fields, unify_types


def check_same_keys(
    keys: tuple[KeySelector | None, KeySelector | None], known: tuple[KnownType, KnownType], where: str
) -> None:
    """Checks, as far as that is known, that one type holds the keys of two streams.

    Args:
        keys: of the two streams.
        known: what is known of their records.
        where: the operation, for the error.
    Raises:
        InvalidProgramError: they have a different number of columns, or columns of types that no type holds.
    """
    left, right = keys
    if not isinstance(left, ColumnKey) or not isinstance(right, ColumnKey):
        return  # what a function gives is known when it runs
    if len(left.columns) != len(right.columns):
        raise InvalidProgramError(
            f"{where}: the keys have {len(left.columns)} and {len(right.columns)} columns: ({left}) and ({right})"
        )
    types = known[0].record_type, known[1].record_type
    if types[0] is None or types[1] is None:
        return
    for name, other in zip(left.columns, right.columns, strict=True):
        left_type, right_type = types[0].schema.field(name).type, types[1].schema.field(other).type
        if unify_types(left_type, right_type) is None or not have_same_fields(left_type, right_type):
            raise InvalidProgramError(
                f"{where}: key {name!r} is {left_type} and key {other!r} is {right_type}: the keys of both streams "
                f"must have one type, and no type holds both; cast one of them, "
                f"with_columns({other}=col({other!r}).cast({str(left_type)!r}))"
            )


def joined_type(left: KnownType, right: KnownType, right_key: KeySelector | None) -> KnownType:
    """What is known of the rows of the columnar inner join: the left columns, then the right ones without their key.

    Raises:
        InvalidProgramError: two columns would have the same name, also with the suffix of the right ones.
    """
    if left.columns is None or right.columns is None:
        return UNKNOWN
    left_out = right_key.columns if isinstance(right_key, ColumnKey) else ()
    kept = [name for name in right.columns if name not in left_out]
    renamed = [name + RIGHT_SUFFIX if name in left.columns else name for name in kept]
    names = [*left.columns, *renamed]
    if len(set(names)) < len(names):
        raise InvalidProgramError(f"join would give two columns the same name: {', '.join(names)}; rename one first")
    if left.record_type is None or right.record_type is None:
        return KnownType.of_columns(names)
    fields = [right.record_type.schema.field(name).with_name(new) for name, new in zip(kept, renamed, strict=True)]
    return KnownType.of(RecordType(Kind.ROW, pa.schema([*left.record_type.schema, *fields])))
