"""Values of types that PyFlink's programs declare are brought into them as PyFlink does, and others are refused."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pytest

from flinkray import Types
from flinkray.batches.conversions import converts
from flinkray.batches.row_codec import RowEncoder, decode
from flinkray.errors import TypeMismatchError
from flinkray.pyflink.common import Types as PyFlinkTypes
from flinkray.pyflink.common.typeinfo import RowTypeInfo
from flinkray.types.rows import Row

INT, DOUBLE, LONG = PyFlinkTypes.INT(), PyFlinkTypes.DOUBLE(), PyFlinkTypes.LONG()
PAIR = PyFlinkTypes.TUPLE([INT, DOUBLE])


def encoded(values: list[Any], declared: Any) -> list[Any]:
    batch = RowEncoder("op", "1 of 1", declared.record_type).encode(values, None)
    assert not batch.data.schema.metadata
    return decode(batch)


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        (1.9, LONG, 1),
        (-1.9, INT, -1),
        (True, INT, 1),
        (Decimal("2.7"), LONG, 2),
        (2, PyFlinkTypes.BOOLEAN(), True),
        (True, DOUBLE, 1.0),
        (Decimal("1.5"), DOUBLE, 1.5),
        (1.1, PyFlinkTypes.BIG_DEC(), Decimal("1.1")),
        (1.5, PyFlinkTypes.BIG_INT(), Decimal(1)),
        (datetime.datetime(2020, 1, 2, 3), PyFlinkTypes.SQL_DATE(), datetime.date(2020, 1, 2)),
        ([1, 2], PAIR, (1, 2.0)),
        ([1, True], PyFlinkTypes.ROW([INT, INT]), Row(f0=1, f1=1)),
        ((1, 2.5), PyFlinkTypes.ROW_NAMED(["a", "b"], [INT, INT]), Row(a=1, b=2)),
        ({3}, PyFlinkTypes.LIST(INT), [3]),
        ([1.5, None, True], PyFlinkTypes.LIST(INT), [1, None, 1]),
        ({"a": 1.5}, PyFlinkTypes.MAP(PyFlinkTypes.STRING(), INT), {"a": 1}),
        ((1, [2, 3]), PyFlinkTypes.TUPLE([INT, PAIR]), (1, (2, 3.0))),
    ],
    ids=repr,
)
def test_a_value_is_converted_where_pyflink_does_it(value: Any, declared: Any, expected: Any) -> None:
    found = encoded([value, None, value], declared) if declared.kind.value == "scalar" else encoded([value], declared)
    assert (found[0], found[-1]) == (expected, expected)
    assert [type(each) for each in found[:1]] == [type(expected)]


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        ("1", INT),
        (1, PyFlinkTypes.STRING()),
        (float("nan"), INT),
        (2**40, INT),
        (2.0**40, INT),
        ("ab", PyFlinkTypes.LIST(PyFlinkTypes.STRING())),
        ([1], PAIR),
        (1, PAIR),
        ({"a": "x"}, PyFlinkTypes.MAP(PyFlinkTypes.STRING(), INT)),
    ],
    ids=repr,
)
def test_what_pyflink_refuses_is_refused(value: Any, declared: Any) -> None:
    with pytest.raises(TypeMismatchError):
        encoded([value], declared)


@pytest.mark.parametrize(
    ("value", "declared"), [(1.9, Types.LONG()), (True, Types.INT()), ([1, 2], Types.TUPLE([Types.INT(), Types.INT()]))]
)
def test_flinkrays_own_types_convert_nothing_that_is_lost(value: Any, declared: Any) -> None:
    assert not converts(declared.record_type)
    with pytest.raises(TypeMismatchError):
        encoded([value], declared)


def test_a_list_that_is_given_again_and_again_is_as_it_was_each_time() -> None:
    encoder = RowEncoder("op", "1 of 1", PAIR.record_type)
    values: list[Any] = []
    append = encoder.appender(values)
    pair = [1, 2.0]
    append(pair)
    pair[0] = 3
    append(pair)
    append((4, 5.0))
    assert decode(encoder.encode(values, None)) == [(1, 2.0), (3, 2.0), (4, 5.0)]


def test_a_type_converts_after_it_has_travelled() -> None:
    assert converts(pickle.loads(pickle.dumps(PAIR.record_type)))
    assert pickle.loads(pickle.dumps(RowTypeInfo([INT], ["a"]))) == PyFlinkTypes.ROW_NAMED(["b"], [INT])
