"""What operators do with the kinds of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.registry import create_operator
from actors.operators.sinks.changes import accepted_changes
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.connectors.formats.changes.debezium_json import DebeziumJsonFormat
from flinkray.connectors.formats.json import JsonFormat
from flinkray.errors import InvalidProgramError, TypeMismatchError, UnknownColumnError
from flinkray.expressions.tree import col
from flinkray.tables.plans.expressions import Column, Constant, equal
from flinkray.tables.types.logical import BIGINT
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import (
    AsChangelogFactory,
    AsyncFactory,
    CalcFactory,
    ChangelogRole,
    DecodeFactory,
    DropFactory,
    EncodeFactory,
    FilterFactory,
    FlatMapFactory,
    KindsAsColumnFactory,
    MapBatchesFactory,
    MapFactory,
    OperatorFactory,
    ProjectFactory,
    RenameFactory,
    RowtimeFactory,
    TimestampsAndWatermarksFactory,
    WhereFactory,
)
from flinkray.types.changelogs import ChangelogMode
from flinkray.types.records import Kind, OutputTag
from flinkray.types.rows import Row, RowKind
from tests.support.async_calls import HeldOperator, restored
from tests.support.operators import OperatorHarness, RecordedOutput, code, scalar
from tests.unit.actors.operators.test_registry import all_factories

JSON = JsonFormat({"n": int})


def changes(times: pa.Array | int | None = None) -> Batch:
    messages = pa.array([b'{"n": 0}', b'{"n": 1}', b"bad", b'{"n": 3}'], pa.binary())
    data = pa.record_batch({"n": [0, 1, 2, 3], "word": ["a", "b c", "d", "e f g"], "json": messages})
    return Batch(data, Kind.ROW, times, kinds=pa.array([0, 1, 2, 3], pa.int8()))


def run(batch: Batch, *factories: OperatorFactory) -> RecordedOutput:
    names = [f"operator {index}" for index, _ in enumerate(factories)]
    with OperatorHarness(create_operator([code(factory) for factory in factories], names)) as harness:
        harness.push(batch)
        return harness.output


def kinds_of(output: RecordedOutput) -> list[int]:
    assert all(batch.kinds is not None for batch in output.batches)
    return [kind for batch in output.batches for kind in batch.row_kinds.to_pylist()]


KEEPING: list[tuple[OperatorFactory, list[int]]] = [
    (MapFactory(lambda row: Row(n=row.n + 1)), [0, 1, 2, 3]),
    (MapFactory(lambda row: row.n), [0, 1, 2, 3]),
    (MapFactory(lambda row: row._replace(n=7)), [0, 1, 2, 3]),
    (MapFactory(lambda row: {"set": frozenset({row.n})}), [0, 1, 2, 3]),  # travels pickled
    (FlatMapFactory(lambda row: row.word.split()), [0, 1, 1, 2, 3, 3, 3]),
    (FilterFactory(lambda row: row.n != 1), [0, 2, 3]),
    (FilterFactory(lambda row: row.get_row_kind() is RowKind.DELETE), [3]),
    (MapBatchesFactory(lambda batch: batch.select(["n"])), [0, 1, 2, 3]),
    (MapBatchesFactory(lambda batch: iter([batch]), "numpy"), [0, 1, 2, 3]),
    (ProjectFactory((("m", col("n") + 1),)), [0, 1, 2, 3]),
    (DropFactory(("word",)), [0, 1, 2, 3]),
    (RenameFactory((("word", "text"),)), [0, 1, 2, 3]),
    (WhereFactory(col("n") > 1), [2, 3]),
    (CalcFactory((("n", BIGINT),), (("m", Column(BIGINT, 0)),)), [0, 1, 2, 3]),
    (CalcFactory((("n", BIGINT),), (("m", Column(BIGINT, 0)),), equal(Column(BIGINT, 0), Constant(BIGINT, 3))), [3]),
    (DecodeFactory(JSON, "json", (), "skip"), [0, 1, 3]),
    (DecodeFactory(JSON, "json", ("word",), "skip"), [0, 1, 3]),
    (EncodeFactory(JsonFormat({"n": int, "word": str, "json": bytes})), [0, 1, 2, 3]),
    (RowtimeFactory("n"), [0, 1, 2, 3]),
    (TimestampsAndWatermarksFactory(WatermarkStrategy.no_watermarks().with_timestamp_assigner("n")), [0, 1, 2, 3]),
]


@pytest.mark.parametrize("times", [None, 5, pa.array([4, 3, 2, 1])])
@pytest.mark.parametrize(("factory", "expected"), KEEPING, ids=lambda each: type(each).__name__)
def test_results_have_the_kinds_of_the_rows_that_they_are_made_of(
    factory: OperatorFactory, expected: list[int], times: pa.Array | int | None
) -> None:
    assert kinds_of(run(changes(times), factory)) == expected
    inserts = run(changes(times).with_kinds(None), factory)
    assert all(batch.kinds is None for batch in inserts.batches)


def test_every_operator_that_says_so_is_tried() -> None:
    keeping = {each for each in all_factories(OperatorFactory) if each.changelog is ChangelogRole.KEEPS}
    assert keeping == {type(factory) for factory, _ in KEEPING} | {AsyncFactory}


def test_messages_that_say_what_rows_do_give_kinds_and_take_them() -> None:
    debezium, bad = DebeziumJsonFormat({"n": int}), OutputTag("bad")
    (messages,) = run(changes(), EncodeFactory(debezium)).batches
    assert messages.kinds is None
    (again,) = run(messages, DecodeFactory(debezium, "value", (), "fail")).batches
    assert (again.data.to_pydict(), again.kinds.to_pylist()) == ({"n": [0, 1, 2, 3]}, [0, 3, 0, 3])

    update, odd = b'{"op":"u","before":{"n":1},"after":{"n":2}}', b'{"op":"u","after":{"n":2}}'
    given = pa.record_batch({"value": pa.array([odd, update, None], pa.binary()), "at": [5, 6, 7]})
    output = run(Batch(given, Kind.ROW, pa.array([50, 60, 70])), DecodeFactory(debezium, "value", ("at",), bad))
    (_, refused), rows = output.elements
    assert (refused.kinds, refused.data.to_pydict()["at"]) == (None, [5])
    assert (rows.data.to_pydict(), rows.kinds.to_pylist()) == ({"at": [6, 6], "n": [1, 2]}, [1, 2])
    assert rows.times.to_pylist() == [60, 60]


def test_texts_that_are_split_as_columns_keep_kinds() -> None:
    texts = Batch(pa.record_batch({"value": ["a", "b c", ""]}), Kind.SCALAR, kinds=pa.array([3, 1, 2], pa.int8()))
    output = run(texts, FlatMapFactory(str.split, scalar(pa.string())))
    assert (output.rows, kinds_of(output)) == (["a", "b", "c"], [3, 1, 1])


def test_each_of_several_neighbouring_functions_sees_the_kind_of_its_row() -> None:
    seen: list[RowKind] = []

    def look(row: Row) -> Row:
        seen.append(row.get_row_kind())
        return Row(n=row.n)

    factories = (MapFactory(look), MapFactory(look), FlatMapFactory(lambda row: [row] * row.n), MapFactory(look))
    output = run(changes(), *factories)
    assert [kind.value for kind in seen] == [0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 2, 3, 3, 3]
    assert kinds_of(output) == [1, 2, 2, 3, 3, 3]
    assert [row.get_row_kind().value for row in output.rows] == kinds_of(output)


def test_a_message_that_cannot_be_read_keeps_its_kind_in_the_side_output() -> None:
    bad = OutputTag("bad")
    output = run(changes(), DecodeFactory(JSON, "json", (), bad))
    ((_, batch),) = [element for element in output.elements if isinstance(element, tuple)]
    assert batch.kinds.to_pylist() == [2]


@pytest.mark.parametrize("kinds", [None, pa.array([0, 1, 2, 3], pa.int8())])
def test_a_row_function_cannot_make_another_kind_of_a_row(kinds: pa.Array | None) -> None:
    factory = MapFactory(lambda row: Row.of_kind(RowKind.DELETE, n=row.n))
    with pytest.raises(TypeMismatchError, match=r"'operator 0'.*-D\(n=0\) is no \+I row.*as_changelog"):
        run(changes().with_kinds(kinds), factory)


@pytest.mark.parametrize("function", [lambda batch: batch.slice(1), lambda batch: [batch.slice(0, 2), batch.slice(2)]])
def test_a_batch_function_must_give_a_row_for_each_row_of_a_changelog(function: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeMismatchError, match=r"a row for each row; it gave . for 4.*kinds_as_column"):
        run(changes(), MapBatchesFactory(function))
    assert len(run(changes().with_kinds(None), MapBatchesFactory(function)).rows) in (3, 4)


# -- asynchronous calls ------------------------------------------------------------------------------------------


def numbers(*kinds: int) -> Batch:
    return Batch(pa.record_batch({"value": range(len(kinds))}), Kind.SCALAR, kinds=pa.array(kinds, pa.int8()))


def test_results_of_asynchronous_calls_have_the_kinds_of_their_rows() -> None:
    with HeldOperator() as held:
        held.harness.push(numbers(0, 1, 2, 3))
        held.give(3)
        held.give(1, "a", "b")
        held.give(2)
        held.give(0)
        assert (held.rows, kinds_of(held.output)) == (["r0", "a", "b", "r2", "r3"], [0, 1, 1, 2, 3])


def test_rows_that_wait_for_answers_keep_their_kinds_in_a_checkpoint() -> None:
    with HeldOperator(capacity=2) as held:
        held.harness.push(numbers(3, 2, 1, 0))
        saved = held.harness.snapshot()
    for _ in range(2):  # the second time the rows that wait come from a checkpoint themselves
        with HeldOperator(capacity=1, restored=restored([saved])) as held:
            saved = held.harness.snapshot()
            for value in range(4):
                held.give(value)
            assert kinds_of(held.output) == [3, 2, 1, 0]


def test_rows_without_kinds_are_saved_as_before_there_were_kinds() -> None:
    with HeldOperator() as held:
        held.push(1, times=[10])
        assert restored([held.harness.snapshot()]).items("in flight") == [[(1, 10)]]


# -- between kinds and columns -----------------------------------------------------------------------------------


def rows_with(op: pa.Array) -> Batch:
    return Batch(pa.RecordBatch.from_arrays([op, pa.array(range(len(op)))], names=["op", "n"]), Kind.ROW, 7)


@pytest.mark.parametrize(
    "op",
    [
        pa.array(["+I", "-U", "+U", "-D"]),
        pa.array(["+I", "-U", "+U", "-D"], pa.large_string()),
        pa.array(["+I", "-U", "+U", "-D"]).dictionary_encode(),
        *(pa.array([0, 1, 2, 3], each) for each in (pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64())),
        pa.array(["c", "-U", "u", "d"]),
        pa.array(["r", "-U", "u", "d"]),
    ],
    ids=str,
)
def test_a_column_says_what_rows_do(op: pa.Array) -> None:
    (batch,) = run(rows_with(op), AsChangelogFactory("op")).batches
    assert (batch.kinds.type, batch.kinds.to_pylist()) == (pa.int8(), [0, 1, 2, 3])
    assert (batch.data.to_pydict(), batch.times) == ({"n": [0, 1, 2, 3]}, 7)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (pa.array(["+I", "-X"]), r"column 'op' .*\+I, -U, \+U, -D, .*; '-X' is none of these"),
        (pa.array(["+I", None]), "None is none of these"),
        (pa.array([0, 4]), "4 is none of these"),
        (pa.array([0, -1]), "-1 is none of these"),
        (pa.array([0, None], pa.int8()), "None is none of these"),
        (pa.array([2**40, 0]), f"{2**40} is none of these"),
        (pa.array([0.0, 1.0]), "must be of text or integers, not double"),
    ],
)
def test_a_column_that_does_not_say_what_rows_do_is_an_error(op: pa.Array, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        run(rows_with(op), AsChangelogFactory("op"))


def test_the_column_must_be_there_and_must_not_be_the_only_one() -> None:
    with pytest.raises(UnknownColumnError, match="'op'"):
        run(Batch(pa.record_batch({"n": [1]})), AsChangelogFactory("op"))
    with pytest.raises(InvalidProgramError, match="no column but 'op'"):
        run(Batch(pa.record_batch({"op": ["+I"]})), AsChangelogFactory("op"))


@pytest.mark.parametrize("kinds", [None, pa.array([0, 1, 2, 3], pa.int8())])
def test_kinds_become_a_column_and_come_back_from_it(kinds: pa.Array | None) -> None:
    given = changes(9).with_kinds(kinds)
    (inserts,) = run(given, KindsAsColumnFactory("op")).batches
    assert (inserts.kinds, inserts.times) == (None, 9)
    assert inserts.data.schema.names == ["n", "word", "json", "op"]
    assert inserts.data.column("op").equals(pa.array(["+I"] * 4 if kinds is None else ["+I", "-U", "+U", "-D"]))
    (again,) = run(inserts, AsChangelogFactory("op")).batches
    assert decode(again) == decode(given.with_kinds(given.row_kinds))
    with pytest.raises(InvalidProgramError, match="two columns named 'word'"):
        run(given, KindsAsColumnFactory("word"))


def test_a_sink_gets_the_kinds_that_it_accepts() -> None:
    assert accepted_changes(numbers(0, 1, 2, 3), ChangelogMode.ALL).kinds.to_pylist() == [0, 1, 2, 3]
    upserts = accepted_changes(numbers(0, 1, 2, 3), ChangelogMode.UPSERT)
    assert (decode(upserts), upserts.kinds.to_pylist()) == ([0, 2, 3], [0, 2, 3])
    inserts = numbers(0, 0).with_kinds(None)
    assert accepted_changes(inserts, ChangelogMode.UPSERT).kinds.to_pylist() == [0, 0]
