"""What each function that is called OVER a window computes of the frames of rows.

An aggregate is made of parts: what each row adds to a part, and how the rows of a frame come together. What a part has
come to at the last row of a key can stand for all rows before the next ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from actors.columns.ordering import Indices, differs_from_previous, order_by
from actors.columns.ranges import indices_of_ranges, pairs_of
from actors.keys.index import KeyIndex
from actors.operators.calc.calculation import calculate
from actors.operators.calc.values.decimals import divide
from actors.operators.calc.values.evaluation import EvaluationContext
from actors.operators.tables.aggregates.aggregates import Aggregates
from actors.operators.tables.aggregates.states.grouped_rows import GroupedRows
from actors.operators.tables.over.arrangement import Arrangement
from actors.operators.tables.over.reductions import reduced
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.tables.functions.aggregates import OF_ALL_VALUES
from flinkray.tables.plans.expressions import AggregateCall, BoundExpression, Call, Column, Constant, WindowCall
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import INTEGERS, DecimalType, LogicalType

_WIDEST = 38
_MOST_PAIRS = 1 << 18
SPREADS = ("STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP")
EXTREMES = {"MIN": "min", "MAX": "max", "FIRST_VALUE": "first", "LAST_VALUE": "last"}


class Part(Struct, frozen=True):
    """A part of an aggregate."""

    how: str
    """As `reduced` has it."""
    type: pa.DataType
    of: Callable[[pa.Array], pa.Array]
    """What each row adds, by the argument of the call."""


def _valid(column: pa.Array) -> pa.Array:
    return column.is_valid().cast(pa.int64())


def _as(arrow_type: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda column: column.cast(arrow_type)


_COUNT = Part("sum", pa.int64(), _valid)


def parts_of(call: WindowCall) -> tuple[Part, ...]:
    """The parts of an aggregate."""
    name = call.function
    if name == "COUNT":
        return (_COUNT,)
    kind = call.arguments[0].type
    if name in EXTREMES:
        return (Part(EXTREMES[name], to_arrow(kind), lambda column: column),)
    if name in SPREADS:
        wide = pa.int64() if kind.root in INTEGERS else pa.float64()
        squares = Part("sum", wide, lambda column: pc.multiply(column.cast(wide), column.cast(wide)))
        return (Part("sum", wide, _as(wide)), squares, _COUNT)
    wide = _wide(kind)
    total = Part("sum", wide, _as(wide))
    return (total, _COUNT) if name == "AVG" else (total,)


def _wide(kind: LogicalType) -> pa.DataType:
    if isinstance(kind, DecimalType):
        return pa.decimal128(_WIDEST, kind.scale)
    return pa.float64() if pa.types.is_floating(to_arrow(kind)) else pa.int64()


def finished(call: WindowCall, parts: Sequence[pa.Array]) -> pa.Array:
    """The results of an aggregate, of what its parts have come to."""
    result = to_arrow(call.type)
    if call.function == "COUNT":
        return parts[0].fill_null(0)
    if call.function in SPREADS:
        spread = _whole_spread if call.arguments[0].type.root in INTEGERS else _spread
        return spread(call, *parts).cast(result, safe=False)
    if call.function == "AVG":
        return _mean(parts[0], parts[1], call.type).cast(result, safe=False)
    return parts[0] if parts[0].type == result else parts[0].cast(result, safe=False)  # whole numbers wrap


def _mean(total: pa.Array, count: pa.Array, kind: LogicalType) -> pa.Array:
    count = _or_null(count)
    if not isinstance(kind, DecimalType):
        return pc.divide(total, count)
    found: pa.Array = divide(total, count.cast(pa.decimal128(19, 0)), kind)
    return found


def _spread(call: WindowCall, total: pa.Array, squares: pa.Array, count: pa.Array) -> pa.Array:
    """Variances and their roots from sums, which is how Flink computes them."""
    count = _or_null(count)
    variance = pc.divide(pc.subtract(squares, pc.divide(pc.multiply(total, total), count)), _divisor(call, count))
    return _rooted(call, pc.if_else(pc.less(variance, 0), pa.scalar(0, variance.type), variance))


def _whole_spread(call: WindowCall, total: pa.Array, squares: pa.Array, count: pa.Array) -> pa.Array:
    """Those of whole numbers are computed in their type."""
    kind = to_arrow(call.arguments[0].type)

    def wrapped(numbers: pa.Array) -> pa.Array:
        return numbers.cast(kind, safe=False).cast(pa.int64())

    count, total = _or_null(count), wrapped(total)
    variance = pc.subtract(wrapped(squares), pc.divide(wrapped(pc.multiply(total, total)), count))
    return _rooted(call, pc.divide(variance, _divisor(call, count)))


def _rooted(call: WindowCall, variance: pa.Array) -> pa.Array:
    if not call.function.startswith("STDDEV"):
        return variance
    return pc.sqrt(pc.if_else(pc.less(variance, 0), pa.scalar(0, variance.type), variance))


def _divisor(call: WindowCall, count: pa.Array) -> pa.Array:
    return _or_null(pc.subtract(count, 1)) if call.function.endswith("SAMP") else count


def _or_null(count: pa.Array) -> pa.Array:
    """A count by which something is divided; NULL where there is nothing."""
    return pc.if_else(pc.equal(count, 0), pa.scalar(None, pa.int64()), count)


def distinct_parts(
    call: WindowCall, argument: pa.Array, arranged: Arrangement, begin: Indices, end: Indices
) -> list[pa.Array]:
    """What the parts of an aggregate of distinct values come to: of each value in a frame the first row counts."""
    values = KeyIndex().ids(pa.RecordBatch.from_arrays([argument], names=["value"]))
    order = order_by(arranged.begin, values)
    same = ~(differs_from_previous(arranged.begin[order]) | differs_from_previous(values[order]))
    former = np.full(len(order), -1)
    former[order[1:]] = np.where(same[1:], order[:-1], -1)
    rows, partners = [], []
    for row, partner in pairs_of(begin, end - begin, _MOST_PAIRS):
        is_first = former[partner] < begin[row]
        rows.append(row[is_first])
        partners.append(partner[is_first])
    of, chosen = np.concatenate([[], *rows]).astype(np.int64), np.concatenate([[], *partners]).astype(np.int64)
    counts = np.bincount(of, minlength=len(begin))
    ends = np.cumsum(counts)
    taken = argument.take(from_numpy(chosen))
    return [reduced(part.how, part.of(taken), ends - counts, ends) for part in parts_of(call)]


def is_of_values(call: WindowCall) -> bool:
    """Whether an aggregate is made of all values of a frame, for which nothing can stand."""
    return call.function in OF_ALL_VALUES


def of_values(
    call: WindowCall, column: Callable[[int], pa.Array], arranged: Arrangement, begin: Indices, end: Indices
) -> pa.Array:
    """The results of an aggregate that is made of all values of a frame, for rows that are due."""
    due = np.flatnonzero(arranged.due)
    is_new = differs_from_previous(begin[due]) | differs_from_previous(end[due])
    frames = due[is_new]
    of_frame = np.zeros(len(arranged.rows), np.int64)
    of_frame[due] = np.cumsum(is_new) - 1
    counts = end[frames] - begin[frames]
    parts = np.searchsorted(np.cumsum(counts), np.arange(0, max(1, counts.sum()), _MOST_PAIRS)[1:], "right")
    found = [
        of_ranges(call, column, begin[part], counts)
        for part, counts in zip(np.split(frames, parts), np.split(counts, parts), strict=True)
    ]
    return pa.concat_arrays(found).take(from_numpy(of_frame))


def of_ranges(call: WindowCall, column: Callable[[int], pa.Array], begins: Indices, counts: Indices) -> pa.Array:
    """The result of an aggregate for each range of rows, which is a group of its own."""
    read = dict.fromkeys(each.index for each in (*call.arguments, call.filter) if isinstance(each, Column))
    places = {index: place for place, index in enumerate(read)}

    def moved(expression: BoundExpression) -> BoundExpression:
        return Column(expression.type, places[expression.index]) if isinstance(expression, Column) else expression

    arguments = tuple(map(moved, call.arguments))
    condition = None if call.filter is None else moved(call.filter)
    aggregate = AggregateCall(
        call.function, arguments, call.type, call.distinct, condition, ignore_nulls=call.ignore_nulls
    )
    rows = from_numpy(indices_of_ranges(begins, counts))
    columns = [column(each).take(rows) for each in read] or [pa.nulls(len(rows))]
    data = pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])
    groups = np.arange(len(begins))
    aggregates = Aggregates([aggregate], is_insert_only=True)
    aggregates.grow(len(groups))
    aggregates.add(data, GroupedRows(groups, np.repeat(groups, counts), None))
    (results,) = aggregates.results(groups)
    return results


# -- functions of places


RUNNING_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
"""Ranks that need no rows behind the current one."""


def carried_parts(call: WindowCall) -> tuple[Part, ...]:
    """The parts that can stand for all former rows of a key: those of what begins with its first row."""
    if call.function in RUNNING_RANKS:
        return (_COUNT,)
    frame = call.frame
    if frame is None or frame.start.direction != "PRECEDING" or frame.start.offset is not None or is_of_values(call):
        return ()
    return parts_of(call) if frame.end.direction == "CURRENT ROW" else ()


def steps(call: WindowCall, arranged: Arrangement) -> tuple[pa.Array, Indices]:
    """Of a running rank: by how much each row raises it, and up to which row of its key the steps count."""
    steps = arranged.is_peer_begin if call.function == "DENSE_RANK" else np.ones(len(arranged.rows))
    ends = arranged.peer_begin if call.function == "RANK" else arranged.rows + 1
    return from_numpy(steps.astype(np.int64)), ends


def share(call: WindowCall, arranged: Arrangement) -> pa.Array:
    """PERCENT_RANK, CUME_DIST and NTILE of keys all of whose rows are there."""
    place, size = arranged.rows - arranged.real_begin, arranged.end - arranged.real_begin
    if call.function == "PERCENT_RANK":
        return from_numpy((arranged.peer_begin - arranged.real_begin) / np.maximum(size - 1, 1))
    if call.function == "CUME_DIST":
        return from_numpy((arranged.peer_end - arranged.real_begin) / size)
    count = constant(call.arguments[0])
    large, rest = size // count, size % count
    within = place < rest * (large + 1)
    later = rest + (place - rest * (large + 1)) // np.maximum(large, 1)
    return from_numpy(np.where(within, place // (large + 1), later) + 1)


def shifted(call: WindowCall, argument: pa.Array, arranged: Arrangement) -> pa.Array:
    """LAG and LEAD: the value so many rows before or behind, within the key."""
    rows = arranged.rows + shift_of(call)
    is_there = (rows >= arranged.real_begin) & (rows < arranged.end)
    found = argument.take(from_numpy(np.where(is_there, rows, 0), ~is_there)).cast(to_arrow(call.type))
    if len(call.arguments) < 3 or constant(call.arguments[2]) is None:
        return found
    default = calculate(Call(call.type, "CAST", (call.arguments[2],)), (), 1, EvaluationContext())
    return pc.if_else(from_numpy(is_there), found, default[0])


def shift_of(call: WindowCall) -> int:
    """How many rows further LAG or LEAD looks."""
    rows = int(constant(call.arguments[1])) if len(call.arguments) > 1 else 1
    return -rows if call.function == "LAG" else rows


def constant(expression: BoundExpression) -> Any:
    """The value of an argument that is the same for all rows."""
    assert isinstance(expression, Constant)
    return expression.value


def single_arguments(call: WindowCall) -> list[WindowCall]:
    """The call once for each of its arguments, with this one alone."""
    return [replace(call, arguments=(each,)) for each in call.arguments]


def argument_of(call: WindowCall, column: Callable[[int], pa.Array], rows: int) -> pa.Array:
    """What an aggregate is of, or something where it has no argument; NULL for rows that its filter leaves out."""
    first = call.arguments[0] if call.arguments else None
    if isinstance(first, Column):
        found = column(first.index)
    elif first is None:
        found = from_numpy(np.ones(rows, np.bool_))
    else:
        found = pa.array([constant(first)] * rows, to_arrow(first.type))
    if isinstance(call.filter, Column):
        chosen = column(call.filter.index).fill_null(False)
        found = pc.if_else(chosen, found, pa.scalar(None, found.type))
    return found
