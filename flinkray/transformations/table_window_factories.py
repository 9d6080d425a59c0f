"""What each operator of time and windows in tables does. The planner of SQL makes these."""

from __future__ import annotations

from msgspec import Struct

from flinkray.tables.plans.expressions import AggregateCall, BoundExpression, SortKey
from flinkray.tables.types.logical import LogicalType
from flinkray.tables.user_functions import Implementation
from flinkray.transformations.operator_factories import ChangelogRole, OperatorFactory, TableFactory
from flinkray.types.records import Millis


class WatermarkAssignerFactory(OperatorFactory, frozen=True):
    """Gives rows the event times that a column has, and makes watermarks of the highest value of an expression."""

    columns: tuple[tuple[str, LogicalType], ...]
    """The columns of the input, which the expression reads by their numbers."""
    column: str
    watermark: BoundExpression
    idle_timeout_ms: Millis | None = None
    """An input without rows for so long holds no watermark back; None: it does."""
    changelog = ChangelogRole.KEEPS


class Windows(Struct, frozen=True):
    """Windows of one kind: TUMBLE, HOP or CUMULATE. Lengths in milliseconds."""

    kind: str
    size: int
    step: int
    """From one window to the next one: the slide of HOP, the step of CUMULATE, the size of TUMBLE."""
    offset: int = 0


class WindowTableFunctionFactory(OperatorFactory, frozen=True):
    """Repeats each row for each window that it is in, with the window's bounds and time in three columns behind its
    own."""

    time: str | None
    """The column of the rows' times; None: the clock says when they come."""
    windows: Windows
    names: tuple[str, str, str]
    is_instant: bool
    """Whether the window's time is an instant: a timestamp with the time zone UTC."""
    time_zone: str = "UTC"
    """In which the bounds of windows of instants are dates and times of day."""
    changelog = ChangelogRole.KEEPS


class SessionFactory(TableFactory, frozen=True, kw_only=True):
    """Rows once their sessions have ended, with the window's bounds and time in three columns behind their own."""

    time: int
    """The column of the rows' times."""
    gap_ms: Millis
    time_zone: str = "UTC"
    """Where the times are instants, the zone whose clocks sessions go by; event times come and go by these, too."""


class LocalTimeFactory(OperatorFactory, frozen=True):
    """Moves event times and watermarks, which are instants, to what clocks in a time zone show, or back."""

    time_zone: str
    is_back: bool = False
    changelog = ChangelogRole.KEEPS


class WindowRowsFactory(TableFactory, frozen=True, kw_only=True):
    """Base of what is computed of all rows of a window, once it has ended."""

    ends: tuple[int, ...]
    """The column of each input that has the end of a row's window."""


class WindowAggregateFactory(WindowRowsFactory, frozen=True, kw_only=True):
    """Aggregates of the rows of each key and window: its keys, then the results of the calls."""

    keys: tuple[int, ...]
    """The columns of the key, with both bounds of the window."""
    calls: tuple[AggregateCall, ...]
    functions: tuple[tuple[str, Implementation], ...] = ()
    """The user's aggregates that are called, by the names that calls have for them."""


class WindowRankFactory(WindowRowsFactory, frozen=True, kw_only=True):
    """The rows of each key and window from the first to the last rank in an order."""

    kind: str
    """ROW_NUMBER, RANK or DENSE_RANK."""
    keys: tuple[int, ...]
    """The columns of the key, with both bounds of the window."""
    order: tuple[SortKey, ...]
    first: int
    last: int
    has_number: bool
    """Whether results have their rank behind their columns."""
    is_latest_first: bool = False
    """Of rows that are equal in the order, whether the last one to come is the first."""


class WindowJoinFactory(WindowRowsFactory, frozen=True, kw_only=True):
    """Pairs of rows of the same key and window, and by the kind of the join rows without a partner."""

    kind: str
    """INNER, LEFT, RIGHT, FULL, SEMI or ANTI."""
    keys: tuple[tuple[int, ...], tuple[int, ...]]
    """The columns of the key of each input, with both bounds of the window."""
    condition: BoundExpression | None = None
    """What a pair has to fulfil, over the columns of both inputs."""
    inputs = 2
