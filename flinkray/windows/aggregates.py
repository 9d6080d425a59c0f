"""Built-in aggregates: descriptions. Their columnar accumulators are in `actors.operators.aggregates`.

Used as keyword arguments: `.aggregate(flights=Count(), mean_delay=Avg("dep_delay"))`. Nulls are left out, as in SQL:
`Count("x")` counts the non-null x, `Count()` rows; a group of nulls alone gives null (Count: 0).
"""

from __future__ import annotations

from msgspec import Struct


class Aggregate(Struct, frozen=True):
    """Base of all: what is computed over `column` (a column name, or an expression)."""

    column: object = None


class Count(Aggregate, frozen=True):
    """Number of rows, or of non-null values of a column. int64."""


class Sum(Aggregate, frozen=True):
    """Sum; int64 for integers (an overflow is an error), double for floats, decimal for decimals."""


class Avg(Aggregate, frozen=True):
    """Mean; a double, and of decimals a decimal with at least 6 digits behind the point, rounded half up."""


class Min(Aggregate, frozen=True):
    """Smallest value, of the column's type."""


class Max(Aggregate, frozen=True):
    """Largest value, of the column's type."""


class First(Aggregate, frozen=True):
    """The first non-null value that arrived."""


class Last(Aggregate, frozen=True):
    """The last non-null value that arrived."""


class CountDistinct(Aggregate, frozen=True):
    """Number of different non-null values. int64."""


class ArgMin(Aggregate, frozen=True):
    """The value of `column` in the row where `by` is smallest (the first such row)."""

    by: object = None


class ArgMax(Aggregate, frozen=True):
    """The value of `column` in the row where `by` is largest (the first such row)."""

    by: object = None


class TopN(Aggregate, frozen=True):
    """The `n` largest values, largest first, as a list."""

    n: int = 10


class CollectList(Aggregate, frozen=True):
    """All non-null values in order of arrival, as a list."""
