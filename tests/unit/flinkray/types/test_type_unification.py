"""Which type holds what either of two types holds."""

from __future__ import annotations

import decimal
import itertools
from typing import Any

import pyarrow as pa
import pytest

from flinkray.types.type_unification import unify_types
from flinkray.types.value_types import infer_type

D128, D256 = pa.decimal128, pa.decimal256


@pytest.mark.parametrize(
    ("left", "right", "merged"),
    [
        (D128(10, 2), D128(5, 4), D128(12, 4)),
        (D128(10, 2), D128(12, 4), D128(12, 4)),
        (D128(10, 2), D128(8, 2), D128(10, 2)),
        (D128(30, 0), D128(20, 20), D256(50, 20)),
        (D256(20, 2), D128(20, 5), D256(23, 5)),
        (D256(70, 0), D256(70, 50), None),
        (pa.decimal32(5, 2), pa.decimal32(9, 2), pa.decimal32(9, 2)),
        (pa.decimal32(9, 2), pa.decimal64(12, 6), D128(13, 6)),
        (D128(5, -2), D128(3, 1), D128(8, 1)),
        (D128(10, 2), pa.int8(), D128(10, 2)),
        (D128(10, 2), pa.int64(), D128(21, 2)),
        (D128(10, 2), pa.uint64(), D128(22, 2)),
        (D256(40, 38), pa.int64(), D256(57, 38)),
        (D128(10, 2), pa.float64(), None),
        (D128(10, 2), pa.bool_(), None),
    ],
    ids=str,
)
def test_a_merged_decimal_has_room_for_the_digits_of_both(left: Any, right: Any, merged: Any) -> None:
    assert unify_types(left, right) == merged
    assert unify_types(right, left) == merged
    if merged is not None:
        assert unify_types(left, merged) == unify_types(merged, right) == merged


def test_any_digits_of_both_can_be_cast_to_the_merged_decimal() -> None:
    shapes = [(1, 0), (1, 1), (5, 4), (10, 2), (20, 20), (37, 0), (37, 30)]
    for (left, left_scale), (right, right_scale) in itertools.product(shapes, shapes):
        merged = unify_types(D128(left, left_scale), D128(right, right_scale))
        for precision, scale in ((left, left_scale), (right, right_scale)):
            largest = decimal.Decimal((0, (9,) * precision, -scale))
            assert pa.array([largest], D128(precision, scale)).cast(merged)[0].as_py() == largest


def test_decimals_of_python_values_stay_in_38_digits_when_the_scale_grows() -> None:
    """Their type says 38 digits whatever the values are; Spark and Parquet have no decimal256."""
    tenths, thousandths = infer_type([decimal.Decimal("0.5")]), infer_type([decimal.Decimal("0.125")])
    assert unify_types(tenths, thousandths) == unify_types(thousandths, tenths) == D128(38, 3)
    assert unify_types(infer_type([1]), thousandths) == D128(38, 3)
    assert unify_types(D128(38, 20), pa.int64()) == D128(38, 20)
    tiny = infer_type([decimal.Decimal(1).scaleb(-40)])
    assert unify_types(tenths, tiny) == unify_types(tiny, pa.int64()) == D256(76, 40)


def test_a_struct_without_fields_merges_with_a_map_and_with_a_struct() -> None:
    empty = pa.struct([])
    for other in (pa.map_(pa.int64(), pa.string()), pa.struct([("a", pa.int64())])):
        assert unify_types(empty, other) == unify_types(other, empty) == other
        assert unify_types(pa.list_(empty), pa.list_(other)) == pa.list_(other)


def test_a_type_that_holds_both_already_is_given_back_itself() -> None:
    for arrow_type in (D128(10, 2), pa.decimal64(10, 2), D256(10, 2)):
        same = type(arrow_type)
        assert unify_types(arrow_type, pa.int16()) is arrow_type
        assert isinstance(unify_types(pa.int16(), arrow_type), same)
