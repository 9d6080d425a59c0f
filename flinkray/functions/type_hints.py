"""Record types from what users write: Arrow and Python types, dataclasses, `Types`, and annotations of functions."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import functools
import inspect
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkray.batches.normalization import normalized_record_type
from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import Function
from flinkray.types.nested import contains
from flinkray.types.records import SCALAR_COLUMN, Kind, OutputTag, RecordType, tuple_columns
from flinkray.types.type_info import DECIMAL_TYPE, OBJECT_TYPE, TypeInformation

_ARROW_TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bytearray: pa.binary(),
    datetime.datetime: pa.timestamp("us"),
    datetime.date: pa.date32(),
    datetime.time: pa.time64("us"),
    datetime.timedelta: pa.duration("us"),
    decimal.Decimal: DECIMAL_TYPE,
    uuid.UUID: pa.uuid(),
    type(None): pa.null(),
}
_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_ITERABLES = (
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.Collection,
    collections.abc.Sequence,
    list,
    set,
    frozenset,
)
_METHODS = (
    "map",
    "flat_map",
    "process_element",
    "process",
    "reduce",
    "join",
    "co_group",
    "get_result",
    "get_key",
    "async_invoke",
)


class _Unknown(Exception):
    """A type that says nothing about columns."""


def scalar_type(arrow_type: pa.DataType) -> RecordType:
    """Bare values of an Arrow type."""
    return RecordType(Kind.SCALAR, pa.schema([(SCALAR_COLUMN, arrow_type)]))


def record_type(spec: Any) -> RecordType:
    """The record type that a user's `output_type=` means.

    Args:
        spec: a RecordType; a pa.Schema, dataclass, NamedTuple, TypedDict or dict of name -> type (rows); a list or
            tuple of types, or `tuple[int, str]` (tuples); a pa.DataType or a Python type such as `int`, `Decimal`,
            `list[float]`, `dict[str, int]`, `int | None` (bare values); a type made with `Types`; `object` or
            `typing.Any` (any Python object, pickled). Types whose layout Arrow cannot compute with, such as views, mean
            those that hold the same values (`flinkray.batches.normalization`).
    Raises:
        InvalidProgramError: none of these, or a type that Arrow has no column for.
    """
    try:
        return normalized_record_type(_record_type(spec))
    except _Unknown as error:
        raise InvalidProgramError(
            f"{error} is no type of records. Give a pa.Schema, a dataclass or NamedTuple (rows), a list of types "
            "(tuples), an Arrow or Python type (bare values), a type of Types, or object (pickled)"
        ) from None


def arrow_type(spec: Any) -> pa.DataType:
    """The Arrow type of a field or of a state's values, from anything that `record_type` takes."""
    try:
        return _field_type(spec)
    except _Unknown as error:
        raise InvalidProgramError(f"{error} is no type that a column can have") from None


def from_annotation(function: Any, *, of_items: bool = False) -> RecordType | None:
    """The record type that a function's return annotation says, or None where it says nothing of use.

    Args:
        function: a callable, a class (its own type), or a Function object, whose working method counts.
        of_items: take the items' type of an annotated Iterable, Iterator, Generator, list or set, as flat_map and
            process functions need. Members `tuple[OutputTag, ...]` of a union are side outputs and left out.
    """
    annotation = _return_annotation(function)
    if annotation is None or annotation is inspect.Parameter.empty:
        return None
    try:
        if of_items:
            annotation = _without_side_outputs(_item_annotation(annotation))
        if typing.get_origin(_without_none(annotation)) in _DICTS:
            return None  # a dict is a row, and its annotation does not name the columns
        found = _record_type(annotation)
    except (_Unknown, InvalidProgramError):
        return None  # an annotation is a hint: where it names no record type, the first batch decides
    is_hint = found.kind is not Kind.OBJECT and not any(contains(field.type, _is_open) for field in found.schema)
    return found if is_hint else None


def _is_open(arrow_type: pa.DataType) -> bool:
    """Whether values say more about their type than an annotation: `Decimal` names no number of digits."""
    return bool(pa.types.is_null(arrow_type) or arrow_type == DECIMAL_TYPE)


def returns_list(function: Any) -> bool:
    """Whether a function's return annotation is a list."""
    annotation = _return_annotation(function)
    return annotation is list or typing.get_origin(annotation) is list


# -- records -----------------------------------------------------------------------------------------------------


def _record_type(spec: Any) -> RecordType:
    if isinstance(spec, RecordType):
        return spec
    if isinstance(spec, TypeInformation):
        return spec.record_type
    if isinstance(spec, pa.Schema):
        return RecordType(Kind.ROW, spec)
    if spec is object or spec is Any:
        return OBJECT_TYPE
    optional = _without_none(spec)
    if optional is not spec:
        return _record_type(optional)
    fields = _named_fields(spec)
    if fields is not None:
        return _of_fields(Kind.ROW, fields, _within((), spec))
    items = _tuple_items(spec)
    if items is not None:
        return _of_fields(Kind.TUPLE, dict(zip(tuple_columns(len(items)), items, strict=True)))
    return scalar_type(_field_type(spec))


def _of_fields(kind: Kind, fields: Mapping[str, Any], within: tuple[type, ...] = ()) -> RecordType:
    return RecordType(kind, _schema(fields, within))


def _schema(fields: Mapping[str, Any], within: tuple[type, ...]) -> pa.Schema:
    return pa.schema(
        [type_ if isinstance(type_, pa.Field) else (name, _field_type(type_, within)) for name, type_ in fields.items()]
    )


def _within(outer: tuple[type, ...], spec: Any) -> tuple[type, ...]:
    """The classes around the fields of `spec`: the outer ones and itself, where it is a class."""
    if spec in outer:
        raise InvalidProgramError(
            f"a type of records cannot contain itself, as {spec.__name__} does: its columns would have no end. "
            "Leave that field out, or declare object (pickled)"
        )
    return (*outer, spec) if isinstance(spec, type) else outer


def _named_fields(spec: Any) -> Mapping[str, Any] | None:
    """Name -> type of what makes rows: a dict of types, dataclass, NamedTuple or TypedDict."""
    if isinstance(spec, Mapping):
        return spec
    if not isinstance(spec, type):
        return None
    is_named_tuple = issubclass(spec, tuple) and hasattr(spec, "_fields") and bool(spec.__annotations__)
    if dataclasses.is_dataclass(spec):
        hints = _hints(spec)
        return {field.name: hints[field.name] for field in dataclasses.fields(spec)}
    if is_named_tuple or typing.is_typeddict(spec):
        return _hints(spec)
    return None


def _hints(spec: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(spec)
    except NameError as error:
        raise InvalidProgramError(
            f"the fields of {spec.__name__} have types that cannot be looked up: {error}"
        ) from error


def _tuple_items(spec: Any) -> Sequence[Any] | None:
    """The field types of what makes tuples: [int, str], (int, str) or tuple[int, str]."""
    if isinstance(spec, list | tuple):
        return spec
    if typing.get_origin(spec) is tuple:
        items = typing.get_args(spec)
        if Ellipsis in items:
            raise _Unknown(f"{spec} (a tuple of any length)")
        return items
    return None


# -- fields ------------------------------------------------------------------------------------------------------


def _field_type(spec: Any, within: tuple[type, ...] = ()) -> pa.DataType:
    """The Arrow type of a field of the classes `within`, outermost first."""
    if isinstance(spec, pa.DataType):
        return spec
    if isinstance(spec, TypeInformation):
        return spec.arrow_type
    if isinstance(spec, RecordType):
        return spec.schema.field(0).type if spec.kind is Kind.SCALAR else pa.struct(list(spec.schema))
    if isinstance(spec, pa.Schema):
        return pa.struct(list(spec))
    if isinstance(spec, type) and spec in _ARROW_TYPES:
        return _ARROW_TYPES[spec]
    if spec is None:
        return pa.null()
    if isinstance(spec, np.dtype) or (isinstance(spec, type) and issubclass(spec, np.generic)):
        return _numpy_type(spec)
    optional = _without_none(spec)
    if optional is not spec:
        return _field_type(optional, within)
    return _nested_type(spec, within)


def _nested_type(spec: Any, within: tuple[type, ...]) -> pa.DataType:
    origin, arguments = typing.get_origin(spec), typing.get_args(spec)
    if origin is typing.Annotated:
        return _field_type(arguments[0], within)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return pa.list_(_field_type(arguments[0], within))
    if origin in _LISTS and len(arguments) == 1:
        return pa.list_(_field_type(arguments[0], within))
    if origin in _DICTS and len(arguments) == 2:
        return pa.map_(_field_type(arguments[0], within), _field_type(arguments[1], within))
    fields = _named_fields(spec)
    if fields is None:
        items = _tuple_items(spec)
        fields = None if items is None else dict(zip(tuple_columns(len(items)), items, strict=True))
    if fields is None:
        raise _Unknown(repr(spec))
    return pa.struct(list(_schema(fields, _within(within, spec))))


def _numpy_type(spec: Any) -> pa.DataType:
    try:
        return pa.from_numpy_dtype(np.dtype(spec))
    except (TypeError, pa.ArrowNotImplementedError):
        raise _Unknown(repr(spec)) from None


def _without_none(spec: Any) -> Any:
    """T of `T | None`; anything else unchanged. Columns hold nulls anyway."""
    if typing.get_origin(spec) not in (typing.Union, types.UnionType):
        return spec
    members = [member for member in typing.get_args(spec) if member is not type(None)]
    if len(members) == len(typing.get_args(spec)) or len(members) != 1:
        raise _Unknown(repr(spec))
    return members[0]


# -- annotations -------------------------------------------------------------------------------------------------


def _return_annotation(function: Any) -> Any:
    if isinstance(function, type):
        return function  # calling a class gives an instance of it: map(str), map(Point)
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, Function):
        function = next((getattr(function, name) for name in _METHODS if hasattr(function, name)), function)
    elif not inspect.isroutine(function) and callable(function):
        function = type(function).__call__
    try:
        return typing.get_type_hints(function).get("return")
    except (NameError, TypeError, AttributeError):
        return None  # no annotations, or names that exist only for a type checker


def _item_annotation(annotation: Any) -> Any:
    annotation = _without_none(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _ITERABLES and arguments:
        return arguments[0]
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return arguments[0]
    raise _Unknown(repr(annotation))


def _without_side_outputs(annotation: Any) -> Any:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    members = typing.get_args(annotation) if is_union else (annotation,)
    rest = tuple(m for m in members if not (typing.get_origin(m) is tuple and typing.get_args(m)[0] is OutputTag))
    if not rest:
        raise _Unknown(repr(annotation))
    return typing.Union[rest]  # noqa: UP007  (the members are values here)


def callable_name(function: Callable[..., Any] | object) -> str:
    """What errors call a user's function."""
    return getattr(function, "__qualname__", None) or type(function).__name__
