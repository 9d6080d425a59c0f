"""Rows as row functions see them: light, immutable, read by attribute, name or position."""

from __future__ import annotations

import enum
import functools
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, SupportsIndex

from flinkray.errors import did_you_mean
from flinkray.persistence import known_as
from flinkray.types.records import tuple_columns


class RowKind(enum.Enum):
    """What a row of a changelog does (Flink's RowKind). Streams hold insertions only."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


class Row(tuple[Any, ...]):
    """One row of named columns: `row.price`, `row["price"]` and `row[0]` give the same value.

    `Row(name="Ann", age=30)` makes a named row and `Row("Ann", 30)` one without names (its columns then count as
    `f0`, `f1`, and it is matched with a declared type by position); `Person = Row("name", "age")` makes a constructor,
    `Person("Ann", 30)`, as in PyFlink. A column that is no Python identifier, or is called `as_dict`, is read by item.

    Rows are immutable and iterate over their values; `row._replace(age=31)` gives a changed copy. Two rows are equal
    exactly when names and values are. The runtime makes rows through `row_class`, whose subclasses hold the names.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()
    """The column names, in order."""
    _is_named: ClassVar[bool] = False
    """False: the row was made without names, so `_fields` are f0, f1, ..."""
    _positions: ClassVar[Mapping[str, int]] = {}

    def __new__(cls, *values: Any, **columns: Any) -> Row:
        if cls is not Row:
            return cls._of_class(values, columns)
        if values and columns:
            raise ValueError("Row takes either values, Row(1, 2), or named columns, Row(a=1, b=2), not both")
        if columns:
            return tuple.__new__(row_class(tuple(columns)), tuple(columns.values()))
        return tuple.__new__(_unnamed_row_class(len(values)), values)

    @classmethod
    def _of_class(cls, values: tuple[Any, ...], columns: dict[str, Any]) -> Row:
        names = cls._fields[len(values) :]
        if len(values) > len(cls._fields) or set(names) != set(columns):
            raise TypeError(f"a row of {', '.join(cls._fields)} needs exactly these values")
        return tuple.__new__(cls, values + tuple(columns[name] for name in names))

    @classmethod
    def _from_columns(cls, columns: Iterable[Iterable[Any]]) -> Iterator[Row]:
        """One row per position of equally long columns: how the runtime turns columns into rows."""
        return map(cls._maker(), zip(*columns, strict=True))

    @classmethod
    def _maker(cls) -> Callable[[tuple[Any, ...]], Row]:
        """A function from a tuple of values, as many as there are columns, to a row; it checks nothing."""
        return functools.partial(tuple.__new__, cls)

    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        """A value by column name or position, or a tuple of values by slice."""
        if isinstance(key, str):
            position = self._positions.get(key)
            if position is None:
                raise KeyError(self._missing(key))
            return tuple.__getitem__(self, position)
        return tuple.__getitem__(self, key)

    def __getattr__(self, name: str) -> Any:
        # Only reached where the class has no such column.
        raise AttributeError(self._missing(name))

    def _missing(self, name: str) -> str:
        return f"this row has no column {name!r}{did_you_mean(name, self._fields)}; columns: {', '.join(self._fields)}"

    def __call__(self, *values: Any) -> Row:
        """A row whose column names are this row's values: `Person = Row("name", "age"); Person("Ann", 30)`."""
        if self._is_named or not all(isinstance(name, str) for name in self):
            raise TypeError("only a row of column names, such as Row('name', 'age'), can be called to make rows")
        return row_class(tuple(self))(*values)

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Column name -> value; `recursive` turns rows within values (and within lists and dicts) into dicts too."""
        values = (_plain(value) for value in self) if recursive else self
        return dict(zip(self._fields, values, strict=True))

    def keys(self) -> tuple[str, ...]:
        """The column names, so that `{**row, "age": 31}` and `dict(row)` make a dict."""
        return self._fields

    def _replace(self, **changes: Any) -> Row:
        """A row with some values replaced."""
        for name in changes:
            if name not in self._positions:
                raise ValueError(self._missing(name))
        values = tuple(changes.get(name, value) for name, value in zip(self._fields, self, strict=True))
        return tuple.__new__(type(self), values)

    def get_row_kind(self) -> RowKind:
        """PyFlink has it: always INSERT, since streams hold insertions only."""
        return RowKind.INSERT

    def get_fields_by_names(self, names: list[str]) -> list[Any]:
        """The values of these columns, in that order."""
        return [self[name] for name in names]

    def __eq__(self, other: object) -> bool:
        # Classes are cached by names, so the same class means the same names. A plain tuple is never equal to a row.
        return type(other) is type(self) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        if not self._is_named:
            return f"<Row({', '.join(map(repr, self))})>"  # as PyFlink has it
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(self._fields, self, strict=True))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._fields if self._is_named else None, tuple(self))


def row_class(names: tuple[str, ...]) -> type[Row]:
    """The class of rows with these column names, the same one for the same names.

    `row_class(names)(*values)` checks the number of values; `_maker()` and `_from_columns(...)` are the fast ways.

    Raises:
        ValueError: a name occurs twice.
    """
    return _cached_class(tuple(names), True)


def _unnamed_row_class(width: int) -> type[Row]:
    return _cached_class(tuple(tuple_columns(width)), False)


_CLASSES: dict[tuple[tuple[str, ...], bool], type[Row]] = {}

_GIVING_WAY = ("count", "index", "keys")
"""Methods that give way to a column of the same name."""


def _cached_class(names: tuple[str, ...], is_named: bool) -> type[Row]:
    found = _CLASSES.get((names, is_named))
    if found is None:
        # setdefault: where two threads make the class at once, both get the one that came first.
        found = _CLASSES.setdefault((names, is_named), _make_class(names, is_named))
    return found


def _make_class(names: tuple[str, ...], is_named: bool) -> type[Row]:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"a row cannot have two columns named {twice!r}")
    # namedtuple brings the fast C descriptors; rename=True lets it take any text as a name.
    fields: Any = namedtuple("fields", names, rename=True)  # type: ignore[misc]
    attributes: dict[str, Any] = {
        name: getattr(fields, field)
        for name, field in zip(names, tuple(map(str, fields._fields)), strict=True)
        if not hasattr(Row, name) or name in _GIVING_WAY
    }
    attributes |= {
        "__slots__": (),
        "_fields": names,
        "_is_named": is_named,
        "_positions": {name: position for position, name in enumerate(names)},
    }
    return type("Row", (Row,), attributes)


@known_as("flinkray/Row@1")
def _rebuild(names: tuple[str, ...] | None, values: tuple[Any, ...]) -> Row:
    return tuple.__new__(_unnamed_row_class(len(values)) if names is None else row_class(names), values)


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
