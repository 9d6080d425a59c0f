"""What each operator of tables does. The planner of SQL makes these (`flinkray.tables.lowering`): it has found out
which changes come and which are wanted, so that the operators take what they get."""

from __future__ import annotations

from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    MatchRead,
    PatternVariable,
    SortKey,
    WindowCall,
)
from flinkray.tables.user_functions import Implementation
from flinkray.transformations.operator_factories import TableFactory


class DeduplicateFactory(TableFactory, frozen=True, kw_only=True):
    """The first or the last row of each key, by the order of a time column, or of arrival."""

    time: int | None
    """The column; None: rows are ordered by their arrival."""
    keeps_last: bool


class RankFactory(TableFactory, frozen=True, kw_only=True):
    """The rows of each key whose rank lies from `first` to `last`, in an order."""

    kind: str
    """ROW_NUMBER, RANK or DENSE_RANK."""
    order: tuple[SortKey, ...]
    """Rows that are equal in it are ordered by their arrival."""
    first: int
    last: int
    has_number: bool = False
    """Whether the rank is the last column of the results."""
    latest_first: bool = False
    """Whether of rows that are equal in the order the one that came last is the first."""


class SortFactory(TableFactory, frozen=True, kw_only=True):
    """All rows in an order."""

    order: tuple[SortKey, ...]
    time: int | None
    """The column of event times that comes first in the order, so that rows can be given as time goes on; None: rows
    come in the order of their processing time, or this is batch mode."""


class NormalizeFactory(TableFactory, frozen=True, kw_only=True):
    """The last row of each key, of changes that say only what a row is now: each update gets the row as it was before
    it, and each deletion the row that it deletes, of which it may have the key alone."""

    keeps_versions: bool = False
    """Whether each change counts, as a version of its time; else of those that come at once only the last of a key."""


class GroupAggregateFactory(TableFactory, frozen=True, kw_only=True):
    """Aggregates of the rows of each group: its keys, then the results of the calls."""

    keys: tuple[int, ...]
    """The columns of the input that are the keys; none: all rows are one group."""
    calls: tuple[AggregateCall, ...]
    text: str
    """The calls as text, by which state is told from that of others."""
    merges: bool = False
    """Whether its rows come from a local phase, which `takes` the changes."""
    functions: tuple[tuple[str, Implementation], ...] = ()
    """The user's aggregates that are called, by the names that calls have for them."""


class LocalAggregateFactory(TableFactory, frozen=True, kw_only=True):
    """What aggregates keep of the rows of each group of a batch, behind its keys, which are its `rows`."""

    keys: tuple[int, ...]
    """The columns of the input that are the keys."""
    calls: tuple[AggregateCall, ...]


class ExpandFactory(TableFactory, frozen=True, kw_only=True):
    """Each row once for each grouping set: its columns, then the keys, NULL where the set is without them, and then
    the number of the set."""

    keys: tuple[int, ...]
    """The columns of the input that are the keys."""
    sets: tuple[tuple[int, ...], ...]
    """The places in `keys` that each set has."""


class OverFactory(TableFactory, frozen=True, kw_only=True):
    """For each row the results of calls OVER a window of the rows of its key, behind its columns."""

    order: tuple[SortKey, ...]
    """The order of the window; rows that are equal in it are in that of their arrival."""
    time: int | None
    """The column of event times that the order begins with; None: rows come in the order of their processing time, or
    this is batch mode."""
    calls: tuple[WindowCall, ...]
    """Arguments and filters are columns or constants; keys and order are those of the operator."""
    functions: tuple[tuple[str, Implementation], ...] = ()
    """The user's aggregates that are called, by the names that calls have for them."""


class MatchFactory(TableFactory, frozen=True, kw_only=True):
    """Matches of a pattern of rows: the columns of the keys, then the measures, a row for each match."""

    keys: tuple[int, ...]
    """The columns of the input that are the keys."""
    order: tuple[SortKey, ...]
    """The order of the rows, which begins with their time; rows that are equal in it are in that of their arrival."""
    time: int | None
    """The column of event times that the order begins with; None: rows come in the order of their processing time."""
    variables: tuple[PatternVariable, ...]
    skip: tuple[str, str | None]
    """Where the search goes on: NEXT ROW or PAST LAST ROW, or FIRST or LAST of a variable."""
    window_ms: int | None
    reads: tuple[MatchRead, ...]
    measures: tuple[BoundExpression, ...]
    """Their columns are the numbers of `reads`."""
    text: str
    """The pattern as text, by which state is told from that of others."""


class ConstraintsFactory(TableFactory, frozen=True, kw_only=True):
    """What a table demands of the rows that are written into it, which are its `rows`."""

    table: str
    """Its name, for errors."""
    not_null: tuple[int, ...]
    """The columns in which NULL is a fault."""
    deletes_by_key: bool = False
    """Whether a row that goes is known by its key alone: its other columns may be NULL then."""
    drops: bool
    """Whether a row with that fault is left out; else it is an error."""
    lengths: tuple[int, ...]
    """The columns whose values have to have the length of their type."""
    trims: bool
    """Whether values are cut and filled up to it; else another length is an error."""
