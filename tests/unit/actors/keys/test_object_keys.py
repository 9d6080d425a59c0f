"""Keys that no type was declared for: any Python objects, which are found again and come out as they went in."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from actors.keys.hashes import hashable_keys, key_columns, key_hashes, key_values
from actors.keys.index import KeyIndex
from actors.keys.key_types import KeyTypes
from flinkray.batches.batch import Batch
from flinkray.batches.object_columns import to_object_array
from flinkray.batches.wire_format import decode, encode
from flinkray.errors import IncompatibleStateError, TypeMismatchError
from flinkray.types.keys import FunctionKey
from flinkray.types.object_type import PICKLED
from flinkray.types.records import Kind
from flinkray.types.rows import Row
from flinkray.types.type_info import OBJECT_TYPE


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Place:
    row: int
    seat: str


class Ticket:
    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ticket) and other.number == self.number

    def __hash__(self) -> int:
        return hash(self.number)


def objects(*values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([to_object_array(values)], names=["key"])


def hashes(*values: Any) -> list[int]:
    return [int(each) for each in key_hashes(objects(*values, Color.BLUE))][: len(values)]  # with which it is pickled


ANY = (1, 2.5, "a", None, Color.RED, frozenset({"x", "y"}), (1, "a"), (1, 2, 3), (), 2**70, Place(1, "z"), Ticket(3),
       b"b", datetime.date(2020, 1, 1), Decimal("1.5"), Row(1, 2), Row(a=1), int, float("nan"))  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        [1, -(2**63), True, 2.0, None],
        [0.5, -0.0, float("inf")],
        ["", "a", "longer than a word of eight bytes", "ä"],
        [b"", b"abc"],
        [Decimal("1.50"), Decimal(3), Decimal("12345678901234567890")],
        [datetime.date(2020, 1, 2)],
        [datetime.datetime(2020, 1, 2, 3, 4, 5, 6)],
        [[1, 2], [], [3]],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_an_object_hashes_as_in_a_column_of_its_own_type(values: list[Any]) -> None:
    for value in values:
        column = pa.RecordBatch.from_arrays([pa.array([value])], names=["key"])
        assert hashes(value) == key_hashes(column).tolist()


def test_a_tuple_hashes_as_the_columns_of_a_key() -> None:
    columns = pa.RecordBatch.from_arrays([pa.array(["a", "b"]), pa.array([1, 2])], names=["key_0", "key_1"])
    assert hashes(("a", 1), ("b", 2)) == key_hashes(columns).tolist()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, Level.LOW),
        (frozenset({"a", "b", "c"}), frozenset({"c", "b", "a"})),
        ((1, True), (1.0, 1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Place(1, "z"), Place(1, "z")),
        (Ticket(7), Ticket(7)),
    ],
)
def test_equal_objects_hash_equal(first: Any, second: Any) -> None:
    assert hashes(first) == hashes(second)


def test_hashes_of_objects_never_change() -> None:
    """With other ones, keys go to other key groups, and their state is not found."""
    assert hashes(Color.RED, frozenset({"x", "y"}), (), 2**70, Place(1, "z"), Ticket(3), int, {"k": 1}) == GOLDEN


GOLDEN = [
    8408638218815209387,
    12819168543716759834,
    10019312975691866214,
    5746646393810521542,
    3020722976763843651,
    18074316524623843119,
    4524008794173160530,
    875692847485735072,
]


def test_any_objects_are_keys_and_come_out_as_they_went_in() -> None:
    batch = Batch(pa.RecordBatch.from_arrays([pa.array(range(len(ANY)))], names=["value"]), Kind.SCALAR)
    selector = FunctionKey(ANY.__getitem__, OBJECT_TYPE)
    columns = decode(encode(key_columns(batch, selector, "op")))
    keys = hashable_keys(columns, "op")
    assert keys[:-1] == list(ANY[:-1])
    assert list(map(type, keys)) == list(map(type, ANY))


def test_a_key_keeps_its_number_when_keys_of_other_types_come() -> None:
    index = KeyIndex()
    assert index.ids(objects("a", "b")).tolist() == [0, 1]
    assert index.ids(objects("b", 1, None)).tolist() == [1, 2, 3]
    assert index.ids(objects("a")).tolist() == [0]
    assert index.ids(objects(1, 2, 0.5)).tolist() == [2, 4, 5]
    assert index.ids(objects(*ANY[4:-1])).tolist() == list(range(6, 20))
    assert index.ids(objects(*reversed(ANY[4:-1]))).tolist() == list(range(19, 5, -1))
    assert key_values(index.take(slice(0, 6))) == ["a", "b", 1, None, 2, 0.5]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("saved", "now"),
    [
        ({"key": ["a", "b"]}, ["a", "b"]),
        ({"key": [1, 2]}, [1, 2]),
        ({"key_0": ["a", "b"], "key_1": [1, 2]}, [("a", 1), ("b", 2)]),
    ],
)
def test_keys_in_the_state_of_earlier_versions_which_had_columns_are_found(saved: Any, now: list[Any]) -> None:
    columns = pa.RecordBatch.from_pydict(saved)
    index = KeyIndex()
    assert index.restored_ids(columns).tolist() == [0, 1]
    assert index.ids(objects(*now, "new")).tolist() == [0, 1, 2]
    types = KeyTypes()
    types.add(columns, "op")
    restored = KeyTypes()
    restored.restore_written([types.written()])
    restored.add(objects(*now), "op")
    again = KeyTypes()
    again.restore_written([types.written(), restored.written()])  # a subtask that got no key since has the old types
    again.add(objects(Color.RED), "op")


def test_a_type_that_is_declared_later_has_to_be_that_of_all_keys_in_the_state() -> None:
    types = KeyTypes()
    types.add(objects("a"), "op")
    restored = KeyTypes()
    restored.restore_written([types.written()])
    restored.add(pa.RecordBatch.from_pydict({"key": ["a"]}), "op")
    types.add(objects(1), "op")
    restored.restore_written([types.written()])
    with pytest.raises(IncompatibleStateError, match="by type string now"):
        restored.add(pa.RecordBatch.from_pydict({"key": ["a"]}), "op")


def test_a_key_that_cannot_be_pickled_is_refused_with_the_way_out() -> None:
    class Never:
        def __reduce__(self) -> Any:
            raise ValueError("not this one")

    batch = Batch(pa.RecordBatch.from_arrays([pa.array([1])], names=["value"]), Kind.SCALAR)
    selector = FunctionKey(lambda _: Never(), OBJECT_TYPE)
    with pytest.raises(
        TypeMismatchError, match=r"op: a key that <lambda> gives cannot be pickled \(not this one\); return"
    ):
        key_columns(batch, selector, "op")


def test_numbers_and_text_travel_as_they_are() -> None:
    assert to_object_array([1, 2]).type.storage_type == pa.int64()
    assert to_object_array(["a"]).type.storage_type == pa.string()
    for mixed in ([1, "a"], [1, None], [2**63], [True], ["\ud800"]):
        assert to_object_array(mixed).type == PICKLED
