"""Windows in two phases give what they give in one: results, their order, late rows, and snapshots."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.keys.hashes import key_hashes
from actors.network.flow.buffers import Coalescer
from actors.operators.aggregates.partial import is_partial, rows_behind
from actors.operators.registry import create_operator
from actors.operators.windows.aligned import local_operator, sparse_index
from actors.operators.windows.aligned.distinct_sample import DistinctSample
from actors.operators.windows.choice import create_window_operator
from flinkray.batches.batch import Batch
from flinkray.errors import InvalidProgramError, NullTimestampError, TypeMismatchError, UnknownColumnError
from flinkray.expressions.tree import col
from flinkray.transformations.operator_factories import LocalWindowAggregateFactory, WindowFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Millis
from flinkray.windows.aggregates import Aggregate, Avg, Count, Max, Min, Sum
from flinkray.windows.assigners import (
    CumulativeEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.support.operators import OperatorHarness, as_batch, code
from tests.support.rescaling import Subtasks
from tests.support.window_cases import WindowCase, random_case

ASSIGNERS: list[WindowAssigner] = [
    TumblingEventTimeWindows.of(10),
    TumblingEventTimeWindows.of(25, 7),
    SlidingEventTimeWindows.of(20, 5),
    SlidingEventTimeWindows.of(10, 4, 1),
    CumulativeEventTimeWindows(20, 5, 8),
]
AGGREGATES: tuple[tuple[str, Aggregate], ...] = (
    ("rows", Count()),
    ("values", Count("value")),
    ("total", Sum("value")),
    ("twice", Sum(col("value") * 2)),
    ("mean", Avg("value")),
    ("low", Min("value")),
    ("high", Max("value")),
)
KEY = ColumnKey(("key",))


@pytest.fixture(params=[1 << 17, 20, 0], ids=["groups wait", "some wait", "none wait"])
def always(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is aggregated."""
    monkeypatch.setattr(local_operator, "_LARGEST_SHARE", 1.0)
    monkeypatch.setattr(local_operator, "_MOST_ACCUMULATORS", request.param)


class TwoPhases:
    """A window, with or without the local phase before it. What crosses between them is pickled on the way."""

    def __init__(
        self, factory: WindowFactory, key: ColumnKey | None = KEY, *, is_local: bool, restored: Any = None
    ) -> None:
        local = LocalWindowAggregateFactory(factory, key)
        self.local = OperatorHarness(create_operator([code(local)], ["local"])) if is_local else None
        self.window = OperatorHarness(create_window_operator(code(factory)), keys=(key,), restored=restored)
        self.crossed: list[Batch] = []

    def push(self, rows: Any, times: list[int] | None = None) -> None:
        self._cross(self.passed(as_batch(rows, times)))

    def push_and_end(self, rows: Any, times: list[int] | None) -> None:
        self.push(rows, times)
        self.watermark(int(MAX_TIMESTAMP))

    def passed(self, batch: Batch) -> list[Batch]:
        """What comes out of the local phase for these rows."""
        if self.local is None:
            return [batch]
        self.local.push(batch)
        return self._taken()

    def _taken(self) -> list[Batch]:
        assert self.local is not None
        batches = self.local.output.batches
        self.local.output.elements.clear()
        return batches

    def _cross(self, batches: list[Batch]) -> None:
        for batch in batches:
            self.crossed.append(batch)
            self.window.push(pickle.loads(pickle.dumps(batch, protocol=5)))

    def watermark(self, timestamp: int) -> None:
        self._cross(self.passed_before(timestamp))
        self.window.watermark(timestamp)

    def passed_before(self, timestamp: int) -> list[Batch]:
        """What comes out of the local phase before it passes this watermark."""
        if self.local is None:
            return []
        self.local.watermark(timestamp)
        if self.local.output.watermarks:
            assert not isinstance(self.local.output.elements[-1], Batch), "the watermark comes last"
        return self._taken()

    @property
    def results(self) -> list[list[dict[str, Any]]]:
        return [batch.data.to_pylist() for batch in self.window.output.batches]

    @property
    def late_rows(self) -> float:
        return self.window.context.metrics.counters.get("late_records_dropped", 0)


def factory_of(
    assigner: WindowAssigner, aggregates: tuple[tuple[str, Aggregate], ...] = AGGREGATES, lateness: int = 0
) -> WindowFactory:
    return WindowFactory(assigner, aggregates=aggregates, allowed_lateness_ms=Millis(lateness))


def run(case: WindowCase, window: TwoPhases, types: list[pa.DataType | None]) -> None:
    """Pushes the case; the values of each batch in the type that is listed for it, if any."""
    for (data, times), watermark, arrow_type in zip(case.batches, case.watermarks, types, strict=True):
        if arrow_type is not None:
            place = data.schema.get_field_index("value")
            data = data.set_column(place, "value", data.column(place).cast(arrow_type))
        window.push(data, times)
        if watermark is not None:
            window.watermark(watermark)


@pytest.mark.usefixtures("always")
@pytest.mark.seeds(7)
def test_two_phases_give_the_rows_of_one(seed: int) -> None:
    """In the same order, unless a window has several slices: keys come in the order of these."""
    chance = random.Random(seed)
    case = random_case(seed, 200)
    assigner = chance.choice(ASSIGNERS)
    factory = factory_of(assigner, lateness=chance.choice((0, 0, 8, 60)))
    widened = chance.choice((None, pa.float64(), pa.int32()))
    types = [widened if chance.random() < 0.5 else None for _ in case.batches]
    key = ColumnKey(case.key_names)
    one, two = (TwoPhases(factory, key, is_local=is_local) for is_local in (False, True))
    for window in (one, two):
        run(case, window, types)
        window.watermark(int(MAX_TIMESTAMP))
    if not isinstance(assigner, TumblingEventTimeWindows):
        assert [sorted(map(str, rows)) for rows in two.results] == [sorted(map(str, rows)) for rows in one.results]
    else:
        assert two.results == one.results
    assert two.late_rows == one.late_rows
    partial = [batch.data for batch in two.crossed if is_partial(batch.data)]
    plain = sum(batch.num_rows for batch in two.crossed if not is_partial(batch.data))
    assert partial
    assert sum(map(rows_behind, partial)) + plain == len(case.rows)
    assert two.late_rows <= plain


@pytest.mark.seeds(5)
def test_rows_that_pass_and_rows_that_are_aggregated_give_the_rows_of_one_phase(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As numbers of keys come and go, so that now a sample speaks for it and now against it."""
    chance, numbers = random.Random(seed), np.random.default_rng(seed)
    monkeypatch.setattr(local_operator, "_FEWEST_ROWS", 100)
    monkeypatch.setattr(local_operator, "_MOST_ACCUMULATORS", chance.choice((100, 400, 1500)))
    monkeypatch.setattr(sparse_index, "_FEWEST_JUDGED", 50)
    assigner = chance.choice(ASSIGNERS)
    one, two = (TwoPhases(factory_of(assigner), KEY, is_local=is_local) for is_local in (False, True))
    rows = 0
    for step in range(0, 240, 3):
        count, keys = chance.choice((30, 400, 1200)), (5, 2000, 60, 10**9)[step // 60]
        columns = {
            "key": numbers.integers(-keys, keys, count),
            "value": numbers.integers(0, 9, count),
            "more": [0] * count,
        }
        times = (step + numbers.integers(-4, 3, count)).tolist()
        watermark = step - chance.choice((1, 4, 9)) if chance.random() < 0.4 else None
        rows += count
        for window in (one, two):
            window.push(columns, times)
            if watermark is not None:
                window.watermark(watermark)
    for window in (one, two):
        window.watermark(int(MAX_TIMESTAMP))
    listed = [sorted(str(row) for batch in window.results for row in batch) for window in (one, two)]
    assert listed[1] == listed[0]
    assert two.late_rows == one.late_rows
    partial = [batch.data for batch in two.crossed if is_partial(batch.data)]
    plain = [batch.data for batch in two.crossed if not is_partial(batch.data)]
    assert sum(map(rows_behind, partial)) + sum(data.num_rows for data in plain) == rows
    assert min(len(partial), len(plain)) > 3
    assert all(data.schema.names == ["key", "value"] for data in plain)


@pytest.mark.usefixtures("always")
@pytest.mark.seeds(3)
def test_windows_of_a_stream_without_key_take_partial_rows_too(seed: int) -> None:
    case = random_case(seed, 200)
    one, two = (TwoPhases(factory_of(ASSIGNERS[seed % 4]), None, is_local=each) for each in (False, True))
    for window in (one, two):
        run(case, window, [None] * len(case.batches))
        window.watermark(int(MAX_TIMESTAMP))
    assert two.results == one.results


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("values", "aggregate"),
    [
        (pa.array([True, None, True, False]), Sum("value")),
        (pa.array([1, None, 2**63, 5], pa.uint64()), Max("value")),
        (pa.array([1, None, 2, 5], pa.duration("ms")), Sum("value")),
        (pa.array([1, None, 2, 5], pa.timestamp("s")), Min("value")),
        (pa.array([float("nan"), None, 2.0, -0.0]), Max("value")),
        (pa.array([1.5, None, 2.5, 3.5], pa.float32()), Avg("value")),
        (pa.nulls(4), Sum("value")),
        (pa.array(["b", None, "a", "c"]), Min("value")),
        (pa.array(["1.5", None, "2.50", "3"]).cast(pa.decimal128(9, 2)), Sum("value")),
    ],
    ids=str,
)
def test_a_type_is_the_same_whether_its_rows_came_plain_or_in_partial_rows(
    values: pa.Array, aggregate: Aggregate
) -> None:
    found = []
    for phases in ((False, False), (True, True), (True, False), (False, True)):
        window = TwoPhases(factory_of(ASSIGNERS[0], (("result", aggregate),)), is_local=True)
        local = window.local
        for is_local in phases:
            window.local = local if is_local else None
            data = pa.RecordBatch.from_arrays([pa.array([1, 2, 1, 1]), values], names=["key", "value"])
            window.push(data, [1, 2, 3, 11])
        window.local = local
        window.watermark(int(MAX_TIMESTAMP))
        (batch,) = window.window.output.batches
        found.append((batch.data.schema, str(batch.data.to_pylist())))
    assert found == [found[0]] * 4


@pytest.mark.usefixtures("always")
def test_late_rows_are_counted_as_often_as_they_came() -> None:
    one, two = (TwoPhases(factory_of(ASSIGNERS[0]), is_local=each) for each in (False, True))
    for window in (one, two):
        window.watermark(19)
        window.push({"key": ["a", "a", "b", "a", "a"], "value": [1, 2, 3, 4, 5]}, [3, 4, 15, 25, 9])
    assert two.late_rows == one.late_rows == 4
    assert not is_partial(two.crossed[0].data)


@pytest.mark.usefixtures("always")
def test_groups_that_are_late_count_as_the_rows_behind_them() -> None:
    """An idle input does not hold the window's watermark back, and may turn active again with rows that are late."""
    two = TwoPhases(factory_of(ASSIGNERS[0]), is_local=True)
    two.window.watermark(19)
    two.push({"key": ["a", "a", "b", "a", "a"], "value": [1, 2, 3, 4, 5]}, [3, 4, 15, 25, 9])
    two.watermark(20)
    assert two.late_rows == 4
    assert all(is_partial(batch.data) for batch in two.crossed)
    assert sum(time < 20 for batch in two.crossed for time in batch.timestamps.to_pylist()) == 2


@pytest.mark.usefixtures("always")
def test_what_a_late_row_alone_cannot_be_is_no_error() -> None:
    factory = factory_of(ASSIGNERS[0], (("total", Sum(col("value") // col("divisor"))),))
    two = TwoPhases(factory, is_local=True)
    two.watermark(9)
    assert not two.crossed
    two.push({"key": [1, 1], "value": [6, 6], "divisor": [0, 2]}, [5, 15])
    two.watermark(int(MAX_TIMESTAMP))
    assert [row["total"] for (row,) in two.results] == [3]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("rows", "times", "error"),
    [
        ({"key": [1, 1], "value": ["a", "b"]}, [1, 2], TypeMismatchError),
        ({"key": [1, 1], "amount": [1, 2]}, [1, 2], UnknownColumnError),
        ({"name": [1, 1], "value": [1, 2]}, [1, 2], UnknownColumnError),
        ({"key": [1, 1], "value": [1, 2]}, [1, int(MIN_TIMESTAMP)], NullTimestampError),
        ({"key": [1, 1], "value": [1, 2]}, None, NullTimestampError),
        ({"key": [1, 1], "value": [1, 2]}, [1, MIN_TIMESTAMP + 1], TypeMismatchError),
        ({"key": [1, 1], "value": [1, 2]}, [1, int(MAX_TIMESTAMP)], TypeMismatchError),
        ({"key": [1, 1], "value": [2**62, 2**62]}, [1, 2], TypeMismatchError),
    ],
)
def test_the_window_says_what_is_wrong_with_a_row(rows: Any, times: list[int] | None, error: type[Exception]) -> None:
    messages = []
    for is_local in (False, True):
        window = TwoPhases(factory_of(ASSIGNERS[0], (("total", Sum("value")),)), is_local=is_local)
        with pytest.raises(error) as caught:
            window.push_and_end(rows, times)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.usefixtures("always")
@pytest.mark.seeds(3)
def test_plain_and_partial_rows_do_not_mix_in_a_buffer(seed: int) -> None:
    case, chance = random_case(seed, 150), random.Random(seed)
    key, factory = ColumnKey(case.key_names), factory_of(ASSIGNERS[seed % 4])
    one, two = (TwoPhases(factory, key, is_local=each) for each in (False, True))
    coalescer = Coalescer(10_000, 1 << 20)
    buffers = []
    for data, times in case.batches:
        batch = as_batch(data, times)
        one.push(batch)
        for crossing in two.passed(batch) if chance.random() < 0.6 else [batch]:
            buffers += coalescer.add(crossing)
    for crossing in two.passed_before(int(MAX_TIMESTAMP)):
        buffers += coalescer.add(crossing)
    for buffer in [*buffers, *coalescer.finish()]:
        two.window.push(pickle.loads(pickle.dumps(buffer.batch, protocol=5)))
    one.watermark(int(MAX_TIMESTAMP))
    two.window.watermark(int(MAX_TIMESTAMP))
    for rows in zip(one.results, two.results, strict=True):  # of rows that wait and rows that do not, one may be first
        assert sorted(map(str, rows[0])) == sorted(map(str, rows[1]))


# -- snapshots


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("phases", [(False, True), (True, False), (True, True)], ids=str)
@pytest.mark.seeds(2)
def test_snapshots_of_either_kind_restore_into_the_other_at_another_parallelism(
    seed: int, phases: tuple[bool, bool]
) -> None:
    chance = random.Random(seed)
    factory = factory_of(chance.choice(ASSIGNERS), lateness=chance.choice((0, 15)))
    steps = [(rows_at(chance, now), now - 5) for now in range(0, 200, 20)]
    expected = TwoPhases(factory, is_local=False)
    subtasks = Subtasks(lambda: create_window_operator(code(factory)), (KEY,), 2)
    found: list[Any] = []
    local = TwoPhases(factory, is_local=phases[0])
    for number, (batch, watermark) in enumerate(steps):
        if number == len(steps) // 2:
            if local.local is not None:
                local.local.operator.prepare_barrier(1)
                for waiting in local._taken():
                    subtasks.push(waiting)
            found += subtasks.take()
            subtasks = subtasks.rescaled(3)
            local = TwoPhases(factory, is_local=phases[1])
        expected.push(batch)
        for crossing in [*local.passed(batch), *local.passed_before(watermark)]:
            subtasks.push(crossing)
        for each in (expected, subtasks):
            each.watermark(watermark)
    for waiting in local.passed_before(int(MAX_TIMESTAMP)):
        subtasks.push(waiting)
    for each in (expected, subtasks):
        each.watermark(int(MAX_TIMESTAMP))
    found += subtasks.take()
    output = expected.window.output
    assert sorted(map(str, found)) == sorted(map(str, zip(output.rows, output.timestamps, strict=True)))


def rows_at(chance: random.Random, now: int) -> Batch:
    rows = chance.randrange(1, 60)
    columns = {
        "key": [chance.choice(["a", "b", None, "c"]) for _ in range(rows)],
        "value": pa.array([chance.choice([None, 1, 2, 3]) for _ in range(rows)], pa.int64()),
    }
    return as_batch(columns, [now + chance.randrange(-30, 20) for _ in range(rows)])


# -- when it is worth it


def big_batch(keys: np.ndarray[Any, Any], first_time: int = 0) -> Batch:
    rows = len(keys)
    return as_batch({"key": keys, "value": np.arange(rows)}, (first_time + np.arange(rows) * 5 // rows).tolist())


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatorHarness]:
    monkeypatch.setattr(local_operator, "_FEWEST_ROWS", 500)
    factory = LocalWindowAggregateFactory(factory_of(ASSIGNERS[0]), KEY)
    with OperatorHarness(create_operator([code(factory)], ["local"])) as harness:
        yield harness


def ended(local: OperatorHarness) -> list[Batch]:
    """What has come out by the end of the rows."""
    local.watermark(int(MAX_TIMESTAMP))
    return local.output.batches


def test_groups_wait_for_the_end_of_their_slice(local: OperatorHarness) -> None:
    for first_time in (0, 5, 10):
        local.push(big_batch(np.arange(2000) % 10, first_time))
    local.watermark(8)
    assert not local.output.batches
    local.watermark(9)
    (batch,) = local.output.batches
    assert rows_behind(batch.data) == 4000
    assert batch.data.column("key").to_pylist() == list(range(10))
    local.push(big_batch(np.arange(2000) % 10, 11))
    assert len(local.output.batches) == 1
    assert [rows_behind(batch.data) for batch in ended(local)] == [4000, 4000]


@pytest.mark.parametrize("event", ["barrier", "idle", "end"])
def test_all_groups_go_before(local: OperatorHarness, event: str) -> None:
    for first_time in (0, 10):
        local.push(big_batch(np.arange(2000) % 10, first_time))
    if event == "barrier":
        local.operator.prepare_barrier(1)
        assert local.snapshot() is None
    elif event == "idle":
        local.status(is_idle=True)
    else:
        local.operator.finish()
    assert [rows_behind(batch.data) for batch in local.output.batches] == [4000]
    assert isinstance(local.output.elements[0], Batch)
    local.operator.prepare_barrier(2)
    assert len(local.output.batches) == 1, "they go once"


def test_groups_of_many_batches_that_are_worth_it_wait(local: OperatorHarness) -> None:
    chance = np.random.default_rng(1)
    for _ in range(20):
        local.push(big_batch(chance.permutation(2000)))
    first, second, batch = ended(local)
    assert not any(is_partial(batch.data) for batch in (first, second)), "it was not known yet"
    assert batch.num_rows == 2000
    assert rows_behind(batch.data) == 36_000


def test_a_row_per_group_passes_and_is_looked_at_ever_more_seldom(
    local: OperatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_operator, "_MOST_ACCUMULATORS", 1000)
    looks: list[int] = []
    add = DistinctSample.add
    monkeypatch.setattr(DistinctSample, "add", lambda *arguments: (looks.append(len(given)), add(*arguments))[1])
    given: list[Batch] = []

    def push(keys: np.ndarray[Any, Any]) -> None:
        local.push(big_batch(keys))
        given.extend(local.output.batches)
        local.output.elements.clear()

    for _ in range(100):
        push(np.arange(2000))
    assert looks == [0, 5, 14, 31, 64]
    for _ in range(200):
        push(np.arange(2000) % 10)
    assert len(given) == 64 + 65
    assert not any(is_partial(batch.data) for batch in given), "most rows pass as they are, and at last they wait"
    local.operator.prepare_barrier(1)
    given.append(local.output.batches[-1])
    local.output.elements.clear()
    assert rows_behind(given[-1].data) == 171 * 2000
    looks.clear()
    for keys in (np.arange(100), np.arange(499), np.arange(2000)):
        push(keys)
        local.operator.prepare_barrier(1)
    given.clear()
    local.output.elements.clear()
    for _ in range(5):
        push(np.arange(2000) % 10)
    assert (len(given), looks) == (4, [4]), "few rows said nothing, and after a good one it begins with few again"


def test_a_sample_says_how_many_groups_there_are() -> None:
    chance = np.random.default_rng(5)
    for keys, share in ((1000, 1.0), (200_000, 1.0), (1_000_000, 0.5), (20_000, 0.1)):
        sample = DistinctSample()
        groups: set[tuple[int, int]] = set()
        for _ in range(3):
            own = np.where(chance.random(50_000) < share, chance.integers(0, keys, 50_000), 7)
            which = chance.integers(0, 2, 50_000)
            sample.add(pa.RecordBatch.from_arrays([pa.array(own)], names=["key"]), [10, 20], which)
            groups.update(zip(own.tolist(), which.tolist(), strict=True))
        assert sample.rows == 150_000
        assert sample.accumulators == pytest.approx(len(groups), rel=0.15)


def test_each_group_that_is_looked_at_counts_once() -> None:
    sample, keys = DistinctSample(), np.arange(1000)
    hashes = key_hashes(pa.record_batch({"key": keys}))
    looked_at = int(np.count_nonzero(hashes >> np.uint64(60) == 0))
    for own in (keys[:0], keys[:500], keys, np.tile(keys, 3)):
        sample.add(pa.record_batch({"key": own}), [10], None)
    assert sample.accumulators == 16 * looked_at


def test_rows_of_another_schema_do_not_wait_with_those_before(local: OperatorHarness) -> None:
    local.push(big_batch(np.arange(2000) % 10))
    local.push(big_batch(np.array(["a", "b"] * 1000)))
    assert [rows_behind(batch.data) for batch in local.output.batches] == [2000]
    texts = pa.array(["x"] * 2000)
    batch = big_batch(np.arange(2000) % 10)
    local.push(Batch(batch.data.set_column(1, "value", texts), batch.kind, batch.timestamps))
    _first, second, third = local.output.batches
    assert rows_behind(second.data) == 2000
    assert third.data.column("value") == texts


def test_rows_whose_extremes_are_texts_pass_also_where_the_first_is_null() -> None:
    factory = LocalWindowAggregateFactory(factory_of(ASSIGNERS[0], (("low", Min("value")),)), KEY)
    with OperatorHarness(create_operator([code(factory)], ["local"])) as local:
        batch = big_batch(np.arange(2000) % 10)
        texts = pa.array([None, *["x"] * 1999])
        local.push(Batch(batch.data.set_column(1, "value", texts), batch.kind, batch.timestamps))
        assert local.output.batches[0].data.column("value") == texts
        local.push(batch)
        assert len(local.output.batches) == 1


def test_rows_pass_with_the_columns_that_the_window_looks_at() -> None:
    aggregates: tuple[tuple[str, Aggregate], ...] = (("total", Sum(col("value") * col("rate"))), ("low", Min("low")))
    rows = {name: np.arange(40_000) for name in ("other", "key", "value", "rate", "low", "more")}
    factory = LocalWindowAggregateFactory(factory_of(ASSIGNERS[0], aggregates), KEY)
    with OperatorHarness(create_operator([code(factory)], ["local"])) as local:
        local.push(as_batch(rows, [3] * 40_000))
        (batch,) = local.output.batches
        assert batch.data.schema.names == ["key", "value", "rate", "low"]
        assert batch.times == 0, "one event time for all rows of a slice"
        assert batch.nbytes == 4 * 8 * 40_000
        local.push(as_batch(rows, [3, 3_000] * 20_000))
        assert local.output.batches[-1].timestamps.to_pylist() == [3, 3_000] * 20_000
        del rows["rate"]
        local.push(as_batch(rows, [3] * 40_000))
        assert local.output.batches[-1].data.schema.names == list(rows), "the window says what there is"


@pytest.mark.parametrize("column", [["value"], 5])
def test_the_window_says_what_is_no_column(column: Any) -> None:
    factory = factory_of(ASSIGNERS[0], (("total", Sum(column)),))
    local = OperatorHarness(create_operator([code(LocalWindowAggregateFactory(factory, KEY))], ["local"]))
    local.push({"key": [1, 2], "value": [1, 2], "other": [1, 2]}, [3, 4])
    window = OperatorHarness(create_window_operator(code(factory)), keys=(KEY,))
    with pytest.raises(InvalidProgramError, match="takes a column name or an expression, not"):
        window.push(local.output.batches[0])


def test_rows_pass_with_a_column_where_the_window_looks_at_none() -> None:
    factory = LocalWindowAggregateFactory(factory_of(ASSIGNERS[0], (("rows", Count()),)), None)
    with OperatorHarness(create_operator([code(factory)], ["local"])) as local:
        local.watermark(20)
        late = as_batch({"value": [1, 2], "other": [1, 2]}, [3, 4])
        local.push(late)
        assert [batch.num_rows for batch in local.output.batches] == [2]


def test_a_key_that_most_rows_have_is_one_partial_row(local: OperatorHarness) -> None:
    chance = np.random.default_rng(1)
    keys = np.where(chance.random(10_000) < 0.7, 0, chance.integers(1, 10**6, 10_000))
    local.push(big_batch(keys))
    (batch,) = ended(local)
    hot = np.flatnonzero(batch.data.column("key").to_numpy() == 0)
    assert batch.data.column(0).to_numpy()[hot].sum() == (keys == 0).sum()
    assert len(hot) == 1


@pytest.mark.parametrize(
    "dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64], ids=str
)
def test_integers_at_both_ends_of_their_type_are_keys_of_their_own(local: OperatorHarness, dtype: Any) -> None:
    limits = np.iinfo(dtype)
    for lowest in (limits.min, limits.max - 200):
        numbers = range(int(lowest), min(int(lowest) + 200, int(limits.max) + 1))
        local.push(big_batch(np.array([*numbers] * 10, dtype)))
        local.operator.prepare_barrier(1)
        batch = local.output.batches[-1]
        assert is_partial(batch.data)
        found = batch.data.column("key").to_pylist()
        assert found == [*numbers]
        assert sum(batch.data.column(0).to_pylist()) == 10 * len(found)


def test_keys_are_forgotten_when_there_are_many(local: OperatorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_operator, "_MOST_ACCUMULATORS", 6000)
    operator = local.operator
    assert isinstance(operator, local_operator.LocalWindowAggregateOperator)
    for first in range(0, 100_000, 500):
        keys = np.array([f"key {number}" for number in range(first, first + 500)] * 4)
        local.push(big_batch(keys))
        assert len(operator._store._keys) <= 20_000
    assert all(is_partial(batch.data) for batch in local.output.batches)
