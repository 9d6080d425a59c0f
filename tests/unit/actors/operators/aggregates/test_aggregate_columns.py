"""Columnar accumulators: exactness at the edges of types, types that widen, merging, and what is refused."""

from __future__ import annotations

import datetime
import decimal
import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.keys.state_tables import StateRows
from actors.operators.aggregates.aggregate_columns import AggregateColumns
from actors.operators.aggregates.entry_columns import ListColumn
from flinkray.errors import InvalidProgramError, TypeMismatchError, UnknownColumnError
from flinkray.expressions.tree import col
from flinkray.windows.aggregates import (
    Aggregate,
    ArgMax,
    ArgMin,
    Avg,
    CollectList,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    Sum,
    TopN,
)

WHERE = "window (1/2)"
ALL: dict[str, Aggregate] = {
    "rows": Count(),
    "count": Count("x"),
    "sum": Sum("x"),
    "avg": Avg("x"),
    "min": Min("x"),
    "max": Max("x"),
    "first": First("x"),
    "last": Last("x"),
    "distinct": CountDistinct("x"),
    "top": TopN("x", 2),
    "list": CollectList("x"),
    "at_min": ArgMin("y", by="x"),
    "at_max": ArgMax("y", by="x"),
}


class AggregatedTable:
    """Aggregates of a few accumulators, fed batch by batch."""

    def __init__(self, accumulators: int = 1, **aggregates: Aggregate) -> None:
        self.columns = AggregateColumns(tuple(aggregates.items()), WHERE)
        self.columns.grow(accumulators)
        self.accumulators = accumulators
        self.position = 0

    def add(self, data: dict[str, Any], accumulators: list[int] | None = None) -> AggregatedTable:
        batch = pa.RecordBatch.from_pydict(data)
        chosen = np.array(accumulators if accumulators is not None else [0] * batch.num_rows, np.int64)
        self.columns.add(batch, chosen, self.position)
        self.position += batch.num_rows
        return self

    def result(self) -> dict[str, list[Any]]:
        arrays = self.columns.results(np.arange(self.accumulators, dtype=np.int64))
        return {name: array.to_pylist() for name, array in zip(self.columns.names, arrays, strict=True)}

    def types(self) -> list[pa.DataType]:
        return [array.type for array in self.columns.results(np.arange(self.accumulators, dtype=np.int64))]


def one(aggregate: Aggregate, *batches: Any) -> Any:
    table = AggregatedTable(result=aggregate)
    for values in batches:
        table.add({"x": values})
    return table.result()["result"][0]


# -- nulls and empty groups


def test_nulls_are_left_out_and_a_group_of_nulls_alone_gives_null_or_a_count_of_zero() -> None:
    table = AggregatedTable(3, **ALL)
    table.add({"x": [1, None, 5, None], "y": ["a", "b", "c", "d"]}, [0, 0, 0, 1])
    result = table.result()
    assert {name: values[0] for name, values in result.items()} == {
        "rows": 3, "count": 2, "sum": 6, "avg": 3.0, "min": 1, "max": 5, "first": 1, "last": 5, "distinct": 2,
        "top": [5, 1], "list": [1, 5], "at_min": "a", "at_max": "c",
    }  # fmt: skip
    for accumulator in (1, 2):
        counts = {"rows": 2 - accumulator, "count": 0, "distinct": 0}
        assert {name: values[accumulator] for name, values in result.items()} == {
            name: counts.get(name) for name in ALL
        }


def test_a_column_that_is_null_at_first_gets_its_type_later() -> None:
    table = AggregatedTable(**ALL)
    table.add({"x": [None, None], "y": ["a", "b"]})
    assert table.result()["sum"] == table.result()["list"] == [None]
    assert table.result()["distinct"] == [0]
    table.add({"x": [2.5], "y": ["c"]})
    assert table.result()["sum"] == [2.5]
    assert table.result()["at_min"] == ["c"]


def test_the_value_that_goes_with_the_extreme_may_be_null() -> None:
    table = AggregatedTable(at_min=ArgMin("y", by="x"))
    table.add({"x": [1, 2], "y": [None, None]}).add({"x": [3], "y": ["late"]})
    assert table.result() == {"at_min": [None]}
    table.add({"x": [0], "y": ["zero"]})
    assert table.result() == {"at_min": ["zero"]}


def test_of_equal_extremes_the_first_row_counts() -> None:
    for kind in (ArgMin, ArgMax):
        table = AggregatedTable(at=kind("y", by="x")).add({"x": [1, 1], "y": ["a", "b"]}).add({"x": [1], "y": ["c"]})
        assert table.result() == {"at": ["a"]}


# -- sums


def test_an_integer_sum_that_fits_is_exact_up_to_the_last_one() -> None:
    assert one(Sum("x"), [2**63 - 3, 1], [1]) == 2**63 - 1
    assert one(Sum("x"), [-(2**63) + 1], [-1]) == -(2**63)


@pytest.mark.parametrize(
    "batches", [([2**63 - 1, 1],), ([2**63 - 1], [1]), ([-(2**63)], [-1]), ([2**62] * 4,), ([2**60] * 4, [2**60] * 4)]
)
def test_an_integer_sum_that_overflows_is_an_error_that_names_the_column(batches: tuple[list[int], ...]) -> None:
    with pytest.raises(TypeMismatchError, match=r"window \(1/2\).*result=Sum\(x\).*does not fit int64.*decimal128"):
        one(Sum("x"), *batches)


def test_a_sum_whose_parts_overflow_and_come_back_within_a_batch_is_right() -> None:
    assert one(Sum("x"), [2**63 - 1, 5, -10]) == 2**63 - 6


def test_only_the_accumulator_that_overflows_matters() -> None:
    table = AggregatedTable(2, total=Sum("x")).add({"x": [2**63 - 1, 2**63 - 1]}, [0, 1]).add({"x": [-5, -6]}, [0, 1])
    assert table.result() == {"total": [2**63 - 6, 2**63 - 7]}


def test_unsigned_and_narrow_integers_and_booleans_sum_to_int64() -> None:
    for arrow_type in (pa.int8(), pa.uint16(), pa.uint64()):
        table = (
            AggregatedTable(total=Sum("x"))
            .add({"x": pa.array([100, 27], arrow_type)})
            .add({"x": pa.array([1], arrow_type)})
        )
        assert (table.result(), table.types()) == ({"total": [128]}, [pa.int64()])
    assert one(Sum("x"), [True, False, True]) == 2


def test_a_uint64_too_big_for_a_sum_is_an_error_but_not_for_a_maximum() -> None:
    big = pa.array([2**64 - 1], pa.uint64())
    assert one(Max("x"), big) == 2**64 - 1
    with pytest.raises(TypeMismatchError, match="uint64"):
        one(Sum("x"), big)


def test_decimals_sum_exactly_and_an_overflow_is_an_error() -> None:
    values = pa.array([decimal.Decimal("99999999.99"), decimal.Decimal("0.01")], pa.decimal128(10, 2))
    table = AggregatedTable(total=Sum("x"), mean=Avg("x")).add({"x": values})
    assert table.result() == {"total": [decimal.Decimal("100000000.00")], "mean": [50_000_000.0]}
    assert table.types()[0] == pa.decimal128(38, 2)
    huge = pa.array([decimal.Decimal(9 * 10**37)] * 3, pa.decimal128(38, 0))
    with pytest.raises(TypeMismatchError, match=r"does not fit decimal128\(38, 0\)"):
        one(Sum("x"), huge)


def test_means_of_decimals_are_exact_and_rounded_half_up() -> None:
    tenths = pa.array([decimal.Decimal("0.1")] * 1000, pa.decimal128(10, 1))
    table = AggregatedTable(mean=Avg("x")).add({"x": tenths})
    assert (table.result(), table.types()) == ({"mean": [D("0.100000")]}, [pa.decimal128(38, 6)])
    assert one(Avg("x"), pa.array([D("2"), D("0"), D("0")], pa.decimal128(5, 0))) == D("0.666667")
    assert one(Avg("x"), pa.array([D("-0.000001"), D("0")], pa.decimal128(7, 6))) == D("-0.000001")
    fine = [D(1).scaleb(-20), D(2).scaleb(-20), None]
    assert one(Avg("x"), pa.array(fine, pa.decimal256(40, 20))) == D(2).scaleb(-20)
    assert one(Avg("x"), pa.array([None], pa.decimal128(5, 2))) is None
    large = [D("9" * 30 + ".25"), D("9" * 30 + ".75")]
    assert one(Avg("x"), pa.array(large, pa.decimal128(32, 2))) == D("9" * 30 + ".5")
    with pytest.raises(TypeMismatchError, match=r"a mean does not fit decimal128\(38, 6\)"):
        one(Avg("x"), pa.array([D(9 * 10**37)], pa.decimal128(38, 0)))


def test_means_of_decimals_that_were_saved_as_doubles_go_on() -> None:
    old = AggregatedTable(2, mean=Avg("x")).add({"x": [0.5, 1.0]}, [0, 0])
    arrow_type = pa.decimal128(5, 2)
    table = AggregatedTable(2, mean=Avg("x")).add({"x": pa.array([D(3)], arrow_type)}, [0])
    saved = StateRows(None, old.columns.columns(np.arange(2)), table.columns.metadata(), 2)
    table.columns = table.columns.loaded(saved)
    assert table.result() == {"mean": [D("0.75"), None]}
    assert table.add({"x": pa.array([D(3)], arrow_type)}, [0]).result() == {"mean": [D("1.5"), None]}


def test_durations_sum_to_durations() -> None:
    values = pa.array([datetime.timedelta(seconds=1), datetime.timedelta(seconds=2)], pa.duration("ms"))
    assert one(Sum("x"), values) == datetime.timedelta(seconds=3)


# -- values of any type


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, 1, 2], pa.int16()),
        pa.array([3, 1, 2], pa.uint64()),
        pa.array([1.5, -2.5, 0.0], pa.float32()),
        pa.array([True, False, True]),
        pa.array(["b", "", "é"]),
        pa.array([b"b", b"", b"\xff"], pa.binary()),
        pa.array([datetime.date(2024, 1, 2), datetime.date(1969, 1, 1)], pa.date32()),
        pa.array([datetime.time(1, 2), datetime.time(0, 1)], pa.time32("s")),
        pa.array([1, -1], pa.timestamp("ns", "UTC")),
        pa.array([decimal.Decimal("1.5"), decimal.Decimal("-3.25")], pa.decimal128(8, 2)),
    ],
    ids=lambda values: str(values.type),
)
def test_values_keep_their_type_and_come_back_unchanged(values: pa.Array) -> None:
    table = AggregatedTable(
        low=Min("x"), high=Max("x"), first=First("x"), last=Last("x"), every=CollectList("x"), n=Count("x")
    )
    table.add({"x": values.slice(0, 1)}).add({"x": values.slice(1)})
    plain = values.to_pylist()
    assert table.result() == {
        "low": [min(plain)], "high": [max(plain)], "first": [plain[0]], "last": [plain[-1]], "every": [plain],
        "n": [len(plain)],
    }  # fmt: skip
    assert table.types()[:5] == [values.type] * 4 + [pa.list_(values.type)]


def test_lists_and_structs_have_a_first_and_a_last_and_can_be_collected() -> None:
    for plain in ([[1], [2, 3], None, []], [{"a": 1}, {"a": 2}, None, {"a": None}]):
        table = AggregatedTable(first=First("x"), last=Last("x"), every=CollectList("x")).add({"x": plain})
        assert table.result() == {
            "first": [plain[0]],
            "last": [plain[-1]],
            "every": [[value for value in plain if value is not None]],
        }


def test_a_dictionary_column_counts_as_its_values() -> None:
    column = pa.array(["a", "b", "a"]).dictionary_encode()
    table = AggregatedTable(distinct=CountDistinct("x"), low=Min("x")).add({"x": column})
    assert table.result() == {"distinct": [2], "low": ["a"]}


def test_minus_zero_is_zero_and_every_nan_is_one_value() -> None:
    assert one(CountDistinct("x"), [0.0, -0.0, math.nan], [math.nan, 1.0]) == 3


def test_top_n_counts_equal_values_and_gives_fewer_where_there_are_fewer() -> None:
    assert one(TopN("x", 3), [1, 5, 5], [5, 2]) == [5, 5, 5]
    assert one(TopN("x", 3), ["b"], ["c"]) == ["c", "b"]


def test_an_aggregate_may_be_over_an_expression() -> None:
    table = AggregatedTable(gross=Sum(col("x") * 2), also=Max(col("x") + 1)).add({"x": [1, 2]})
    assert table.result() == {"gross": [6], "also": [3]}


# -- types that change


def test_a_column_that_widens_from_whole_numbers_to_floats_keeps_its_state() -> None:
    table = AggregatedTable(2, **ALL)
    table.add({"x": [1, 4, 2], "y": [1, 2, 3]}, [0, 0, 1]).add({"x": [2.5], "y": [4.5]}, [0])
    result = table.result()
    assert {name: values[0] for name, values in result.items()} == {
        "rows": 3, "count": 3, "sum": 7.5, "avg": 2.5, "min": 1.0, "max": 4.0, "first": 1.0, "last": 2.5,
        "distinct": 3, "top": [4.0, 2.5], "list": [1.0, 4.0, 2.5], "at_min": 1.0, "at_max": 2.0,
    }  # fmt: skip
    assert result["min"][1] == 2.0
    table.add({"x": [7], "y": [0]}, [1])  # and whole numbers after that
    assert table.result()["sum"][1] == 9.0


def test_what_was_cleared_does_not_come_back_in_a_wider_type() -> None:
    table = AggregatedTable(3, every=CollectList("x"), distinct=CountDistinct("x")).add({"x": [1, 2, 3]}, [0, 1, 2])
    table.columns.clear(slice(0, 2))
    assert table.add({"x": [0.5]}, [1]).result() == {"every": [None, [0.5], [3.0]], "distinct": [0, 1, 1]}


def test_a_column_that_changes_to_another_type_is_an_error() -> None:
    with pytest.raises(TypeMismatchError, match="its column was int64 and is string now"):
        one(Max("x"), [1], ["a"])


VALUE_AGGREGATES: dict[str, Aggregate] = {
    "low": Min("x"), "high": Max("x"), "first": First("x"), "last": Last("x"), "top": TopN("x", 1),
    "list": CollectList("x"), "distinct": CountDistinct("x"), "at_min": ArgMin("x", by="x"),
}  # fmt: skip


@pytest.mark.parametrize("units", [("s", "ms"), ("ms", "s"), ("us", "ns")])
def test_times_stay_the_same_times_when_their_unit_changes(units: tuple[str, str]) -> None:
    times = [datetime.datetime(2024, 1, 1, 0, 0, second) for second in (30, 1, 59)]
    table = AggregatedTable(3, **VALUE_AGGREGATES).add({"x": pa.array(times, pa.timestamp(units[0]))}, [0, 0, 1])
    table.add({"x": pa.array([datetime.datetime(2024, 1, 1, 0, 1)], pa.timestamp(units[1]))})
    late = datetime.datetime(2024, 1, 1, 0, 1)
    assert {name: values[0] for name, values in table.result().items()} == {
        "low": times[1], "high": late, "first": times[0], "last": late, "top": [late], "list": [*times[:2], late],
        "distinct": 3, "at_min": times[1],
    }  # fmt: skip
    assert {name: table.result()[name][1] for name in ("low", "high", "first", "last")} == dict.fromkeys(
        ("low", "high", "first", "last"), times[2]
    )
    assert table.result()["low"][2] is None


def test_a_time_that_a_finer_unit_cannot_hold_is_an_error_that_names_the_way_out() -> None:
    far = pa.array([datetime.datetime(9000, 1, 1)], pa.timestamp("s"))
    near = pa.array([datetime.datetime(2024, 1, 1)], pa.timestamp("ns"))
    for aggregate in VALUE_AGGREGATES.values():
        for batches in ((far, near), (near, far)):
            with pytest.raises(TypeMismatchError, match=r"not every .*p\[s\].* fits .*p\[ns\].*cast it"):
                one(aggregate, *batches)


D = decimal.Decimal
DECIMALS = pa.array([D("4.50"), D("-1.25")], pa.decimal128(10, 2))


@pytest.mark.parametrize("arrow_type", [pa.int8(), pa.int64(), pa.uint64()])
@pytest.mark.parametrize("is_whole_first", [True, False])
def test_whole_numbers_and_decimals_in_one_column_aggregate_as_decimals(
    arrow_type: pa.DataType, is_whole_first: bool
) -> None:
    batches = [pa.array([3, 2], arrow_type), DECIMALS][:: 1 if is_whole_first else -1]
    table = AggregatedTable(3, total=Sum("x"), mean=Avg("x"), **VALUE_AGGREGATES)
    for batch in batches:
        table.add({"x": batch}, [0, 0])
    table.add({"x": batches[0]}, [0, 1])
    order = [value for batch in batches for value in batch.to_pylist()] + [batches[0][0].as_py()]
    assert {name: values[0] for name, values in table.result().items()} == {
        "total": sum(order), "mean": D(sum(order)) / 5, "low": D("-1.25"), "high": D("4.50"), "first": order[0],
        "last": order[-1], "top": [D("4.50")], "list": order, "distinct": 4, "at_min": D("-1.25"),
    }  # fmt: skip
    assert [table.result()[name][1:] for name in ("total", "first", "high")] == [[batches[0][1].as_py(), None]] * 3


def test_decimals_of_two_scales_keep_the_digits_of_both() -> None:
    batches = [
        pa.array([D("12345678.67")], pa.decimal128(10, 2)),
        pa.array([D("1.2345")], pa.decimal128(5, 4)),
        pa.array([D("-12345678.67")], pa.decimal128(10, 2)),
    ]
    assert one(Sum("x"), *batches) == D("1.2345")
    assert (one(Max("x"), *batches), one(First("x"), *batches)) == (D("12345678.67"),) * 2
    assert one(CollectList("x"), *batches) == [D("12345678.67"), D("1.2345"), D("-12345678.67")]


def test_a_decimal_whose_digits_do_not_fit_any_more_is_an_error_and_never_another_number() -> None:
    # Arrow's own cast gives 955136920807832054.185...
    large = pa.array([D("123456789012345678901")], pa.decimal128(38, 0))
    fine = pa.array([D(1).scaleb(-20)], pa.decimal128(38, 20))
    for aggregate in (Max("x"), Last("x"), TopN("x", 2), CollectList("x")):
        for batches in ((large, fine), (fine, large)):
            with pytest.raises(TypeMismatchError, match=r"fits decimal128\(38, 20\)"):
                one(aggregate, *batches)
    assert one(Max("x"), pa.array([7]), fine) == 7


@pytest.mark.parametrize(
    ("narrow", "other"),
    [(pa.array([2**63 + 5], pa.uint64()), pa.array([7])), (pa.array([2**53 + 1]), pa.array([0.5]))],
    ids=["uint64 and int64", "int64 and double"],
)
def test_a_number_that_the_common_type_cannot_hold_is_an_error_for_all_that_give_values_back(
    narrow: pa.Array, other: pa.Array
) -> None:
    for aggregate in VALUE_AGGREGATES.values():
        for batches in ((narrow, other), (other, narrow)):
            with pytest.raises(TypeMismatchError, match=rf"every .*{narrow.type}.* fits .*{other.type}.*output_type="):
                one(aggregate, *batches)


def test_sums_and_means_take_any_numbers_as_their_sum_does() -> None:
    large, huge = pa.array([2**53 + 1]), pa.array([2**63 + 5], pa.uint64())
    for batches in ((large, [0.5]), ([0.5], large)):
        assert one(Sum("x"), *batches) == float(2**53)
        assert one(Avg("x"), *batches) == float(2**52)
    for batches in ((huge, [7]), ([7], huge)):
        assert one(Avg("x"), *batches) == float(2**62)
        with pytest.raises(TypeMismatchError, match="a uint64 value does not fit an int64 sum"):
            one(Sum("x"), *batches)


def test_a_state_that_became_decimal_is_merged_saved_and_loaded_as_such() -> None:
    aggregates: dict[str, Aggregate] = {
        "total": Sum("x"),
        "mean": Avg("x"),
        "high": Max("x"),
        "first": First("x"),
        "last": Last("x"),
    }
    whole = AggregatedTable(2, **aggregates).add({"x": [3, 9]}, [0, 1])
    exact = AggregatedTable(1, **aggregates)
    exact.position = 5
    exact.add({"x": DECIMALS})
    whole.columns.merge(exact.columns, np.array([0]), np.array([0]))
    expected = {
        "total": [D("6.25"), 9],
        "mean": [D("2.083333"), 9],
        "high": [D("4.50"), 9],
        "first": [3, 9],
        "last": [D("-1.25"), 9],
    }
    assert whole.result() == expected
    accumulators = np.arange(2)
    saved = StateRows(None, whole.columns.columns(accumulators), whole.columns.metadata(), len(accumulators))
    whole.columns = whole.columns.loaded(saved)
    assert whole.result() == expected


# -- refused


@pytest.mark.parametrize("aggregate", [Sum("x"), Avg("x")])
def test_text_cannot_be_summed(aggregate: Aggregate) -> None:
    with pytest.raises(TypeMismatchError, match=r"\(x\): it takes numbers, and its column is string"):
        one(aggregate, ["a"])


@pytest.mark.parametrize("aggregate", [Min("x"), TopN("x"), ArgMax("x", by="x")])
def test_lists_have_no_order(aggregate: Aggregate) -> None:
    with pytest.raises(TypeMismatchError, match="have no order"):
        one(aggregate, [[1]])


def test_distinct_lists_cannot_be_counted() -> None:
    with pytest.raises(TypeMismatchError, match="plain values"):
        one(CountDistinct("x"), [[1]])


def test_a_missing_column_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UnknownColumnError, match=r"window \(1/2\).*did you mean 'value'"):
        AggregatedTable(total=Sum("valeu")).add({"value": [1]})


def test_a_column_of_which_there_are_two_is_refused_as_such() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(UnknownColumnError, match=r"window \(1/2\)'?: several columns are called 'x'"):
        AggregatedTable(total=Sum("x")).columns.add(twice, np.array([0]), 0)


def test_an_aggregate_without_a_column_is_an_error() -> None:
    with pytest.raises(InvalidProgramError, match="takes a column name or an expression, not None"):
        one(Sum(), [1])


# -- merging


def test_accumulators_combine_as_if_their_rows_had_come_to_one() -> None:
    rows = [(5, "a"), (None, "b"), (2, "c"), (9, "d"), (2, "e"), (7, "f")]
    apart, together = AggregatedTable(4, **ALL), AggregatedTable(2, **ALL)
    for index, (x, y) in enumerate(rows):
        data = {"x": pa.array([x], pa.int64()), "y": [y]}
        apart.add(data, [index % 3])
        together.add(data, [0])
        if index % 3 == 1:
            together.columns.add(pa.RecordBatch.from_pydict(data), np.array([1]), index)
    combined = AggregatedTable(2, **ALL)
    # Accumulators 0, 1 and 2 make the first group, accumulator 1 alone the second: accumulators may be in several
    # groups.
    combined.columns = apart.columns.combine(np.array([2, 0, 1, 1, 3]), np.array([0, 0, 0, 1, 1]), 2)
    assert combined.result() == together.result()


def test_renumbered_accumulators_have_new_numbers_all_others_are_empty_and_copies_stay_as_they_were() -> None:
    table = AggregatedTable(4, **ALL).add({"x": [1, 2, 3, 4, 7], "y": ["a", "b", "c", "d", "g"]}, [0, 1, 2, 2, 3])
    copied, before = AggregatedTable(4, **ALL), table.result()
    copied.columns = pickle.loads(pickle.dumps(table.columns.copy(4)))
    table.columns.renumber(np.array([0, 2]), np.array([0, 1]), 3)
    table.accumulators = 3
    table.add({"x": [9, 5], "y": ["z", "v"]}, [1, 2])
    expected = AggregatedTable(3, **ALL)
    expected.position = copied.position
    expected.add({"x": [1, 3, 4, 9, 5], "y": ["a", "c", "d", "z", "v"]}, [0, 1, 1, 1, 2])
    assert table.result() == expected.result()
    assert copied.result() == before


def test_room_that_is_not_needed_any_more_is_given_back() -> None:
    table = AggregatedTable(1000, total=Sum("x")).add({"x": [1, 2]}, [0, 999])
    for _ in range(2):
        table.columns.renumber(np.array([0]), np.array([0]), 2)
    accumulator: Any = table.columns._aggregations[0]._accumulators
    assert len(accumulator._sums) <= 4
    assert accumulator._sums[:2].tolist() == [1, 0]


def test_merging_states_of_different_widths_widens_both() -> None:
    whole = AggregatedTable(total=Sum("x"), every=CollectList("x")).add({"x": [1, 2]})
    floats = AggregatedTable(total=Sum("x"), every=CollectList("x")).add({"x": [0.5]})
    whole.columns.merge(floats.columns, np.array([0]), np.array([0]))
    assert whole.result()["total"] == [3.5]
    assert sorted(whole.result()["every"][0]) == [0.5, 1.0, 2.0]


def test_entries_that_no_longer_matter_are_dropped_while_rows_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.operators.aggregates.entry_columns._APPENDED_BEFORE_REDUCING", 100)
    table = AggregatedTable(top=TopN("x", 2), distinct=CountDistinct("x"), first=First("s"))
    for number in range(300):
        table.add({"x": [number % 7], "s": [str(number)]})
    assert table.result() == {"top": [[6, 6]], "distinct": [7], "first": ["0"]}
    for aggregation in table.columns._aggregations:
        accumulator: Any = aggregation._accumulators
        assert sum(chunk.num_rows for chunk in accumulator._chunks) <= 120


@pytest.mark.parametrize("accumulators", [[0, 0], [0, 1]])
def test_kept_values_do_not_hold_on_to_the_received_batch(accumulators: list[int]) -> None:
    before = pa.total_allocated_bytes()
    wide = pa.record_batch({"x": ["some text that is long enough to count"] * 50_000})
    table = AggregatedTable(2, every=CollectList("x"))
    table.columns.add(wide.slice(3, 2), np.array(accumulators), 0)
    del wide
    assert isinstance(table.columns._aggregations[0]._accumulators, ListColumn)
    assert pa.total_allocated_bytes() - before < 100_000
