"""CAST and TRY_CAST: Java's conversions of numbers, texts that are parsed, and values as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from actors.operators.calc.values import decimals
from actors.operators.calc.values.evaluation import (
    Datum,
    EvaluationContext,
    KernelCall,
    kept_where,
    nulls_where,
    with_call,
)
from actors.operators.calc.values.nested import Lengths, flat_list, flat_map, lists_of, maps_of, rows_of
from actors.operators.calc.values.printing import to_text
from actors.operators.calc.values.time_texts import parsed_dates, parsed_times, parsed_timestamps
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import (
    APPROXIMATE,
    BYTE_STRINGS,
    INT,
    INTEGERS,
    INTERVALS,
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
from flinkray.time.zones import to_instant, to_local

_WHOLE = r"^[ ]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]*)[ ]*$"
_REAL = r"^[ \t\r\n]*[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)[ \t\r\n]*$"
_LONGEST_INTEGER = 30
"""Characters of a whole number that may still be one of 64 bits: as many as a decimal is sure to hold."""
_TRUE = ("true", "t", "yes", "y", "1")
_FALSE = ("false", "f", "no", "n", "0")
_NESTED = (TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW)
_LIMITS = {
    TypeRoot.TINYINT: 2**7,
    TypeRoot.SMALLINT: 2**15,
    TypeRoot.INTEGER: 2**31,
    TypeRoot.BIGINT: 2**63,
}


class _Cast(Struct, frozen=True):
    """One cast: from, to, and what it depends on."""

    source: LogicalType
    target: LogicalType
    context: EvaluationContext
    is_try: bool

    def checked(self, values: pa.Array, result: pa.Array) -> pa.Array:
        """The result, NULL where a value does not parse; without TRY_ that is an error.

        Raises:
            ValueError: names the first such value.
        """
        if not self.is_try and result.null_count > values.null_count:
            failed = pc.and_(values.is_valid(), result.is_null())
            first = values.filter(failed)[0].as_py()
            raise ValueError(
                f"{first!r} is no {self.target.summary()}; TRY_CAST gives NULL where a text cannot be read"
            )
        return result


def cast(
    value: Datum,
    source: LogicalType,
    target: LogicalType,
    context: EvaluationContext | None = None,
    is_try: bool = False,
) -> Datum:
    """Values of one type as values of another.

    Raises:
        ValueError: a text cannot be read, and `is_try` is not set.
    """
    if isinstance(value, pa.Scalar):
        return cast(pa.repeat(value, 1), source, target, context, is_try)[0]
    if source.root is TypeRoot.NULL:
        return pa.nulls(len(value), to_arrow(target))
    if source.as_nullable() == target.as_nullable():
        return value
    return _CONVERTERS[target.root](value, _Cast(source, target, context or EvaluationContext(), is_try))


# -- to numbers ----------------------------------------------------------------------------------------------------


def _to_integer(values: pa.Array, job: _Cast) -> pa.Array:
    target = to_arrow(job.target)
    root = job.source.root
    if root in TEXTS:
        return job.checked(values, _parsed_integers(values, job.target))
    if root in APPROXIMATE:
        return _from_floats(values, job.target)
    if isinstance(job.source, DecimalType):
        return _from_decimals(values, target)
    return values.cast(target, safe=False)


def _parsed_integers(texts: pa.Array, target: LogicalType) -> pa.Array:
    """Whole numbers that texts are. Digits after a point are read and left out."""
    if pc.all(pc.match_substring_regex(texts, r"^-?[0-9]{1,18}$")).as_py():
        numbers = texts.cast(pa.int64())
    else:
        texts = pc.utf8_trim(texts, " ")
        fits = pc.match_substring_regex(texts, _WHOLE)
        digits = pc.replace_substring_regex(texts, r"^\+|\.[0-9]*$", "")
        digits = pc.replace_substring_regex(digits, r"^(-?)0+", r"\1")
        digits = pc.if_else(pc.match_substring_regex(digits, "^-?$"), "0", digits)
        fits = pc.and_(fits, pc.less_equal(pc.utf8_length(digits), _LONGEST_INTEGER))
        numbers = kept_where(fits, digits).cast(pa.decimal128(38, 0))
    limit = _LIMITS[target.root]
    lowest, highest = (pa.scalar(bound, pa.int64()).cast(numbers.type) for bound in (-limit, limit - 1))
    outside = pc.or_(pc.less(numbers, lowest), pc.greater(numbers, highest))
    return nulls_where(outside, numbers).cast(to_arrow(target), safe=False)


def _from_floats(values: pa.Array, target: LogicalType) -> pa.Array:
    """As Java has it: towards zero, the nearest limit where it is too large, NaN is 0; TINYINT and SMALLINT are cut
    out of an INT."""
    limit = _LIMITS[TypeRoot.BIGINT if target.root is TypeRoot.BIGINT else TypeRoot.INTEGER]
    doubles = pc.trunc(values.cast(pa.float64()))
    doubles = pc.if_else(pc.is_nan(doubles), 0.0, doubles)
    too_high = pc.greater_equal(doubles, float(limit))
    inside = pc.if_else(pc.or_(too_high, pc.less(doubles, -float(limit))), 0.0, doubles).cast(pa.int64())
    limited = pc.if_else(too_high, limit - 1, pc.if_else(pc.less(doubles, -float(limit)), -limit, inside))
    return limited.cast(to_arrow(target), safe=False)


def _from_decimals(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Towards zero; the lowest bits of what is too large."""
    whole = values
    if values.type.scale:
        whole = decimals.rounded(values, 0, "towards_zero").cast(pa.decimal128(38, 0), safe=False)
    return decimals.unscaled(whole).cast(target, safe=False)


def _to_float(values: pa.Array, job: _Cast) -> pa.Array:
    target = to_arrow(job.target)
    if job.source.root in TEXTS:
        fits = pc.match_substring_regex(values, _REAL)
        texts = pc.utf8_trim_whitespace(kept_where(fits, values))
        if pc.any(pc.match_substring_regex(texts, r"[^0-9.\-]")).as_py():
            texts = pc.replace_substring_regex(texts, r"([0-9.])[fFdD]$", r"\1")
            texts = pc.replace_substring_regex(texts, r"^\+", "")
        return job.checked(values, texts.cast(pa.float64()).cast(target, safe=False))
    if isinstance(job.source, DecimalType):
        return decimals.to_double(values).cast(target, safe=False)
    if job.source.root is TypeRoot.BOOLEAN:
        return values.cast(pa.int8()).cast(target)
    return values.cast(target, safe=False)


def _to_decimal(values: pa.Array, job: _Cast) -> pa.Array:
    target = job.target
    assert isinstance(target, DecimalType)
    if job.source.root in TEXTS:
        fits = pc.match_substring_regex(values, r"^[ ]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ ]*$")
        texts = pc.utf8_trim(kept_where(fits, values), " ")
        return job.checked(values, decimals.fitted(decimals.parsed(texts), target))
    if job.source.root in APPROXIMATE:
        return decimals.from_doubles(values.cast(pa.float64()), target)
    if job.source.root is TypeRoot.BOOLEAN:
        values = values.cast(pa.int8())
    return decimals.from_number(values, target)


def _to_boolean(values: pa.Array, job: _Cast) -> pa.Array:
    if job.source.root not in TEXTS:
        return pc.not_equal(values, pa.scalar(0, values.type))
    words = pc.ascii_lower(values)
    is_true = pc.is_in(words, pa.array(_TRUE))
    known = pc.or_(is_true, pc.is_in(words, pa.array(_FALSE)))
    return job.checked(values, nulls_where(pc.invert(known), is_true))


# -- to texts and bytes --------------------------------------------------------------------------------------------


def _to_text(values: pa.Array, job: _Cast) -> pa.Array:
    assert isinstance(job.target, LengthType)
    texts = to_text(values, job.source, job.context)
    if job.target.length < _longest(job.source):
        texts = pc.utf8_slice_codeunits(texts, 0, job.target.length)
    return pc.utf8_rpad(texts, job.target.length, " ") if job.target.is_fixed else texts


def _longest(source: LogicalType) -> int:
    return source.length if isinstance(source, LengthType) and source.root in TEXTS else 2**31


def _to_bytes(values: pa.Array, job: _Cast) -> pa.Array:
    assert isinstance(job.target, LengthType)
    result = values.cast(pa.binary())
    if not (isinstance(job.source, LengthType) and job.source.length <= job.target.length):
        result = pc.binary_slice(result, 0, job.target.length)
    if not job.target.is_fixed:
        return result
    missing = pc.subtract(job.target.length, pc.binary_length(result))
    return pc.binary_join_element_wise(result, pc.binary_repeat(pa.scalar(b"\0"), missing), b"")


# -- to times ------------------------------------------------------------------------------------------------------


def _to_date(values: pa.Array, job: _Cast) -> pa.Array:
    if job.source.root in TEXTS:
        return job.checked(values, parsed_dates(values))
    if job.source.root is TypeRoot.TIMESTAMP_LTZ:
        values = to_local(values, job.context.time_zone)
    return values.cast(pa.date32(), safe=False)


def _to_time(values: pa.Array, job: _Cast) -> pa.Array:
    target = to_arrow(job.target)
    if job.source.root in TEXTS:
        assert isinstance(job.target, TimeType)
        return job.checked(values, parsed_times(values, job.target.precision).cast(target, safe=False))
    if job.source.root is TypeRoot.TIMESTAMP_LTZ:
        values = to_local(values, job.context.time_zone)
    if isinstance(job.source, TimestampType):
        values = values.cast(pa.timestamp("ns" if target.unit == "ns" else "us"), safe=False)
        values = values.cast(pa.time64(values.type.unit))
    return values.cast(target, safe=False)


def _to_timestamp(values: pa.Array, job: _Cast) -> pa.Array:
    target = job.target
    assert isinstance(target, TimestampType)
    unit = to_arrow(target).unit
    source = job.source
    if source.root in TEXTS:
        values = job.checked(values, parsed_timestamps(values, target.precision, unit))
    elif source.root is TypeRoot.TIMESTAMP_LTZ and target.root is TypeRoot.TIMESTAMP:
        values = to_local(values, job.context.time_zone)
    elif source.root is TypeRoot.TIME:
        values = values.cast(pa.time64("us")).cast(pa.int64()).cast(pa.timestamp("us"))
    elif source.root is TypeRoot.DATE:
        values = values.cast(pa.timestamp("s"))
    if isinstance(source, TimestampType) and source.precision > target.precision:
        values = _cut(values, target.precision)
    if target.root is TypeRoot.TIMESTAMP_LTZ and values.type.tz is None:
        return to_instant(values.cast(pa.timestamp(unit), safe=False), job.context.time_zone)
    return values.cast(to_arrow(target), safe=False)


def _cut(values: pa.Array, digits: int) -> pa.Array:
    """Without the digits of a second after so many, towards the past as Flink's milliseconds are."""
    held = {"s": 0, "ms": 3, "us": 6, "ns": 9}[values.type.unit]
    if held <= digits:
        return values
    step = 10 ** (held - digits)
    counts = values.cast(pa.int64())
    rest = pc.subtract(counts, pc.multiply(pc.divide(counts, step), step))
    rest = pc.if_else(pc.less(rest, 0), pc.add(rest, step), rest)
    return pc.subtract(counts, rest).cast(values.type)


# -- to nested values ----------------------------------------------------------------------------------------------


def _to_list(values: pa.Array, job: _Cast) -> pa.Array:
    source, target = job.source, job.target
    if not isinstance(source, CollectionType) or not isinstance(target, CollectionType):
        raise ValueError(f"{source} is no {target}")
    if target.root is TypeRoot.MULTISET:
        lengths, keys, counts = flat_map(values)
        parts = [(keys, source.element, target.element), (counts, INT, INT)]
        lengths, (keys, counts), like = _parts(lengths, parts, values, job)
        return maps_of(lengths, keys, counts, like, to_arrow(target))
    lengths, items = flat_list(values)
    lengths, (items,), like = _parts(lengths, [(items, source.element, target.element)], values, job)
    return lists_of(lengths, items, like, to_arrow(target))


def _to_map(values: pa.Array, job: _Cast) -> pa.Array:
    source, target = job.source, job.target
    if not isinstance(source, MapType) or not isinstance(target, MapType):
        raise ValueError(f"{source} is no {target}")
    lengths, keys, items = flat_map(values)
    parts = [(keys, source.key, target.key), (items, source.value, target.value)]
    lengths, (keys, items), like = _parts(lengths, parts, values, job)
    return maps_of(lengths, keys, items, like, to_arrow(target))


def _parts(
    lengths: Lengths, parts: Sequence[tuple[pa.Array, LogicalType, LogicalType]], values: pa.Array, job: _Cast
) -> tuple[Lengths, list[pa.Array], pa.Array]:
    """The elements of lists or maps as others, with what is NULL where these are: with TRY_ as a whole where one of its
    elements cannot be read, as in Flink."""
    made = [cast(each, ours, theirs, job.context, job.is_try) for each, ours, theirs in parts]
    keys = len(parts) - 1  # of a map the first part, which cannot be NULL
    failed = _unread([(each, ours) for each, ours, _ in parts], made, keys) if job.is_try else None
    if failed is None:
        return lengths, made, values
    rows, is_null = rows_of(lengths), np.array(values.is_null())
    is_null[rows[failed]] = True
    kept = from_numpy(~is_null[rows])
    return np.where(is_null, 0, lengths), [each.filter(kept) for each in made], from_numpy(is_null, is_null=is_null)


def _unread(
    parts: Sequence[tuple[pa.Array, LogicalType]], made: Sequence[pa.Array], keys: int = 0
) -> npt.NDArray[np.bool_] | None:
    """Which values have a part that is a text, or has one, or is one of the first so many, and could not be read; None:
    none has."""
    lost = [
        np.array(pc.and_(values.is_valid(), result.is_null()))
        for place, ((values, source), result) in enumerate(zip(parts, made, strict=True))
        if place < keys or source.root in TEXTS or source.root in _NESTED
    ]
    failed = np.logical_or.reduce(lost) if lost else None
    return failed if failed is not None and failed.any() else None


def _to_row(values: pa.Array, job: _Cast) -> pa.Array:
    source, target = job.source, job.target
    if not isinstance(source, RowType) or not isinstance(target, RowType):
        raise ValueError(f"{source} is no {target}")
    fields = [pc.struct_field(values, [place]) for place in range(len(source.types))]
    columns = [
        cast(each, ours, theirs, job.context, job.is_try)
        for each, ours, theirs in zip(fields, source.types, target.types, strict=True)
    ]
    mask = values.is_null() if values.null_count else None
    failed = _unread(list(zip(fields, source.types, strict=True)), columns) if job.is_try else None
    if failed is not None:
        mask = from_numpy(failed | np.array(values.is_null()))
    return pa.StructArray.from_arrays(columns, fields=list(to_arrow(target)), mask=mask)


def _unchanged(values: pa.Array, job: _Cast) -> pa.Array:
    return values.cast(to_arrow(job.target))


_CONVERTERS: dict[TypeRoot, Callable[[pa.Array, _Cast], pa.Array]] = {
    **dict.fromkeys(INTEGERS, _to_integer),
    **dict.fromkeys(APPROXIMATE, _to_float),
    **dict.fromkeys(TEXTS, _to_text),
    **dict.fromkeys(BYTE_STRINGS, _to_bytes),
    **dict.fromkeys(INTERVALS, _unchanged),
    TypeRoot.DECIMAL: _to_decimal,
    TypeRoot.BOOLEAN: _to_boolean,
    TypeRoot.DATE: _to_date,
    TypeRoot.TIME: _to_time,
    TypeRoot.TIMESTAMP: _to_timestamp,
    TypeRoot.TIMESTAMP_LTZ: _to_timestamp,
    TypeRoot.ARRAY: _to_list,
    TypeRoot.MULTISET: _to_list,
    TypeRoot.MAP: _to_map,
    TypeRoot.ROW: _to_row,
    TypeRoot.RAW: _unchanged,
    TypeRoot.NULL: _unchanged,
}


def _cast(call: KernelCall, value: Datum) -> Datum:
    return cast(value, call.types[0], call.result_type, call.context, call.name == "TRY_CAST")


CAST_KERNELS = {"CAST": with_call(_cast), "TRY_CAST": with_call(_cast)}
