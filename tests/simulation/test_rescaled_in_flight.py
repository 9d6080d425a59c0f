"""Jobs that go on at another parallelism from an unaligned checkpoint: rows in flight find their subtask, in order."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from actors.checkpoints.storage.metadata import load
from actors.hosts.simulation.storage import SimulatedStorage, new_storage
from actors.protocol.checkpoint_handles import PartKind
from flinkray import (
    CoFlatMapFunction,
    Configuration,
    DataGenSource,
    DataStream,
    DiscardSink,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
    filesystems,
)
from flinkray.execution import JobStatus
from tests.support.simulation import SLOW_STEP_MS, SimulatedRun, compiled

KEYS = 12
ROWS = 240


@dataclass
class Seen:
    """What the functions of one run have seen, in the order in which they did."""

    passed: list[tuple[int, int]] = field(default_factory=list)
    """(subtask, key) behind the exchange."""
    checked: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(subtask, key, number of the row, rows of the key so far) at the end of the job."""
    counted: list[tuple[int, int]] = field(default_factory=list)
    """(key, its rows), when all rows are over."""


SEEN: dict[str, Seen] = defaultdict(Seen)


class Number(KeyedProcessFunction):
    """Gives each row its number within its key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        number = self.count.value() or 0
        self.count.update(number + 1)
        yield {"key": value.key, "number": number}


class Passed(MapFunction, CoFlatMapFunction):
    def __init__(self, run: str) -> None:
        self.run = run

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        SEEN[self.run].passed.append((self.subtask, value.key))
        return {"key": value.key, "number": value.number}

    def flat_map1(self, value: Any) -> Any:
        yield self.map(value)

    def flat_map2(self, value: Any) -> Any:
        SEEN[self.run].passed.append((self.subtask, value.key))
        return ()


PASSED = pa.schema([("key", pa.int64()), ("number", pa.int64())])


async def passed_later(value: Any) -> Any:
    await asyncio.sleep(0.02)
    return {"key": value.key, "number": value.number}


class Check(KeyedProcessFunction):
    def __init__(self, run: str) -> None:
        self.run = run

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        SEEN[self.run].checked.append((self.subtask, value.key, value.number, count))
        ctx.timer_service().register_event_time_timer(0)  # no watermark comes but the last
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        SEEN[self.run].counted.append((ctx.get_current_key(), self.count.value()))
        return ()


Exchange = Callable[[DataStream, DataStream, str], DataStream]
EXCHANGES: dict[str, Exchange] = {
    "forward": lambda numbers, _, run: numbers.map(Passed(run)).start_new_chain(),
    "rescale": lambda numbers, _, run: numbers.rescale().map(Passed(run)),
    "forward into asynchronous calls": lambda numbers, _, __: numbers.async_map(passed_later, 3, output_type=PASSED),
    "rebalance": lambda numbers, _, run: numbers.rebalance().map(Passed(run)),
    "global": lambda numbers, _, run: numbers.global_().map(Passed(run)),
    "key_by and map": lambda numbers, _, run: numbers.key_by("key").map(Passed(run)),
    "key_by a function and map": lambda numbers, _, run: numbers.key_by(lambda row: row.key).map(Passed(run)),
    "custom": lambda numbers, _, run: numbers.partition_custom(lambda key, n: key % n, "key").map(Passed(run)),
    "connected by key": lambda numbers, others, run: (
        numbers.key_by("key").connect(others.key_by("key")).flat_map(Passed(run))
    ),
    "connected with forward": lambda numbers, others, run: numbers.connect(others.key_by("key")).flat_map(Passed(run)),
    "connected with broadcast": lambda numbers, others, run: (
        numbers.key_by("key").connect(others.broadcast()).flat_map(Passed(run))
    ),
}
KEEPS_ORDER = {*EXCHANGES} - {"rescale", "rebalance", "forward into asynchronous calls"}
KEY_HAS_ONE_SUBTASK = {"key_by and map", "key_by a function and map", "connected by key", "custom"}


def program(
    run: str, exchange: str, parallelism: int, is_chained: bool, chance: random.Random, saved: str = ""
) -> StreamExecutionEnvironment:
    """source -> number per key -> exchange -> check per key."""
    storage, _, _ = run.partition(":")
    options = {
        "execution.target": "local",
        "parallelism.default": parallelism,
        "pipeline.max-parallelism": 32,
        "pipeline.operator-chaining.enabled": is_chained,
        "flinkray.batch.target-rows": chance.choice([1, 5]),
        "flinkray.network.inline-bytes": chance.choice([0, 65_536]),
        "execution.buffer-timeout.interval": chance.choice([0, 5]),
        "execution.checkpointing.interval": 40,
        "execution.checkpointing.unaligned.enabled": True,
        "execution.checkpointing.unaligned.forced": exchange == "custom",
        "execution.checkpointing.aligned-checkpoint-timeout": chance.choice([0, 10]),
        "execution.checkpointing.externalized-checkpoint-retention": "retain-on-cancellation",
        "execution.checkpointing.dir": f"memory://{storage}/checkpoints",
    }
    if saved:
        options["execution.state-recovery.path"] = saved
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))

    def source(name: str) -> DataStream:
        rows = DataGenSource({"key": lambda n: n % KEYS, "number": lambda n: n}, rows=ROWS)
        return env.from_source(rows, WatermarkStrategy.no_watermarks(), name).set_parallelism(1).uid(name)

    numbers = source("rows").key_by("key").process(Number()).uid("number")
    passed = EXCHANGES[exchange](numbers, source("others"), run).uid("pass")
    passed.key_by("key").process(Check(run)).uid("check").sink_to(DiscardSink()).uid("end")
    return env


def run_until_rows_are_in_flight(env: StreamExecutionEnvironment, storage: SimulatedStorage, seed: int) -> str:
    """Cancels the job after the first checkpoint that has rows in flight; the checkpoint's URI."""
    run = SimulatedRun(compiled(env), (), seed, storages=(storage,), step_ms=SLOW_STEP_MS)
    found: list[str] = []

    def look() -> None:
        if not found and (saved := checkpoint_with_rows_in_flight(storage)):
            found.append(saved)
            run.cancel()

    run.await_end(on_look=look)
    run.shut_down()
    assert found, "the job ended before a checkpoint had rows in flight"
    return latest_checkpoint(storage)


def latest_checkpoint(storage: SimulatedStorage) -> str:
    saved = [path.rpartition("/")[0] for path in storage.files if path.endswith("/_metadata")]
    return f"memory://{storage.name}/{max(saved, key=lambda path: int(path.rpartition('-')[2]))}" if saved else ""


def checkpoint_with_rows_in_flight(storage: SimulatedStorage) -> str:
    saved = latest_checkpoint(storage)
    if not saved:
        return ""
    subtasks = (subtask for operator in load(saved).operators.values() for subtask in operator.subtasks.values())
    parts = (part for subtask in subtasks for part in subtask.parts)
    return saved if any(part.kind is PartKind.IN_FLIGHT for part in parts) else ""


def goes_on(exchange: str, former: int, now: int, seed: int, change: Callable[[], None] = lambda: None) -> str:
    """Has a job go on from a checkpoint with rows in flight, and finish; what its second run is called in `SEEN`.

    Args:
        change: made to the program in between.
    """
    chance = random.Random(f"{exchange} {former} {now} {seed}")
    is_chained = chance.random() < 0.5
    name = f"in-flight-{seed}"
    storage, (first, second) = new_storage(name), (f"{name}:first", f"{name}:second")
    SEEN.clear()
    filesystems.mount(name, storage.filesystem())
    try:
        saved = run_until_rows_are_in_flight(program(first, exchange, former, is_chained, chance), storage, seed)
        change()
        env = program(second, exchange, now, is_chained, chance, saved)
        run = SimulatedRun(compiled(env), (), seed, storages=(storage,))
        run.await_end()
        run.shut_down()
    finally:
        filesystems.unmount(name)
    assert run.outcome().status is JobStatus.FINISHED, run.outcome().error
    return second


@pytest.mark.seeds(1)
@pytest.mark.parametrize(("former", "now"), [(2, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_rows_in_flight_reach_their_subtask_in_order(exchange: str, former: int, now: int, seed: int) -> None:
    second = goes_on(exchange, former, now, seed)
    checked = SEEN[second].checked
    owners: dict[int, set[int]] = defaultdict(set)
    for subtask, key, number, count in checked:
        owners[key].add(subtask)
        assert exchange not in KEEPS_ORDER or number == count - 1, f"row {number} of key {key} came as number {count}"
    assert all(len(subtasks) == 1 for subtasks in owners.values())
    assert sorted(SEEN[second].counted) == [(key, ROWS // KEYS) for key in range(KEYS)], "no row is lost or doubled"
    if exchange in KEY_HAS_ONE_SUBTASK:
        subtasks_of = {key: {subtask for subtask, each in SEEN[second].passed if each == key} for key in range(KEYS)}
        assert all(len(subtasks) <= 1 for subtasks in subtasks_of.values()), subtasks_of
        if exchange == "custom":
            assert all(subtasks <= {key % now} for key, subtasks in subtasks_of.items())


@pytest.mark.seeds(2)
def test_a_stream_that_gets_another_reader_loses_no_row_in_flight_to_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = "key_by and map"

    def changed(numbers: DataStream, others: DataStream, run: str) -> DataStream:
        numbers.key_by("key").map(Passed("reader")).uid("reader").sink_to(DiscardSink()).uid("end of reader")
        return former(numbers, others, run)

    former = EXCHANGES[exchange]
    # From this seed on rows are on their way out of the task that gets the reader.
    second = goes_on(exchange, 2, 3, seed + 8, lambda: monkeypatch.setitem(EXCHANGES, exchange, changed))
    assert sorted(SEEN[second].counted) == [(key, ROWS // KEYS) for key in range(KEYS)], "no row is lost or doubled"
