"""Values of the log, which come as texts, as Arrow has them: what a PostgresSource reads of the same columns."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.postgres.columns import Column, as_arrow
from flinkray.errors import RecordError

_INET = 869
_BOX = 603  # the one type whose arrays have semicolons
_MIDNIGHT_AFTER = 86_400_000_000
"""24:00:00, which PostgreSQL has and clocks have not, in microseconds."""
_LAST_YEAR = 294_246
"""The last year all of whose moments are numbers of microseconds since 1970."""
_ELEMENTS = {
    separator: re.compile(rf'"((?:[^"\\]|\\.)*)"|([^{{}}{separator}"]+)|({{)', re.DOTALL) for separator in ",;"
}
"""In the text of an array: an element in quotation marks, one without, or where a dimension begins."""


def from_texts(texts: pa.Array, column: Column, where: str) -> pa.Array:
    """Values of a column.

    Args:
        texts: large_string, as the server writes them for a session with ISO dates in UTC.
    Raises:
        RecordError: there is one that Arrow cannot hold.
    """
    field = pa.field(column.name, column.arrow_type)
    way_out = "leave the column out (columns=), or cast it where it is written"
    try:
        return as_arrow(_converted(texts, column, field.type), field, where, way_out)
    except pa.ArrowInvalid as error:
        raise RecordError(
            f"{where}: a value of column {column.name!r} is no {field.type}: {error}. It may be infinity, or so far "
            f"away that there is no number for it: {way_out}"
        ) from error


def _converted(texts: pa.Array, column: Column, wanted: pa.DataType) -> pa.Array:
    types = pa.types
    if types.is_list(wanted):
        return _lists(texts, column, wanted)
    if types.is_boolean(wanted):
        return pc.equal(texts, "t")
    if types.is_binary(wanted):
        return _bytes(texts)
    if types.is_time(wanted):
        return _times(texts).cast(wanted)
    if types.is_timestamp(wanted) or types.is_date(wanted):
        try:
            return texts.cast(wanted)
        except pa.ArrowInvalid:
            return _far_times(texts, "D" if types.is_date(wanted) else "us").cast(wanted)
    if column.type_id == _INET:
        return _addresses(texts).cast(wanted)
    return texts.cast(wanted)


def _bytes(texts: pa.Array) -> pa.Array:
    """Of texts such as \\x00ff."""
    digits = pc.binary_length(texts).fill_null(2).to_numpy() - 2
    found = bytes.fromhex("".join(text[2:] for text in texts.drop_null().to_pylist()))
    offsets = np.concatenate([[0], np.cumsum(digits // 2)]).astype(np.int64)
    validity = pc.is_valid(texts).buffers()[1]
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(found)]
    return pa.Array.from_buffers(pa.large_binary(), len(texts), buffers).cast(pa.binary())


def _addresses(texts: pa.Array) -> pa.Array:
    """With the bits of their networks, as texts that a query casts have them; else those of single hosts have none."""
    bits = pc.if_else(pc.match_substring(texts, ":"), _text("/128"), _text("/32"))
    return pc.if_else(pc.match_substring(texts, "/"), texts, pc.binary_join_element_wise(texts, bits, _text("")))


def _times(texts: pa.Array) -> pa.Array:
    is_after = pc.equal(texts, "24:00:00")
    within = pc.if_else(is_after, _text("00:00:00"), texts)
    instants = pc.binary_join_element_wise(_text("1970-01-01 "), within, _text("")).cast(pa.timestamp("us"))
    return pc.if_else(is_after, _MIDNIGHT_AFTER, instants.cast(pa.int64()))


def _far_times(texts: pa.Array, unit: str) -> pa.Array:
    """Of times of which some are before Christ or after 9999, which Arrow does not read.

    Args:
        unit: of NumPy's.
    """
    parts = pc.extract_regex(texts, r"^(?P<year>\d+)(?P<rest>-.*?)(?:\+00)?(?P<era> BC)?$")
    if parts.null_count > texts.null_count:
        raise pa.ArrowInvalid("it has no year")
    year, rest, era = parts.flatten()
    years = year.cast(pa.int64())
    years = pc.if_else(pc.equal(era, " BC"), pc.subtract(1, years), years)
    if unit == "us" and pc.max(years).as_py() > _LAST_YEAR:
        raise pa.ArrowInvalid("it is too late")  # NumPy would make another time of it without a word
    digits = pc.utf8_lpad(pc.abs(years).cast(pa.large_string()), 4, "0")
    sign = pc.if_else(pc.less(years, 0), _text("-"), _text(""))
    signed = pc.binary_join_element_wise(sign, digits, rest, _text(""))
    return from_numpy(np.array(signed.to_pylist(), dtype=f"datetime64[{unit}]"))


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _lists(texts: pa.Array, column: Column, wanted: pa.ListType) -> pa.Array:
    """Of texts such as {1,NULL,"a b"}, with bounds in front where they do not begin at one."""
    present = pc.replace_substring_regex(texts.drop_null(), r"^\[[^{]*=", "")
    found = _ELEMENTS[";" if column.element_id == _BOX else ","].findall("".join(present.to_pylist()))
    in_marks, plain, brace = (
        (pa.array(each, pa.large_string()) for each in zip(*found, strict=True))
        if found
        else (pa.array([], pa.large_string()) for _ in range(3))
    )
    is_brace = pc.equal(brace, "{").to_numpy(zero_copy_only=False)
    begins = np.flatnonzero(is_brace)
    if len(begins) != len(present):
        raise pa.ArrowInvalid("arrays of several dimensions are no lists")
    is_plain = pc.not_equal(plain, "")
    elements = pc.if_else(is_plain, plain, pc.replace_substring_regex(in_marks, r"(?s)\\(.)", r"\1"))
    elements = pc.if_else(pc.equal(plain, "NULL"), pa.scalar(None, pa.large_string()), elements)
    element = Column(column.name, column.element_id, column.modifier)
    values = _converted(elements.filter(from_numpy(~is_brace)), element, wanted.value_type)
    offsets = np.append(begins - np.arange(len(begins)), len(values)).astype(np.int32)
    lists = pa.ListArray.from_arrays(from_numpy(offsets), values, type=wanted)
    if not texts.null_count:
        return lists
    is_null = pc.is_null(texts).to_numpy(zero_copy_only=False)
    return lists.take(pa.array(np.cumsum(~is_null) - 1, mask=is_null))
