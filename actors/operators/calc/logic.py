"""Comparisons, logic of three values, and conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc.values.casts import cast
from actors.operators.calc.values.evaluation import (
    Datum,
    Kernel,
    KernelCall,
    as_array,
    nulls_where,
    plain,
    whole,
    with_call,
)
from flinkray.tables.types.common import common_type


def _equal(left: Datum, right: Datum) -> Datum:
    if not pa.types.is_nested(left.type):
        return pc.equal(left, right)
    rows = max(len(side) for side in (left, right) if isinstance(side, pa.Array))
    sides = [as_array(side, rows) for side in (left, right)]
    is_null = pc.or_(*(side.is_null() for side in sides))
    return nulls_where(is_null, _same(*sides))


def _compared(compute: Callable[[Datum, Datum], Datum]) -> Kernel:
    """A comparison, also of NULL with NULL, whose types say nothing."""

    def kernel(call: KernelCall, left: Datum, right: Datum) -> Datum:
        return pa.nulls(call.rows, pa.bool_()) if pa.types.is_null(left.type) else compute(left, right)

    return with_call(kernel)


def _same(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether both hold the same value, NULL counting as one, nested ones included; never NULL."""
    if left.null_count or right.null_count:
        nulls = [side.is_null() for side in (left, right)]
        both = pc.and_(*nulls)
        neither = pc.invert(pc.or_(*nulls))
        return pc.or_(both, pc.and_(neither, pc.fill_null(_same_values(left, right), False)))
    return _same_values(left, right)


def _same_values(left: pa.Array, right: pa.Array) -> pa.Array:
    if pa.types.is_struct(left.type):
        fields = [_same(pc.struct_field(left, [i]), pc.struct_field(right, [i])) for i in range(left.type.num_fields)]
        return reduce(pc.and_, fields)
    if pa.types.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([_in_any_order(ours) == _in_any_order(theirs) for ours, theirs in pairs])
    return pc.equal(left, right)


def _in_any_order(value: object) -> object:
    """Maps are the same whatever the order of their entries."""
    is_map = isinstance(value, list) and value and all(isinstance(entry, tuple) for entry in value)
    return dict(value) if is_map else value  # type: ignore[call-overload]


def _distinct(left: Datum, right: Datum) -> Datum:
    return pc.invert(_not_distinct(left, right))


def _not_distinct(left: Datum, right: Datum) -> Datum:
    rows = max(len(side) for side in (left, right) if isinstance(side, pa.Array))
    return _same(as_array(left, rows), as_array(right, rows))


def _in(value: Datum, *members: Datum) -> Datum:
    """Like `value = m1 OR value = m2 …`: NULL if none is equal, and one of the sides is NULL."""
    constants = [member for member in members if isinstance(member, pa.Scalar)]
    columns = [member for member in members if not isinstance(member, pa.Scalar)]
    is_plain = isinstance(value, pa.Array) and not pa.types.is_nested(value.type)
    if columns or not is_plain or pa.types.is_floating(value.type):
        found: Datum = reduce(pc.or_kleene, (_equal(value, member) for member in members))
        return found
    known = pa.array([member.as_py() for member in constants if member.is_valid], value.type)
    found = pc.is_in(value, known)
    if len(known) < len(constants):
        found = nulls_where(pc.invert(found), found)
    return nulls_where(value.is_null(), found) if value.null_count else found


def _between(value: Datum, low: Datum, high: Datum) -> Datum:
    return pc.and_kleene(pc.greater_equal(value, low), pc.less_equal(value, high))


def _case(call: KernelCall, *arguments: Datum) -> Datum:
    """The result of the first condition that holds."""
    count = len(arguments) // 2 * 2
    conditions = [as_array(condition, call.rows) for condition in arguments[:count:2]]
    results = list(arguments[1:count:2])
    otherwise = arguments[-1] if len(arguments) > count else pa.scalar(None, call.arrow_type)
    fitting = [_cast(result, call) for result in (*results, otherwise)]
    if len(conditions) == 1:
        return pc.if_else(pc.fill_null(conditions[0], False), *fitting)
    return pc.case_when(pc.make_struct(*conditions), *fitting)


def _cast(value: Datum, call: KernelCall) -> Datum:
    return whole(value if value.type.equals(call.arrow_type) else value.cast(call.arrow_type))


def _nullif(call: KernelCall, value: pa.Array, other: Datum) -> pa.Array:
    common = common_type(call.types)
    assert common is not None  # the binder saw to it
    sides = [
        cast(side, source, common.as_nullable(), call.context)
        for side, source in zip((value, other), call.types, strict=True)
    ]
    is_same = pc.fill_null(_equal(*sides), False)
    return nulls_where(is_same, as_array(value, call.rows))


def _folded(compute: Callable[..., Datum]) -> Kernel:
    return plain(lambda *values: reduce(compute, values))


def _least(*values: Datum) -> Datum:
    if pa.types.is_boolean(values[0].type):
        return reduce(pc.and_, values)
    return pc.min_element_wise(*values, skip_nulls=False)


def _greatest(*values: Datum) -> Datum:
    """NaN is greater than all numbers; Arrow's kernel passes it over."""
    if pa.types.is_boolean(values[0].type):
        return reduce(pc.or_, values)
    found = pc.max_element_wise(*values, skip_nulls=False)
    if not pa.types.is_floating(found.type):
        return found
    has_nan = reduce(pc.or_kleene, map(pc.is_nan, values))
    return pc.if_else(pc.and_kleene(has_nan, pc.is_valid(found)), pa.scalar(math.nan, found.type), found)


LOGIC_KERNELS = {
    "=": _compared(_equal),
    "<>": _compared(lambda left, right: pc.invert(_equal(left, right))),
    "<": _compared(pc.less),
    "<=": _compared(pc.less_equal),
    ">": _compared(pc.greater),
    ">=": _compared(pc.greater_equal),
    "AND": _folded(pc.and_kleene),
    "OR": _folded(pc.or_kleene),
    "NOT": plain(pc.invert),
    "IS NULL": plain(pc.is_null),
    "IS NOT NULL": plain(pc.is_valid),
    "IS UNKNOWN": plain(pc.is_null),
    "IS NOT UNKNOWN": plain(pc.is_valid),
    "IS TRUE": plain(lambda value: pc.fill_null(value, False)),
    "IS NOT TRUE": plain(lambda value: pc.invert(pc.fill_null(value, False))),
    "IS FALSE": plain(lambda value: pc.invert(pc.fill_null(value, True))),
    "IS NOT FALSE": plain(lambda value: pc.fill_null(value, True)),
    "IS DISTINCT FROM": plain(_distinct),
    "IS NOT DISTINCT FROM": plain(_not_distinct),
    "IN": plain(_in),
    "BETWEEN": plain(_between),
    "CASE": with_call(_case),
    "IF": with_call(_case),
    "COALESCE": plain(pc.coalesce),
    "IFNULL": plain(pc.coalesce),
    "NULLIF": with_call(_nullif),
    "GREATEST": plain(_greatest),
    "LEAST": plain(_least),
}
