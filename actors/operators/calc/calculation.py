"""Bound expressions computed on the columns of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from actors.operators.calc.collections import COLLECTION_KERNELS
from actors.operators.calc.json_functions import JSON_KERNELS
from actors.operators.calc.logic import LOGIC_KERNELS
from actors.operators.calc.numbers import NUMBER_KERNELS
from actors.operators.calc.patterns import PATTERN_KERNELS
from actors.operators.calc.texts import TEXT_KERNELS
from actors.operators.calc.times import TIME_KERNELS
from actors.operators.calc.values.casts import CAST_KERNELS, cast
from actors.operators.calc.values.evaluation import Datum, EvaluationContext, Kernel, KernelCall, as_array
from flinkray.errors import RecordError
from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    Constant,
    FieldAccess,
    columns_of,
    rewritten,
)
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.casts import can_cast_implicitly
from flinkray.tables.types.logical import APPROXIMATE, INTEGERS, NUMBERS, LogicalType

KERNELS: dict[str, Kernel] = {
    **NUMBER_KERNELS,
    **LOGIC_KERNELS,
    **CAST_KERNELS,
    **TEXT_KERNELS,
    **PATTERN_KERNELS,
    **TIME_KERNELS,
    **COLLECTION_KERNELS,
    **JSON_KERNELS,
}
"""The kernel of each scalar function, by the function's own name."""
Columns = Sequence[pa.Array] | Mapping[int, pa.Array]
"""The columns of the input by their numbers: all, or those that are read."""
_PLAIN_NUMBERS = INTEGERS | APPROXIMATE
_MAKE_JSON = ("JSON", "JSON_OBJECT", "JSON_ARRAY")
_UNFAILING = frozenset(
    {*LOGIC_KERNELS, *PATTERN_KERNELS, *TEXT_KERNELS, *COLLECTION_KERNELS, "+", "-", "*", "TRY_CAST", "EXTRACT"}
) - {
    *("ELEMENT", "MAP_FROM_ARRAYS", "FROM_BASE64", "DECODE", "ENCODE", "SHA2", "STR_TO_MAP", "SPLIT_INDEX"),
    *("SIMILAR TO", "REGEXP_REPLACE"),
}
"""Functions that compute a result for any arguments, so that it does not matter if rows that need none are computed."""


def prepared(expression: BoundExpression, context: EvaluationContext) -> BoundExpression:
    """The same expression for `calculate`, with what is the same for all rows computed now, as scalars of Arrow.

    What fails stays as it is, since perhaps no row needs it.
    """
    return rewritten(expression, lambda each: _prepared(each, context))


def _prepared(expression: BoundExpression, context: EvaluationContext) -> BoundExpression:
    match expression:
        case Constant(value=value, type=kind):
            return Constant(kind, pa.scalar(value, to_arrow(kind)))
        case Call(arguments=arguments) if arguments and all(isinstance(each, Constant) for each in arguments):
            # JSON that a call makes is told from text by the call itself.
            if not expression.is_deterministic or expression.function in _MAKE_JSON:
                return expression
            try:
                return Constant(expression.type, calculate(expression, (), 1, context)[0])
            except RecordError:
                return expression
        case Call(function="+" | "-" | "*", type=kind, arguments=(_, _) as pair) if kind.is_one_of(_PLAIN_NUMBERS):
            # The kernel would cast the constants for each batch.
            return replace(expression, arguments=tuple(_of_type(each, kind, context) for each in pair))
    return expression


def _of_type(expression: BoundExpression, kind: LogicalType, context: EvaluationContext) -> BoundExpression:
    if not isinstance(expression, Constant) or not expression.type.is_one_of(NUMBERS):
        return expression
    return Constant(kind, as_array(cast(expression.value, expression.type, kind, context), 1)[0])


def calculate(expression: BoundExpression, columns: Columns, rows: int, context: EvaluationContext) -> pa.Array:
    """The column of an expression.

    Of CASE, IF, COALESCE, AND and OR only the rows that need a result are computed, so that what guards a division does
    guard it.

    Args:
        columns: the input's, each of the Arrow type that `to_arrow` gives for its logical type.
        rows: how many rows the input has.
    Raises:
        RecordError: a value cannot be computed; names the function.
    """
    return as_array(_calculate(expression, columns, rows, context), rows)


def _calculate(expression: BoundExpression, columns: Columns, rows: int, context: EvaluationContext) -> Datum:
    match expression:
        case Column(index=index):
            return columns[index]
        case Constant(value=value, type=kind):
            return value if isinstance(value, pa.Scalar) else pa.scalar(value, to_arrow(kind))
        case FieldAccess(operand=operand, index=index):
            return pc.struct_field(_calculate(operand, columns, rows, context), index)
        case Call(arguments=arguments):
            if expression.time_zone is not None and expression.time_zone != context.time_zone:
                context = replace(context, time_zone=expression.time_zone)
            guarded = _guarded(expression, columns, rows, context)
            if guarded is not None:
                return guarded
            return _called(expression, [_calculate(each, columns, rows, context) for each in arguments], rows, context)
    raise TypeError(f"{type(expression).__name__} is not computed row by row")


def _called(call: Call, arguments: Sequence[Datum], rows: int, context: EvaluationContext) -> Datum:
    """A call on columns, and scalars for constants; a column of the Arrow type of the result, or a scalar."""
    raw = frozenset(
        place
        for place, argument in enumerate(call.arguments)
        if isinstance(argument, Call) and argument.function in _MAKE_JSON
    )
    types = tuple(each.type for each in call.arguments)
    try:
        result = KERNELS[call.function].run(KernelCall(call.function, types, call.type, rows, context, raw), arguments)
    except (ValueError, ArithmeticError, pa.ArrowException) as error:
        raise RecordError(f"{call.function}: {error}") from error
    target = to_arrow(call.type)
    return result if result.type.equals(target) else result.cast(target)


# -- rows that need a result ---------------------------------------------------------------------------------------


def _can_fail(expression: BoundExpression) -> bool:
    if isinstance(expression, FieldAccess):
        return _can_fail(expression.operand)
    if not isinstance(expression, Call):
        return False
    if expression.function == "CAST" and can_cast_implicitly(expression.arguments[0].type, expression.type):
        return _can_fail(expression.arguments[0])
    return expression.function not in _UNFAILING or any(map(_can_fail, expression.arguments))


def _guarded(call: Call, columns: Columns, rows: int, context: EvaluationContext) -> pa.Array | None:
    """A condition whose later arguments may fail; None: it is computed as any other call."""
    name = call.function
    if name not in ("CASE", "IF", "COALESCE", "IFNULL", "AND", "OR") or not any(map(_can_fail, call.arguments[1:])):
        return None
    if name in ("CASE", "IF"):
        return _by_condition(call, columns, rows, context)
    kind = call.type
    result = cast(calculate(call.arguments[0], columns, rows, context), call.arguments[0].type, kind, context)
    for argument in call.arguments[1:]:
        if name in ("AND", "OR"):
            is_open = pc.fill_null(result if name == "AND" else pc.invert(result), True)
        else:
            is_open = result.is_null()
        values = _of_rows(argument, is_open, kind, columns, context)
        if name in ("AND", "OR"):
            combine = pc.and_kleene if name == "AND" else pc.or_kleene
            values = combine(result.filter(is_open), values)
        result = _replaced(result, is_open, values)
    return result


def _by_condition(call: Call, columns: Columns, rows: int, context: EvaluationContext) -> pa.Array:
    kind, arguments = call.type, call.arguments
    result = pa.nulls(rows, to_arrow(kind))
    is_open = pa.repeat(True, rows)
    count = len(arguments) // 2 * 2
    for condition, value in zip(arguments[:count:2], arguments[1:count:2], strict=True):
        holds = pc.fill_null(_of_rows(condition, is_open, condition.type, columns, context), False)
        taken = _replaced(is_open, is_open, holds)
        result = _replaced(result, taken, _of_rows(value, taken, kind, columns, context))
        is_open = pc.and_not(is_open, taken)
    if len(arguments) > count:
        result = _replaced(result, is_open, _of_rows(arguments[-1], is_open, kind, columns, context))
    return result


def _of_rows(
    expression: BoundExpression,
    mask: pa.Array,
    kind: LogicalType,
    columns: Columns,
    context: EvaluationContext,
) -> pa.Array:
    """The expression in the rows of the mask, as values of the type."""
    count = mask.true_count
    chosen = columns if count == len(mask) else {each: columns[each].filter(mask) for each in columns_of(expression)}
    if not count:
        return pa.nulls(0, to_arrow(kind))
    return cast(calculate(expression, chosen, count, context), expression.type, kind, context)


def _replaced(values: pa.Array, mask: pa.Array, others: pa.Array) -> pa.Array:
    """The values, and in the rows of the mask the others, one after the other."""
    if not pa.types.is_nested(values.type) and not pa.types.is_duration(values.type):
        return pc.replace_with_mask(values, mask, others)
    chosen = mask.to_numpy(zero_copy_only=False)
    places = np.where(chosen, len(values) + np.cumsum(chosen) - 1, np.arange(len(values)))
    return pa.concat_arrays([values, others]).take(pa.array(places))
