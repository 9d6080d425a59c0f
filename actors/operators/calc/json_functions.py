"""Functions of JSON. Texts are parsed once for each distinct one; numbers keep the digits they were written with."""

from __future__ import annotations

import base64
import decimal
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from actors.operators.calc.json_paths import MISSING, json_path
from actors.operators.calc.texts import join_others
from actors.operators.calc.values.casts import cast
from actors.operators.calc.values.evaluation import (
    Datum,
    Kernel,
    KernelCall,
    as_array,
    by_distinct,
    nulls_where,
    plain,
    with_call,
)
from actors.operators.calc.values.nested import flat_list, flat_map, lists_of
from actors.operators.calc.values.printing import to_text
from flinkray.tables.types.logical import (
    APPROXIMATE,
    BOOLEAN,
    BYTE_STRINGS,
    DATETIMES,
    DOUBLE,
    NUMBERS,
    STRING,
    TEXTS,
    CollectionType,
    LogicalType,
    MapType,
    RowType,
    TypeRoot,
)

_TEXT = pa.string()
_DECODER = json.JSONDecoder(parse_float=decimal.Decimal, parse_constant=lambda word: _refuse(word))
_SPACE = " \t\r\n"


class _Unreadable(Exception):
    """A text is no JSON, or a strict path leads nowhere."""


def _loads(text: str) -> Any:
    """The first value of a text: what comes behind it is not read, as Flink's reader does not."""
    try:
        begin = len(text) - len(text.lstrip(_SPACE))
        value, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(str(error)) from error
    if text[end - 1] not in '"]}' and text[end : end + 1] not in ("", *_SPACE):
        raise _Unreadable(f"{text!r} is no JSON")
    return value


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _dumps(value: Any) -> str:
    """Compact, with numbers as they were written."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dumps(key)}:{_dumps(one)}" for key, one in sorted(value.items())) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_dumps, value))}]"
    if isinstance(value, decimal.Decimal):
        return str(value or abs(value))  # zero has no sign
    return json.dumps(value, ensure_ascii=False)


def _read(text: str, path: str) -> Any:
    """What the path finds; without `lax` it has to find something that is not null, in a text that is JSON.

    Raises:
        _Unreadable: it does not, or is no path, or the text is the JSON null.
    """
    try:
        read = json_path(path)
    except ValueError as error:
        raise _Unreadable(str(error)) from error
    try:
        value = _loads(text)
    except _Unreadable:
        if not read.is_lax:
            raise
        return MISSING
    try:
        found = None if value is None else read.find(value, value)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(str(error)) from error
    if found is not MISSING and found is not None:
        return found
    if value is None or not read.is_lax:
        raise _Unreadable(f"the path {path!r} finds nothing in {text!r}")
    return MISSING


# -- reading -------------------------------------------------------------------------------------------------------


def _behaviour(kind: str, default: Any, what: str, defaults: dict[str, Any]) -> Any:
    if kind == "ERROR":
        raise ValueError(what)
    return default if kind == "DEFAULT" else defaults[kind]


def _value(
    call: KernelCall,
    text: pa.Array,
    path: str | None,
    empty: str = "NULL",
    empty_default: Any = None,
    error: str = "NULL",
    error_default: Any = None,
) -> pa.Array:
    """The scalar at the path, as a text or as what RETURNING says."""

    def one(json_text: str) -> str | None:
        if path is None:
            return None
        try:
            found = _read(json_text, path)
            if isinstance(found, dict | list) and json_path(path).is_lax:
                found = MISSING
            if isinstance(found, dict | list):
                raise _Unreadable(f"what {path!r} finds in {json_text!r} is no scalar")
        except _Unreadable as problem:
            return _as_text(_behaviour(error, error_default, str(problem), {"NULL": None}))
        if found is MISSING:
            problem_text = f"the path {path!r} finds nothing in {json_text!r}"
            return _as_text(_behaviour(empty, empty_default, problem_text, {"NULL": None}))
        return _as_text(found)

    texts = _by_distinct(text, one, _TEXT)
    return cast(texts, STRING, call.result_type, call.context, is_try=error != "ERROR")


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _dumps(value)


_EMPTY: dict[str, Any] = {"NULL": None, "EMPTY ARRAY": [], "EMPTY OBJECT": {}}


def _query(
    call: KernelCall, text: pa.Array, path: str, wrapper: str = "WITHOUT", empty: str = "NULL", error: str = "NULL"
) -> pa.Array:
    """The object or array at the path, as a text or as an array of texts."""
    is_array = isinstance(call.result_type, CollectionType)

    def finished(value: Any) -> Any:
        if value is None or not is_array:
            return None if value is None else _dumps(value)
        return [_as_text(member) for member in value] if isinstance(value, list) else None

    def one(json_text: str) -> Any:
        try:
            found = _read(json_text, path)
            is_wrapped = wrapper != "WITHOUT"
            if found is MISSING or (json_path(path).is_lax and not is_wrapped and not isinstance(found, dict | list)):
                problem = f"the path {path!r} finds nothing in {json_text!r}"
                return finished(_behaviour(empty, None, problem, _EMPTY))
            if wrapper == "UNCONDITIONAL" or (wrapper == "CONDITIONAL" and not isinstance(found, dict | list)):
                found = [found]
            if not isinstance(found, dict | list):
                raise _Unreadable(f"what {path!r} finds in {json_text!r} is no object or array")
        except _Unreadable as problem:
            return finished(_behaviour(error, None, str(problem), _EMPTY))
        return finished(found)

    return _by_distinct(text, one, call.arrow_type)


def _exists(text: pa.Array, path: str, error: str = "FALSE") -> pa.Array:
    answers = {"TRUE": True, "FALSE": False, "UNKNOWN": None}

    def one(json_text: str) -> bool | None:
        try:
            return _read(json_text, path) is not MISSING
        except _Unreadable as problem:
            return _behaviour(error, None, str(problem), answers)  # type: ignore[no-any-return]

    return _by_distinct(text, one, pa.bool_())


def _is_json(text: pa.Array, kind: str = "VALUE") -> pa.Array:
    def one(json_text: str) -> bool:
        try:
            value = _loads(json_text)
        except _Unreadable:
            return False
        is_object, is_array = isinstance(value, dict), isinstance(value, list)
        return {"OBJECT": is_object, "ARRAY": is_array, "SCALAR": not (is_object or is_array)}.get(kind, True)

    return _by_distinct(text, one, pa.bool_()).fill_null(False)


def _by_distinct(text: pa.Array, compute: Callable[[Any], Any], arrow_type: pa.DataType) -> pa.Array:
    return by_distinct(compute, arrow_type, text)


# -- writing -------------------------------------------------------------------------------------------------------


def _written(values: pa.Array, kind: LogicalType, call: KernelCall) -> pa.Array:
    """Each value as JSON; NULL stays NULL."""
    if kind.root in APPROXIMATE:
        texts = to_text(values.cast(pa.float64()), DOUBLE, call.context)
        is_special = pc.match_substring_regex(texts, "[EN]|Inf")
        return _by_distinct(texts, _digits, _TEXT) if pc.any(is_special).as_py() else texts
    if kind.root in NUMBERS:
        return to_text(values, kind, call.context)
    if kind == BOOLEAN.with_nullability(kind.nullable):
        return pc.if_else(values, "true", "false")
    if kind.root in TEXTS:
        return _by_distinct(values, lambda text: json.dumps(text, ensure_ascii=False), _TEXT)
    if kind.root in BYTE_STRINGS:
        return _by_distinct(values, _bytes_text, _TEXT)
    match kind:
        case CollectionType(element=element) if kind.root is TypeRoot.ARRAY:
            lengths, items = flat_list(values)
            return _enclosed(lengths, _or_null(items, element, call), values, "[]")
        case MapType(key=key, value=value):
            lengths, keys, items = flat_map(values)
            names = to_text(keys, key, call.context)
            texts = pc.binary_join_element_wise(_written(names, STRING, call), _or_null(items, value, call), ":")
            return _enclosed(lengths, texts.take(_by_key(lengths, names)), values, "{}")
        case RowType(fields=fields):
            parts = [
                pc.binary_join_element_wise(
                    json.dumps(field.name), _or_null(pc.struct_field(values, [place]), field.type, call), ":"
                )
                for place, field in sorted(enumerate(fields), key=lambda each: each[1].name)
            ]
            made = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*parts, ","), "}", "")
            return nulls_where(values.is_null(), made) if values.null_count else made
    is_instant = kind.root is TypeRoot.TIMESTAMP_LTZ
    texts = to_text(values, kind, replace(call.context, time_zone="UTC") if is_instant else call.context)
    if kind.root in DATETIMES:
        texts = pc.replace_substring(texts, " ", "T")
        texts = pc.replace_substring_regex(texts, r"(\.[0-9]*?)0+$", r"\1")
        texts = pc.replace_substring_regex(texts, r"\.$", "")
    return pc.binary_join_element_wise('"', texts, 'Z"' if is_instant else '"', "")


def _digits(text: str) -> str:
    """A double as JSON: 1.0E+10; NaN and the infinities, which JSON lacks, as texts."""
    number = decimal.Decimal(text)
    return str(number) if number.is_finite() else f'"{text}"'


def _bytes_text(value: Any) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _or_null(values: pa.Array, kind: LogicalType, call: KernelCall) -> pa.Array:
    if kind.root is TypeRoot.NULL:
        return pa.repeat("null", len(values))
    return _written(values, kind, call).fill_null("null")


def _enclosed(lengths: Any, texts: pa.Array, like: pa.Array, ends: str) -> pa.Array:
    joined = pc.binary_join(lists_of(lengths, texts, like, pa.list_(_TEXT)), ",")
    return pc.binary_join_element_wise(ends[0], joined, ends[1], "")


def _by_key(lengths: Any, names: pa.Array) -> pa.Array:
    """The entries of maps in the order of their keys, as Flink has those of objects."""
    entries = pa.table({"map": np.repeat(np.arange(len(lengths)), lengths), "name": names})
    return pc.sort_indices(entries, [("map", "ascending"), ("name", "ascending")])


def _string(call: KernelCall, value: pa.Array) -> pa.Array:
    return _written(value, call.types[0], call)


def _members(call: KernelCall, values: tuple[Datum, ...], places: Sequence[int]) -> list[pa.Array]:
    """Each value as JSON; what a function of JSON made is taken as it is."""
    columns = [as_array(values[place], call.rows) for place in places]
    return [
        column if place + 1 in call.raw_json else _nulls_or_written(column, call.types[place + 1], call)
        for place, column in zip(places, columns, strict=True)
    ]


def _nulls_or_written(column: pa.Array, kind: LogicalType, call: KernelCall) -> pa.Array:
    return pa.nulls(len(column), _TEXT) if kind.root is TypeRoot.NULL else _written(column, kind, call)


def _made(texts: list[pa.Array], on_null: str, ends: str) -> pa.Array:
    if not texts:
        return pa.scalar(ends)
    if on_null == "ABSENT":
        joined = join_others(",", *texts)
    else:
        joined = pc.binary_join_element_wise(*texts, ",", null_handling="replace", null_replacement="null")
    return pc.binary_join_element_wise(ends[0], joined, ends[1], "")


def _object(call: KernelCall, on_null: str, *entries: Datum) -> pa.Array:
    """Keys are in their order, as in Flink, which takes those alone that are the same for all rows."""
    places = list(range(0, len(entries), 2))
    if call.rows:
        places.sort(key=lambda place: str(as_array(entries[place], call.rows)[0]))
    keys = [as_array(entries[place], call.rows) for place in places]
    members = _members(call, entries, [place + 1 for place in places])
    if on_null != "ABSENT":
        members = [member.fill_null("null") for member in members]
    texts = [
        pc.binary_join_element_wise(_written(key, STRING, call), member, ":")
        for key, member in zip(keys, members, strict=True)
    ]
    return _made(texts, "ABSENT", "{}")


def _array(call: KernelCall, on_null: str, *elements: Datum) -> pa.Array:
    return _made(_members(call, elements, range(len(elements))), on_null, "[]")


def _json(text: str) -> str | None:
    """The JSON that a text is, for JSON_OBJECT and JSON_ARRAY."""
    try:
        return _dumps(_loads(text)) if text else None
    except _Unreadable as error:
        raise ValueError(f"{text!r} is no JSON: {error}") from error


def _quote(text: str) -> str:
    return json.dumps(text).replace("/", "\\/")


def _unquote(text: str) -> str:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        return text


JSON_KERNELS = {
    "JSON_VALUE": Kernel(_value, frozenset({1, 2, 3, 4, 5}), is_strict=False),
    "JSON_QUERY": with_call(_query, 1, 2, 3, 4),
    "JSON_EXISTS": plain(_exists, 1, 2),
    "JSON_STRING": with_call(_string),
    "JSON_OBJECT": with_call(_object, 0),
    "JSON_ARRAY": with_call(_array, 0),
    "JSON": plain(lambda text: _by_distinct(text, _json, _TEXT)),
    "JSON_QUOTE": plain(lambda text: _by_distinct(text, _quote, _TEXT)),
    "JSON_UNQUOTE": plain(lambda text: _by_distinct(text, _unquote, _TEXT)),
    "IS JSON": plain(_is_json, 1),
}
