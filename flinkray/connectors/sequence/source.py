"""A source of the whole numbers of a range."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.connectors.split_list import SplitListEnumerator, SplitListReader
from flinkray.errors import InvalidProgramError
from flinkray.functions.type_hints import scalar_type
from flinkray.types.records import SCALAR_COLUMN, Kind, RecordType

_SCHEMA = pa.schema([(SCALAR_COLUMN, pa.int64())])


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The numbers `start` to `end`, both included; a reader goes on at `start`."""

    split_id: str
    start: int
    end: int


class SequenceSource(Source):
    """The numbers from `start` to `end`, both included, as bare int64; one ascending range per subtask."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self._end = map(_whole, (start, end))
        if self._start > self._end:
            raise InvalidProgramError(f"a sequence cannot go from {start} down to {end}")

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def output_type(self) -> RecordType | None:
        return scalar_type(pa.int64())

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return SplitListEnumerator(context, self._splits(context.parallelism) if restored is None else restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _SequenceReader(context)

    def _splits(self, parallelism: int) -> list[NumberRange]:
        """Ranges whose lengths differ by one at most; none is empty."""
        total = self._end - self._start + 1
        bounds = [self._start + index * total // parallelism for index in range(parallelism + 1)]
        pairs = itertools.pairwise(bounds)
        return [NumberRange(str(index), low, high - 1) for index, (low, high) in enumerate(pairs) if low < high]


def _whole(value: object) -> int:
    if not isinstance(value, bool) and isinstance(value, numbers.Integral) and -(2**63) <= int(value) < 2**63 - 1:
        return int(value)
    raise InvalidProgramError(
        f"a sequence has 64-bit whole numbers as its ends, the highest of which is 2**63 - 2, not {value!r}"
    )


class _SequenceReader(SplitListReader[NumberRange]):
    """Makes the numbers of its ranges, a batch at a time."""

    def __init__(self, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._batch_rows = context.batch_rows

    def read_split(self, split: NumberRange) -> Iterator[tuple[Batch | None, NumberRange]]:
        while split.start <= split.end:
            stop = min(split.start + self._batch_rows, split.end + 1)
            numbers = from_numpy(np.arange(split.start, stop, dtype=np.int64))
            split = replace(split, start=stop)
            yield Batch(pa.RecordBatch.from_arrays([numbers], schema=_SCHEMA), Kind.SCALAR), split
