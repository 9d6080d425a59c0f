"""Ids, units, and the type of a stream's records."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NewType, TypeAlias

if TYPE_CHECKING:  # processes that only need the ids do without Arrow
    import pyarrow as pa

Timestamp = NewType("Timestamp", int)
"""A point in event or wall-clock time, in milliseconds since the epoch."""

Millis = NewType("Millis", int)
"""A length of time in milliseconds."""

MIN_TIMESTAMP = Timestamp(-(2**63))
"""Event time before the first watermark."""

MAX_TIMESTAMP = Timestamp(2**63 - 1)
"""Event time after the last record: the watermark that ends every bounded stream."""

MaybeNone: TypeAlias = Any
"""In `int | MaybeNone`, what is None where a program has not seen to it, as by giving its rows event time: who has need
not ask. As in typeshed, https://typing.python.org/en/latest/guides/writing_stubs.html#the-any-trick."""

JobId = NewType("JobId", str)
OperatorId = NewType("OperatorId", str)
"""32 hex digits: the identity of an operator across submissions (Flink's OperatorID)."""


class Kind(enum.Enum):
    """How the rows of a batch look to a row function."""

    SCALAR = "scalar"
    """One column `value`; functions see the bare value."""
    TUPLE = "tuple"
    """Columns f0 ... fn; functions see a tuple."""
    ROW = "row"
    """Named columns; functions see a `Row`."""
    OBJECT = "object"
    """Values that Arrow cannot hold: one column `value` of pickled bytes; functions see the object."""


SCALAR_COLUMN = "value"
"""The only column of a batch of kind SCALAR or OBJECT."""


def tuple_columns(width: int) -> list[str]:
    """The column names of a batch of kind TUPLE with `width` fields."""
    return [f"f{index}" for index in range(width)]


@dataclass(frozen=True, slots=True)
class RecordType:
    """What flows in a stream: a kind and the Arrow schema of its columns."""

    kind: Kind
    schema: pa.Schema

    def __post_init__(self) -> None:
        names = self.schema.names
        if self.kind in (Kind.SCALAR, Kind.OBJECT) and names != [SCALAR_COLUMN]:
            raise ValueError(f"a {self.kind.value} type has one column {SCALAR_COLUMN!r}, not {names}")
        if self.kind is Kind.TUPLE and names != tuple_columns(len(names)):
            raise ValueError(f"a tuple type has columns f0, f1, ..., not {names}")

    def __str__(self) -> str:
        fields = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"{self.kind.value}<{fields}>"


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Names a side output. Two tags are the same output exactly when their names are equal.

    `output_type` is anything that `flinkray.functions.type_hints.record_type` takes; None: taken from the first values.
    """

    name: str
    output_type: object = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("an OutputTag needs a non-empty name")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)
