"""What can be known before rows come: logic with TRUE and FALSE, NULL tests, whole numbers, and which inputs have no
rows.

Only what needs no kernel is computed: kernels are of the runtime, and whoever lowers a plan may have them compute more.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from msgspec.structs import replace

from flinkray.tables.plans.expressions import FALSE, TRUE, BoundExpression, Call, Constant, Plan, rewritten
from flinkray.tables.plans.nodes import (
    Aggregate,
    Deduplicate,
    Filter,
    Join,
    Limit,
    Project,
    Rank,
    SetOperation,
    Sort,
    Values,
    Window,
)
from flinkray.tables.plans.rules.rewriting import bottom_up, with_expressions
from flinkray.tables.types.logical import (
    BOOLEAN,
    INTEGERS,
    MAX_PRECISION,
    DecimalType,
    LengthType,
    LogicalType,
    TypeRoot,
)

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_ALL_DIGITS = Context(prec=MAX_PRECISION)  # Python's default has 28
_BITS = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INTEGER: 31, TypeRoot.BIGINT: 63}


def fold_constants(plan: Plan) -> Plan:
    """The plan with constant expressions computed, without filters that always hold, and without what has no rows."""
    return bottom_up(plan, _folded_node)


def _folded_node(plan: Plan) -> Plan:
    plan = with_expressions(plan, folded)
    if isinstance(plan, Filter) and isinstance(plan.condition, Constant):
        return plan.input if plan.condition.value is True else Values((), plan.row_type)
    if isinstance(plan, Join) and isinstance(plan.condition, Constant):
        if plan.condition.value is True:
            plan = replace(plan, condition=None)
        elif plan.kind in ("INNER", "SEMI"):
            return Values((), plan.row_type)
    return _without_rows(plan)


# -- inputs without rows


def _without_rows(plan: Plan) -> Plan:
    """What is known of a node of which inputs have no rows."""
    empty = [isinstance(each, Values) and not each.rows for each in plan.inputs]
    match plan:
        case Limit(count=0):
            return Values((), plan.row_type)
        case Aggregate(keys=(), window=None, grouping_sets=(), calls=calls) if (
            empty[0] and calls and _NOTHING.keys() >= {call.function for call in calls}
        ):
            # On streams, too, where an aggregate of rows that do not come is none (Calcite's AggregateValuesRule).
            return Values((tuple(Constant(call.type, _NOTHING[call.function]) for call in calls),), plan.row_type)
        case Aggregate(keys=()):
            return plan
        case Aggregate() | Deduplicate() | Filter() | Limit() | Project() | Rank() | Sort() | Window() if empty[0]:
            return Values((), plan.row_type)
        case SetOperation(kind="UNION", all=True) | Join(kind="FULL"):
            return Values((), plan.row_type) if all(empty) else plan
        case SetOperation(kind="INTERSECT") | Join(kind="INNER" | "SEMI"):
            return Values((), plan.row_type) if any(empty) else plan
        case SetOperation(kind="EXCEPT") | Join(kind="LEFT" | "ANTI"):
            return Values((), plan.row_type) if empty[0] else plan
        case Join(kind="RIGHT"):
            return Values((), plan.row_type) if empty[1] else plan
    return plan


_NOTHING: dict[str, int | None] = {"COUNT": 0, "SUM": None, "AVG": None, "MIN": None, "MAX": None}
"""The results of aggregates of no rows, as far as planners know them."""


def folded(expression: BoundExpression) -> BoundExpression:
    """The expression with its constant parts computed."""
    return rewritten(expression, _folded)


def _folded(expression: BoundExpression) -> BoundExpression:
    if not isinstance(expression, Call):
        return expression
    name, arguments = expression.function, expression.arguments
    if name in ("AND", "OR"):
        return _junction(expression)
    if name == "NOT" and isinstance(arguments[0], Constant):
        value = arguments[0].value
        return Constant(expression.type, None if value is None else not value)
    if name in ("IS NULL", "IS NOT NULL") and (isinstance(arguments[0], Constant) or not arguments[0].type.nullable):
        is_null = isinstance(arguments[0], Constant) and arguments[0].value is None
        return TRUE if is_null == (name == "IS NULL") else FALSE
    if name == "CASE":
        return _case(expression)
    if name == "CAST" and isinstance(arguments[0], Constant):
        found = _text(arguments[0], expression.type) or _number(arguments[0], expression.type)
        if found is not None:
            return found
    if name in _COMPARISONS and any(isinstance(each, Constant) and each.value is None for each in arguments):
        return Constant(expression.type, None)
    if name in _COMPARISONS and all(isinstance(each, Constant) and _is_exact(each) for each in arguments):
        left, right = (each.value for each in arguments if isinstance(each, Constant))
        return Constant(BOOLEAN.not_null(), _COMPARISONS[name](left, right))
    whole = [each.value for each in arguments if isinstance(each, Constant) and each.type.root in INTEGERS]
    if len(whole) < len(arguments) or any(value is None for value in whole):
        return expression
    return _of_whole_numbers(expression, whole)


def _is_exact(constant: Constant) -> bool:
    """Whether it is a whole number or a decimal."""
    is_number = constant.type.root in INTEGERS or isinstance(constant.type, DecimalType)
    return is_number and constant.value is not None


def _of_whole_numbers(call: Call, values: list[int]) -> BoundExpression:
    """Sums, differences, products and casts of whole numbers; what wraps around is left to the kernel."""
    bits = _BITS.get(call.type.root)
    if bits is None:
        return call
    if call.function in _ARITHMETIC and len(values) == 2:
        found = _ARITHMETIC[call.function](values[0], values[1])
    elif call.function == "CAST":
        found = values[0]
    else:
        return call
    return Constant(call.type, found) if -(1 << bits) <= found < 1 << bits else call


def _text(constant: Constant, target: LogicalType) -> Constant | None:
    """A text as a VARCHAR, which it is; None: the cast is another one."""
    if not isinstance(constant.value, str) or not isinstance(target, LengthType) or target.root is not TypeRoot.VARCHAR:
        return None
    return Constant(target, constant.value) if len(constant.value) <= target.length else None


def _number(constant: Constant, target: LogicalType) -> Constant | None:
    """A whole number or a decimal as a number with a point, where it has no more digits than that can have; None: it is
    another cast."""
    value = constant.value
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if target.root is TypeRoot.DOUBLE:
        return Constant(target, float(value))
    if not isinstance(target, DecimalType):
        return None
    digits = Decimal(value).as_tuple()
    exponent = digits.exponent if isinstance(digits.exponent, int) else 0
    if -exponent > target.scale or len(digits.digits) + exponent > target.precision - target.scale:
        return None
    return Constant(target, Decimal(value).quantize(Decimal(1).scaleb(-target.scale), context=_ALL_DIGITS))


def _junction(call: Call) -> BoundExpression:
    """AND without what is TRUE, and FALSE where one part is; OR the other way round."""
    dominant, neutral = (FALSE, TRUE) if call.function == "AND" else (TRUE, FALSE)
    parts: list[BoundExpression] = []
    for each in call.arguments:
        if isinstance(each, Constant) and each.value is dominant.value:
            return dominant
        same = isinstance(each, Call) and each.function == call.function
        inner = each.arguments if same and isinstance(each, Call) else (each,)
        parts += [part for part in inner if not (isinstance(part, Constant) and part.value is neutral.value)]
    unique = tuple(dict.fromkeys(parts))
    if not unique:
        return neutral
    return unique[0] if len(unique) == 1 else replace(call, arguments=unique)


def _case(call: Call) -> BoundExpression:
    """CASE without conditions that never hold, and with what comes behind one that always does."""
    kept: list[BoundExpression] = []
    for place in range(0, len(call.arguments) - 1, 2):
        condition, result = call.arguments[place : place + 2]
        if isinstance(condition, Constant) and condition.value is not True:
            continue
        if condition == TRUE:
            kept.append(result)
            break
        kept += [condition, result]
    else:
        kept += call.arguments[len(call.arguments) - len(call.arguments) % 2 :]
    if not kept:
        return Constant(call.type.as_nullable(), None)
    if len(kept) == 1:
        same = kept[0].type.as_nullable() == call.type.as_nullable()
        return kept[0] if same else Call(call.type, "CAST", (kept[0],))
    return call if len(kept) == len(call.arguments) else replace(call, arguments=tuple(kept))
