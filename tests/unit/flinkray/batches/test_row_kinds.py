"""What rows do in a changelog goes wherever the rows go."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.columns.spilling import SpillFile
from actors.columns.take import slices, take_rows
from actors.network.flow.buffers import Coalescer
from actors.network.producer.partitioners import create_selector
from actors.operators.sources.coalescing import PollResult, coalesced_polls
from actors.protocol.checkpoint_handles import PartKind
from actors.tasks.checkpoints.in_flight import InFlightPart, read_in_flight, rows_of_key_groups
from actors.tasks.inputs.key_sorter import KeySorter
from flinkray.batches.batch import Batch, concat
from flinkray.batches.row_codec import RowEncoder, decode
from flinkray.batches.wire_format import encode, rows_without_columns
from flinkray.connectors.source import ReaderStatus, SourceBatch
from flinkray.errors import TypeMismatchError
from flinkray.persistence import dumps, loads
from flinkray.transformations.partitioning import (
    KeyGroupPartitioner,
    Partitioner,
    RebalancePartitioner,
    ShufflePartitioner,
)
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.records import Kind
from flinkray.types.rows import Row, RowKind

ModelRow = tuple[int, str, int | None, int]
"""x, word, event time, kind."""


@st.composite
def batches(draw: st.DrawFn, *, least: int = 0) -> Batch:
    rows = draw(st.integers(least, 12))
    number = st.lists(st.integers(0, 9), min_size=rows, max_size=rows)
    data = pa.record_batch(
        {"x": pa.array(draw(number), pa.int64()), "word": pa.array(map(str, draw(number)), pa.string())}
    )
    times = draw(st.sampled_from(["each", "one"]))
    kinds = pa.array(draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)), pa.int8())
    return Batch(
        data,
        Kind.ROW,
        pa.array(draw(number), pa.int64()) if times == "each" else draw(st.integers(0, 9)),
        data.select(["x"]).rename_columns(["key"]),
        draw(st.sampled_from([None, kinds])),
    )


def model(batch: Batch) -> list[ModelRow]:
    if batch.kinds is not None:
        assert (batch.kinds.type, batch.kinds.null_count) == (pa.int8(), 0)
    times = [None] * batch.num_rows if batch.timestamps is None else batch.timestamps.to_pylist()
    columns = [batch.data.column(name).to_pylist() for name in ("x", "word")]
    return list(zip(*columns, times, batch.row_kinds.to_pylist(), strict=True))


def size_of(batch: Batch) -> int:
    """The bytes of a batch, of which nothing is known beforehand."""
    return Batch(batch.data, batch.kind, batch.times, batch.keys, batch.kinds).nbytes


@settings(max_examples=20, deadline=None)
@given(batches(), st.data())
def test_each_row_keeps_its_kind_where_rows_are_chosen(batch: Batch, data: st.DataObject) -> None:
    rows = model(batch)
    batch.nbytes  # noqa: B018  # what is known of a batch is handed to its parts
    index = st.integers(0, max(0, batch.num_rows - 1))
    chosen = data.draw(st.lists(index, max_size=9)) if rows else []
    mask = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    start = data.draw(st.integers(0, len(rows)))
    parts = {
        "slice": (batch.slice(start), rows[start:]),
        "take": (batch.take(pa.array(chosen, pa.int64())), [rows[at] for at in chosen]),
        "take_rows": (take_rows(batch, np.array(chosen, np.int64)), [rows[at] for at in chosen]),
        "filter": (
            batch.filter(pa.array(mask, pa.bool_())),
            [row for row, kept in zip(rows, mask, strict=True) if kept],
        ),
        "without_keys": (batch.without_keys(), rows),
        "with_data": (batch.with_data(batch.data), rows),
        "with_times": (batch.with_times(batch.timestamps), rows),
    }
    for name, (part, expected) in parts.items():
        assert model(part) == expected, name
        assert part.nbytes == size_of(part), name
        assert (part.kinds is None) == (batch.kinds is None), name
    assert batch.select([0]).row_kinds.equals(batch.row_kinds)
    assert [row for part in slices(batch, 3) for row in model(part)] == rows


@settings(max_examples=15, deadline=None)
@given(batches(), st.integers(0, 4), st.sampled_from([4, 5]))
def test_each_row_keeps_its_kind_in_a_pickle(batch: Batch, start: int, protocol: int) -> None:
    part = batch.slice(min(start, batch.num_rows))
    for again in (pickle.loads(pickle.dumps(part, protocol=protocol)), loads(dumps(part))):
        assert model(again) == model(part)
        assert again.keys.equals(part.keys)
        assert (again.kinds is None) == (part.kinds is None)
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(part, protocol=5, buffer_callback=buffers.append)
    assert model(pickle.loads(pickled, buffers=[bytes(each) for each in buffers])) == model(part)


def test_what_was_pickled_before_there_were_kinds_is_of_inserts() -> None:
    data = pa.record_batch({"x": [1, 2]})
    make, arguments = Batch(data, Kind.ROW, 7).__reduce_ex__(5)
    kind, layout, written, time = arguments
    assert (kind, layout, time) == (Kind.ROW, (1, False, False), 7)  # as it was written then
    assert written.schema == encode(data).schema
    assert make(*arguments).kinds is None


@settings(max_examples=20, deadline=None)
@given(st.lists(batches(least=1), min_size=1, max_size=6), st.integers(1, 30))
def test_batches_of_inserts_and_of_changes_are_put_together(several: list[Batch], target: int) -> None:
    expected = [row for batch in several for row in model(batch)]
    assert model(concat(several)) == expected
    assert (concat(several).kinds is None) == all(batch.kinds is None for batch in several)
    coalescer = Coalescer(target, 1 << 20)
    buffers = [buffer for batch in several for buffer in coalescer.add(batch)] + coalescer.finish()
    assert [row for buffer in buffers for row in model(buffer.batch)] == expected
    assert [buffer.nbytes for buffer in buffers] == [size_of(buffer.batch) for buffer in buffers]
    polls = iter([PollResult(SourceBatch(batch, "s")) for batch in several])
    end = PollResult(ReaderStatus.END_OF_INPUT)
    polled = [*coalesced_polls(lambda: next(polls, end), 100, 1 << 20, lambda: 0.0)]
    assert [
        row for each in polled if isinstance(each.given, SourceBatch) for row in model(each.given.batch)
    ] == expected


@settings(max_examples=20, deadline=None)
@given(batches(least=1), st.sampled_from(["key", "function", "shuffle", "rebalance"]))
def test_rows_keep_kinds_and_order_through_an_exchange(batch: Batch, how: str) -> None:
    partitioners: dict[str, Partitioner] = {
        "key": KeyGroupPartitioner(ColumnKey(("x",)), 8),
        "function": KeyGroupPartitioner(FunctionKey(lambda row: row.x), 8),
        "shuffle": ShufflePartitioner(),
        "rebalance": RebalancePartitioner(),
    }
    parts = [part for _, part in create_selector(partitioners[how], 3, random.Random(1), "t").split(batch)]
    assert sorted(row for part in parts for row in model(part)) == sorted(model(batch))
    if how in ("key", "function"):
        for key in range(10):
            expected = [row for row in model(batch) if row[0] == key]
            assert [row for part in parts for row in model(part) if row[0] == key] == expected


@settings(max_examples=20, deadline=None)
@given(batches(least=1), batches(least=1))
def test_rows_in_flight_keep_their_kinds_in_a_checkpoint(first: Batch, second: Batch) -> None:
    class Writer:
        def write_with(self, write: Callable[[BytesIO], None]) -> bytes:
            stream = BytesIO()
            write(stream)
            return stream.getvalue()

    part = InFlightPart("gate 0", [first, second]).write(Writer())  # type: ignore[arg-type]
    assert part.kind is PartKind.IN_FLIGHT
    read = list(read_in_flight(part.data))  # type: ignore[arg-type]
    assert [model(batch) for batch in read] == [model(first), model(second)]
    selector = ColumnKey(("x",))
    halves = [rows_of_key_groups(first, selector, range(start, start + 4), 8, "t") for start in (0, 4)]
    assert sorted(row for half in halves for row in model(half)) == sorted(model(first))


@pytest.mark.parametrize("memory_bytes", [1, 1 << 20])
@settings(max_examples=10, deadline=None)
@given(st.lists(batches(least=1), min_size=1, max_size=5))
def test_sorted_rows_keep_their_kinds_in_memory_and_in_a_file(memory_bytes: int, several: list[Batch]) -> None:
    sorter = KeySorter(
        [ColumnKey(("x",))], "t", memory_bytes=memory_bytes, directory="", batch_rows=4, batch_bytes=1 << 20
    )
    for batch in several:
        sorter.add(batch.with_times(0), 0)
    given_rows = [row for batch in several for row in model(batch.with_times(0))]
    result = [row for part in sorter.sorted_rows() for _, batch in part.batches for row in model(batch)]
    sorter.close()
    for key in range(10):  # within a key rows stay in their order: an update's two rows do not change places
        assert [row for row in result if row[0] == key] == [row for row in given_rows if row[0] == key]


def test_a_batch_that_was_spilled_keeps_its_kinds() -> None:
    batch = Batch(pa.record_batch({"x": [1, 2], "word": ["a", "b"]}), kinds=pa.array([3, 2], pa.int8()))
    file = SpillFile("", "rows")
    assert model(file.read(file.write(batch))) == model(batch)
    file.close()


# -- as Python values --------------------------------------------------------------------------------------------

CHANGES = [Row.of_kind(kind, word="a", n=kind.value) for kind in RowKind]


def encoder(**settings: bool) -> RowEncoder:
    return RowEncoder("map", "1 of 2", None, **settings)


def test_rows_of_an_encoder_that_gives_a_changelog_come_back_with_their_kinds() -> None:
    batch = encoder(gives_changelog=True).encode(CHANGES, None)
    assert batch.kinds.to_pylist() == [0, 1, 2, 3]
    assert decode(batch) == CHANGES
    assert encoder(gives_changelog=True).encode(["a", "b"], None).kinds.to_pylist() == [0, 0]


def test_unnamed_rows_and_rows_without_columns_have_kinds_too() -> None:
    unnamed = [Row.of_kind(kind, "a", kind.value) for kind in RowKind]
    assert encoder(gives_changelog=True).encode(unnamed, None).kinds.to_pylist() == [0, 1, 2, 3]
    empty = Batch(rows_without_columns(2), Kind.ROW, kinds=pa.array([0, 3], pa.int8()))
    assert [row.get_row_kind() for row in decode(empty)] == [RowKind.INSERT, RowKind.DELETE]


def test_values_keep_the_kinds_of_the_rows_that_they_are_made_of() -> None:
    kinds = pa.array([0, 1, 2, 3], pa.int8())
    assert encoder().encode([1, 2, 3, 4], None, kinds).kinds is kinds
    assert encoder().encode(CHANGES, None, kinds).kinds is kinds
    assert encoder().encode([Row(a=1)] * 4, None, kinds).kinds is kinds  # a new row says nothing of its kind


def test_rows_that_arrow_cannot_hold_come_back_with_the_kinds_of_the_rows_that_they_are_made_of() -> None:
    batch = encoder().encode([Row(a={1, 2}), Row(a={4})], None, pa.array([3, 0], pa.int8()))
    assert batch.kind is Kind.OBJECT
    assert decode(batch) == [Row.of_kind(RowKind.DELETE, a={1, 2}), Row(a={4})]


@pytest.mark.parametrize("kinds", [None, pa.array([0, 1, 2, 2], pa.int8())])
def test_a_row_of_another_kind_than_its_origin_is_refused(kinds: pa.Array | None) -> None:
    with pytest.raises(TypeMismatchError, match=r"'map' \(subtask 1 of 2\): .* is no .. row, .*as_changelog"):
        encoder().encode(CHANGES, None, kinds)
