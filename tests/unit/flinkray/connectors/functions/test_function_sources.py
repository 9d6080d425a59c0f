"""Generator functions and SourceFunctions as sources: threads, order, back-pressure, errors and ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkray import (
    CheckpointedFunction,
    InvalidProgramError,
    Row,
    SourceContext,
    SourceFunction,
    TypeMismatchError,
)
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.connectors.functions.source import GeneratorFunctionSource
from flinkray.connectors.handover import Handover
from flinkray.connectors.source import ReaderStatus, SourceBatch
from flinkray.types.records import Kind
from flinkray.types.rows import RowKind
from tests.support.api import DEADLINE, FakeSubtaskContext, ThreadedRun, rows_of

# -- functions as sources


def threads_of(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def counts() -> Iterator[int]:
    yield from range(10)


def which(ctx: SourceContext) -> Iterator[tuple[int, int]]:
    yield ctx.subtask_index, ctx.parallelism


class Counter(SourceFunction):
    """Calls ctx.collect_with_timestamp, and writes down its life."""

    def __init__(self) -> None:
        self.life: list[str] = []

    def open(self, runtime_context: Any) -> None:
        self.life.append(f"open {runtime_context.get_task_name_with_subtasks()}")

    def run(self, ctx: SourceContext) -> None:
        for number in range(5):
            ctx.collect_with_timestamp(number, number * 10)

    def close(self) -> None:
        self.life.append("close")


def test_a_function_whose_state_would_not_be_saved_is_refused() -> None:
    class Saving(Counter, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None: ...

        def snapshot_state(self, context: Any) -> None: ...

    with pytest.raises(InvalidProgramError, match="Saving is a CheckpointedFunction, whose state add_source does not"):
        GeneratorFunctionSource(Saving())


def test_what_a_function_yields_comes_in_order_and_then_the_end() -> None:
    run = ThreadedRun(GeneratorFunctionSource(counts))
    assert run.read() == list(range(10))
    assert run.poll() is ReaderStatus.END_OF_INPUT


def test_what_is_yielded_again_and_again_is_as_it_was_each_time() -> None:
    def changing() -> Iterator[Any]:
        row = Row(a=1, b=[])
        for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER):
            row.set_row_kind(kind)
            row["a"] += 1
            row.b.append(kind.value)
            yield row

    assert ThreadedRun(GeneratorFunctionSource(changing, is_changelog=True)).read() == [
        Row(a=2, b=[0]),
        Row.of_kind(RowKind.UPDATE_BEFORE, a=3, b=[0, 1]),
        Row.of_kind(RowKind.UPDATE_AFTER, a=4, b=[0, 1, 2]),
    ]


def test_a_function_may_take_its_context() -> None:
    run = ThreadedRun(GeneratorFunctionSource(which), FakeSubtaskContext(1, 3))
    assert run.read() == [(1, 3)]


def test_a_source_function_collects_with_event_times_between_open_and_close() -> None:
    function = Counter()
    run = ThreadedRun(GeneratorFunctionSource(function))
    polled = run.poll()
    assert isinstance(polled, SourceBatch)
    assert polled.batch.timestamps is not None
    times = polled.batch.timestamps.to_pylist()
    assert times == [number * 10 for number in range(len(times))]
    run.read()
    assert function.life == ["open Source: test (1/1)", "close"]


def test_a_row_without_a_timestamp_takes_none_from_others() -> None:
    class Mixed(SourceFunction):
        def run(self, ctx: SourceContext) -> None:
            for number in range(8):
                if number in (2, 5, 6):
                    ctx.collect(number)
                else:
                    ctx.collect_with_timestamp(number, number * 10)

    run = ThreadedRun(GeneratorFunctionSource(Mixed()), FakeSubtaskContext(batch_rows=4))
    found: list[tuple[Any, int | None]] = []
    while isinstance(polled := run.poll(), SourceBatch):
        batch = polled.batch
        times = [None] * batch.num_rows if batch.timestamps is None else batch.timestamps.to_pylist()
        found += zip(decode(batch), times, strict=True)
    assert found == [(number, None if number in (2, 5, 6) else number * 10) for number in range(8)]
    assert polled is ReaderStatus.END_OF_INPUT


@pytest.mark.parametrize("value", [1, pa.record_batch({"n": [1]})])
@pytest.mark.parametrize("time", [2**63, "noon"])
def test_a_timestamp_that_is_no_int64_is_an_error_that_names_it(value: Any, time: Any) -> None:
    class Wrong(SourceFunction):
        def run(self, ctx: SourceContext) -> None:
            ctx.collect_with_timestamp(value, time)

    run = ThreadedRun(GeneratorFunctionSource(Wrong()))
    with pytest.raises(TypeMismatchError, match=rf"collect_with_timestamp is an int .* fits 64 bits, not {time!r}"):
        run.poll()


def test_the_error_of_a_function_comes_after_its_rows_with_its_own_traceback() -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise LookupError("no such exchange")

    run = ThreadedRun(GeneratorFunctionSource(fails))
    assert isinstance(run.poll(), SourceBatch)
    with pytest.raises(LookupError, match="no such exchange") as caught:
        run.poll()
    assert caught.traceback[-1].name == "fails"


def test_a_function_is_never_far_ahead() -> None:
    made: list[int] = []
    filled = threading.Event()
    context = FakeSubtaskContext(batch_rows=4)

    def endless() -> Iterator[int]:
        while True:
            made.append(len(made))
            if len(made) == 9:  # 8 values wait; the ninth waits for room
                filled.set()
            yield len(made)

    # The function shares lists with the test, so it is not pickled here.
    source = GeneratorFunctionSource(counts)
    source._function = endless
    run = ThreadedRun(source, context)
    assert filled.wait(DEADLINE)
    assert len(made) == 9
    polled = run.poll()
    assert isinstance(polled, SourceBatch)
    assert polled.batch.num_rows == 4
    run.reader.close()
    assert threads_of("Source: test") == []


def test_closing_ends_generators_and_source_functions() -> None:
    ended: list[str] = []

    class Endless(SourceFunction):
        def run(self, ctx: SourceContext) -> None:
            try:
                while True:
                    try:
                        ctx.collect(1)
                    except Exception:
                        ended.append("an except clause of the user's must not see the end")
            finally:
                ended.append("run")

        def cancel(self) -> None:
            ended.append("cancel")

        def close(self) -> None:
            ended.append("close")

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.append("generator")

    for function in (Endless(), endless):
        source = GeneratorFunctionSource(counts)
        source._function = function
        run = ThreadedRun(source)
        assert isinstance(run.poll(), SourceBatch)
        run.reader.close()
    assert threads_of("Source: test") == []
    assert ended.count("generator") == 1
    assert sorted(ended) == ["cancel", "close", "generator", "run"]


def test_a_function_may_yield_whole_record_batches() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in (0, 3):
            yield pa.record_batch({"n": [start, start + 1]})

    def mixed() -> Iterator[Any]:
        yield pa.record_batch({"n": [1]})
        yield 2

    assert ThreadedRun(GeneratorFunctionSource(batches)).read() == [Row(n=0), Row(n=1), Row(n=3), Row(n=4)]
    with pytest.raises((InvalidProgramError, TypeError)):
        ThreadedRun(GeneratorFunctionSource(mixed)).read()


def batches_when_all_wait(function: Any, type_info: Any = None) -> list[Batch]:
    """What comes of a function that has ended before the first poll."""
    reader: Any = GeneratorFunctionSource(function, type_info).create_reader(FakeSubtaskContext(batch_rows=1000))
    finished = threading.Event()
    finish = reader._handover.finish

    def finish_and_say(error: BaseException | None = None) -> None:
        finish(error)
        finished.set()

    reader._handover.finish = finish_and_say
    reader.start()
    assert finished.wait(DEADLINE)
    batches = []
    while isinstance(polled := reader.poll(), SourceBatch):
        batches.append(polled.batch)
    return batches


def test_record_batches_of_several_layouts_are_put_together_only_with_their_like() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        yield pa.record_batch({"n": [2]})
        yield pa.record_batch({"n": pa.array([], pa.float64())})
        yield pa.record_batch({"n": [2.5]})
        for words in (["a", "b"], ["a", "b"], ["c"]):
            yield pa.record_batch({"n": pa.array(words).dictionary_encode()})

    found = batches_when_all_wait(batches)
    assert [batch.data.column(0).to_pylist() for batch in found] == [[1, 2], [2.5], ["a", "b", "a", "b"], ["c"]]


def test_record_batches_and_other_values_are_refused_even_if_taken_apart() -> None:
    def mixed() -> Iterator[Any]:
        yield pa.record_batch({"n": [1]})
        yield 2

    with pytest.raises(InvalidProgramError, match="yields both RecordBatches and other values"):
        ThreadedRun(GeneratorFunctionSource(mixed), FakeSubtaskContext(batch_rows=1)).read()


def test_all_rows_of_a_record_batch_have_the_timestamp_that_it_was_collected_with() -> None:
    class Timed(SourceFunction):
        def run(self, ctx: SourceContext) -> None:
            ctx.collect_with_timestamp(pa.record_batch({"n": [1, 2]}), 10)
            ctx.collect_with_timestamp(pa.record_batch({"n": [3]}), 20)
            ctx.collect(pa.record_batch({"n": [4]}))

    timed, untimed = batches_when_all_wait(Timed())
    assert timed.timestamps is not None
    assert timed.timestamps.to_pylist() == [10, 10, 20]
    assert untimed.times is None


def test_record_batches_come_as_the_declared_type() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"f1": ["a"], "f0": pa.array([1], pa.int8())})

    (batch,) = batches_when_all_wait(batches, type_info=[float, str])
    assert batch.kind is Kind.TUPLE
    assert rows_of([batch]) == [(1.0, "a")]


@pytest.mark.parametrize(
    ("type_info", "message"),
    [
        ({"n": int}, r"operator 'Source: test' \(subtask 1 of 1\): column 'n' .* is string and does not fit int64"),
        ({"m": str}, r"a RecordBatch of the columns n, which does not fit type_info=row<m: string>"),
        (object, r"does not fit type_info=object<value: binary>"),
    ],
)
def test_a_record_batch_that_does_not_fit_the_declared_type_is_refused(type_info: Any, message: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": ["a"]})

    with pytest.raises(TypeMismatchError, match=message):
        ThreadedRun(GeneratorFunctionSource(batches, type_info)).read()


@pytest.mark.parametrize(
    "value",
    [bytes(1 << 20), "x" * (1 << 20), (1, bytes(1 << 20)), {"a": bytes(1 << 20)}, Row(a=bytearray(1 << 20)),
     [bytes(1 << 14)] * 64, [bytes(1 << 12)] * 256, np.zeros(1 << 17), pa.record_batch({"a": ["x" * (1 << 20)]})],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_function_is_never_far_ahead_in_bytes_and_no_batch_is_larger_than_others(value: Any) -> None:
    made: list[int] = []
    waits = threading.Event()

    def endless() -> Iterator[Any]:
        while True:
            made.append(1)
            yield value

    # The function shares lists with the test, so it is not pickled here.
    source = GeneratorFunctionSource(lambda: iter(()))
    source._function = endless
    reader: Any = source.create_reader(FakeSubtaskContext(batch_rows=1 << 16))
    wait_for_room = reader._handover._wait_for_room

    def wait_and_say() -> None:
        waits.set()
        wait_for_room()

    reader._handover._wait_for_room = wait_and_say
    reader.start()
    assert waits.wait(DEADLINE)
    assert 14 <= len(made) <= 18  # of 1 MiB, where two batches of 8 MiB may wait
    polled = reader.poll()
    assert isinstance(polled, SourceBatch)
    assert 6 << 20 <= polled.batch.nbytes <= (8 << 20) + 1000  # and a list's offsets
    reader.close()


def test_rows_that_become_wide_are_measured_again() -> None:
    def rows() -> Iterator[Any]:
        yield from [(1, b"")] * 1000
        yield from [(1, bytes(1 << 20))] * 40

    run = ThreadedRun(GeneratorFunctionSource(rows), FakeSubtaskContext(batch_rows=1 << 16))
    sizes, count = [], 0
    while isinstance(polled := run.poll(), SourceBatch):
        sizes.append(polled.batch.nbytes)
        count += polled.batch.num_rows
    assert count == 1040
    assert max(sizes) < (8 + 16) << 20  # one in 16 narrow rows is measured


def test_a_large_record_batch_comes_in_pieces() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"text": ["x" * (1 << 20)] * 20})
        yield pa.record_batch({"text": [str(number) for number in range(2500)]})

    run = ThreadedRun(GeneratorFunctionSource(batches), FakeSubtaskContext(batch_rows=1000))
    found = []
    while isinstance(polled := run.poll(), SourceBatch):
        found.append(polled.batch)
    assert [batch.num_rows for batch in found] == [7, 7, 6, 1000, 1000, 500]


def test_the_type_of_a_function_is_its_annotation() -> None:
    assert str(GeneratorFunctionSource(counts).output_type) == "scalar<value: int64>"
    assert GeneratorFunctionSource(lambda: iter([1])).output_type is None


def test_a_handover_gives_at_least_one_item_whatever_it_weighs() -> None:
    announced: list[int] = []
    handover: Handover[str] = Handover(10, lambda: announced.append(1))
    assert handover.offer("heavy", 50)
    assert handover.take_nowait(4) == ["heavy"]
    assert handover.take_nowait(4) == []
    assert handover.offer("a", 3)
    assert handover.offer("b", 3)
    assert handover.take_nowait(4) == ["a"]
    assert not handover.is_drained
    handover.finish()
    assert handover.take_nowait(4) == ["b"]
    assert handover.is_drained
    assert len(announced) == 3  # "heavy", then "a" since nothing was there, then the end
    handover.close()
    assert not handover.offer("c")


@pytest.mark.parametrize("capacity", [1, 3, 1000])
def test_a_handover_loses_nothing_between_two_threads(capacity: int) -> None:
    available = threading.Event()
    handover: Handover[int] = Handover(capacity, available.set)

    def produce() -> None:
        for number in range(5000):
            handover.offer(number, 1 + number % 3)
        handover.finish()

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    taken: list[int] = []
    while not handover.is_drained:
        available.clear()
        new = handover.take_nowait(7)
        taken += new
        if not new and not handover.is_drained:
            assert available.wait(DEADLINE), "the producer announced nothing"
    thread.join(DEADLINE)
    assert taken == list(range(5000))


def test_a_function_that_fails_while_a_poll_finds_nothing_is_not_taken_for_one_that_ended() -> None:
    reader: Any = GeneratorFunctionSource(counts).create_reader(FakeSubtaskContext())
    handover = reader._handover
    take = handover.take_nowait

    def take_and_then_fail(limit: int) -> list[Any]:
        taken: list[Any] = take(limit)
        handover.finish(ValueError("boom"))
        return taken

    handover.take_nowait = take_and_then_fail
    assert reader.poll() is ReaderStatus.NOTHING_AVAILABLE
    handover.take_nowait = take
    with pytest.raises(ValueError, match="boom"):
        reader.poll()
