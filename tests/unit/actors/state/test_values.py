"""Values of state as bytes come back as they were, of whatever type."""

from __future__ import annotations

import datetime
import enum
import math
import pickle
from collections import OrderedDict, namedtuple
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.state.snapshots.values import is_pickled, value_of_bytes, value_to_bytes
from flinkray import Row

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.binary(max_size=20)
)
times = st.one_of(
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.timezones(), allow_imaginary=False),
    st.timedeltas(),
    st.decimals(allow_nan=False),
)
hashable = st.one_of(scalars, times, st.tuples(scalars, times))
values = st.recursive(
    st.one_of(hashable, st.sets(scalars, max_size=3), st.frozensets(hashable, max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(hashable, inner, max_size=3)
    ),
    max_leaves=8,
)


def alike(one: Any, other: Any) -> bool:
    """Equal with the same types throughout, each NaN like any other."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return alike(list(one.items()), list(other.items()))
    if isinstance(one, float):
        return alike(str(one), str(other))
    if isinstance(one, set | frozenset):
        return sorted(map(repr, one)) == sorted(map(repr, other))
    return one == other or repr(one) == repr(other)


@given(values)
@settings(max_examples=300, deadline=None)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert alike(value_of_bytes(value_to_bytes(value)), value)


class Colour(enum.IntEnum):
    RED = 1


Point = namedtuple("Point", "x y")


class Name(str):
    __slots__ = ()


PLAIN = [
    *(None, True, 7, -(2**63), 2**64 - 1, 1.5, -0.0, math.inf, "ann", b"\x80", (), (1, "a", None), [1.5, b""], {1, 2}),
    *({"a": 1, "b": None}, frozenset({"x"}), datetime.date(2024, 2, 29), datetime.datetime(2024, 1, 2, 3, 4, 5, 6)),
    *(datetime.timedelta(days=-1, microseconds=7), datetime.timedelta.min, Decimal("12.340"), Decimal("1E+30")),
]
OTHERS = [
    *(2**64, -(2**63) - 1, "\ud800", [2**64], [[1]], [(1,)], {1: 2}, {"a": [1]}, Decimal("NaN"), Decimal("Infinity")),
    *(Colour.RED, Point(1, 2), Name("ann"), OrderedDict(a=1), Row(a=1), bytearray(b"x")),
    *(datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), datetime.datetime(2024, 1, 2, fold=1)),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_are_no_pickles_and_shorter(value: Any) -> None:
    data = value_to_bytes(value)
    assert not is_pickled(data)
    assert len(data) < len(pickle.dumps(value, 5))
    assert alike(value_of_bytes(data), value)


@pytest.mark.parametrize("value", OTHERS, ids=ascii)
def test_what_would_come_back_as_something_else_is_pickled(value: Any) -> None:
    data = value_to_bytes(value)
    assert is_pickled(data)
    assert alike(value_of_bytes(data), value)


@pytest.mark.parametrize("value", [*PLAIN, Point(1, 2), [[1]]], ids=repr)
def test_what_earlier_versions_have_pickled_is_read(value: Any) -> None:
    assert alike(value_of_bytes(pickle.dumps(value, 5)), value)
