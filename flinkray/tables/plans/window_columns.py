"""Which columns of a plan's rows are the bounds of a window, so that who lowers the plan can work window by window.

An aggregate whose keys have both bounds is a window aggregate; a join that has both among its keys, of the same windows
on both sides, is a window join; a rank whose partition has both is a window rank.
"""

from __future__ import annotations

from msgspec import Struct

from flinkray.tables.plans.expressions import Column, Plan
from flinkray.tables.plans.nodes import (
    Aggregate,
    Deduplicate,
    Expand,
    Filter,
    Join,
    Limit,
    Project,
    Rank,
    SetOperation,
    Sort,
    TemporalJoin,
    Window,
    WindowTableFunction,
)
from flinkray.tables.types.logical import TimeAttribute, TimestampType, TypeRoot

TIME_REMEDY = (
    "declare it with WATERMARK FOR, or as PROCTIME(), in a table; of a stream that has event times, "
    "stream.with_rowtime('rowtime') gives a column of them; what is computed of a time attribute, a CAST too, is none"
)
"""The way out where a column is no time attribute."""


class WindowKind(Struct, frozen=True):
    """Which windows they are; lengths are in milliseconds."""

    kind: str
    size: int
    slide: int = 0
    offset: int = 0
    is_proctime: bool = False
    """Whether the clock says when they end."""
    is_instant: bool = False
    """Whether their times are instants, and their bounds what clocks in the session's time zone show."""


class WindowColumns(Struct, frozen=True):
    """The numbers of the columns that are the start and the end of the window that a row belongs to, and its time."""

    windows: WindowKind
    start: int
    end: int
    time: int | None = None

    def moved(self, places: dict[int, int]) -> WindowColumns | None:
        """The same columns under other numbers; None where one of the bounds is not there any more."""
        if self.start not in places or self.end not in places:
            return None
        time = None if self.time is None else places.get(self.time)
        return WindowColumns(self.windows, places[self.start], places[self.end], time)


def window_columns(plan: Plan) -> WindowColumns | None:
    """The window's columns in the rows of a plan; None: they have none, or not both bounds."""
    match plan:
        case WindowTableFunction():
            width = len(plan.input.row_type.fields)
            time = plan.input.row_type.types[plan.time]
            is_proctime = isinstance(time, TimestampType) and time.attribute is TimeAttribute.PROCTIME
            windows = WindowKind(
                plan.kind, plan.size, plan.slide, plan.offset, is_proctime, time.root is TypeRoot.TIMESTAMP_LTZ
            )
            return WindowColumns(windows, width, width + 1, width + 2)
        case Filter() | Sort() | Limit() | Rank() | Deduplicate() | Window():
            return window_columns(plan.input)
        case Project():
            found = window_columns(plan.input)
            places: dict[int, int] = {}
            for place, expression in enumerate(plan.expressions):
                if isinstance(expression, Column):
                    places.setdefault(expression.index, place)
            return None if found is None else found.moved(places)
        case Aggregate():
            found = window_columns(plan.input)
            return None if found is None else found.moved(_kept_keys(plan.keys, plan.grouping_sets))
        case Expand():
            found, width = window_columns(plan.input), len(plan.input.row_type.fields)
            # Windows of the clock are for their table function's own aggregate, which the rows are here no more.
            kept = _kept_keys(plan.keys, plan.sets, width)
            return None if found is None or found.windows.is_proctime else found.moved(kept)
        case SetOperation():
            left, right = window_columns(plan.left), window_columns(plan.right)
            return left if left == right else None
        case TemporalJoin():
            return window_columns(plan.left)
        case Join():
            # Other joins give rows when a partner comes, which may be after the end of their windows; and rows without
            # a partner on the left have no window of it.
            return window_columns(plan.left) if is_window_join(plan) and plan.kind not in ("RIGHT", "FULL") else None
    return None


def _kept_keys(keys: tuple[int, ...], sets: tuple[tuple[int, ...], ...], before: int = 0) -> dict[int, int]:
    """Where keys are behind so many columns, without those that some grouping set is without."""
    return {key: before + place for place, key in enumerate(keys) if all(place in each for each in sets)}


def is_window_aggregate(plan: Aggregate) -> bool:
    """Whether each of its groups lies in one window, so that it is complete when the window is."""
    found = window_columns(plan)
    return found is not None and not (plan.grouping_sets and found.windows.is_proctime)


def is_window_join(plan: Join) -> bool:
    """Whether it only pairs rows of the same window."""
    left, right = window_columns(plan.left), window_columns(plan.right)
    if left is None or right is None or left.windows != right.windows:
        return False
    return {(left.start, right.start), (left.end, right.end)} <= set(plan.strict_keys)


def is_window_rank(plan: Rank | Deduplicate) -> bool:
    """Whether it ranks the rows of each window by themselves."""
    found = window_columns(plan.input)
    partition = plan.partition_by if isinstance(plan, Rank) else plan.keys
    return found is not None and {found.start, found.end} <= set(partition)
