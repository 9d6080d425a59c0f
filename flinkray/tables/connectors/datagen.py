"""`datagen`: made-up rows, with Flink's options for each column."""

from __future__ import annotations

import decimal
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.datagen.source import DataGenSource, RandomField, Rows, SequenceField, random_bits
from flinkray.tables.connectors.contract import Connector, TableSource, physical_columns
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import (
    APPROXIMATE,
    INTEGERS,
    TEXTS,
    TIMESTAMPS,
    CollectionType,
    DecimalType,
    LengthType,
    LogicalType,
    MapType,
    RowType,
    TypeRoot,
)

_ROWS_PER_SECOND = 10_000
_TEXT_LENGTH = 100
_COLLECTION_LENGTH = 3
_BITS = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INTEGER: 31, TypeRoot.BIGINT: 63}
_DIGITS_OF_INT64 = 18
_COUNTED = INTEGERS | APPROXIMATE | TEXTS | {TypeRoot.DECIMAL}
"""Types that a sequence can have."""
Values = Callable[[Rows], pa.Array]
"""The values of a column by the numbers of rows."""


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    rate = options.number("rows-per-second", _ROWS_PER_SECOND)
    rows = options.whole_number("number-of-rows")
    lengths = [rows] if rows is not None else []
    fields = {}
    for column in physical_columns(table):
        made = _Fields(options).column(f"fields.{column.name}", column.type)
        fields[column.name] = made.values
        lengths += [] if made.length is None else [made.length]
    return TableSource(DataGenSource(fields, min(lengths, default=None), rate))


CONNECTOR = Connector(_source)


class _Made:
    """Values of a column, and how many there are; None: as many as wanted."""

    def __init__(self, values: Values, length: int | None = None) -> None:
        self.values = values
        self.length = length


class _Fields:
    """Makes columns from their options, `fields.name.option`."""

    def __init__(self, options: ConnectorOptions) -> None:
        self.options = options

    def column(self, path: str, kind: LogicalType) -> _Made:
        """The values of a column, or of a part of one."""
        which = self.options.one_of(f"{path}.kind", ("random", "sequence"), "random")
        if which == "sequence":
            return self._sequence(path, kind)
        values = self._random(path, kind)
        rate = self.options.number(f"{path}.null-rate", 0.0) or 0.0
        if not 0 <= rate <= 1:
            raise self.options.fail(f"option '{path}.null-rate' is from 0 to 1, not {rate}")
        return _Made(partial(_with_nulls, values, rate, _seed(path + "?")) if rate else values)

    def _sequence(self, path: str, kind: LogicalType) -> _Made:
        if kind.root not in _COUNTED:
            raise self.options.fail(f"'{path}.kind' cannot be 'sequence': the column is {kind}, which is not counted")
        start, end = int(self.options.required(f"{path}.start")), int(self.options.required(f"{path}.end"))
        if end < start:
            raise self.options.fail(f"option '{path}.end' is below '{path}.start'")
        made = _counted if kind.root is TypeRoot.DECIMAL else _cast_values
        return _Made(partial(made, SequenceField(start).values, 0, to_arrow(kind)), end - start + 1)

    def _random(self, path: str, kind: LogicalType) -> Values:
        seed = _seed(path)
        match kind:
            case RowType(fields=fields):
                parts = [self.column(f"{path}.{field.name}", field.type).values for field in fields]
                return partial(_rows, parts, to_arrow(kind))
            case MapType(key=key, value=value):
                keys, values = self.column(f"{path}.key", key).values, self.column(f"{path}.value", value).values
                return partial(_maps, keys, values, self._length(path, _COLLECTION_LENGTH), to_arrow(kind))
            case CollectionType(kind=TypeRoot.ARRAY, element=element):
                items = self.column(f"{path}.element", element).values
                return partial(_lists, items, self._length(path, _COLLECTION_LENGTH), to_arrow(kind))
            case DecimalType():
                return self._decimals(path, kind, seed)
            case LengthType():
                length = self._text_length(path, kind)
                made = RandomField(length=max(length, 1)).values
                if not kind.is_fixed and self.options.truth(f"{path}.var-len"):
                    made = partial(_shortened, made, _seed(path + "#"))
                return partial(_cast_values, made, seed, to_arrow(kind))
        if kind.root is TypeRoot.BOOLEAN:
            return partial(_cast_values, RandomField(choices=(False, True)).values, seed, pa.bool_())
        if kind.root in INTEGERS:
            field = RandomField(self._bound(f"{path}.min", kind, -1), self._bound(f"{path}.max", kind, 1))
            return partial(_cast_values, field.values, seed, to_arrow(kind))
        if kind.root in APPROXIMATE:
            most = float(np.finfo(np.float32).max) if kind.root is TypeRoot.FLOAT else float(np.finfo(np.float64).max)
            least, highest = self.options.number(f"{path}.min", 0.0), self.options.number(f"{path}.max", most)
            field = RandomField(float(least or 0.0), float(highest if highest is not None else most))
            return partial(_cast_values, field.values, seed, to_arrow(kind))
        if kind.root in TIMESTAMPS:
            past = self.options.millis(f"{path}.max-past", 0) or 0
            return partial(_times, past, seed, to_arrow(kind))
        if kind.root in (TypeRoot.DATE, TypeRoot.TIME):
            return partial(_times, 0, seed, to_arrow(kind))
        raise self.options.fail(f"column {path.removeprefix('fields.')!r} is {kind}, which cannot be made up")

    def _length(self, path: str, default: int) -> int:
        length = self.options.whole_number(f"{path}.length", default)
        assert length is not None
        if length < 0:
            raise self.options.fail(f"option '{path}.length' is at least 0, not {length}")
        return length

    def _bound(self, key: str, kind: LogicalType, sign: int) -> int:
        """A bound of whole numbers, of itself the type's."""
        least, most = -(1 << _BITS[kind.root]), (1 << _BITS[kind.root]) - 1
        bound = self.options.whole_number(key)
        if bound is None:
            return most if sign > 0 else least
        if not least <= bound <= most:
            raise self.options.fail(f"option {key!r} is {bound}, which {kind} has not")
        return bound

    def _text_length(self, path: str, kind: LengthType) -> int:
        if kind.is_fixed:
            self.options.refuse(f"{path}.length", f"all values of {kind} have the length that it says")
            return kind.length
        length = self._length(path, min(kind.length, _TEXT_LENGTH))
        if length > kind.length:
            raise self.options.fail(f"option '{path}.length' is {length}, and {kind} has at most {kind.length}")
        return length

    def _decimals(self, path: str, kind: DecimalType, seed: int) -> Values:
        digits = min(kind.precision, _DIGITS_OF_INT64)
        most = decimal.Decimal(10**digits - 1).scaleb(-kind.scale)
        low = self.options.read(f"{path}.min", _decimal, -most)
        high = self.options.read(f"{path}.max", _decimal, most)
        field = RandomField(int(low.scaleb(kind.scale)), int(high.scaleb(kind.scale)))
        return partial(_scaled, field, seed, to_arrow(kind))


def _decimal(raw: object) -> decimal.Decimal:
    try:
        return decimal.Decimal(str(raw))
    except decimal.InvalidOperation:
        raise ValueError("expected a number") from None


def _seed(path: str) -> int:
    """A number of the column's own, the same in every process."""
    return zlib.crc32(path.encode())


def _cast_values(values: Callable[[Rows, int], pa.Array], seed: int, kind: pa.DataType, rows: Rows) -> pa.Array:
    return values(rows, seed).cast(kind)


def _counted(values: Callable[[Rows, int], pa.Array], seed: int, kind: pa.DataType, rows: Rows) -> pa.Array:
    """Whole numbers as decimals, whose type may have fewer digits than the type of the numbers."""
    return values(rows, seed).cast(pa.decimal128(19, 0)).cast(kind)


def _shortened(values: Callable[[Rows, int], pa.Array], length_seed: int, rows: Rows, seed: int) -> pa.Array:
    """Texts cut to a length of their own, from 1 to all that they have."""
    texts = values(rows, seed)
    if not len(texts):
        return texts
    characters = np.frombuffer(texts.buffers()[2], np.uint8).reshape(len(texts), -1)
    most = characters.shape[1]
    lengths = (random_bits(rows, length_seed) % np.uint64(most)).astype(np.int32) + 1
    kept = characters[np.arange(most) < lengths[:, None]]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(kept)])


def _with_nulls(values: Values, rate: float, seed: int, rows: Rows) -> pa.Array:
    is_null = (random_bits(rows, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53 < rate
    found = values(rows)
    return pc.if_else(from_numpy(is_null), pa.scalar(None, found.type), found)


def _scaled(field: RandomField, seed: int, kind: pa.DataType, rows: Rows) -> pa.Array:
    whole = field.values(rows, seed).cast(pa.decimal128(19, 0))
    unit = decimal.Decimal(1).scaleb(-kind.scale)
    return pc.multiply(whole, pa.scalar(unit, pa.decimal128(max(kind.scale, 1), kind.scale))).cast(kind)


def _times(past_ms: int, seed: int, kind: pa.DataType, rows: Rows) -> pa.Array:
    """The time now, or at random one of the last so many milliseconds."""
    now = int(time.time() * 1000)
    back = np.zeros(len(rows), np.int64)
    if past_ms:
        back = (random_bits(rows, seed) % np.uint64(past_ms)).astype(np.int64)
    times = from_numpy(now - back).cast(pa.timestamp("ms"))
    if pa.types.is_time(kind):
        times = times.cast(pa.time32("ms"))
    return times.cast(kind, safe=False)


def _elements(rows: Rows, length: int) -> Rows:
    """Numbers of the elements of collections, as if each were a row of its own."""
    places: Any = rows[:, None] * max(length, 1) + np.arange(length)[None, :]
    flat: Rows = places.reshape(-1)
    return flat


def _offsets(rows: Rows, length: int) -> pa.Array:
    return from_numpy(np.arange(len(rows) + 1, dtype=np.int32) * np.int32(length))


def _lists(values: Values, length: int, kind: pa.DataType, rows: Rows) -> pa.Array:
    return pa.ListArray.from_arrays(_offsets(rows, length), values(_elements(rows, length))).cast(kind)


def _maps(keys: Values, values: Values, length: int, kind: pa.DataType, rows: Rows) -> pa.Array:
    places = _elements(rows, length)
    return pa.MapArray.from_arrays(_offsets(rows, length), keys(places), values(places)).cast(kind)


def _rows(parts: list[Values], kind: pa.StructType, rows: Rows) -> pa.Array:
    return pa.StructArray.from_arrays([part(rows) for part in parts], fields=list(kind))
