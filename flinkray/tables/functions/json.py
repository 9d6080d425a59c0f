"""Functions of JSON.

Clauses are keywords among the arguments: JSON_VALUE(text, path, empty, default, error, default) with NULL, ERROR or
DEFAULT for `empty` and `error`; JSON_QUERY(text, path, wrapper, empty, error) with WITHOUT, CONDITIONAL or
UNCONDITIONAL for `wrapper`; JSON_EXISTS(text, path, error); JSON_OBJECT and JSON_ARRAY (NULL or ABSENT, …). The type of
RETURNING is the target of the call.
"""

from __future__ import annotations

from flinkray.tables.functions.parameters import ANYTHING, SYMBOL, TEXT, always
from flinkray.tables.functions.signatures import Function, Nullability, Parameter, TypedCall
from flinkray.tables.types.logical import (
    APPROXIMATE,
    BOOLEAN,
    INTEGERS,
    STRING,
    TEXTS,
    CollectionType,
    LogicalType,
    TypeRoot,
)

_ON_EMPTY = frozenset({"NULL", "ERROR", "DEFAULT"})
_ON_EMPTY_QUERY = frozenset({"NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT"})
_WRAPPERS = frozenset({"WITHOUT", "CONDITIONAL", "UNCONDITIONAL"})
_ON_ERROR = frozenset({"TRUE", "FALSE", "UNKNOWN", "ERROR"})
_ON_NULL = frozenset({"NULL", "ABSENT"})
_KINDS = frozenset({"VALUE", "SCALAR", "ARRAY", "OBJECT"})
_RETURNED = INTEGERS | APPROXIMATE | TEXTS | {TypeRoot.BOOLEAN}


def _check(call: TypedCall, place: int, known: frozenset[str]) -> None:
    if place < len(call.arguments) and call.arguments[place].literal not in known:
        raise ValueError(f"argument {place + 1} is one of {', '.join(sorted(known))}")


def _value(call: TypedCall) -> LogicalType:
    _check(call, 2, _ON_EMPTY)
    _check(call, 4, _ON_EMPTY)
    returned = STRING if call.target is None else call.target
    if returned.root not in _RETURNED:
        raise ValueError(f"RETURNING takes BOOLEAN, a whole number, DOUBLE or STRING, and not {returned}")
    return returned


def _query(call: TypedCall) -> LogicalType:
    _check(call, 2, _WRAPPERS)
    _check(call, 3, _ON_EMPTY_QUERY)
    _check(call, 4, _ON_EMPTY_QUERY)
    returned = STRING if call.target is None else call.target
    is_texts = isinstance(returned, CollectionType) and returned.element.root in TEXTS
    if returned.root not in TEXTS and not is_texts:
        raise ValueError(f"RETURNING takes STRING or ARRAY<STRING>, and not {returned}")
    return returned


def _exists(call: TypedCall) -> LogicalType:
    _check(call, 2, _ON_ERROR)
    return BOOLEAN


def _made(call: TypedCall) -> LogicalType:
    _check(call, 0, _ON_NULL)
    return STRING


def _object_parameters(count: int) -> tuple[Parameter, ...] | None:
    return (SYMBOL, *(TEXT, ANYTHING) * (count // 2)) if count % 2 else None


def _object(call: TypedCall) -> LogicalType:
    if any(key.nullable for key in call.types[1::2]):
        raise ValueError("a key may not be NULL")
    return _made(call)


def _array_parameters(count: int) -> tuple[Parameter, ...] | None:
    return (SYMBOL, *(ANYTHING,) * (count - 1)) if count else None


def _is_json(call: TypedCall) -> LogicalType:
    _check(call, 1, _KINDS)
    return BOOLEAN


JSON_FUNCTIONS = (
    Function("JSON_VALUE", (TEXT, TEXT, SYMBOL, ANYTHING, SYMBOL, ANYTHING), _value, Nullability.ALWAYS, optional=4),
    Function("JSON_QUERY", (TEXT, TEXT, SYMBOL, SYMBOL, SYMBOL), _query, Nullability.ALWAYS, optional=3),
    Function("JSON_EXISTS", (TEXT, TEXT, SYMBOL), _exists, Nullability.ALWAYS, optional=1),
    Function("JSON_STRING", (ANYTHING,), always(STRING)),
    Function("JSON_OBJECT", (SYMBOL, TEXT, ANYTHING), _object, Nullability.NEVER, varying=_object_parameters),
    Function("JSON_ARRAY", (SYMBOL, ANYTHING), _made, Nullability.NEVER, varying=_array_parameters),
    Function("JSON", (TEXT,), always(STRING), Nullability.ALWAYS),
    Function("JSON_QUOTE", (TEXT,), always(STRING)),
    Function("JSON_UNQUOTE", (TEXT,), always(STRING)),
    Function("IS JSON", (TEXT, SYMBOL), _is_json, Nullability.NEVER, optional=1),
)
