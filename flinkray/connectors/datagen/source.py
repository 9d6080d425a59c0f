"""A source of generated rows: sequences, random values, or functions of the row number. The same rows every time."""

from __future__ import annotations

import math
import numbers
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.batches.sizes import data_bytes
from flinkray.connectors.source import (
    Boundedness,
    ReaderStatus,
    Source,
    SourceBatch,
    SourceProgress,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.connectors.split_list import SplitListEnumerator, SplitListReader, batch_rows
from flinkray.errors import InvalidProgramError
from flinkray.types.records import Kind, RecordType

Rows = npt.NDArray[np.int64]
_TICK_MS = 2
"""The shortest time between batches of a source with `rows_per_second`: without it there would be a batch per row."""
_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_IS_INT64 = "whole numbers are int64, from -2**63 to 2**63 - 1"
_MAX_DOUBLE = sys.float_info.max


class Field(ABC):
    """Values of one column, as a function of the row number, so that a restored reader goes on with the same rows."""

    @abstractmethod
    def values(self, rows: Rows, seed: int) -> pa.Array:
        """One value for each row number.

        Args:
            rows: row numbers, shape (rows,).
            seed: of random values; the same seed gives the same values.
        """


@dataclass(frozen=True, slots=True)
class SequenceField(Field):
    """`start + row * step`, int64; begins again after `end` (included) where one is given."""

    start: int = 0
    end: int | None = None
    step: int = 1

    def __post_init__(self) -> None:
        for name, value in (("start", self.start), ("end", self.end), ("step", self.step)):
            if value is not None and not _MIN_INT64 <= value <= _MAX_INT64:
                raise InvalidProgramError(f"SequenceField({name}={value}): {_IS_INT64}")
        if self.end is None:
            return
        if self.step == 0:
            raise InvalidProgramError(f"SequenceField(step=0) never comes to end={self.end}; allowed are all but 0")
        if (self.end - self.start) * self.step < 0:
            raise InvalidProgramError(
                f"SequenceField(step={self.step}) leads from start={self.start} away from end={self.end}; to count "
                "downwards, step must be negative, and to count upwards positive"
            )

    def values(self, rows: Rows, seed: int) -> pa.Array:
        if self.end is not None:
            count = (self.end - self.start) // self.step + 1
            if count <= _MAX_INT64:  # else there are not as many rows
                rows = rows % count
        elif len(rows) and not _MIN_INT64 <= self.start + int(rows[-1]) * self.step <= _MAX_INT64:
            raise InvalidProgramError(f"{self} has no value for row {int(rows[-1])}: {_IS_INT64}; set end=")
        return from_numpy(self.start + (rows if self.step == 1 else rows * self.step))


@dataclass(frozen=True, slots=True)
class RandomField(Field):
    """Evenly distributed: whole numbers from `low` to `high` (both included) where both are whole, doubles in
    [low, high) otherwise; one of `choices`; or hexadecimal text of `length` characters."""

    low: int | float = 0
    high: int | float = 2**31 - 1
    choices: tuple[Any, ...] = ()
    length: int = 0

    def __post_init__(self) -> None:
        if self.low > self.high or self.length < 0:
            raise InvalidProgramError(f"nothing lies in the range of {self}")
        is_whole = isinstance(self.low, int) and isinstance(self.high, int)
        for name, value in (("low", self.low), ("high", self.high)):
            if is_whole and not _MIN_INT64 <= value <= _MAX_INT64:
                raise InvalidProgramError(f"RandomField({name}={value}): {_IS_INT64}")
            if not is_whole and not -_MAX_DOUBLE <= value <= _MAX_DOUBLE:
                raise InvalidProgramError(f"RandomField({name}={value}): doubles must be finite")
        if not is_whole and float(self.high) - float(self.low) > _MAX_DOUBLE:
            raise InvalidProgramError(f"RandomField: high - low must be at most {_MAX_DOUBLE}, see {self}")

    def values(self, rows: Rows, seed: int) -> pa.Array:
        bits = random_bits(rows, seed)
        if self.choices:
            return pa.array(self.choices).take(from_numpy(bits % np.uint64(len(self.choices))))
        if self.length:
            return self._text(rows, seed)
        if isinstance(self.low, int) and isinstance(self.high, int):
            span = self.high - self.low + 1
            offsets = bits if span >= 1 << 64 else bits % np.uint64(span)
            return from_numpy((offsets + np.uint64(self.low % (1 << 64))).view(np.int64))
        unit = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return from_numpy(self.low + unit * (self.high - self.low))

    def _text(self, rows: Rows, seed: int) -> pa.Array:
        words = -(-self.length // 16)
        bits = np.stack([random_bits(rows, seed + 1 + word) for word in range(words)], axis=1)
        nibbles = np.unpackbits(bits.view(np.uint8).reshape(len(rows), -1), axis=1).reshape(len(rows), -1, 4)
        digits = nibbles @ np.array([8, 4, 2, 1], dtype=np.uint8)
        characters = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[digits[:, : self.length]]
        offsets = np.arange(0, (len(rows) + 1) * self.length, self.length, dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(characters))]
        return pa.Array.from_buffers(pa.string(), len(rows), buffers)


FieldLike = Field | Callable[[Rows], Any]


@dataclass(frozen=True, slots=True)
class GeneratedRows:
    """Every `step`-th row from `next_row` up to `stop` (excluded; None: for ever)."""

    split_id: str
    next_row: int
    step: int
    stop: int | None


class DataGenSource(Source):
    """Generated rows. Row n is the same in every run, whatever the parallelism.

    Args:
        fields: column name -> SequenceField, RandomField, or a function from row numbers (an int64 numpy array) to
            that many values (a numpy or Arrow array).
        rows: the number of rows; None: for ever.
        rows_per_second: over all subtasks; None: as fast as possible.
        seed: of the random fields.
    Raises:
        InvalidProgramError: an argument is not what it should be; says which.
    """

    def __init__(
        self,
        fields: Mapping[str, FieldLike],
        rows: int | None = None,
        rows_per_second: float | None = None,
        seed: int = 0,
    ) -> None:
        if not isinstance(fields, Mapping):
            raise InvalidProgramError(f"DataGenSource: fields must be a dict of names and fields, got {fields!r}")
        if not fields:
            raise InvalidProgramError("DataGenSource needs at least one field")
        self._rows = rows = _number_of_rows(rows)
        if rows_per_second is not None and not (_is_number(rows_per_second) and 0 < rows_per_second < math.inf):
            raise InvalidProgramError(
                "DataGenSource: rows_per_second must be positive and finite (or None: no limit), got "
                f"{rows_per_second!r}"
            )
        self._rows_per_second = rows_per_second
        self._columns = [_column(name, field, seed, index) for index, (name, field) in enumerate(fields.items())]
        if rows is not None:
            _check_last_row(fields, rows)
        first = self._batch(np.arange(1, dtype=np.int64))
        self._schema: pa.Schema = first.schema
        self._bytes_per_row = data_bytes(first)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED if self._rows is None else Boundedness.BOUNDED

    @property
    def output_type(self) -> RecordType | None:
        return RecordType(Kind.ROW, self._schema)

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        # Each subtask takes every so many-th row, so that a time made of the row number proceeds evenly over all.
        step = context.parallelism
        fresh = [GeneratedRows(f"{index}/{step}", index, step, self._rows) for index in range(step)]
        return _ShareEnumerator(context, fresh if restored is None else restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _DataGenReader(context, self._batch, self._bytes_per_row, self._rows_per_second)

    def _batch(self, rows: Rows) -> pa.RecordBatch:
        arrays: list[pa.Array] = []
        for name, make in self._columns:
            values = make(rows)
            if isinstance(values, np.ndarray):
                values = from_numpy(values)
            array = values if isinstance(values, pa.Array) else pa.array(values)
            if len(array) != len(rows):
                raise InvalidProgramError(
                    f"DataGenSource: field {name!r} gave {len(array)} values for {len(rows)} rows"
                )
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self._columns])


def _check_last_row(fields: Mapping[str, FieldLike], rows: int) -> None:
    last = np.array([rows - 1], dtype=np.int64)
    for field in fields.values():
        if isinstance(field, SequenceField) and rows:
            field.values(last, seed=0)


def _number_of_rows(rows: object) -> int | None:
    """The argument as an int, also where it is a float such as 1e6; None stays."""
    if rows is None:
        return None
    if not _is_number(rows) or rows != int(rows):
        raise InvalidProgramError(f"DataGenSource: rows must be a whole number (or None: for ever), got {rows!r}")
    if rows < 0:
        raise InvalidProgramError(f"DataGenSource: rows must not be negative, got {rows!r}")
    return int(rows)


def _is_number(value: object) -> TypeGuard[float]:
    return not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value)


def _column(name: str, field: FieldLike, seed: int, index: int) -> tuple[str, Callable[[Rows], Any]]:
    if not isinstance(field, Field):
        return name, field
    # Fields of the same range must not have the same values.
    return name, partial(field.values, seed=seed * 1_000_003 + index * 1009)


class _ShareEnumerator(SplitListEnumerator[GeneratedRows]):
    """Gives each reader its own share of the rows: a reader that took another's after its own would go back in time."""

    def handle_split_request(self, subtask_index: int) -> None:
        # All at once: a reader whose share never ends does not ask again.
        parallelism = self._context.parallelism
        own = [split for split in self._waiting if split.next_row % split.step % parallelism == subtask_index]
        if not own:
            self._context.signal_no_more_splits(subtask_index)
            return
        for split in own:
            self._waiting.remove(split)
        self._context.assign_splits(own, subtask_index)


class _DataGenReader(SplitListReader[GeneratedRows]):
    """Takes a batch of each of its shares in turn: after a restore it may have several, and none of them may end."""

    def __init__(
        self,
        context: SourceReaderContext,
        make: Callable[[Rows], pa.RecordBatch],
        bytes_per_row: int,
        rows_per_second: float | None,
    ) -> None:
        super().__init__(context)
        self._make = make
        self._rows_per_second = rows_per_second
        self._batch_rows = batch_rows(context, bytes_per_row)
        self._is_waiting = False

    def start(self) -> None:
        # Also where it was restored with shares: there may be others that no reader had.
        self._context.send_split_request()

    def poll(self) -> SourceBatch | SourceProgress | ReaderStatus:
        for _ in range(1 + len(self._waiting)):
            polled = super().poll()
            if self._waiting:
                self._set_current_aside()
            if polled is not ReaderStatus.NOTHING_AVAILABLE:
                return polled
        return ReaderStatus.NOTHING_AVAILABLE

    def read_split(self, split: GeneratedRows) -> Iterator[tuple[Batch | None, GeneratedRows]]:
        started_ms, first_row = self._context.now_ms(), split.next_row
        while split.stop is None or split.next_row < split.stop:
            due = self._batch_rows
            if self._rows_per_second is not None:
                made = (split.next_row - first_row) // split.step
                due = min(due, self._due(self._context.now_ms() - started_ms, made, split.step))
            if due == 0:
                yield None, split
                continue
            stop = split.next_row + due * split.step
            if split.stop is not None and stop > split.stop:
                stop = split.stop
            rows = np.arange(split.next_row, stop, split.step, dtype=np.int64)
            split = GeneratedRows(split.split_id, int(rows[-1]) + split.step, split.step, split.stop)
            yield Batch(self._make(rows), Kind.ROW), split

    def _due(self, elapsed_ms: int, made: int, step: int) -> int:
        """The number of rows that may be made now; where it is 0, the reader is woken when there are some."""
        assert self._rows_per_second is not None
        per_ms = self._rows_per_second / step / 1000
        due = int(elapsed_ms * per_ms) - made
        if due > 0:
            return due
        if not self._is_waiting:
            self._is_waiting = True
            self._context.call_later(max(_TICK_MS, math.ceil((made + 1) / per_ms - elapsed_ms)), self._wake)
        return 0

    def _wake(self) -> None:
        self._is_waiting = False
        self._context.notify_available()


def random_bits(rows: Rows, seed: int) -> npt.NDArray[np.uint64]:
    """64 random bits per row number, the same for the same seed: SplitMix64's output function over a counter."""
    with np.errstate(over="ignore"):
        bits = rows.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed % (1 << 64))
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))
