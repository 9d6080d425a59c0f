"""Built-in aggregates: descriptions. Their columnar accumulators are in actors/operators/.

Used as keyword arguments: `.aggregate(flights=Count(), mean_delay=Avg("dep_delay"))`. Nulls are left out, as in SQL:
`Count("x")` counts the non-null x, `Count()` rows; a group of nulls alone gives null (Count: 0).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Base of all: what is computed over `column` (a column name, or an expression)."""

    column: object = None


@dataclass(frozen=True, slots=True)
class Count(Aggregate):
    """Number of rows, or of non-null values of a column. int64."""


@dataclass(frozen=True, slots=True)
class Sum(Aggregate):
    """Sum; int64 for integers (an overflow is an error), double for floats, decimal for decimals."""


@dataclass(frozen=True, slots=True)
class Avg(Aggregate):
    """Mean as double."""


@dataclass(frozen=True, slots=True)
class Min(Aggregate):
    """Smallest value, of the column's type."""


@dataclass(frozen=True, slots=True)
class Max(Aggregate):
    """Largest value, of the column's type."""


@dataclass(frozen=True, slots=True)
class First(Aggregate):
    """The first non-null value that arrived."""


@dataclass(frozen=True, slots=True)
class Last(Aggregate):
    """The last non-null value that arrived."""


@dataclass(frozen=True, slots=True)
class CountDistinct(Aggregate):
    """Number of different non-null values. int64."""


@dataclass(frozen=True, slots=True)
class ArgMin(Aggregate):
    """The value of `column` in the row where `by` is smallest (the first such row)."""

    by: object = None


@dataclass(frozen=True, slots=True)
class ArgMax(Aggregate):
    """The value of `column` in the row where `by` is largest (the first such row)."""

    by: object = None


@dataclass(frozen=True, slots=True)
class TopN(Aggregate):
    """The `n` largest values, largest first, as a list."""

    n: int = 10


@dataclass(frozen=True, slots=True)
class CollectList(Aggregate):
    """All non-null values in order of arrival, as a list."""
