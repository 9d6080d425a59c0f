"""The built-in aggregates as running ones: a result per row, over the rows of its key so far.

The rows of a key are a *group*, which has a number. State is per group, in columns, and changes with one call of a
kernel per batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.casting import stored, stored_type
from actors.columns.large_columns import Columns, batches_of, enlarged_type, narrowed, take_enlarged
from actors.columns.ordering import order_by
from actors.keys.index import KeyIndex
from actors.operators.aggregates.accumulators import Values, grown
from actors.operators.aggregates.group_array import GroupArray
from actors.operators.aggregates.group_columns import Choice, GroupColumn, Improvements, State
from actors.operators.aggregates.segments import Ints, Segments
from actors.operators.aggregates.value_rules import (
    AggregateTypeError,
    Descending,
    Flags,
    cast_exactly,
    check_running_sums,
    decimal_mean_type,
    decimal_means,
    decimal_overflow,
    decimal_sum_type,
    decimals_of,
    double_addends,
    extreme_of,
    has_order,
    int64_addends,
    is_fixed_width,
    numbers_of,
    numpy_type,
    to_arrow,
    valid_flags,
)
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.batches.value_columns import to_array, to_values
from flinkray.types.type_unification import unify_types
from flinkray.windows import aggregates as described


class Running(ABC):
    """One aggregate over values of one type. Groups are 0 ... size - 1; new ones are empty."""

    takes_narrower: ClassVar[bool] = False
    """Whether `add` also takes values of types from which its own was merged; else they are cast before."""

    @abstractmethod
    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        """The result at each row, in the order of the batch, as `values` are, the column that is aggregated."""

    @abstractmethod
    def capture(self, size: int) -> Callable[[], State]:
        """The state of the groups as it is now. Quick; what it gives makes the columns, once, on any thread."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Takes the place of all state; the columns are as `capture` gave them for the same type of values."""


_NONE_EMPTY = np.zeros(0, np.bool_)

# -- counts and sums ---------------------------------------------------------------------------------------------


class RunningCount(Running):
    def __init__(self) -> None:
        self._counts = GroupArray(np.int64, 0)

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        self._counts.grow(size)
        return from_numpy(segments.unsort(_count_values(self._counts, segments, values)))

    def capture(self, size: int) -> Callable[[], State]:
        counts = self._counts.capture(size)
        return lambda: {"count": from_numpy(counts())}

    def restore(self, state: State) -> None:
        self._counts.replace(as_numpy(state["count"]).copy())


class RunningSum(Running):
    """Sums of integers, of booleans as 0 and 1, of floats and of durations; with `is_mean`, means of any numbers. Sums
    that do not fit int64 are an error."""

    takes_narrower = True

    def __init__(self, arrow_type: pa.DataType, is_mean: bool = False) -> None:
        types = pa.types
        is_integer = any(of(arrow_type) for of in (types.is_integer, types.is_boolean, types.is_duration))
        self._dtype: Any = np.dtype(np.int64 if is_integer and not is_mean else np.float64)
        keeps_type = pa.types.is_duration(arrow_type) or (pa.types.is_null(arrow_type) and not is_mean)
        self._result_type = arrow_type if keeps_type else pa.from_numpy_dtype(self._dtype)
        self._is_mean = is_mean
        self._sums = GroupArray(self._dtype, 0)
        self._counts = GroupArray(np.int64, 0)

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        self._sums.grow(size)
        self._counts.grow(size)
        sums = self._summed(segments, segments.sort(self._addends(values)))
        if not values.null_count and not self._is_mean:
            self._counts[segments.groups] = self._counts[segments.groups] + segments.lengths
            return to_arrow(segments.unsort(sums), self._result_type, _NONE_EMPTY)
        counts = _count_values(self._counts, segments, values)
        if pa.types.is_null(self._result_type):
            return pa.nulls(len(values))
        results = sums / np.maximum(counts, 1) if self._is_mean else sums
        return to_arrow(segments.unsort(results), self._result_type, segments.unsort(counts == 0))

    def _summed(self, segments: Segments, addends: Values) -> Values:
        """The sum at each row, in the order of the addends, which are sorted by group."""
        carried = self._sums[segments.groups]
        if self._dtype.kind == "i":
            sums = segments.sum_exactly(addends, carried)
            check_running_sums(sums, addends, carried)
        else:
            with np.errstate(all="ignore"):  # inf - inf is NaN, as in Python
                sums = segments.scan(np.add, addends, carried)
        self._sums[segments.groups] = sums[segments.ends]
        return sums

    def _addends(self, values: pa.Array) -> Values:
        return double_addends(values) if self._dtype.kind == "f" else int64_addends(values)

    def capture(self, size: int) -> Callable[[], State]:
        captured_sums, captured_counts = self._sums.capture(size), self._counts.capture(size)

        def make() -> State:
            sums, counts = captured_sums(), captured_counts()
            return {"sum": from_numpy(sums, is_null=counts == 0), "count": from_numpy(counts)}

        return make

    def restore(self, state: State) -> None:
        self._sums.replace(numbers_of(state["sum"]).astype(self._dtype))
        self._counts.replace(as_numpy(state["count"]).copy())


def _count_values(counts: GroupArray, segments: Segments, values: pa.Array) -> Ints:
    """How many values that are not null the group has had, at each row, sorted by group; adds them to the groups'
    counts."""
    carried: Ints = counts[segments.groups]
    if values.null_count:
        counted = segments.count(segments.sort(valid_flags(values)), carried)
    else:
        counted = segments.count_rows(carried)
    counts[segments.groups] = counted[segments.ends]
    return counted


class RunningDecimalSum(Running):
    """Exact sums of decimals, as limbs of 32 bits: the limbs of a whole batch add up without overflow."""

    takes_narrower = True

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._result_type = decimal_sum_type(arrow_type)
        self._limb_count = self._result_type.bit_width // 32
        self._sums = GroupColumn(self._result_type)

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        self._sums.grow(size)
        carried = self._sums.get(segments.groups)
        limbs = self._limbs(values)[segments.order]
        first = self._limbs(carried)
        totals = np.stack([segments.sum_exactly(limbs[:, i], first[:, i]) for i in range(self._limb_count)], axis=1)
        has_value = (
            segments.count(segments.sort(valid_flags(values)), self._sums.is_set(segments.groups).astype(np.int64)) > 0
        )
        sums = self._from_limbs(totals, has_value)
        self._sums.put(segments.groups, sums.take(from_numpy(segments.ends)), size)
        positions = segments.unsort(np.arange(len(values)))
        return sums.take(from_numpy(positions))

    def _limbs(self, values: pa.Array) -> npt.NDArray[np.int64]:
        values = cast_exactly(values, self._result_type).fill_null(pa.scalar(0, self._result_type))
        buffer = values.buffers()[1]
        words = np.frombuffer(buffer, np.uint32, len(values) * self._limb_count, values.offset * self._limb_count * 4)
        limbs = words.reshape(len(values), self._limb_count).astype(np.int64)
        limbs[:, -1] = limbs[:, -1].astype(np.int32)  # the highest limb carries the sign
        return limbs

    def _from_limbs(self, limbs: npt.NDArray[np.int64], has_value: Flags) -> pa.Array:
        for index in range(self._limb_count - 1):
            limbs[:, index + 1] += limbs[:, index] >> 32
            limbs[:, index] &= 0xFFFFFFFF
        highest = limbs[:, -1]
        fits = bool(np.all(highest == highest.astype(np.int32)))
        data = pa.py_buffer(np.ascontiguousarray(limbs.astype(np.uint32)).tobytes())
        validity = from_numpy(has_value).buffers()[1]
        result = pa.Array.from_buffers(self._result_type, len(limbs), [validity, data])
        try:
            result.validate(full=True)
        except pa.ArrowInvalid:
            fits = False
        if not fits:
            raise decimal_overflow(self._result_type)
        return result

    def capture(self, size: int) -> Callable[[], State]:
        sums = self._sums.capture(size)
        return lambda: {"sum": sums()}

    def restore(self, state: State) -> None:
        sums = cast_exactly(state["sum"], self._result_type)
        self._sums.put(np.arange(len(sums)), sums, len(sums))


class RunningDecimalMean(RunningDecimalSum):
    """Means of decimals, of sums that are exact."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        super().__init__(arrow_type)
        self._mean_type = decimal_mean_type(arrow_type)
        self._counts = GroupArray(np.int64, 0)

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        self._counts.grow(size)
        counts = segments.unsort(_count_values(self._counts, segments, values))
        return decimal_means(super().add(segments, values, size), counts, self._mean_type)

    def capture(self, size: int) -> Callable[[], State]:
        captured_sums, counts = super().capture(size), self._counts.capture(size)
        return lambda: captured_sums() | {"count": from_numpy(counts())}

    def restore(self, state: State) -> None:
        sums = state["sum"]
        if pa.types.is_floating(sums.type):  # as means of integers have them, and as those of decimals once had
            state = state | {"sum": decimals_of(sums, self._result_type)}
        super().restore(state)
        self._counts.replace(as_numpy(state["count"]).copy())


# -- one of the values -------------------------------------------------------------------------------------------


class RunningExtreme(Running):
    """Minimum or maximum of a fixed-width column. NaN counts only where there is nothing else, as in Arrow."""

    def __init__(self, arrow_type: pa.DataType, is_max: bool) -> None:
        self._column = GroupColumn(arrow_type)
        self._function, self._start = extreme_of(numpy_type(arrow_type), is_max)

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        self._column.grow(size)
        groups = segments.groups
        valid = segments.sort(valid_flags(values))
        numbers = np.where(valid, segments.sort(numbers_of(values)), self._start)
        was_set = self._column.is_set(groups)
        carried = np.where(was_set, numbers_of(self._column.get(groups)), self._start).astype(numbers.dtype)
        best = segments.scan(self._function, numbers, carried)
        has_value = segments.count(valid, was_set.astype(np.int64)) > 0
        result = to_arrow(segments.unsort(best), values.type, segments.unsort(~has_value))
        self._column.put(groups, to_arrow(best[segments.ends], values.type, ~has_value[segments.ends]), size)
        return result

    def capture(self, size: int) -> Callable[[], State]:
        best = self._column.capture(size)
        return lambda: {"best": best()}

    def restore(self, state: State) -> None:
        best = cast_exactly(state["best"], self._column.type)
        self._column.put(np.arange(len(best)), best, len(best))


class RunningFirstLast(Running):
    """The first or the last value that is not null."""

    def __init__(self, arrow_type: pa.DataType, is_last: bool) -> None:
        self._is_last = is_last
        self._choice = Choice([arrow_type])
        self._has_value = GroupArray(np.bool_, False)

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        self._has_value.grow(size)
        valid = segments.sort(valid_flags(values))
        rows = segments.last_flagged(valid) if self._is_last else segments.first_flagged(valid)
        had_value = self._has_value[segments.groups]
        if not self._is_last:
            rows = np.where(had_value[segments.segment_of], -1, rows)
        self._has_value[segments.groups] = had_value | (rows[segments.ends] >= 0)
        return self._choice.take(segments, rows, [values], size)[0]

    def capture(self, size: int) -> Callable[[], State]:
        has_value, chosen = self._has_value.capture(size), self._choice.capture(size)
        return lambda: {"has_value": from_numpy(has_value()), **chosen()}

    def restore(self, state: State) -> None:
        self._has_value.replace(as_numpy(state["has_value"]).copy())
        self._choice.restore(state)


class RunningBest(Running):
    """The value in the row where `by` is smallest or largest; `values` is a struct of (value, by)."""

    def __init__(self, value_type: pa.DataType, by_type: pa.DataType, is_max: bool) -> None:
        self._improvements = Improvements(by_type, is_max)
        self._choice = Choice([value_type])

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        rows = self._improvements.rows(segments, values.field(1), size)
        return self._choice.take(segments, rows, [values.field(0)], size)[0]

    def capture(self, size: int) -> Callable[[], State]:
        best, chosen = self._improvements.capture(size), self._choice.capture(size)
        return lambda: {"best": best(), **chosen()}

    def restore(self, state: State) -> None:
        self._improvements.restore(state["best"])
        self._choice.restore(state)


class RunningOrderedExtreme(Running):
    """Minimum or maximum of a column that is not of fixed width (text, bytes, decimals)."""

    def __init__(self, arrow_type: pa.DataType, is_max: bool) -> None:
        self._improvements = Improvements(arrow_type, is_max)
        self._choice = Choice([arrow_type])

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        rows = self._improvements.rows(segments, values, size)
        return self._choice.take(segments, rows, [values], size)[0]

    def capture(self, size: int) -> Callable[[], State]:
        best = self._improvements.capture(size)
        return lambda: {"best": best()}

    def restore(self, state: State) -> None:
        self._improvements.restore(state["best"])
        self._choice.restore({"c0": state["best"]})


# -- several values ----------------------------------------------------------------------------------------------


class RunningDistinct(Running):
    """How many different values the group has had: a row counts where its pair of group and value is new."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._type = arrow_type
        self._pairs = KeyIndex()
        self._counts = np.zeros(0, np.int64)

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        self._counts = grown(self._counts, size, 0)
        valid = segments.sort(valid_flags(values))
        groups = segments.groups[segments.segment_of]
        rows = np.flatnonzero(valid)
        is_new = np.zeros(len(values), np.bool_)
        is_new[rows] = self._new_pairs(groups[rows], values.take(from_numpy(segments.order[rows])))
        counts = segments.count(is_new, self._counts[segments.groups])
        self._counts[segments.groups] = counts[segments.ends]
        return from_numpy(segments.unsort(counts))

    def _new_pairs(self, groups: Ints, values: pa.Array) -> Flags:
        before = len(self._pairs)
        ids = self._pairs.ids(pa.RecordBatch.from_arrays([from_numpy(groups), values], names=["group", "value"]))
        is_first = np.zeros(len(ids), np.bool_)
        new = np.flatnonzero(ids >= before)[::-1]
        first = np.empty(len(self._pairs) - before, np.int64)
        first[ids[new] - before] = new  # the last write wins, which is the first row of each
        is_first[first] = True
        return is_first

    def capture(self, size: int) -> Callable[[], State]:
        pairs, arrow_type = self._pairs.key_columns(), self._type
        return lambda: {"values": _distinct_lists(pairs, size, arrow_type)}

    def restore(self, state: State) -> None:
        lists = state["values"]
        lengths = np.diff(as_numpy(lists.offsets))
        groups = np.repeat(np.arange(len(lists)), lengths)
        values = narrowed(cast_exactly(lists.flatten(), enlarged_type(self._type)), self._type)
        for pairs in batches_of([from_numpy(groups), values], ["group", "value"]):
            self._new_pairs(as_numpy(pairs.column(0)), pairs.column(1))
        self._counts = lengths.astype(np.int64)


def _distinct_lists(pairs: Columns | None, size: int, arrow_type: pa.DataType) -> pa.Array:
    """The values of each group as a list, as `enlarged` makes them, from columns of groups and values."""
    if pairs is None:
        return pa.array([[]] * size, pa.list_(stored_type(arrow_type))).cast(pa.list_(enlarged_type(arrow_type)))
    groups = pairs.column(0).to_numpy()
    order = order_by(groups)
    offsets = np.zeros(size + 1, np.int32)
    np.cumsum(np.bincount(groups, minlength=size), out=offsets[1:])
    values = cast_exactly(take_enlarged(pairs.column(1), order), enlarged_type(arrow_type))
    return pa.ListArray.from_arrays(from_numpy(offsets), values)


_NO_VALUES: list[Any] = []


class RunningList(Running):
    """All values of the group, or the n largest: a list per row, so the work is in writing the lists out."""

    def __init__(self, arrow_type: pa.DataType, n: int | None) -> None:
        self._type = arrow_type
        self._n = n
        self._lists: list[list[Any]] = []
        """The values of each group. Lists are replaced, never changed: results and snapshots hold them too."""

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        self.grow(size)
        results: list[list[Any] | None] = []
        for group, value in zip(segments.group_of_rows().tolist(), to_values(stored(values)), strict=True):
            if value is not None:
                self.insert(group, value)
            results.append(self.of(group))
        return self.as_column(results)

    def grow(self, size: int) -> None:
        self._lists.extend([_NO_VALUES] * (size - len(self._lists)))

    def of(self, group: int) -> list[Any] | None:
        return self._lists[group] or None

    def insert(self, group: int, value: Any, at: int | None = None) -> int:
        """Puts the value at its place, or at `at`, which is the result."""
        values = self._lists[group]
        if at is None:
            at = len(values)
            # Behind its equals, so that the first to come stays when there are too many; NaN sorts last.
            if self._n is not None and value == value:
                at = bisect_right(values, Descending(value), key=Descending)
        self._lists[group] = [*values[:at], value, *values[at:]][: self._n]
        return at

    def capture(self, size: int) -> Callable[[], State]:
        lists = self._lists + [_NO_VALUES] * (size - len(self._lists))
        return lambda: {"values": self.as_column(lists)}

    def restore(self, state: State) -> None:
        lists = state["values"]
        self._lists = to_values(lists.cast(pa.list_(stored_type(lists.type.value_type))))

    def as_column(self, lists: Sequence[list[Any] | None]) -> pa.Array:
        return to_array(lists, pa.list_(stored_type(self._type))).cast(pa.list_(self._type))


class RunningTopBy(Running):
    """The values in the n rows of the group where `by` is largest; `values` is a struct of (value, by)."""

    def __init__(self, value_type: pa.DataType, by_type: pa.DataType, n: int) -> None:
        self._values, self._by = RunningList(value_type, n), RunningList(by_type, n)

    def add(self, segments: Segments, values: pa.Array, size: int) -> pa.Array:
        self._by.grow(size)
        self._values.grow(size)
        columns = (to_values(stored(values.field(number))) for number in range(2))
        results = []
        for group, value, by in zip(segments.group_of_rows().tolist(), *columns, strict=True):
            if by is not None:
                self._values.insert(group, value, self._by.insert(group, by))
            results.append(self._values.of(group))
        return self._values.as_column(results)

    def capture(self, size: int) -> Callable[[], State]:
        values, by = self._values.capture(size), self._by.capture(size)
        return lambda: {**values(), "by": by()["values"]}

    def restore(self, state: State) -> None:
        self._values.restore({"values": state["values"]})
        self._by.restore({"values": state["by"]})


# -- from descriptions -------------------------------------------------------------------------------------------


def create_running(aggregate: described.Aggregate, arrow_type: pa.DataType) -> Running:
    """The running form of an aggregate for a column of that type (for those with a `by` a struct of (column, by)).

    Raises:
        AggregateTypeError: the aggregate has no meaning for the type.
    """
    match aggregate:
        case described.Count():
            return RunningCount()
        case described.Sum() | described.Avg():
            return _sum_of(aggregate, arrow_type)
        case described.Min() | described.Max():
            is_max = isinstance(aggregate, described.Max)
            kind: Callable[..., Running] = RunningExtreme if is_fixed_width(arrow_type) else RunningOrderedExtreme
            check_ordered(arrow_type, _kind(aggregate))
            return kind(arrow_type, is_max)
        case described.First() | described.Last():
            return RunningFirstLast(arrow_type, isinstance(aggregate, described.Last))
        case described.ArgMin() | described.ArgMax():
            value, by = arrow_type.field(0).type, arrow_type.field(1).type
            check_ordered(by, _kind(aggregate))
            return RunningBest(value, by, isinstance(aggregate, described.ArgMax))
        case described.CountDistinct():
            return RunningDistinct(arrow_type)
        case described.TopN() if aggregate.by is not None:
            value, by = arrow_type.field(0).type, arrow_type.field(1).type
            check_ordered(by, _kind(aggregate))
            return RunningTopBy(value, by, aggregate.n)
        case described.TopN():
            check_ordered(arrow_type, _kind(aggregate))
            return RunningList(arrow_type, aggregate.n)
        case described.CollectList():
            return RunningList(arrow_type, None)
    raise AggregateTypeError(f"{type(aggregate).__name__} has no running form")


def _sum_of(aggregate: described.Aggregate, arrow_type: pa.DataType) -> Running:
    is_mean = isinstance(aggregate, described.Avg)
    types = pa.types
    are_numbers = (types.is_integer, types.is_boolean, types.is_floating, types.is_null)
    is_number = any(of(arrow_type) for of in are_numbers)
    if types.is_decimal(arrow_type):
        return RunningDecimalMean(arrow_type) if is_mean else RunningDecimalSum(arrow_type)
    _check(is_number or (types.is_duration(arrow_type) and not is_mean), _kind(aggregate), arrow_type)
    return RunningSum(arrow_type, is_mean)


def _kind(aggregate: described.Aggregate) -> str:
    return type(aggregate).__name__


def check_ordered(arrow_type: pa.DataType, shown: str) -> None:
    """Raises AggregateTypeError, which says that `shown` cannot take it, where the type's values have no order."""
    _check(has_order(arrow_type), shown, arrow_type)


def _check(holds: bool, shown: str, arrow_type: pa.DataType) -> None:
    if not holds:
        raise AggregateTypeError(f"{shown} cannot take a column of {arrow_type}")


def widened_type(old: pa.DataType, new: pa.DataType) -> pa.DataType:
    """The type that holds the values of both types. Raises AggregateTypeError where there is none."""
    merged = unify_types(old, new)
    if merged is None:
        raise AggregateTypeError(f"the column was {old} and is {new} now; cast it to one type")
    return merged
