"""How a stream is keyed: by columns, or by a function of the row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkray.types.records import RecordType


@dataclass(frozen=True, slots=True)
class ColumnKey:
    """The key is one column, or several. A single column's key is its bare value, several columns' key a tuple."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.columns)


@dataclass(frozen=True, slots=True)
class FunctionKey:
    """The key is what a function returns for the row (Flink's KeySelector); it must be hashable.

    The sender computes it once per row and ships it beside the batch (`Batch.keys`, columns named `key`,
    or `key_0 ...` for a tuple), so the receiver does not call the function again.
    """

    function: Callable[[Any], Any]
    key_type: RecordType | None = None

    def __str__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


KeySelector = ColumnKey | FunctionKey
