"""How a row of W2d travels, and what each step costs: prints CPU time per batch and per row.

    python -m benchmarks.steps [--batches 100] [--ray]

Each step on its own in one thread, on the batches that W2d makes at parallelism 2. Behind the local phase they have
one row per key and window; what is printed is per row of the source. With `--ray` also what it costs all processes of a
cluster of one node to move frames of several sizes from one actor to another.
"""

from __future__ import annotations

import argparse
import pickle
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from actors.network.flow.buffers import Coalescer
from actors.network.producer.partitioners import create_selector
from actors.operators.contract.operator import Operator
from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.operators.windows.aligned.local_operator import LocalWindowAggregateOperator
from actors.tasks.memory import keep_freed_memory
from actors.testing.context import HarnessContext
from benchmarks.counting_output import RowCountingOutput
from benchmarks.definitions import DISORDER_MS, ROWS_PER_MS
from benchmarks.process_tree import TreeSampler
from benchmarks.workloads.base import FIELDS, WINDOWS
from flinkray.batches.batch import Batch
from flinkray.connectors.datagen.source import DataGenSource
from flinkray.transformations.operator_factories import LocalWindowAggregateFactory, WindowFactory
from flinkray.transformations.partitioning import KeyGroupPartitioner
from flinkray.types.keys import ColumnKey
from flinkray.types.records import Kind, Timestamp
from flinkray.windows.aggregates import Count, Sum

BATCH_ROWS = 131_072
CHANNELS = 2
BATCHES = 4
"""The number of batches of a source subtask that go into a window."""
KEY = ColumnKey(("k",))
FRAMES_MIB = (1, 4, 8, 16)
BYTES_PER_FRAME_TEST = 400 << 20


def measured(make: Callable[[int], Any], step: Callable[[Any], object], batches: int) -> float:
    """CPU seconds per batch of `step`, the median of the batches; what `make` takes is not in it."""
    took = []
    for number in range(batches):
        given = make(number)
        started = time.thread_time()
        step(given)
        took.append(time.thread_time() - started)
    return float(np.median(took))


def row_numbers(number: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The row numbers of a source's batch: every second one is the other subtask's."""
    return np.arange(number * BATCH_ROWS, (number + 1) * BATCH_ROWS, dtype=np.int64) * CHANNELS


def generated(number: int) -> Batch:
    fields = {**FIELDS, "ts": lambda row: row // ROWS_PER_MS["W2d"]}
    data = DataGenSource(fields)._batch(row_numbers(number))
    return Batch(data, Kind.ROW, data.column("ts"))


class Steps:
    """The steps of one source subtask, and of the window subtask behind it that gets half of two sources' rows."""

    def __init__(self) -> None:
        partitioner = KeyGroupPartitioner(KEY, 128)
        self.selector = create_selector(partitioner, CHANNELS, random.Random(0), "steps")
        self.coalescer = Coalescer(BATCH_ROWS, 1 << 20)
        window = WindowFactory(WINDOWS, (("total", Sum("v")), ("n", Count())))
        self.sent = LastOutput()
        self.local = _set_up(LocalWindowAggregateOperator(LocalWindowAggregateFactory(window, KEY)), self.sent)
        self.window = _set_up(ColumnarWindowOperator(window), RowCountingOutput())

    def aggregated(self, number: int) -> Batch:
        """The rows of a source in a window as they come to the exchange."""
        for index in range(BATCHES):
            self.local.process_batch(generated(number * BATCHES + index))
        self.local.prepare_barrier(0)
        return self.sent.batch

    def part(self, number: int) -> Batch:
        """What one source sends one window subtask of them."""
        return dict(self.selector.split(self.aggregated(number)))[0]

    def pickled(self, batch: Batch) -> tuple[bytes, list[pickle.PickleBuffer]]:
        buffers: list[pickle.PickleBuffer] = []
        return pickle.dumps(batch, protocol=5, buffer_callback=buffers.append), buffers

    def fire(self, batch: Batch) -> None:
        self.window.on_watermark(Timestamp(_highest(batch) - DISORDER_MS))


class LastOutput(RowCountingOutput):
    """Keeps the last batch."""

    batch: Batch

    def emit(self, batch: Batch) -> None:
        self.batch = batch


def _set_up(operator: Operator, output: RowCountingOutput) -> Operator:
    operator.setup(HarnessContext(keys=(KEY,)), output)
    return operator


def report(name: str, seconds: float, rows: int) -> None:
    print(f"{name:48} {seconds * 1e6:8.0f} us per batch {seconds / rows * 1e9:7.1f} ns per row")


def local_steps(batches: int) -> None:
    steps = Steps()
    window = BATCHES * BATCH_ROWS
    half = window // CHANNELS
    report("source: makes 128 Ki rows of three columns", measured(row_numbers, _made, batches), BATCH_ROWS)
    report("watermark: the highest event time", measured(generated, _highest, batches), BATCH_ROWS)
    added = measured(generated, steps.local.process_batch, batches)
    report("local phase: added to the groups of their window", added, BATCH_ROWS)
    split = measured(steps.aggregated, lambda batch: list(steps.selector.split(batch)), batches)
    report("split of the groups by key group into 2", split, window)
    report("buffer: a part waits for others", measured(steps.part, steps.coalescer.add, batches), half)
    written = measured(steps.part, steps.pickled, batches)
    report("written down (plain columns are not copied)", written, half)
    read = measured(lambda number: steps.pickled(steps.part(number)), _read, batches)
    report("read again (in place)", read, half)
    merged = measured(steps.part, steps.window.process_batch, batches)
    report("window: merged into accumulators", merged, half)
    report("window: what the watermark fires", measured(steps.part, steps.fire, batches), half)


def _read(pickled: tuple[bytes, list[pickle.PickleBuffer]]) -> None:
    pickle.loads(pickled[0], buffers=pickled[1])


def _made(rows: Any) -> Batch:
    return generated(int(rows[0]) // CHANNELS // BATCH_ROWS)


def _highest(batch: Batch) -> int:
    return int(batch.timestamps.to_numpy().max()) if batch.timestamps is not None else 0


def ray_steps() -> None:
    """CPU time of all processes per frame."""
    import ray

    from actors.hosts.ray.cluster import ensure_ray

    sampler = TreeSampler()
    ensure_ray()  # as for jobs: one that is started here frees objects at once, and their memory is used again
    receiver = ray.remote(num_cpus=0)(_FrameReceiver).remote()
    sender = ray.remote(num_cpus=0)(_FrameSender).remote(receiver)
    for mib in FRAMES_MIB:
        ray.get(sender.send.remote(mib, 3), timeout=60)
        count = BYTES_PER_FRAME_TEST // (mib << 20)
        sampler.sample()
        before, started = sampler.cpu_s, time.monotonic()
        ray.get(sender.send.remote(mib, count), timeout=300)
        wall = time.monotonic() - started
        sampler.sample()
        cpu_ms = (sampler.cpu_s - before) / count * 1e3
        print(
            f"Ray: a frame of {mib} MiB to another actor: {cpu_ms:5.1f} ms of CPU in all processes, "
            f"{cpu_ms / mib:4.1f} ms per MiB; {wall / count * 1e3:5.1f} ms apart"
        )
    ray.shutdown()


class _FrameReceiver:
    """Takes frames, and keeps none."""

    def receive(self, *payloads: Any) -> None: ...


class _FrameSender:
    """Sends frames as a slot does: put, then a call with the reference; a few calls are under way at a time."""

    def __init__(self, receiver: Any) -> None:
        self._receiver = receiver

    def send(self, mib: int, count: int) -> None:
        import ray

        values = pa.array(np.arange((mib << 20) // 8))
        batch = Batch(pa.RecordBatch.from_arrays([values], names=["value"]))
        calls: list[Any] = []
        for _ in range(count):
            calls.append(self._receiver.receive.remote(ray.put((batch,))))
            if len(calls) > 4:
                ray.get(calls.pop(0))
        ray.get(calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--ray", action="store_true", help="also what frames cost on a local Ray cluster")
    given = parser.parse_args()
    keep_freed_memory()  # as every task does
    local_steps(given.batches)
    if given.ray:
        ray_steps()


if __name__ == "__main__":
    main()
