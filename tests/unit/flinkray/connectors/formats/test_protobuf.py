"""Protobuf messages as rows and back."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.json_format import MessageToDict

from flinkray import ProtobufFormat
from flinkray.connectors.formats.message_format import decode_each
from flinkray.connectors.formats.protobuf_types import message_class

Field = descriptor_pb2.FieldDescriptorProto


def _descriptor_set() -> bytes:
    """What protoc writes of two files: a proto3 one with messages of all shapes, and Timestamp, which it imports."""
    found = descriptor_pb2.FileDescriptorSet()
    for name in ("timestamp", "duration"):
        module = __import__(f"google.protobuf.{name}_pb2", fromlist=["DESCRIPTOR"])
        module.DESCRIPTOR.CopyToProto(found.file.add())
    file = found.file.add(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"])
    enum = file.enum_type.add(name="Color")
    for number, name in enumerate(("GREY", "RED", "BLUE")):
        enum.value.add(name=name, number=number)
    item = file.message_type.add(name="Item")
    _add(item, 1, "name", Field.TYPE_STRING)
    _add(item, 2, "cents", Field.TYPE_SINT64, proto3_optional=True)
    order = file.message_type.add(name="Order")
    for kind in ("Tag", "Part"):
        entry = order.nested_type.add(name=f"{kind}sEntry")
        entry.options.map_entry = True
        _add(entry, 1, "key", Field.TYPE_STRING if kind == "Tag" else Field.TYPE_INT32)
        value = {"type_name": ".shop.Item"} if kind == "Part" else {}
        _add(entry, 2, "value", Field.TYPE_MESSAGE if value else Field.TYPE_FLOAT, **value)
    _add(order, 1, "id", Field.TYPE_UINT64)
    _add(order, 2, "paid", Field.TYPE_BOOL, proto3_optional=True)
    _add(order, 3, "color", Field.TYPE_ENUM, type_name=".shop.Color")
    _add(order, 4, "first", Field.TYPE_MESSAGE, type_name=".shop.Item")
    _add(order, 5, "items", Field.TYPE_MESSAGE, type_name=".shop.Item", label=Field.LABEL_REPEATED)
    _add(order, 6, "words", Field.TYPE_STRING, label=Field.LABEL_REPEATED)
    for number, name in ((7, "tags"), (8, "parts")):
        entry_name = f".shop.Order.{name.capitalize()}Entry"
        _add(order, number, name, Field.TYPE_MESSAGE, type_name=entry_name, label=Field.LABEL_REPEATED)
    _add(order, 9, "at", Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    _add(order, 10, "lasted", Field.TYPE_MESSAGE, type_name=".google.protobuf.Duration")
    _add(order, 11, "raw", Field.TYPE_BYTES)
    order.oneof_decl.add(name="how")
    _add(order, 12, "card", Field.TYPE_STRING, oneof_index=0)
    _add(order, 13, "cash", Field.TYPE_DOUBLE, oneof_index=0)
    for message in (item, order):
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
    loop = file.message_type.add(name="Loop")
    _add(loop, 1, "next", Field.TYPE_MESSAGE, type_name=".shop.Loop")
    return found.SerializeToString()


def _add(message: Any, number: int, name: str, kind: Any, **more: Any) -> None:
    message.field.add(name=name, number=number, type=kind, **{"label": Field.LABEL_OPTIONAL, **more})


DESCRIPTORS = _descriptor_set()
ORDERS = ProtobufFormat("shop.Order", descriptor_set=DESCRIPTORS)
Order = message_class("shop.Order", DESCRIPTORS)
FULL = Order(
    id=2**63,
    paid=False,
    color="BLUE",
    first={"name": "pen"},
    items=[{"name": "a", "cents": -1}, {}],
    words=["x", ""],
    tags={"t": 1.5},
    at={"seconds": -1, "nanos": 999_999_000},
    lasted={"seconds": -2, "nanos": -500_000_000},
    raw=b"\xff",
    cash=0.0,
)
FULL.parts[1].name, FULL.parts[1].cents = "p", 0  # older versions take no dict for it
FULL_ROW = {
    "id": 2**63,
    "paid": False,
    "color": "BLUE",
    "first": {"name": "pen", "cents": None},
    "items": [{"name": "a", "cents": -1}, {"name": "", "cents": None}],
    "words": ["x", ""],
    "tags": [("t", 1.5)],
    "parts": [(1, {"name": "p", "cents": 0})],
    "at": -1,
    "lasted": -2_500_000,
    "raw": b"\xff",
    "card": None,
    "cash": 0.0,
}
NULLS = dict.fromkeys(FULL_ROW)
EMPTY_ROW = {**NULLS, "id": 0, "color": "GREY", "raw": b""}
DEFAULTS = {
    **EMPTY_ROW,
    "paid": False,
    "first": {"name": "", "cents": 0},
    "items": [],
    "words": [],
    "tags": [],
    "parts": [],
    "at": 0,
    "lasted": 0,
    "card": "",
    "cash": 0.0,
}


def rows_of(data: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with moments as numbers."""
    columns = {name: data.column(name) for name in data.schema.names}
    for name in {"at", "lasted"} & set(columns):
        columns[name] = columns[name].cast(pa.int64())
    return pa.RecordBatch.from_pydict(columns).to_pylist()


def messages_of(*found: Any) -> pa.Array:
    return pa.array([each.SerializeToString() for each in found], pa.large_binary())


def test_fields_of_every_kind_are_columns_and_come_back() -> None:
    copied = pickle.loads(pickle.dumps(ORDERS))
    data = copied.decode(messages_of(FULL, Order(), Order(color=7)))
    assert rows_of(data) == [FULL_ROW, EMPTY_ROW, {**EMPTY_ROW, "color": "7"}]
    assert data.schema.equals(ORDERS.record_type.schema)
    again = [Order.FromString(each) for each in copied.encode(data).to_pylist()]
    assert [MessageToDict(each) for each in again] == [MessageToDict(each) for each in (FULL, Order(), Order(color=7))]
    with_defaults = ProtobufFormat("shop.Order", descriptor_set=DESCRIPTORS, read_default_values=True)
    assert rows_of(with_defaults.decode(messages_of(Order()))) == [DEFAULTS]


def test_columns_may_be_some_of_the_fields_with_other_types() -> None:
    schema = pa.schema(
        [
            ("color", pa.int8()),
            ("items", pa.list_(pa.struct([("cents", pa.int32())]))),
            ("at", pa.struct([("nanos", pa.int32())])),
            pa.field("id", pa.int64(), nullable=False),
        ]
    )
    some = ProtobufFormat("shop.Order", schema, DESCRIPTORS)
    data = some.decode(messages_of(Order(color=2, id=3, items=[{"cents": 4}], at={"nanos": 5})))
    assert data.to_pylist() == [{"color": 2, "items": [{"cents": 4}], "at": {"nanos": 5}, "id": 3}]
    assert some.decode(some.encode(data)).equals(data)
    broken = pa.array([b"\xff"], pa.large_binary())
    failures = decode_each(some, pa.concat_arrays([messages_of(FULL, Order(id=1)), broken]))
    assert [each.index for each in failures.failures] == [0, 2]  # an id that is too large, and no message
    assert "field 'id' as int64" in failures.failures[0].reason


def test_nulls_in_lists_are_written_as_a_text_or_a_default() -> None:
    schema = pa.schema([ORDERS.record_type.schema.field(name) for name in ("words", "items", "tags")])
    some = ProtobufFormat("shop.Order", schema, DESCRIPTORS, null_text="-")
    row = {"words": ["x", None], "items": [None], "tags": [("t", None)]}
    (message,) = some.encode(pa.RecordBatch.from_pylist([row], schema=schema)).to_pylist()
    assert Order.FromString(message) == Order(words=["x", "-"], items=[{}], tags={"t": 0.0})


def test_a_message_is_a_class_or_its_path_or_a_name_in_a_descriptor_set(tmp_path: Path) -> None:
    stored = tmp_path / "shop.pb"
    stored.write_bytes(DESCRIPTORS)
    for found in (
        ProtobufFormat(timestamp_pb2.Timestamp),
        ProtobufFormat("google.protobuf.timestamp_pb2.Timestamp"),
        ProtobufFormat("google.protobuf.Timestamp", descriptor_set=stored),
    ):
        assert found.record_type.schema == pa.schema([("seconds", pa.int64()), ("nanos", pa.int32())])
    for message, schema, content, reason in (
        (str, None, None, "is no class of messages that protoc has made"),
        ("com.shop.Order", None, None, "there is no Python class 'com.shop.Order'"),
        ("shop.Nothing", None, DESCRIPTORS, "there is no message 'shop.Nothing' in the descriptor set"),
        (Order, None, DESCRIPTORS, "by its full name"),
        ("shop.Loop", None, DESCRIPTORS, "contains itself"),
        ("shop.Order", {"id": int, "total": int}, DESCRIPTORS, "has no field 'total'; fields: id, paid"),
        ("shop.Order", {"words": str}, DESCRIPTORS, "is repeated, and the column string"),
        ("shop.Order", {"tags": str}, DESCRIPTORS, "is a map, and the column string"),
        ("shop.Order", {"first": str}, DESCRIPTORS, "is a message shop.Item, and the column string"),
        ("shop.Order", {"id": list[int]}, DESCRIPTORS, "is a single value, and the column list"),
    ):
        with pytest.raises(ValueError, match=reason):
            ProtobufFormat(message, schema, content)


def test_what_a_message_cannot_hold_is_said() -> None:
    for schema, row, reason in (
        (pa.schema([("color", pa.string())]), {"color": "PINK"}, "'PINK' is no value of shop.Color, which has GREY"),
        (pa.schema([("id", pa.int64())]), {"id": -1}, "the row {'id': -1} is no message shop.Order"),
    ):
        some = ProtobufFormat("shop.Order", schema, DESCRIPTORS)
        with pytest.raises(ValueError, match=reason):
            some.encode(pa.RecordBatch.from_pylist([row], schema=schema))
