"""Columns that users name, and the columns that aggregates give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.expressions.tree import Expression
from flinkray.streams.checks.known_types import KnownType
from flinkray.types.keys import ColumnKey, KeySelector
from flinkray.types.records import Kind, tuple_columns
from flinkray.windows.aggregates import Aggregate, ArgMax, ArgMin, Count, TopN

WINDOW_COLUMNS = ("window_start", "window_end")
"""The columns of a window's bounds in the rows of built-in aggregates: epoch milliseconds."""


def column_name(column: object, known: KnownType, where: str) -> str | int:
    """The name that a column name or position means; a position stays one where the columns are not known.

    Raises:
        InvalidProgramError: it is neither, or a position outside the known columns.
    """
    if isinstance(column, str):
        return column
    if isinstance(column, bool) or not isinstance(column, int) or column < 0:
        raise InvalidProgramError(f"{where} takes a column name, or a position from 0, not {column!r}")
    if known.columns is None:
        return column
    if column >= len(known.columns):
        raise InvalidProgramError(f"{where}: no column at position {column}; columns: {', '.join(known.columns)}")
    return known.columns[column]


def check_aggregates(aggregates: Mapping[str, object], known: KnownType) -> tuple[tuple[str, Aggregate], ...]:
    """The aggregates as pairs of result column and aggregate.

    Raises:
        InvalidProgramError: there is none, or something is no aggregate.
        UnknownColumnError: an aggregate reads a column that is known not to exist.
    """
    if not aggregates:
        raise InvalidProgramError("aggregate needs at least one aggregate, for example aggregate(n=Count())")
    checked = []
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            hint = (
                f"; it is a class, so write it with (): {aggregate.__name__}()" if isinstance(aggregate, type) else ""
            )
            raise InvalidProgramError(
                f"aggregate: {name} is no aggregate such as Count() or Sum('x'): {aggregate!r}{hint}"
            )
        for column in _read_columns(name, aggregate):
            known.require([column] if isinstance(column, str) else sorted(column.columns()), f"aggregate {name}")
        checked.append((name, aggregate))
    return tuple(checked)


def _read_columns(name: str, aggregate: Aggregate) -> list[Any]:
    """The columns, or expressions, that the aggregate reads.

    Raises:
        InvalidProgramError: it lacks one, or has something else in its place.
    """
    function = type(aggregate).__name__
    columns = [] if isinstance(aggregate, Count) and aggregate.column is None else [aggregate.column]
    by = getattr(aggregate, "by", None)
    if by is not None or isinstance(aggregate, ArgMin | ArgMax):
        columns.append(by)
    for column in columns:
        if not isinstance(column, str | Expression):
            example = f"{function}('x', by='y')" if len(columns) > 1 else f"{function}('x')"
            several = "; several columns are one as struct('x', 'y')" if isinstance(column, tuple | list) else ""
            raise InvalidProgramError(
                f"aggregate {name}: {function} takes the name of a column or an expression, as in {example}, not "
                f"{column!r}{several}"
            )
    if isinstance(aggregate, TopN) and (isinstance(aggregate.n, bool) or not isinstance(aggregate.n, int)):
        raise InvalidProgramError(f"aggregate {name}: TopN('x', n) takes a number of values, not {aggregate.n!r}")
    if isinstance(aggregate, TopN) and aggregate.n < 1:
        raise InvalidProgramError(f"aggregate {name}: TopN takes one value or more, not {aggregate.n}")
    return columns


def result_columns(
    key: KeySelector | None, aggregates: tuple[tuple[str, Aggregate], ...], between: tuple[str, ...] = ()
) -> tuple[str, ...] | None:
    """The columns of a result row: the key's, `between`, the aggregates'; None where the key's are not known.

    Raises:
        InvalidProgramError: two of them have the same name.
    """
    keys = key_column_names(key)
    names = (*(keys or ()), *between, *(name for name, _ in aggregates))
    for name in keys or ():
        if name in between:
            raise InvalidProgramError(
                f"the key column {name!r} has the name of a column of the result, which says when its window is; "
                f"rename the key before key_by: rename({name}='of_{name}')"
            )
    for name, _ in aggregates:
        if names.count(name) > 1:
            raise InvalidProgramError(f"aggregate {name!r} has the name of a key or window column; choose another")
    return None if keys is None else names


def key_column_names(key: KeySelector | None) -> tuple[str, ...] | None:
    """The columns that hold the key (if any) in result rows; None where a function's key decides when it runs."""
    if key is None:
        return ()
    if isinstance(key, ColumnKey):
        return key.columns
    if key.key_type is None or key.key_type.kind is Kind.ROW:
        return None
    if key.key_type.kind is Kind.TUPLE:
        return tuple(name.replace("f", "key_") for name in tuple_columns(len(key.key_type.schema)))
    return ("key",)
