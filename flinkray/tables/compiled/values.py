"""Nodes and expressions of plans as JSON, and back.

The names of classes and of their fields are part of files: whoever renames one reads the former name here too.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, get_args, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from flinkray.errors import InvalidProgramError, SqlError
from flinkray.tables.binding.constants import type_of
from flinkray.tables.binding.context import Context
from flinkray.tables.catalog import Catalog
from flinkray.tables.plans import expressions, nodes, tables
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.syntax.parsing.statements import StatementParser
from flinkray.tables.syntax.queries import Hint
from flinkray.tables.types import logical
from flinkray.tables.types.logical import LogicalType
from flinkray.types.changelogs import Changes

Json = Any
_CLASS, _VALUE = "$", "value"
_NAN, _DECIMAL, _BYTES = "float", "decimal", "bytes"

NODES: Mapping[str, type[Plan]] = {
    each.__name__: each
    for each in (
        *(nodes.Scan, nodes.Values, nodes.Filter, nodes.Project, nodes.WatermarkAssigner),
        *(nodes.Aggregate, nodes.WindowTableFunction, nodes.Window, nodes.Sort, nodes.Limit, nodes.Rank),
        *(nodes.Deduplicate, nodes.Match, nodes.Unnest, nodes.TableFunctionCall, nodes.Join, nodes.TemporalJoin),
        *(nodes.SetOperation, nodes.Insert, nodes.KindsAsColumn, nodes.KindsOfColumn),
    )
}
_STRUCTS: Mapping[str, type[Struct]] = {
    each.__name__: each
    for each in (
        *(expressions.Column, expressions.Constant, expressions.Call, expressions.FieldAccess, expressions.SortKey),
        *(expressions.AggregateCall, expressions.FrameBound, expressions.Frame, expressions.WindowCall),
        *(expressions.PatternVariable, expressions.MatchRead, nodes.GroupWindow, nodes.WindowProperty),
        *(tables.TableColumn, tables.WatermarkStrategy, Changes, logical.RowField, Hint),
        *(logical.SimpleType, logical.DecimalType, logical.LengthType, logical.TimeType, logical.TimestampType),
        *(logical.IntervalType, logical.CollectionType, logical.MapType, logical.RowType, logical.RawType),
    )
}
_ENUMS: Mapping[str, type[enum.Enum]] = {
    each.__name__: each for each in (tables.ColumnKind, logical.TypeRoot, logical.TimeAttribute, logical.Unit)
}


def to_json(value: Any) -> Json:
    """A value of a plan that is no node as JSON.

    Raises:
        InvalidProgramError: there is no JSON for it.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple):
        return list(map(to_json, value))
    if isinstance(value, float):
        return value if math.isfinite(value) else {_CLASS: _NAN, _VALUE: repr(value)}
    if isinstance(value, Decimal):
        return {_CLASS: _DECIMAL, _VALUE: str(value)}
    if isinstance(value, bytes):
        return {_CLASS: _BYTES, _VALUE: value.hex()}
    if isinstance(value, LogicalType):
        return _type_to_json(value)
    name = type(value).__name__
    if name in _ENUMS:
        return {_CLASS: name, _VALUE: value.value}
    if name in _STRUCTS:
        return {_CLASS: name} | fields_to_json(value)
    raise InvalidProgramError(f"a plan in a file cannot hold a {name}: {value!r}")


def fields_to_json(value: Struct, but: Collection[str] = ()) -> dict[str, Json]:
    """The fields of a value that have another value than their default, as JSON."""
    found = {}
    for name, info in _fields(type(value)).items():
        own = getattr(value, name)
        if name not in but and (info.default is NODEFAULT or own != info.default):
            found[name] = to_json(own)
    return found


def from_json(read: Json) -> Any:
    """What `to_json` made JSON of.

    Raises:
        ValueError, TypeError, KeyError: it did not make this.
    """
    if isinstance(read, list):
        return tuple(map(from_json, read))
    if not isinstance(read, dict):
        return read
    name = read[_CLASS]
    if name in _ENUMS:
        return _ENUMS[name](read[_VALUE])
    match name:
        case "float":
            return float(read[_VALUE])
        case "decimal":
            return Decimal(read[_VALUE])
        case "bytes":
            return bytes.fromhex(read[_VALUE])
    if name not in _STRUCTS:
        raise ValueError(f"nothing is called {name!r} here")
    return struct_from_json(_STRUCTS[name], {key: value for key, value in read.items() if key != _CLASS})


def struct_from_json(cls: type[Struct], read: Mapping[str, Json], **given: Any) -> Any:
    """A value of a class from JSON of its fields, and fields that are there already; errors as of `from_json`."""
    known = _fields(cls)
    for name in read:
        if name not in known:
            raise ValueError(f"{cls.__name__} has no {name!r} here")
    values = {name: _type_from_json(each) if _is_type(known[name]) else from_json(each) for name, each in read.items()}
    for name, value in values.items():
        if not _fits(value, known[name].type):
            raise ValueError(f"{name!r} of {cls.__name__} is {read[name]!r}")
    return cls(**values, **given)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field has."""
    arguments = get_args(hint)
    if hint is Any:
        return True
    if hasattr(hint, "__supertype__"):
        return _fits(value, hint.__supertype__)
    if get_origin(hint) is tuple:
        if arguments[-1] is Ellipsis:
            arguments = arguments[:1] * len(value) if isinstance(value, tuple) else ()
        is_tuple = isinstance(value, tuple) and len(value) == len(arguments)
        return is_tuple and all(map(_fits, value, arguments))
    if arguments:
        return any(_fits(value, each) for each in arguments)
    return isinstance(value, hint) and (hint is not int or not isinstance(value, bool))


@cache
def inputs_of(cls: type[Plan]) -> tuple[str, ...]:
    """The fields of a node that are its inputs, in their order."""
    return tuple(name for name, info in _fields(cls).items() if info.type is Plan)


@cache
def _fields(cls: type[Struct]) -> dict[str, FieldInfo]:
    return {info.name: info for info in fields(cls)}


# -- types: as text, where that says all of it


def _is_type(info: FieldInfo) -> bool:
    return isinstance(info.type, type) and issubclass(info.type, LogicalType)


def _type_to_json(kind: LogicalType) -> Json:
    text = str(kind)
    return text if _read_type(text) == kind else {_CLASS: type(kind).__name__} | fields_to_json(kind)


def _type_from_json(read: Json) -> LogicalType:
    kind = _read_type(read) if isinstance(read, str) else from_json(read)
    if not isinstance(kind, LogicalType):
        raise ValueError(f"{read!r} is no type")
    return kind


@cache
def _read_type(text: str) -> LogicalType | None:
    parser = StatementParser(text)
    try:
        found = type_of(parser.type_name(), Context(text, Catalog()))
    except SqlError:
        return None
    return found if parser.at_end() else None
