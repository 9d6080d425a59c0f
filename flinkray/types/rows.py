"""Rows as row functions see them: light, read by attribute, name or position, with what they do in a changelog."""

from __future__ import annotations

import enum
import functools
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar, SupportsIndex

from flinkray.errors import did_you_mean
from flinkray.persistence import known_as
from flinkray.types.records import tuple_columns


class RowKind(enum.Enum):
    """What a row of a changelog does (Flink's RowKind). Its text is Flink's short string: +I, -U, +U or -D."""

    INSERT = 0
    """The row is new."""
    UPDATE_BEFORE = 1
    """The row as it was before an update, which takes it back."""
    UPDATE_AFTER = 2
    """The row as it is after an update."""
    DELETE = 3
    """The row is gone."""

    def __str__(self) -> str:
        return SHORT_STRINGS[self.value]


SHORT_STRINGS = ("+I", "-U", "+U", "-D")
"""The short string of each kind, by its value."""
ROW_KINDS = tuple(RowKind)
"""The kinds, by their values."""


class Row(tuple[Any, ...]):
    """One row of named columns: `row.price`, `row["price"]` and `row[0]` give the same value.

    `Row(name="Ann", age=30)` makes a named row and `Row("Ann", 30)` one without names (its columns then count as
    `f0`, `f1`, and it is matched with a declared type by position); `Person = Row("name", "age")` makes a constructor,
    `Person("Ann", 30)`, as in PyFlink. A column that is no Python identifier, or is called `as_dict`, is read by item.

    Rows iterate over their values. `row["age"] = 31` and `row[1] = 31` change a row, and `row._replace(age=31)` gives a
    changed copy. In a changelog a row has a kind, `Row.of_kind(RowKind.DELETE, name="Ann", age=30)`; without one it is
    an insert. Two rows are equal exactly when names, values and kinds are. The runtime makes rows through `row_class`,
    whose subclasses hold names and kind. A row is a tuple, and so as light; one that is changed becomes one of a class
    that reads its values from a list beside the tuple.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    """The column names, in order."""
    _is_named: ClassVar[bool] = False
    """False: the row was made without names, so `_fields` are f0, f1, ..."""
    _positions: ClassVar[Mapping[str, int]] = {}
    _kind: ClassVar[RowKind] = RowKind.INSERT
    """Held by the class, so that an insert, which most rows are, takes neither time nor memory for it."""
    _is_changed: ClassVar[bool] = False

    def __new__(cls, *values: Any, **columns: Any) -> Row:
        if cls is not Row:
            return cls._of_class(values, columns)
        if values and columns:
            raise ValueError("Row takes either values, Row(1, 2), or named columns, Row(a=1, b=2), not both")
        if columns:
            return tuple.__new__(row_class(tuple(columns)), tuple(columns.values()))
        return tuple.__new__(_unnamed_row_class(len(values)), values)

    @staticmethod
    def of_kind(row_kind: RowKind, *values: Any, **columns: Any) -> Row:
        """A row of a changelog, otherwise as `Row(...)` makes it."""
        row = Row(*values, **columns)
        row.set_row_kind(row_kind)
        return row

    @classmethod
    def _of_class(cls, values: tuple[Any, ...], columns: dict[str, Any]) -> Row:
        names = cls._fields[len(values) :]
        if len(values) > len(cls._fields) or set(names) != set(columns):
            raise TypeError(f"a row of {', '.join(cls._fields)} needs exactly these values")
        return cls._maker()(values + tuple(columns[name] for name in names))

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

    def __setitem__(self, key: SupportsIndex | slice | str, value: Any) -> None:
        """Sets a value by column name or position, or as many by slice as there are."""
        self._values()[self._index(key)] = self._checked(key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"columns are set by item: row[{name!r}] = ...")

    def __contains__(self, item: object) -> bool:
        """Whether a row with names has a column of that name, or a row a value."""
        return (self._is_named and item in self._positions) or any(item is each or item == each for each in self)

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Gives the columns other names, or a row without names some."""
        if len(field_names) != len(self):
            raise ValueError(f"a row of {len(self)} values cannot have {len(field_names)} names")
        self._become(row_class(tuple(field_names), self._kind))

    def _become(self, cls: type[Row]) -> None:
        object.__setattr__(self, "__class__", _changed_class(cls) if self._is_changed else cls)

    def _values(self) -> list[Any]:
        """The values of a row that is being changed."""
        object.__setattr__(self, "__class__", _changed_class(type(self)))
        values: list[Any] = self.__dict__.setdefault("values", list(tuple.__iter__(self)))
        return values

    def _index(self, key: SupportsIndex | slice | str) -> Any:
        if not isinstance(key, str):
            return key
        if key not in self._positions:
            raise KeyError(self._missing(key))
        return self._positions[key]

    def _checked(self, key: object, value: Any) -> Any:
        if not isinstance(key, slice):
            return value
        values, places = list(value), len(range(*key.indices(len(self))))
        if len(values) != places:
            raise ValueError(f"a row keeps its length: {places} values cannot become {len(values)}")
        return values

    def _copied(self) -> Row:
        """The row as it is now, whatever is set in it later."""
        return tuple.__new__(type(self), tuple.__add__(self, ()))  # the quickest way

    def _missing(self, name: str) -> str:
        return f"this row has no column {name!r}{did_you_mean(name, self._fields)}; columns: {', '.join(self._fields)}"

    def __call__(self, *values: Any) -> Row:
        """A row whose column names are this row's values: `Person = Row("name", "age"); Person("Ann", 30)`."""
        if self._is_named or not all(isinstance(name, str) for name in self):
            raise TypeError("only a row of column names, such as Row('name', 'age'), can be called to make rows")
        return row_class(tuple(self), self._kind)(*values)

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
        return self._maker()(values)

    def get_row_kind(self) -> RowKind:
        """What the row does in a changelog."""
        return self._kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Changes what this row does in a changelog."""
        if not isinstance(row_kind, RowKind):
            raise TypeError(f"a row kind is one of {', '.join(map(repr, RowKind))}, not {row_kind!r}")
        self._become(_cached_class(self._fields, self._is_named, row_kind))

    def get_fields_by_names(self, names: list[str]) -> list[Any]:
        """The values of these columns, in that order."""
        return [self[name] for name in names]

    def __eq__(self, other: object) -> bool:
        # Classes are cached by names and kind, so the same class means the same of both. A plain tuple is never equal.
        if type(other) is type(self):
            return tuple.__eq__(self, other)
        return isinstance(other, Row) and other._is_changed and other == self

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        if self._kind is not RowKind.INSERT:
            return changelog_text(self._kind, self)
        if not self._is_named:
            return f"<Row({', '.join(map(repr, self))})>"  # as PyFlink has it
        return f"Row({self._shown_values()})"

    def _shown_values(self) -> str:
        if not self._is_named:
            return ", ".join(map(repr, self))
        return ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        names = self._fields if self._is_named else None
        # What inserts are pickled as is the same as before there were kinds.
        kind = () if self._kind is RowKind.INSERT else (self._kind.value,)
        return _rebuild, (names, tuple(self), *kind)


def changelog_text(kind: RowKind, value: Any) -> str:
    """A value of a changelog as text, for example `-U(word='a', n=1)`, `+I('a', 1)` or `-D(7)`."""
    if isinstance(value, Row):
        return f"{kind}({value._shown_values()})"
    if type(value) is tuple:
        return f"{kind}({', '.join(map(repr, value))})"
    return f"{kind}({value!r})"


class _Changed:
    """Mixed into the class of rows that were changed: their values are in a list."""

    _is_changed = True
    _fields: ClassVar[tuple[str, ...]]
    _is_named: ClassVar[bool]
    _kind: ClassVar[RowKind]

    def _values(self) -> list[Any]:
        values: list[Any] = self.__dict__["values"]
        return values

    @classmethod
    def _maker(cls) -> Callable[[tuple[Any, ...]], Row]:
        return functools.partial(tuple.__new__, cls.__mro__[2])  # the class of such rows

    def __getitem__(self, key: Any) -> Any:
        found = self._values()[self._index(key)]  # type: ignore[attr-defined]
        return tuple(found) if isinstance(key, slice) else found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or other._kind is not self._kind:
            return False
        has_columns = (other._fields, other._is_named) == (self._fields, self._is_named)
        return has_columns and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self) + tuple(other)

    def _copied(self) -> Row:
        return self._maker()(tuple(self))

    def count(self, value: Any) -> int:
        return self._values().count(value)

    def index(self, *arguments: Any) -> int:
        return self._values().index(*arguments)


def _changed_class(cls: type[Row]) -> type[Row]:
    found = _CHANGED_CLASSES.get(cls)
    if found is None:
        fields = {name: property(itemgetter(cls._positions[name])) for name in cls._fields if name in vars(cls)}
        made = type("Row", (_Changed, cls), {"__slots__": (), **fields})
        found = _CHANGED_CLASSES.setdefault(cls, made)
    return found


_CHANGED_CLASSES: dict[type[Row], type[Row]] = {}


def row_class(names: tuple[str, ...], kind: RowKind = RowKind.INSERT) -> type[Row]:
    """The class of rows of that kind with these column names, the same one for the same names and kind.

    `row_class(names)(*values)` checks the number of values; `_maker()` and `_from_columns(...)` are the fast ways.

    Raises:
        ValueError: a name occurs twice.
    """
    return _cached_class(tuple(names), True, kind)


def _unnamed_row_class(width: int, kind: RowKind = RowKind.INSERT) -> type[Row]:
    return _cached_class(tuple(tuple_columns(width)), False, kind)


_CLASSES: dict[tuple[tuple[str, ...], bool, int], type[Row]] = {}

_GIVING_WAY = ("count", "index", "keys")
"""Methods that give way to a column of the same name."""


def _cached_class(names: tuple[str, ...], is_named: bool, kind: RowKind) -> type[Row]:
    key = names, is_named, kind._value_  # an enum's own hash takes longer than all the rest
    found = _CLASSES.get(key)
    if found is None:
        # setdefault: where two threads make the class at once, both get the one that came first.
        found = _CLASSES.setdefault(key, _make_class(names, is_named, kind))
    return found


def _make_class(names: tuple[str, ...], is_named: bool, kind: RowKind) -> type[Row]:
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
        "_kind": kind,
    }
    return type("Row", (Row,), attributes)


@known_as("flinkray/Row@1")
def _rebuild(names: tuple[str, ...] | None, values: tuple[Any, ...], kind: int = 0) -> Row:
    row_kind = ROW_KINDS[kind]
    python_type = _unnamed_row_class(len(values), row_kind) if names is None else row_class(names, row_kind)
    return tuple.__new__(python_type, values)


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
