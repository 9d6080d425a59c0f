"""Sources and sinks without files: what they give, where they go on, and how they end."""

# ruff: noqa: ARG005  (a field of generated data gets the row numbers)

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest

from flinkray import (
    ArrowSource,
    CollectionSource,
    CollectSink,
    DataGenSource,
    DiscardSink,
    InvalidProgramError,
    PandasSource,
    PrintSink,
    RandomField,
    Row,
    SequenceField,
    SequenceSource,
    Source,
    UserFunctionError,
)
from flinkray.connectors.functions.sink import SinkFunctionSink
from flinkray.connectors.source import ReaderStatus, SourceBatch
from flinkray.connectors.threaded_splits import ThreadedSplitReader
from flinkray.types.records import Kind
from tests.support.api import FakeSubtaskContext, SourceRun, batch_of, column, rows_of
from tests.support.waiting import eventually

# -- sources of splits

GENERATED = {"i": SequenceField(), "r": RandomField(0, 9), "t": RandomField(length=5)}
SOURCES: dict[str, Callable[[], Source]] = {
    "collection": lambda: CollectionSource([(n, str(n)) for n in range(30)]),
    "sequence": lambda: SequenceSource(-5, 24),
    "arrow": lambda: ArrowSource(pa.table({"n": list(range(30))})),
    "datagen": lambda: DataGenSource(GENERATED, rows=30),
}


@pytest.mark.parametrize("name", sorted(SOURCES))
@pytest.mark.parametrize("parallelism", [1, 2, 7])
def test_every_row_comes_exactly_once_at_any_parallelism(name: str, parallelism: int) -> None:
    once = rows_of(SourceRun(SOURCES[name]()).read_batches())
    assert len(once) == 30
    run = SourceRun(SOURCES[name](), parallelism)
    assert sorted(rows_of(run.read_batches())) == sorted(once)
    given = [split.split_id for splits in run.assignments.assigned.values() for split in splits]
    assert sorted(given) == sorted(split for context in run.contexts for split in context.finished)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_one_subtask_gives_rows_in_order_in_batches_of_the_target_size(name: str) -> None:
    batches = SourceRun(SOURCES[name](), batch_rows=8).read_batches()
    assert [batch.num_rows for batch in batches] == [8, 8, 8, 6]
    first = batches[0].data.schema.names[0]
    numbers = column(batches, first)
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("name", sorted(SOURCES))
@pytest.mark.parametrize("batches_before", [0, 1, 3, 5])
def test_a_restored_source_goes_on_where_the_snapshot_was(name: str, batches_before: int) -> None:
    source = SOURCES[name]()
    expected = sorted(rows_of(SourceRun(source).read_batches()))
    run = SourceRun(source, parallelism=2)
    before = run.read_batches(batches_before)
    state = cloudpickle.loads(cloudpickle.dumps(run.snapshot()))
    after = SourceRun(source, parallelism=2, restored=state).read_batches()
    assert sorted(rows_of(before) + rows_of(after)) == expected


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_batches_have_the_type_that_the_source_says_and_it_survives_pickling(name: str) -> None:
    source = cloudpickle.loads(cloudpickle.dumps(SOURCES[name]()))
    assert {batch.record_type for batch in SourceRun(source, 3).read_batches()} == {source.output_type}


def test_splits_of_a_lost_reader_are_given_again() -> None:
    source = SequenceSource(1, 10)
    run = SourceRun(source, parallelism=2)
    run.poll(0)
    lost = run.assignments.assigned[0]
    run.enumerator.add_splits_back(lost, 0)
    state = run.enumerator.snapshot_state(1)
    again = SourceRun(source, parallelism=2, restored=(state, [[], []])).read_batches()
    assert sorted(rows_of(again)) == list(range(1, 11))


def test_a_reader_asks_for_a_split_only_when_it_has_none() -> None:
    run = SourceRun(ArrowSource(pa.table({"n": list(range(16))})), parallelism=2, batch_rows=1)
    assert run.contexts[0].requests == 1
    polled = [run.poll(0), run.poll(0)]
    assert all(isinstance(each, SourceBatch) for each in polled)
    assert run.contexts[0].requests == 0
    assert run.contexts[0].finished == []
    assert run.poll(0) is ReaderStatus.NOTHING_AVAILABLE
    assert (run.contexts[0].requests, run.contexts[0].finished) == (1, ["0"])


def test_collections_keep_kinds() -> None:
    for values in ([1, 2], [("a", 1)], [Row(a=1, b="x")], [None, 3], [[1], [2, 3]], [{1}, object]):
        assert rows_of(SourceRun(CollectionSource(values)).read_batches()) == values
    assert rows_of(SourceRun(CollectionSource([], str)).read_batches()) == []


def test_a_sequence_may_be_as_long_as_64_bits_allow() -> None:
    run = SourceRun(SequenceSource(-(2**63), 2**63 - 2), parallelism=2)
    assert rows_of(run.read_batches(2)) == [*range(-(2**63), -(2**63) + 4), *range(-1, 3)]


def test_a_sequence_takes_numpys_whole_numbers() -> None:
    ends: Any = np.int64(1), np.uint8(3)
    assert rows_of(SourceRun(SequenceSource(*ends)).read_batches()) == [1, 2, 3]


def test_a_data_frame_loses_its_index_and_its_metadata() -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2]}, index=["x", "y"])
    assert rows_of(SourceRun(ArrowSource(frame)).read_batches()) == [Row(a=1), Row(a=2)]
    source = PandasSource(frame)
    assert source.output_type is not None
    assert source.output_type.schema.metadata is None
    assert rows_of(SourceRun(source).read_batches()) == [Row(a=1), Row(a=2)]


def test_rows_without_columns_are_refused() -> None:
    import pandas as pd

    with pytest.raises(InvalidProgramError, match="the 2 rows of the source have no columns"):
        ArrowSource(pa.table({"a": [1, 2]}).select([]))
    with pytest.raises(InvalidProgramError, match=r"the 2 rows .* have no columns.*reset_index\(\)"):
        PandasSource(pd.DataFrame(index=["x", "y"]))
    assert rows_of(SourceRun(ArrowSource(pa.table({}))).read_batches()) == []


def test_arrow_comes_in_every_form() -> None:
    table = pa.table({"a": [1, 2, 3]})
    for data in (table, table.to_batches()[0], table.to_reader(), _Stream(table)):
        assert column(SourceRun(ArrowSource(data)).read_batches(), "a") == [1, 2, 3]


def test_a_table_travels_with_its_own_rows_not_with_what_they_are_slices_of() -> None:
    whole = pa.record_batch({"n": np.arange(100_000), "t": pa.array(["a", "b"] * 50_000).dictionary_encode()})
    pieces = [whole.slice(start, 2_000) for start in (10, 5_000, 60_000)]
    pickled = cloudpickle.dumps(ArrowSource(pa.Table.from_batches(pieces)))
    assert len(pickled) < 100_000
    expected = [number for start in (10, 5_000, 60_000) for number in range(start, start + 2_000)]
    assert column(SourceRun(pickle.loads(pickled)).read_batches(), "n") == expected


def test_a_table_of_many_small_chunks_becomes_batches_of_the_usual_size() -> None:
    batch = pa.record_batch({"n": range(300)})
    source = ArrowSource(pa.Table.from_batches([batch.slice(row, 1) for row in range(300)]))
    batches = SourceRun(source, batch_rows=100).read_batches()
    assert [batch.num_rows for batch in batches] == [100, 100, 100]
    assert column(batches, "n") == list(range(300))


class _Stream:
    """Only the Arrow stream interface, as of a foreign library."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


# -- generated data


def test_generated_rows_are_a_function_of_their_number_and_the_seed() -> None:
    def rows(seed: int, parallelism: int = 1, batch_rows: int = 7) -> list[Any]:
        source = DataGenSource(GENERATED, rows=100, seed=seed)
        return sorted(rows_of(SourceRun(source, parallelism, batch_rows).read_batches()))

    assert rows(1) == rows(1, parallelism=3, batch_rows=2)
    assert rows(1) != rows(2)


def test_fields_stay_in_their_ranges() -> None:
    fields = {
        "loop": SequenceField(10, 12),
        "down": SequenceField(0, step=-2),
        "digit": RandomField(-2, 2),
        "share": RandomField(0.0, 0.5),
        "all": RandomField(-(2**63), 2**63 - 1),
        "name": RandomField(choices=("ann", "bob")),
        "text": RandomField(length=33),
        "double": lambda rows: rows * 2,
    }
    batches = SourceRun(DataGenSource(fields, rows=2000), batch_rows=500).read_batches()
    assert column(batches, "loop")[:4] == [10, 11, 12, 10]
    assert column(batches, "down")[:3] == [0, -2, -4]
    assert set(column(batches, "digit")) == {-2, -1, 0, 1, 2}
    shares = column(batches, "share")
    assert 0 <= min(shares) < 0.01
    assert 0.49 < max(shares) < 0.5
    assert min(column(batches, "all")) < 0 < max(column(batches, "all"))
    assert set(column(batches, "name")) == {"ann", "bob"}
    texts = column(batches, "text")
    assert {len(text) for text in texts} == {33}
    assert len(set(texts)) == 2000
    assert set("".join(texts)) == set("0123456789abcdef")
    assert column(batches, "double")[:3] == [0, 2, 4]


def test_two_random_fields_of_one_range_differ() -> None:
    source = DataGenSource({"a": RandomField(), "b": RandomField()}, rows=50)
    batches = SourceRun(source).read_batches()
    assert column(batches, "a") != column(batches, "b")


def test_a_rate_limit_makes_rows_as_time_passes_and_never_waits() -> None:
    run = SourceRun(DataGenSource({"i": SequenceField()}, rows=10, rows_per_second=1000), batch_rows=4)
    context = run.contexts[0]
    assert run.poll() is ReaderStatus.NOTHING_AVAILABLE
    assert run.poll() is ReaderStatus.NOTHING_AVAILABLE
    assert len(context.timers) == 1
    woken: list[int] = []
    context.on_available = lambda: woken.append(context.now)
    context.advance(3)
    assert woken == [3]
    assert rows_of([run.poll().batch]) == [Row(i=0), Row(i=1), Row(i=2)]  # type: ignore[union-attr]
    assert run.poll() is ReaderStatus.NOTHING_AVAILABLE
    context.advance(100)
    rest = [run.poll(), run.poll()]
    assert [each.batch.num_rows for each in rest] == [4, 3]  # type: ignore[union-attr]
    assert [run.poll(), run.poll()] == [ReaderStatus.NOTHING_AVAILABLE, ReaderStatus.END_OF_INPUT]


def test_a_subtask_that_is_done_does_not_go_back_in_time_with_the_rows_of_another() -> None:
    run = SourceRun(DataGenSource({"i": SequenceField()}, rows=10), parallelism=2)
    first: list[Any] = []
    while isinstance(polled := run.poll(0), SourceBatch) or not run.assignments.ended:
        first.extend([polled.batch] if isinstance(polled, SourceBatch) else [])
    assert column(first, "i") == [0, 2, 4, 6, 8]
    assert column(run.read_batches(), "i") == [1, 3, 5, 7, 9]


def test_a_rate_is_shared_by_the_subtasks() -> None:
    run = SourceRun(DataGenSource({"i": SequenceField()}, rows_per_second=100), parallelism=2, batch_rows=1000)
    assert [run.poll(subtask) for subtask in (0, 1)] == [ReaderStatus.NOTHING_AVAILABLE] * 2
    for context in run.contexts:
        context.advance(1000)
    assert [run.poll(subtask).batch.num_rows for subtask in (0, 1)] == [50, 50]  # type: ignore[union-attr]


@pytest.mark.parametrize("given_before", [(0, 1), (0,), ()])
def test_endless_shares_go_on_together_where_fewer_subtasks_read_them(given_before: tuple[int, ...]) -> None:
    source = DataGenSource({"i": SequenceField()})
    former = SourceRun(source, parallelism=2)
    before = rows_of([former.poll(subtask).batch for subtask in given_before])  # type: ignore[union-attr]
    enumerator, readers = former.snapshot()
    run = SourceRun(source, restored=(enumerator, [[split for splits in readers for split in splits]]))
    after = rows_of(run.read_batches(4))
    for share in (0, 1):
        rows = [row.i for row in before + after if row.i % 2 == share]
        assert rows == list(range(share, 2 * len(rows), 2))
        assert [row.i % 2 for row in after].count(share) == 8


def test_a_rate_is_that_of_all_shares_where_fewer_subtasks_read_them() -> None:
    source = DataGenSource({"i": SequenceField()}, rows_per_second=100)
    former = SourceRun(source, parallelism=2, batch_rows=1000)
    for subtask in (0, 1):
        former.poll(subtask)
    enumerator, readers = former.snapshot()
    run = SourceRun(source, batch_rows=1000, restored=(enumerator, [[split for splits in readers for split in splits]]))
    assert run.poll() is ReaderStatus.NOTHING_AVAILABLE
    assert len(run.contexts[0].timers) == 1
    run.contexts[0].advance(1000)
    assert [run.poll().batch.num_rows for _ in range(2)] == [50, 50]  # type: ignore[union-attr]
    assert run.poll() is ReaderStatus.NOTHING_AVAILABLE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fields": {}}, "at least one field"),
        ({"fields": 10, "rows": GENERATED}, "fields must be a dict of names and fields, got 10"),
        ({"fields": GENERATED, "rows": -1}, "rows must not be negative"),
        ({"fields": GENERATED, "rows": "10"}, "rows must be a whole number .*, got '10'"),
        ({"fields": GENERATED, "rows": 1.5}, r"rows must be a whole number .*, got 1\.5"),
        ({"fields": GENERATED, "rows": True}, "rows must be a whole number .*, got True"),
        ({"fields": GENERATED, "rows": float("inf")}, "rows must be a whole number .*, got inf"),
        ({"fields": GENERATED, "rows_per_second": "5"}, "rows_per_second must be positive and finite .*, got '5'"),
        ({"fields": GENERATED, "rows_per_second": 0}, "rows_per_second must be positive"),
        ({"fields": GENERATED, "rows_per_second": float("inf")}, r"rows_per_second must be positive and finite .*inf"),
        ({"fields": GENERATED, "rows_per_second": float("nan")}, "rows_per_second must be positive and finite"),
        ({"fields": {"x": SequenceField(2**63 - 2)}, "rows": 3}, r"has no value for row 2: .* 2\*\*63 - 1; set end="),
        ({"fields": {"x": lambda rows: np.zeros(3)}}, "'x' gave 3 values for 1 rows"),
    ],
)
def test_wrong_generated_data(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        DataGenSource(**arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomField(0, 2**64 - 1), rf"RandomField\(high={2**64 - 1}\): whole numbers are int64"),
        (lambda: RandomField(-(2**63) - 1, 0), r"RandomField\(low=-\d+\): whole numbers are int64"),
        (lambda: RandomField(0.0, float("inf")), r"RandomField\(high=inf\): doubles must be finite"),
        (lambda: RandomField(float("nan"), 1.0), r"RandomField\(low=nan\): doubles must be finite"),
        (lambda: RandomField(-1e308, 1e308), "high - low must be at most"),
        (lambda: SequenceField(2**63), r"SequenceField\(start=\d+\): whole numbers are int64"),
        (lambda: SequenceField(10, 0), r"step=1\) leads from start=10 away from end=0; .* step must be negative"),
        (lambda: SequenceField(0, 10, -1), r"step=-1\) leads from start=0 away from end=10"),
        (lambda: SequenceField(0, 10, 0), r"step=0\) never comes to end=10"),
    ],
)
def test_fields_without_values_in_their_range_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        make()


def test_fields_reach_the_ends_of_64_bits_and_no_further() -> None:
    fields = {
        "last": SequenceField(2**63 - 2),
        "loop": SequenceField(-(2**63), 2**63 - 1, 2**62),
        "all": SequenceField(-(2**63), 2**63 - 1),
        "down": SequenceField(2, 0, -2),
        "constant": SequenceField(7, step=0),
    }
    (batch,) = SourceRun(DataGenSource(fields, rows=2)).read_batches()
    assert batch.data.to_pydict() == {
        "last": [2**63 - 2, 2**63 - 1],
        "loop": [-(2**63), -(2**62)],
        "all": [-(2**63), -(2**63) + 1],
        "down": [2, 0],
        "constant": [7, 7],
    }
    endless = SourceRun(DataGenSource({"last": SequenceField(2**63 - 2)}), batch_rows=2)
    assert column([endless.poll().batch], "last") == [2**63 - 2, 2**63 - 1]  # type: ignore[union-attr]
    with pytest.raises(InvalidProgramError, match="has no value for row 3"):
        endless.poll()


# -- sinks


def test_printed_lines_have_the_subtask_where_there_are_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for sink, subtask, parallelism in ((PrintSink(), 0, 1), (PrintSink(), 1, 2), (PrintSink("id"), 1, 2)):
        writer = sink.create_writer(FakeSubtaskContext(subtask, parallelism))
        writer.write(batch_of(("a", 1), ("b", None)))
        writer.close()
    writer = PrintSink("id", is_error_stream=True).create_writer(FakeSubtaskContext())
    writer.write(batch_of(Row(a=1)))
    captured = capsys.readouterr()
    lines = ["('a', 1)", "('b', None)"]
    assert captured.out.splitlines() == [*lines, *(f"2> {line}" for line in lines), *(f"id:2> {x}" for x in lines)]
    assert captured.err == "id> Row(a=1)\n"


def test_printing_is_one_write_per_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            Stream.writes += 1
            return super().write(text)

    monkeypatch.setattr("sys.stdout", Stream())
    PrintSink().create_writer(FakeSubtaskContext()).write(batch_of(*range(100)))
    assert Stream.writes == 1


def test_the_error_of_a_sink_function_names_operator_subtask_and_value() -> None:
    def fails(value: int) -> float:
        return 1 / (value - 2)

    writer = SinkFunctionSink(fails).create_writer(FakeSubtaskContext(1, 2))
    with pytest.raises(UserFunctionError) as caught:
        writer.write(batch_of(1, 2, 3))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.operator, error.subtask, error.value) == ("Source: test", "2 of 2", "2")
    assert "ZeroDivisionError" in str(error)
    assert "return 1 / (value - 2)" in str(error)
    assert "sink_function.py" not in str(error)


def test_discard_takes_everything_and_collect_belongs_to_the_runtime() -> None:
    DiscardSink().create_writer(FakeSubtaskContext()).write(batch_of(1))
    assert CollectSink("a") == CollectSink("a")
    assert CollectSink.needs_coordinator
    with pytest.raises(InvalidProgramError, match="runtime itself"):
        CollectSink("a").create_writer(FakeSubtaskContext())


# -- splits that are read on threads


@dataclass
class Named:
    split_id: str


class PanicException(BaseException):
    """As extensions in Rust raise it."""


class Panics(ThreadedSplitReader[Named]):
    def parts(self, split: Named) -> Iterator[tuple[pa.RecordBatch, Named]]:
        raise PanicException(f"not a file: {split.split_id}")


def test_whatever_ends_a_thread_that_reads_a_split_ends_its_task() -> None:
    reader = Panics(FakeSubtaskContext(), Kind.SCALAR)
    reader.add_splits([Named("a")])
    reader.start()
    with pytest.raises(PanicException, match="not a file: a"):
        eventually(reader.poll, lambda given: given is not ReaderStatus.NOTHING_AVAILABLE)
