"""GROUP BY: keys, sets of them, group windows; and the aggregates that are found above it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from flinkray.tables.binding.expressions import ExpressionBinder
from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    Column,
    Constant,
    Plan,
)
from flinkray.tables.plans.nodes import Aggregate, GroupWindow, Project, WindowProperty, unique_names
from flinkray.tables.syntax.expressions import Call, Expression, Row
from flinkray.tables.syntax.queries import GroupingSets
from flinkray.tables.types.logical import TIMESTAMP, TIMESTAMP_LTZ, TimeAttribute, TimestampType, TypeRoot
from flinkray.types.records import Millis

_PROPERTY = re.compile(r"(TUMBLE|HOP|SESSION)_(START|END|ROWTIME|PROCTIME)")
_PROPERTY_TYPES = {
    "START": TIMESTAMP(3).not_null(),
    "END": TIMESTAMP(3).not_null(),
    "ROWTIME": TIMESTAMP(3).as_attribute(TimeAttribute.ROWTIME),
    "PROCTIME": TIMESTAMP_LTZ(3).not_null().as_attribute(TimeAttribute.PROCTIME),
}
MOST_SETS = 1024
"""Grouping sets that CUBE and ROLLUP may make: each input row becomes as many."""


class Late(BoundExpression, frozen=True):
    """A column whose number is known when all of a SELECT is bound: the result of an aggregate, a property of the group
    window, or the result of a call OVER a window."""

    kind: str
    number: int


class Grouping:
    """What GROUP BY groups by, and what is computed of the groups."""

    def __init__(self, inputs: ExpressionBinder) -> None:
        self.inputs = inputs
        """Binds over the columns of the input."""
        self.keys: list[BoundExpression] = []
        self.sets: list[tuple[int, ...]] = []
        self.window: tuple[str, BoundExpression, int, int] | None = None
        self.calls: list[AggregateCall] = []
        self.properties: list[WindowProperty] = []

    # -- GROUP BY

    def group_by(self, items: Sequence[Expression | GroupingSets]) -> None:
        """Take the keys, and where there are several sets of them, the sets."""
        choices = [self._sets(item) for item in items if not self._is_window(item)]
        combined = [tuple(dict.fromkeys(itertools.chain(*choice))) for choice in itertools.product(*choices)]
        if len(combined) > MOST_SETS:
            node = next(item for item in items if isinstance(item, GroupingSets))
            self.inputs.context.fail(node, f"these are {len(combined)} grouping sets; there may be {MOST_SETS}")
        if combined and (len(combined) > 1 or len(combined[0]) < len(self.keys)):
            self.sets = combined

    def _sets(self, item: Expression | GroupingSets) -> list[tuple[int, ...]]:
        if isinstance(item, Row):
            return [tuple(self._key(each) for each in item.items)]
        if not isinstance(item, GroupingSets):
            return [(self._key(item),)]
        parts = [self._sets(each) for each in item.items]
        if item.kind == "GROUPING SETS":
            return [one for part in parts for one in part]
        units = [tuple(dict.fromkeys(itertools.chain(*part))) for part in parts]
        if len(units) > 10 and item.kind == "CUBE":
            self.inputs.context.fail(item, f"CUBE of {len(units)} makes more than {MOST_SETS} grouping sets")
        if item.kind == "ROLLUP":
            chosen = [units[:count] for count in range(len(units), -1, -1)]
        else:
            chosen = [list(each) for n in range(len(units), -1, -1) for each in itertools.combinations(units, n)]
        return [tuple(dict.fromkeys(itertools.chain(*each))) for each in chosen]

    def _key(self, node: Expression) -> int:
        bound = self.inputs.bind(node)
        if bound not in self.keys:
            self.keys.append(bound)
        return self.keys.index(bound)

    def _is_window(self, item: Expression | GroupingSets) -> bool:
        """Whether it is a group window, which is then taken."""
        if not isinstance(item, Call) or len(item.function.names) != 1:
            return False
        kind = item.function.texts[0].upper()
        if kind not in ("TUMBLE", "HOP", "SESSION"):
            return False
        context = self.inputs.context
        arguments = self.inputs.all(item.arguments)
        if len(arguments) != (3 if kind == "HOP" else 2):
            context.fail(
                item, f"{kind} takes a time attribute and {'two intervals' if kind == 'HOP' else 'an interval'}"
            )
        time = arguments[0]
        if not isinstance(time.type, TimestampType) or isinstance(time, Constant):
            context.fail(item.arguments[0], f"{kind} is over a time attribute, and this is {time.type}")
        sizes = []
        for node, length in zip(item.arguments[1:], arguments[1:], strict=True):
            if not isinstance(length, Constant) or length.type.root is not TypeRoot.INTERVAL_DAY_TIME:
                context.fail(node, f"{kind} takes an interval of days to seconds, such as INTERVAL '10' SECOND")
            sizes.append(length.value)
        if self.window is not None:
            context.fail(item, "there is one window in GROUP BY, not several")
        self.window = (kind, time, sizes[-1], sizes[0] if kind == "HOP" else 0)
        return True

    # -- above GROUP BY

    def key(self, bound: BoundExpression) -> Column | None:
        """The key that an expression over the input is."""
        if bound not in self.keys:
            return None
        place = self.keys.index(bound)
        is_missing = any(place not in group for group in self.sets)
        return Column(bound.type.as_nullable() if is_missing else bound.type, place)

    def aggregate(self, found: AggregateCall) -> Late:
        """The result of an aggregate."""
        if found not in self.calls:
            self.calls.append(found)
        return Late(found.type, "call", self.calls.index(found))

    def window_property(self, node: Call, name: str) -> Late | None:
        """The property of the group window that `TUMBLE_START(...)` and its like are."""
        found = _PROPERTY.fullmatch(name)
        if found is None:
            return None
        if self.window is None or self.window[0] != found[1]:
            self.inputs.context.fail(node, f"{name} needs {found[1]}(...) in GROUP BY")
        if self.inputs.bind(node.arguments[0]) != self.window[1]:
            self.inputs.context.fail(node, f"{name} is of another time than {found[1]} in GROUP BY")
        _, _, size, slide = self.window
        lengths = [each.value if isinstance(each, Constant) else None for each in self.inputs.all(node.arguments[1:])]
        if lengths != ([slide, size] if found[1] == "HOP" else [size]):
            self.inputs.context.fail(node, f"{name} is of another length than {found[1]} in GROUP BY: write the same")
        kind = _PROPERTY_TYPES[found[2]]
        if found[2] == "ROWTIME" and self.window[1].type.root is TypeRoot.TIMESTAMP_LTZ:
            kind = TIMESTAMP_LTZ(3).as_attribute(TimeAttribute.ROWTIME)
        known = WindowProperty(found[2], kind)
        if known not in self.properties:
            self.properties.append(known)
        return Late(known.type, "property", self.properties.index(known))

    @property
    def has_empty_group(self) -> bool:
        """Whether there is a group even without rows."""
        if self.window is not None:
            return False
        return not self.keys or any(not group for group in self.sets)

    # -- the plan

    def plan(self, source: Plan, ttl_ms: Millis | None) -> Aggregate:
        """Keys and arguments as columns, and their aggregates, whose state is kept for so long."""
        columns: list[BoundExpression] = list(self.keys)

        def place(expression: BoundExpression) -> BoundExpression:
            if isinstance(expression, Constant):
                return expression
            if expression not in columns:
                columns.append(expression)
            return Column(expression.type, columns.index(expression))

        calls = []
        for call in self.calls:
            order = tuple((place(each), descending, nulls) for each, descending, nulls in call.order)
            condition = None if call.filter is None else place(call.filter)
            calls.append(
                AggregateCall(
                    call.function,
                    tuple(place(each) for each in call.arguments),
                    call.type,
                    call.distinct,
                    condition,
                    order,
                    call.ignore_nulls,
                )
            )
        window = None
        if self.window is not None:
            kind, time, size, slide = self.window
            column = place(time)
            assert isinstance(column, Column)
            window = GroupWindow(kind, column.index, size, slide)
        names = _names(columns, source)
        results = [f"agg${number}" for number in range(len(calls))]
        results += [f"window_{each.kind.lower()}" for each in self.properties]
        return Aggregate(
            Project(source, tuple(columns), names),
            tuple(range(len(self.keys))),
            tuple(calls),
            tuple(unique_names([*names[: len(self.keys)], *results])),
            tuple(self.sets),
            window,
            tuple(self.properties),
            ttl_ms,
        )


def _names(columns: Sequence[BoundExpression], source: Plan) -> tuple[str, ...]:
    """The columns' own names, and numbers for what is computed."""
    known = source.row_type.names
    names = [known[each.index] if isinstance(each, Column) else f"$f{place}" for place, each in enumerate(columns)]
    return tuple(unique_names(names))
