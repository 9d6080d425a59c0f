"""Built-in aggregates: descriptions. Their columnar accumulators are in `actors.operators.aggregates`.

Used as keyword arguments: `.aggregate(flights=Count(), mean_delay=Avg("dep_delay"))`. Nulls are left out, as in SQL:
`Count("x")` counts the non-null x, `Count()` rows; a group of nulls alone gives null (Count: 0).
"""

from __future__ import annotations

from operator import methodcaller
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from flinkray.errors import InvalidProgramError


class _StateOrigin(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Where the state of an aggregate comes from when a job goes on from one whose aggregates were others."""

    former_name: str | None = None
    """The name that it had (`renamed_from`)."""
    former: object = None
    """The Aggregate that it was under that name; None: the same."""
    starts_empty: bool = False
    """Whether it may start empty (`from_now_on`)."""


class Aggregate(_StateOrigin, frozen=True):
    """Base of all: what is computed over `column` (a column name, or an expression)."""

    column: object = None

    def renamed_from(self, name: str, was: Aggregate | None = None) -> Self:
        """The same aggregate, which goes on with the state that one called `name` has left in a savepoint or checkpoint
        of an earlier version of the job. Without effect where the job starts afresh, or goes on from its own.

        Args:
            was: what that one was, where its column had another name: `Sum("cents").renamed_from("total", Sum("c"))`.
                The name may then be the same as now.
        Raises:
            InvalidProgramError: `was` is another function, whose state this one cannot go on with.
        """
        if not isinstance(name, str) or not name:
            raise InvalidProgramError(f"renamed_from takes the name that the aggregate had, not {name!r}")
        if was is not None and (type(was) is not type(self) or self._parameters != was._parameters):
            raise InvalidProgramError(
                f"{self!r} cannot go on with the state of {was!r}: was= must be the same function over another column"
            )
        return replace(self, former_name=name, former=was, starts_empty=False)

    def from_now_on(self) -> Self:
        """The same aggregate, which starts empty when the job goes on from a savepoint or checkpoint of an earlier
        version that did not have it: it is over the rows from then on, also in windows that are open. Without effect
        where the job starts afresh, or goes on from its own."""
        return replace(self, former_name=None, former=None, starts_empty=True)

    @property
    def _parameters(self) -> tuple[object, ...]:
        """What else than columns its state depends on."""
        return ()

    def __reduce__(self) -> tuple[Any, ...]:
        # Names nothing of msgspec's own, which stored programs would hold.
        names = [name for name in self.__struct_fields__ if name not in _StateOrigin.__struct_fields__]
        plain = type(self), tuple(getattr(self, name) for name in names)
        if self.starts_empty:
            return methodcaller("from_now_on"), (plain[0](*plain[1]),)
        if self.former_name is not None:
            return methodcaller("renamed_from", self.former_name, self.former), (plain[0](*plain[1]),)
        return plain


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
    """The `n` largest values, largest first, as a list: the first has rank 1. With `by`, the values of `column` in the
    rows where `by` is largest; of equal ones those that came first.

    `TopN(struct("item", "price"), 3, by="price")` gives a list of rows, each with an item and its price.
    """

    n: int = 10
    by: object = None

    @property
    def _parameters(self) -> tuple[object, ...]:
        return (self.n,)


class CollectList(Aggregate, frozen=True):
    """All non-null values in order of arrival, as a list."""
