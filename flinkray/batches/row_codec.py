"""Between batches and the Python values that row functions see: whole columns at once, never a cell at a time.

Values come back as the kind says: bare (SCALAR), tuples (TUPLE), `Row`s (ROW), or unpickled (OBJECT). Of these only
`Row`s show what they do in a changelog. What a function returns decides the kind of its stream: a plain tuple makes
TUPLE, a Row, dict, NamedTuple or dataclass makes ROW, anything else that Arrow holds SCALAR. A list and a
one-dimensional array of numpy's both come back as a list.
"""

from __future__ import annotations

import copy
import datetime
import logging
import reprlib
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch, inserts
from flinkray.batches.conversions import converted, converts
from flinkray.batches.pickling import ARROW_DATA, dumps
from flinkray.batches.value_columns import PLAIN_TYPES, ROW_DICTS, decoded_form, to_array, to_values, types_of
from flinkray.batches.wire_format import rows_without_columns
from flinkray.errors import TypeMismatchError, operator_label
from flinkray.persistence import loads
from flinkray.types.records import SCALAR_COLUMN, Kind, RecordType, tuple_columns
from flinkray.types.rows import ROW_KINDS, SHORT_STRINGS, Row, RowKind, row_class
from flinkray.types.type_unification import unify_types
from flinkray.types.value_types import (
    Misfit,
    Unholdable,
    field_getter,
    field_values,
    has_rows,
    infer_type,
    named_fields,
    record_values,
)

_LOG = logging.getLogger(__name__)

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = 120
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 8


def short_repr(value: Any) -> str:
    """A repr of at most about 200 characters, whatever the value's own repr does."""
    text = _SHORT.repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


def decode(batch: Batch) -> list[Any]:
    """The rows of a batch as Python values, in order."""
    data = batch.data
    if batch.kind is Kind.SCALAR:
        return to_values(data.column(0))
    if batch.kind is Kind.OBJECT:
        objects = [loads(pickled) for pickled in data.column(0).to_pylist()]
        if batch.kinds is not None:
            _set_kinds(objects, batch.kinds)
        return objects
    columns = [to_values(column) for column in data.columns]
    if batch.kind is Kind.TUPLE:
        return list(zip(*columns, strict=True)) if columns else [()] * data.num_rows
    names = tuple(data.schema.names)
    if batch.kinds is not None:
        makers = [row_class(names, kind)._maker() for kind in ROW_KINDS]
        values = zip(*columns, strict=True) if columns else repeat((), data.num_rows)
        return [makers[kind](row) for kind, row in zip(batch.kinds.to_pylist(), values, strict=True)]
    return list(row_class(names)._from_columns(columns)) if columns else [row_class(names)()] * data.num_rows


def _set_kinds(objects: list[Any], kinds: pa.Array) -> None:
    """Those that are `Row`s were perhaps made anew, and pickled as inserts."""
    for value, kind in zip(objects, kinds.to_pylist(), strict=True):
        if isinstance(value, Row):
            value.set_row_kind(ROW_KINDS[kind])


def as_row(value: Any) -> Any:
    """The value as a row function behind a batch of its own would see it (see `decoded_form`)."""
    python_type = type(value)
    if python_type in PLAIN_TYPES:
        return value
    is_settled = python_type is tuple or (isinstance(value, Row) and value._is_named)
    if is_settled and PLAIN_TYPES.issuperset(map(type, value)):
        return value
    names = tuple(value) if type(value) in ROW_DICTS else named_fields(type(value))
    if names == ():
        return value  # rows without columns travel pickled
    if not names or not all(isinstance(name, str) for name in names):
        return decoded_form(value)
    fields = value.values() if type(value) in ROW_DICTS else record_values(value)
    undecoded = tuple(fields)
    if PLAIN_TYPES.issuperset(map(type, undecoded)):
        return row_class(names)._maker()(undecoded)
    forms = decoded_form(undecoded)
    return value if forms is undecoded else row_class(names)._maker()(forms)  # what cannot be held travels pickled


def form_of(declared: RecordType | None) -> Callable[[Any], Any]:
    """What turns a value into what a row function behind a batch of its own would see: `as_row`, or, where the declared
    type has rows within values, a trip through a batch; of declared objects, the value itself."""
    if declared is None:
        return as_row
    if declared.kind is Kind.OBJECT:
        return _itself
    return _form_with_rows(declared) if any(map(has_rows, declared.schema.types)) else as_row


def _form_with_rows(declared: RecordType) -> Callable[[Any], Any]:
    encoder = RowEncoder("", "", declared)

    def form(value: Any) -> Any:
        try:
            return decode(encoder.encode([value], None))[0]
        except TypeMismatchError:
            return as_row(value)  # whoever encodes it says that it does not fit, and where

    return form


def _itself(value: Any) -> Any:
    return value


def snapshot(value: Any) -> Any:
    """The value as it is now, whatever the user's code does to it later; itself where nothing can change it.

    A function may give the same list again and again, longer each time. Rows are encoded a batch at a time, so without
    a copy all of them would show its last state. (Flink copies between operators, unless object reuse is on.)
    """
    python_type = type(value)
    if python_type in _IMMUTABLE_TYPES:
        return value
    if python_type is list:
        return list(value) if PLAIN_TYPES.issuperset(map(type, value)) else [snapshot(item) for item in value]
    if python_type in ROW_DICTS:
        return python_type((key, snapshot(item)) for key, item in value.items())
    if isinstance(value, tuple) and PLAIN_TYPES.issuperset(map(type, value)):
        return value._copied() if isinstance(value, Row) else value
    if python_type is tuple:
        return tuple([snapshot(item) for item in value])
    if isinstance(value, Row):
        return python_type._maker()(tuple([snapshot(item) for item in value]))
    if isinstance(value, ARROW_DATA):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # runs the value's own code
        return value  # where it cannot be encoded either, the encoder says so


def _copied(value: Any) -> Any:
    if isinstance(value, Row):
        return value._copied()
    return value if isinstance(value, tuple) else copy.copy(value)


_IMMUTABLE_TYPES = PLAIN_TYPES | {Decimal, uuid.UUID}
_IMMUTABLE_TYPES |= {datetime.datetime, datetime.date, datetime.time, datetime.timedelta}


class RowEncoder:
    """Turns the values of one output back into batches, and holds the output's type.

    The type is the declared one, or is taken from the first values and widened where that loses nothing: null to any
    type, int64 to double, further columns of a dict. Belongs to one thread.

    Args:
        argument: what the user sets to declare the type, for errors.
        gives_changelog: whether rows may be of any kind. Otherwise none may be of another than the row that it is made
            of, which is an insert unless `encode` gets kinds.
    """

    def __init__(
        self,
        operator: str,
        subtask: str,
        declared: RecordType | None,
        argument: str = "output_type",
        *,
        gives_changelog: bool = False,
    ) -> None:
        self._operator = operator
        self._subtask = subtask
        self._is_declared = declared is not None
        self._argument = argument
        self._gives_changelog = gives_changelog
        self._kind = declared.kind if declared else None
        self._names: list[str] = list(declared.schema.names) if declared else []
        self._types: dict[str, pa.DataType] = {f.name: f.type for f in declared.schema} if declared else {}
        self._schema: pa.Schema | None = declared.schema.remove_metadata() if declared else None
        self._converts = declared is not None and converts(declared)

    @property
    def record_type(self) -> RecordType | None:
        """What has been declared or seen so far; None before the first value that is not None."""
        if self._kind is None:
            return None
        return RecordType(self._kind, self._current_schema())

    @property
    def keeps_values(self) -> bool:
        """Whether `appender` gives the list's own `append`: nothing that is collected can change."""
        # Where values are converted, a list may stand for a tuple.
        kinds = (Kind.SCALAR,) if self._converts else (Kind.SCALAR, Kind.TUPLE)
        return self._kind in kinds and all(map(_holds_immutable, self._types.values()))

    def appender(self, values: list[Any]) -> Callable[[Any], None]:
        """A function that collects results for `encode`: it appends to the list, with a copy of what could still
        change."""
        if self.keeps_values:
            return values.append
        if self._kind is Kind.TUPLE and all(map(_holds_immutable, self._types.values())):
            return lambda value: values.append(value if type(value) is tuple else snapshot(value))
        if self._kind is Kind.ROW and all(map(_holds_immutable, self._types.values())):
            own, append = row_class(tuple(self._names)), values.append
            # A plain tuple is the quickest copy of a row, and is encoded by position, too.
            return lambda value: append(value + () if type(value) is own else _copied(value))  # noqa: RUF005  # iterating takes longer
        return lambda value: values.append(snapshot(value))

    def encode(self, values: Sequence[Any], timestamps: pa.Array | None, kinds: pa.Array | None = None) -> Batch:
        """The values as one batch.

        Args:
            kinds: those of the rows that the values are made of, which they keep.
        Raises:
            TypeMismatchError: a value does not fit the type, or is a row of another kind; names operator, subtask,
                field and value.
        """
        batch = self._encode(values, timestamps, kinds)
        return batch.with_kinds(pa.array(map(_row_kind, values), pa.int8()) if self._gives_changelog else kinds)

    def _encode(self, values: Sequence[Any], timestamps: pa.Array | None, kinds: pa.Array | None) -> Batch:
        kind = self._kind or self._infer_kind(values)
        if kind is None:
            nulls = pa.nulls(len(values))
            return Batch(pa.record_batch([nulls], names=[SCALAR_COLUMN]), Kind.SCALAR, timestamps)
        if kind is Kind.OBJECT:
            self._check_kinds(types_of(values), values, kinds)
            return self._pickled(values, timestamps)
        try:
            columns = self._columns(kind, values, kinds)
            if not columns and not self._is_declared:
                raise Unholdable(values[0])  # a table without columns does not say how many rows it has
            arrays = [self._array(kind, name, column) for name, column in columns]
        except Unholdable as unholdable:
            if self._kind is None:
                return self._fall_back_to_objects(values, timestamps, unholdable.args[0])
            raise self._mismatch("", unholdable.args[0], "a value that Arrow can hold") from None
        self._kind = kind
        if not arrays:  # rows without columns still count
            return Batch(rows_without_columns(len(values)), kind, timestamps)
        data = pa.RecordBatch.from_arrays(arrays, schema=self._current_schema())
        assert data.num_rows == len(values), f"{data.num_rows} of {len(values)} rows in {data.schema}"
        return Batch(data, kind, timestamps)

    def _check_kinds(self, python_types: set[type], values: Sequence[Any], kinds: pa.Array | None) -> None:
        """Refuses a row that is of another kind than the one that it is made of; one made anew is an insert."""
        if self._gives_changelog or not any(map(_is_change, python_types)):
            return
        expected = inserts(len(values)) if kinds is None else kinds
        for value, kind in zip(values, expected.to_pylist(), strict=True):
            if _row_kind(value) not in (kind, RowKind.INSERT.value):
                raise TypeMismatchError(
                    f"{operator_label(self._operator, self._subtask)}: {short_repr(value)} is no "
                    f"{SHORT_STRINGS[kind]} row, as it would have to be here. What a row does in a changelog is for a "
                    "source to say, add_source(..., is_changelog=True), or for a column, as_changelog(column)"
                )

    # -- the kind

    def _infer_kind(self, values: Sequence[Any]) -> Kind | None:
        first = next((value for value in values if value is not None), None)
        if first is None:
            return None
        python_type = type(first)
        if python_type is tuple:
            return Kind.TUPLE
        if python_type in ROW_DICTS:
            dicts = (value for value in values if type(value) in ROW_DICTS)
            return Kind.ROW if all(isinstance(key, str) for value in dicts for key in value) else Kind.SCALAR
        return Kind.SCALAR if named_fields(python_type) is None else Kind.ROW

    # -- values to columns of values

    def _columns(self, kind: Kind, values: Sequence[Any], kinds: pa.Array | None) -> list[tuple[str, Sequence[Any]]]:
        if kind is Kind.SCALAR:
            return [(SCALAR_COLUMN, values)]
        python_types = types_of(values)
        self._check_kinds(python_types, values, kinds)
        if self._converts and list in python_types:
            values = [tuple(value) if type(value) is list else value for value in values]
            python_types = types_of(values)
        if python_types == {tuple} or (kind is Kind.TUPLE and all(issubclass(t, tuple) for t in python_types)):
            return self._tuple_columns(kind, values)
        if kind is Kind.TUPLE:
            odd = next(value for value in values if not isinstance(value, tuple))
            raise self._mismatch("", odd, "a tuple")
        return self._row_columns(python_types, values)

    def _tuple_columns(self, kind: Kind, values: Sequence[Any]) -> list[tuple[str, Sequence[Any]]]:
        width = len(self._names) if self._kind else len(values[0])
        if set(map(len, values)) - {width}:
            odd = next(value for value in values if len(value) != width)
            raise self._mismatch("", odd, f"a tuple of {width}")
        names = self._names if self._kind else tuple_columns(width)
        return [(name, list(map(itemgetter(index), values))) for index, name in enumerate(names)]

    def _row_columns(self, python_types: set[type], values: Sequence[Any]) -> list[tuple[str, Sequence[Any]]]:
        positional = {each for each in python_types if issubclass(each, tuple) and _has_no_names(each)}
        if self._kind is not None and positional == python_types:
            return self._tuple_columns(Kind.ROW, values)
        if self._kind is not None and positional:
            values = [self._named(value) if type(value) in positional else value for value in values]
            python_types = set(map(type, values))
        if len(python_types) == 1:
            (only,) = python_types
            names = named_fields(only)
            if names is not None:
                return self._record_columns(only, names, values)
        names_in_order = dict.fromkeys(self._names)
        firsts: dict[Any, Any] = {}
        """The first value of each class, and of each set of keys."""
        for value in values:
            firsts.setdefault(tuple(value) if isinstance(value, dict) else type(value), value)
        for first in firsts.values():
            names_in_order.update(dict.fromkeys(self._field_names(first)))
        self._refuse_undeclared(names_in_order, values)
        if python_types == {dict}:
            return [(name, _dict_values(values, name)) for name in names_in_order]
        return [(name, field_values(values, name)) for name in names_in_order]

    def _named(self, value: tuple[Any, ...]) -> Row:
        """A tuple as a row of the columns at its positions."""
        if len(value) != len(self._names):
            raise self._mismatch("", value, f"a tuple of {len(self._names)}")
        return row_class(tuple(self._names))(*value)

    def _record_columns(
        self, python_type: type, names: tuple[str, ...], values: Sequence[Any]
    ) -> list[tuple[str, Sequence[Any]]]:
        """The columns of rows that are all of one class."""
        is_unnamed = issubclass(python_type, Row) and not python_type._is_named
        if is_unnamed and self._kind is not None:
            return self._tuple_columns(Kind.ROW, values)
        known_names = self._known_names(names, values)
        getters = {name: field_getter(python_type, name) for name in known_names}
        if not issubclass(python_type, tuple):
            getters |= {name: attrgetter(name) for name in names}  # twice as fast
        return [(name, list(map(getters[name], values))) for name in known_names]

    def _known_names(self, names: tuple[str, ...], values: Sequence[Any]) -> list[str]:
        known = dict.fromkeys([*self._names, *names])
        self._refuse_undeclared(known, values)
        return list(known)

    def _refuse_undeclared(self, names: dict[str, None], values: Sequence[Any]) -> None:
        if not self._is_declared or len(names) == len(self._names):
            return
        extra = next(name for name in names if name not in self._types)
        odd = next(value for value in values if extra in self._field_names(value))
        raise self._mismatch(extra, odd, f"a row of the declared columns {', '.join(self._names)}")

    def _field_names(self, value: Any) -> Sequence[str]:
        if isinstance(value, dict):
            if any(not isinstance(key, str) for key in value):
                raise self._mismatch("", value, "a row whose keys are text")
            return tuple(value)
        names = None if value is None else named_fields(type(value))
        if names is None:
            raise self._mismatch("", value, "a Row, dict, NamedTuple or dataclass")
        return names

    # -- columns of values to Arrow

    def _array(self, kind: Kind, name: str, values: Sequence[Any]) -> pa.Array:
        field = "" if kind is Kind.SCALAR else name
        known = self._types.get(name)
        python_types = types_of(values)
        try:
            if known is not None and (self._is_declared or _is_plain_match(known, python_types)):
                return self._declared_array(values, known, python_types)
            seen = infer_type(values)
            merged = seen if known is None else unify_types(known, seen)
            if merged is None:
                odd = next(value for value in values if value is not None)
                raise Misfit(odd, f"{known}, the type of earlier rows")
            array = to_array(values, merged, python_types)
        except Misfit as misfit:
            raise self._mismatch(field + misfit.field, misfit.value, misfit.expected) from misfit.__cause__
        if known is None:
            self._names.append(name)
        if merged is not known:
            self._types[name] = merged
            self._schema = None
        return array

    def _declared_array(self, values: Sequence[Any], known: pa.DataType, python_types: set[type]) -> pa.Array:
        try:
            return to_array(values, known, python_types)
        except Misfit:
            if not self._converts:
                raise
        return to_array([converted(value, known) for value in values], known)

    def _current_schema(self) -> pa.Schema:
        if self._schema is None:
            self._schema = pa.schema([(name, self._types[name]) for name in self._names])
        return self._schema

    # -- values that Arrow cannot hold

    def _fall_back_to_objects(self, values: Sequence[Any], timestamps: pa.Array | None, culprit: Any) -> Batch:
        _LOG.warning(
            "%s: Arrow cannot hold %s (%s), so its rows travel pickled, which is slower and "
            "has no columns. Return numbers, text, tuples, rows or lists of these, or set %s=.",
            operator_label(self._operator, self._subtask), short_repr(culprit), type(culprit).__name__, self._argument,
        )  # fmt: skip
        self._names, self._types = [SCALAR_COLUMN], {SCALAR_COLUMN: pa.binary()}
        self._schema = None
        self._kind = Kind.OBJECT
        return self._pickled(values, timestamps)

    def _pickled(self, values: Sequence[Any], timestamps: pa.Array | None) -> Batch:
        try:
            pickles = list(map(dumps, values))
        except Exception as error:  # pickling runs the values' own code
            odd = next(value for value in values if not _can_pickle(value))
            raise self._mismatch("", odd, "a value that can be pickled") from error
        column = pa.array(pickles, self._current_schema().field(0).type)
        return Batch(pa.RecordBatch.from_arrays([column], schema=self._current_schema()), Kind.OBJECT, timestamps)

    def _mismatch(self, field: str, value: Any, expected: str) -> TypeMismatchError:
        where = f"field {field!r}: " if field else ""
        if value is None:
            return TypeMismatchError(
                f"{operator_label(self._operator, self._subtask)}: {where}value None does not fit {expected}: a stream "
                "of rows has no null for a whole row; leave such rows out, with flat_map or a filter before, or make "
                "all of them values"
            )
        if isinstance(value, str) and not _is_unicode(value):
            return TypeMismatchError(
                f"{operator_label(self._operator, self._subtask)}: {where}value {short_repr(value)} has a lone "
                "surrogate, which is no character: it comes of text that was decoded with errors='surrogateescape', or "
                "of JSON; value.encode('utf-8', 'replace').decode() has '?' in its place, or keep the bytes as they are"
            )
        if isinstance(value, datetime.time) and value.tzinfo is None and expected.startswith("time32"):
            return TypeMismatchError(
                f"{operator_label(self._operator, self._subtask)}: {where}value {short_repr(value)} does not fit "
                f"{expected}, as it has more digits of a second; set {self._argument}= to a type with more, such as "
                "TIME(6) of tables or Types.SQL_TIME(), or cut them: value.replace(microsecond=0)"
            )
        return TypeMismatchError(
            f"{operator_label(self._operator, self._subtask)}: {where}value {short_repr(value)} "
            f"({type(value).__name__}) does not fit {expected}; set {self._argument}= to a type that holds all its "
            "values, or make the function return one type"
        )


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _row_kind(value: Any) -> int:
    return value._kind.value if isinstance(value, Row) else 0


def _is_change(python_type: type) -> bool:
    """Whether it is a class of rows that are no inserts."""
    return issubclass(python_type, Row) and python_type._kind is not RowKind.INSERT


def _has_no_names(python_type: type[tuple[Any, ...]]) -> bool:
    return python_type is tuple or (issubclass(python_type, Row) and not python_type._is_named)


def _holds_immutable(arrow_type: pa.DataType) -> bool:
    types = pa.types
    is_number = types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_boolean(arrow_type)
    return bool(is_number or types.is_string(arrow_type) or types.is_large_string(arrow_type))


def _is_plain_match(known: pa.DataType, python_types: set[type]) -> bool:
    """The common case, cheaper than inferring the type anew: a column of numbers or text like the ones before."""
    python_type = _PLAIN.get(known)
    return python_type is not None and python_types <= {python_type, type(None)}


_PLAIN: dict[pa.DataType, type] = {
    pa.int64(): int,
    pa.float64(): float,
    pa.string(): str,
    pa.bool_(): bool,
    pa.binary(): bytes,
}


def _can_pickle(value: Any) -> bool:
    try:
        dumps(value)
    except Exception:
        return False
    return True


def _dict_values(values: Sequence[Any], name: str) -> list[Any]:
    try:
        return list(map(itemgetter(name), values))
    except KeyError:
        return [value.get(name) for value in values]
