"""Windows of the Table API: Tumble, Slide and Session group rows, Over is what an aggregate sees of each row."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from flinkray.errors import InvalidProgramError
from flinkray.tables.api.expression import Expression, as_expression, col
from flinkray.tables.api.expressions import Bound
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax.names import Name, Path


class GroupWindow(Struct, frozen=True):
    """A window that rows are grouped by, as a call of SQL, with the name that `group_by` and `select` have for it."""

    call: syntax.Call
    name: str


class OverWindow(Struct, frozen=True):
    """A window of OVER with its name."""

    window: syntax.Window
    name: str


def _name_of(alias: Any) -> str:
    node = as_expression(col(alias) if isinstance(alias, str) else alias)._node
    if not isinstance(node, syntax.Reference):
        raise InvalidProgramError("a window is named by text, or a column: .alias('w')")
    return node.path.texts[0]


class _Timed:
    """A group window with its lengths; `on` says the time attribute."""

    def __init__(self, function: str, lengths: tuple[Expression, ...]) -> None:
        for length in lengths:
            if not isinstance(length._node, syntax.Interval):
                raise InvalidProgramError("a window is as long as an interval of time, such as lit(10).minutes")
        self._function = function
        self._lengths = lengths

    def on(self, time_field: Any) -> _Named:
        """The time attribute by which rows belong to windows."""
        time = as_expression(col(time_field) if isinstance(time_field, str) else time_field)
        nodes = (time._node, *(each._node for each in self._lengths))
        return _Named(syntax.Call(Path((Name(self._function),)), nodes))


class _Named:
    """A window without its name."""

    def __init__(self, call: syntax.Call) -> None:
        self._call = call

    def alias(self, alias: Any) -> GroupWindow:
        """The window under a name."""
        return GroupWindow(self._call, _name_of(alias))


class Tumble:
    """Windows of one length, each behind the other."""

    @staticmethod
    def over(size: Any) -> _Timed:
        return _Timed("TUMBLE", (as_expression(size),))


class _Sliding:
    def __init__(self, size: Expression) -> None:
        self._size = size

    def every(self, slide: Any) -> _Timed:
        return _Timed("HOP", (as_expression(slide), self._size))


class Slide:
    """Windows of one length that begin at a distance of another one."""

    @staticmethod
    def over(size: Any) -> _Sliding:
        return _Sliding(as_expression(size))


class Session:
    """Windows that end where no row comes for a while."""

    @staticmethod
    def with_gap(gap: Any) -> _Timed:
        return _Timed("SESSION", (as_expression(gap),))


class _Over:
    """An Over window that is being described."""

    def __init__(self, partition_by: tuple[Expression, ...], order_by: tuple[Expression, ...] = ()) -> None:
        self._partition_by = partition_by
        self._order_by = order_by
        self._preceding: Expression | None = None
        self._following: Expression | None = None

    def order_by(self, order_by: Any) -> _Over:
        """The time attribute that rows are in the order of."""
        return _Over(self._partition_by, (as_expression(order_by),))

    def preceding(self, preceding: Any) -> _Over:
        """How far the window reaches back: rows, an interval of time, or UNBOUNDED_ROW and UNBOUNDED_RANGE."""
        made = _Over(self._partition_by, self._order_by)
        made._preceding, made._following = as_expression(preceding), self._following
        return made

    def following(self, following: Any) -> _Over:
        """How far the window reaches on; by custom to the current row."""
        made = _Over(self._partition_by, self._order_by)
        made._preceding, made._following = self._preceding, as_expression(following)
        return made

    def alias(self, alias: Any) -> OverWindow:
        """The window under a name, for `col("a").sum.over(col("w"))`."""
        order = tuple(syntax.OrderItem(each._node) for each in self._order_by)
        frame = None
        if self._preceding is not None:
            unit, start = _bound(self._preceding, "PRECEDING")
            end = None if self._following is None else _bound(self._following, "FOLLOWING")[1]
            frame = syntax.Frame(unit, start, end or syntax.FrameBound("CURRENT ROW"))
        partition_by = tuple(each._node for each in self._partition_by)
        return OverWindow(syntax.Window(None, partition_by, order, frame), _name_of(alias))


def _bound(expression: Expression, direction: str) -> tuple[str, syntax.FrameBound]:
    node = expression._node
    if not isinstance(node, Bound):
        return "RANGE", syntax.FrameBound(direction, node)
    if node.rows is None:
        return node.unit, syntax.FrameBound(direction)
    if node.rows == 0:
        return node.unit, syntax.FrameBound("CURRENT ROW")
    return node.unit, syntax.FrameBound(direction, syntax.Number(str(node.rows)))


class Over:
    """Rows that an aggregate sees of each row."""

    @staticmethod
    def partition_by(*partition_by: Any) -> _Over:
        return _Over(tuple(as_expression(each) for each in partition_by))

    @staticmethod
    def order_by(order_by: Any) -> _Over:
        return _Over(()).order_by(order_by)
