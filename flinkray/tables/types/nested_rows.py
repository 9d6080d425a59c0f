"""Rows within the rows of results: they come as `Row`s, as the outer ones do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkray.tables.types.logical import CollectionType, LogicalType, MapType, RowType, TypeRoot
from flinkray.types.rows import Row, row_class

Form = Callable[[Any], Any]


def row_form(rows: RowType) -> Form | None:
    """What makes `Row`s of the rows in a decoded row, which it keeps the kind of; None: there are none in it."""
    forms = [_form(each) for each in rows.types]
    if not any(forms):
        return None

    def formed(row: Row) -> Row:
        values = tuple(each if form is None else form(each) for form, each in zip(forms, row, strict=True))
        return type(row)._maker()(values)

    return formed


def _form(kind: LogicalType) -> Form | None:
    found = _of_present(kind)
    return None if found is None else lambda value: None if value is None else found(value)


def _of_present(kind: LogicalType) -> Form | None:
    if isinstance(kind, RowType):
        make, forms = row_class(kind.names)._maker(), [_form(each) for each in kind.types]
        return lambda row: make(
            tuple(each if form is None else form(each) for form, each in zip(forms, row.values(), strict=True))
        )
    if kind.root is TypeRoot.MULTISET:
        return None  # its elements are keys, and rows already, as nothing else of several values has a hash
    if isinstance(kind, CollectionType) and (of_element := _form(kind.element)) is not None:
        return lambda values: [of_element(each) for each in values]
    if isinstance(kind, MapType) and (of_value := _form(kind.value)) is not None:
        return lambda pairs: {key: of_value(each) for key, each in pairs.items()}
    return None
