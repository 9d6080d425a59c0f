"""Values as text, as CAST writes them."""

from __future__ import annotations

import decimal
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc.values import decimals
from actors.operators.calc.values.evaluation import EvaluationContext, nulls_where
from actors.operators.calc.values.nested import Lengths, flat_list, flat_map, lists_of
from flinkray.tables.types.logical import (
    APPROXIMATE,
    BYTE_STRINGS,
    INT,
    INTEGERS,
    TEXTS,
    CollectionType,
    DecimalType,
    LengthType,
    LogicalType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
    TypeRoot,
)
from flinkray.time.zones import to_local

_TEXT = pa.string()
_HELD = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_PLAIN_SCALE = 6
"""Decimal places up to which Arrow writes every decimal without an exponent."""


def to_text(values: pa.Array, source: LogicalType, context: EvaluationContext) -> pa.Array:
    """The text of each value; NULL stays NULL."""
    match source:
        case LengthType() if source.root in TEXTS:
            return values
        case DecimalType(scale=scale):
            return _decimal(values, scale)
        case TimeType(precision=precision):
            # Of a time of day zeros at the end are left out, but for the first digit.
            return pc.replace_substring_regex(_digits(values, precision), r"(\.[0-9]+?)0+$", r"\1")
        case TimestampType(precision=precision):
            is_instant = source.root is TypeRoot.TIMESTAMP_LTZ
            return _digits(to_local(values, context.time_zone) if is_instant else values, precision)
        case CollectionType(kind=TypeRoot.MULTISET, element=element):
            return _entries(element, INT, values, context)
        case CollectionType():
            return _list(values, source, context)
        case MapType(key=key, value=value):
            return _entries(key, value, values, context)
        case RowType():
            return _row(values, source, context)
    return _PLAIN[source.root](values)


def _boolean(values: pa.Array) -> pa.Array:
    return pc.if_else(values, "TRUE", "FALSE")


def _integer(values: pa.Array) -> pa.Array:
    return values.cast(_TEXT)


def _decimal(values: pa.Array, scale: int) -> pa.Array:
    if scale <= _PLAIN_SCALE:
        return values.cast(_TEXT)
    digits = decimals.without_point(pc.abs(values)).cast(_TEXT)
    digits = pc.utf8_lpad(digits, scale + 1, "0")
    whole, part = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    sign = pc.if_else(pc.less(values, pa.scalar(decimal.Decimal(0), values.type)), "-", "")
    return pc.binary_join_element_wise(sign, pc.binary_join_element_wise(whole, part, "."), "")


def _float(values: pa.Array) -> pa.Array:
    """Java's: the shortest digits that give the number again; with an exponent below a thousandth and from ten
    millions on."""
    texts = values.cast(_TEXT)
    size = pc.abs(values)
    is_plain = pc.and_(pc.greater_equal(size, pa.scalar(1e-3, values.type)), pc.less(size, pa.scalar(1e7, values.type)))
    is_plain = pc.or_(is_plain, pc.equal(values, pa.scalar(0.0, values.type)))
    has_point = pc.match_substring(texts, ".")
    plain = pc.if_else(has_point, texts, pc.binary_join_element_wise(texts, "0", "."))
    if pc.all(is_plain).as_py() is not False:
        return plain
    others = np.flatnonzero(pc.invert(is_plain).fill_null(False).to_numpy(zero_copy_only=False))
    written = pa.array([_scientific(text) for text in texts.take(pa.array(others)).to_pylist()], _TEXT)
    return pc.replace_with_mask(plain, pc.invert(is_plain).fill_null(False), written)


def _scientific(text: str) -> str:
    """`1.0E10` for what Arrow writes as 10000000000 or 1e+10."""
    if text in _NO_NUMBERS:
        return _NO_NUMBERS[text]
    sign, text = ("-", text[1:]) if text[0] == "-" else ("", text)
    mantissa, _, exponent = text.partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    leading = len(whole + part) - len(digits)
    power = int(exponent or 0) + len(whole) - leading - 1
    digits = digits.rstrip("0")
    return f"{sign}{digits[:1]}.{digits[1:] or '0'}E{power}"


_NO_NUMBERS = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _bytes(values: pa.Array) -> pa.Array:
    try:
        return values.cast(_TEXT)
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(texts, _TEXT)


def _digits(values: pa.Array, precision: int) -> pa.Array:
    """With `precision` digits of a second, where Arrow writes as many as the unit has."""
    texts = values.cast(_TEXT)
    surplus = _HELD[values.type.unit] - precision
    return pc.utf8_slice_codeunits(texts, 0, -surplus) if surplus else texts


def _months(values: pa.Array) -> pa.Array:
    size = pc.abs(values)
    years = pc.divide(size, pa.scalar(12, pa.int32()))
    months = pc.subtract(size, pc.multiply(years, pa.scalar(12, pa.int32())))
    sign = pc.if_else(pc.less(values, 0), "-", "+")
    month_texts = pc.utf8_lpad(months.cast(_TEXT), 2, "0")
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, years.cast(_TEXT), ""), month_texts, "-")


def _millis(values: pa.Array) -> pa.Array:
    counts = values.cast(pa.int64())
    size = pc.abs(counts)
    days = pc.divide(size, 86_400_000)
    rest = pc.subtract(size, pc.multiply(days, 86_400_000))
    clock = rest.cast(pa.int32()).cast(pa.time32("ms")).cast(_TEXT)
    sign = pc.if_else(pc.less(counts, 0), "-", "+")
    signed = pc.binary_join_element_wise(sign, days.cast(_TEXT), "")
    return pc.binary_join_element_wise(signed, clock, " ")


# -- nested values -------------------------------------------------------------------------------------------------


def _element_texts(values: pa.Array, source: LogicalType, context: EvaluationContext) -> pa.Array:
    if source.root is TypeRoot.NULL:
        return pa.repeat("NULL", len(values))
    return to_text(values, source, context).fill_null("NULL")


def _joined(lengths: Lengths, texts: pa.Array, like: pa.Array, ends: str) -> pa.Array:
    lists = lists_of(lengths, texts, like, pa.list_(_TEXT))
    return pc.binary_join_element_wise(ends[0], pc.binary_join(lists, ", "), ends[1], "")


def _list(values: pa.Array, source: CollectionType, context: EvaluationContext) -> pa.Array:
    lengths, items = flat_list(values)
    return _joined(lengths, _element_texts(items, source.element, context), values, "[]")


def _entries(key: LogicalType, value: LogicalType, values: pa.Array, context: EvaluationContext) -> pa.Array:
    lengths, keys, items = flat_map(values)
    pairs = _element_texts(keys, key, context), _element_texts(items, value, context)
    return _joined(lengths, pc.binary_join_element_wise(*pairs, "="), values, "{}")


def _row(values: pa.Array, source: RowType, context: EvaluationContext) -> pa.Array:
    texts = [
        _element_texts(pc.struct_field(values, [place]), field.type, context)
        for place, field in enumerate(source.fields)
    ]
    joined = pc.binary_join_element_wise("(", pc.binary_join_element_wise(*texts, ", "), ")", "")
    return nulls_where(values.is_null(), joined) if values.null_count else joined


_PLAIN: dict[TypeRoot, Callable[[pa.Array], pa.Array]] = {
    TypeRoot.BOOLEAN: _boolean,
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(APPROXIMATE, _float),
    **dict.fromkeys(BYTE_STRINGS, _bytes),
    TypeRoot.DATE: _integer,
    TypeRoot.INTERVAL_YEAR_MONTH: _months,
    TypeRoot.INTERVAL_DAY_TIME: _millis,
    TypeRoot.NULL: _integer,
    TypeRoot.RAW: _bytes,
}
"""Printers that need nothing but the values."""
