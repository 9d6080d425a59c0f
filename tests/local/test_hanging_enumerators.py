"""An enumerator that blocks: its job can be looked at, cancelled, and goes on where it comes to itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from flinkray import (
    Configuration,
    DataGenSource,
    JobStatus,
    SplitEnumerator,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from tests.support.waiting import eventually

RELEASED = threading.Event()
DEADLINE_S = 20.0


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    RELEASED.clear()
    yield
    RELEASED.set()


class HangingAtTheStart(DataGenSource):
    def create_enumerator(self, context: Any, restored: Any = None) -> SplitEnumerator:
        RELEASED.wait()
        return super().create_enumerator(context, restored)


class HangingInSnapshots(DataGenSource):
    def create_enumerator(self, context: Any, restored: Any = None) -> SplitEnumerator:
        enumerator = super().create_enumerator(context, restored)
        snapshot = enumerator.snapshot_state

        def hang(checkpoint_id: int) -> Any:
            RELEASED.wait()
            return snapshot(checkpoint_id)

        enumerator.snapshot_state = hang  # type: ignore[method-assign]
        return enumerator


CLOSED: list[str] = []


class Closing(DataGenSource):
    def create_enumerator(self, context: Any, restored: Any = None) -> SplitEnumerator:
        enumerator = super().create_enumerator(context, restored)
        enumerator.close = lambda: CLOSED.append(threading.current_thread().name)  # type: ignore[method-assign]
        return enumerator


def rows_of(source: DataGenSource, **options: object) -> Any:
    settings = {"execution.target": "local", "parallelism.default": 1, **options}
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration(settings))
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "hanging")
    stream.map(lambda row: row).print()
    return environment.execute_async("hanging")


def numbers(kind: type[DataGenSource], rows: int, **options: Any) -> DataGenSource:
    return kind({"n": lambda n: n}, rows, **options)


def test_a_job_whose_enumerator_hangs_at_the_start_is_running_and_can_be_cancelled() -> None:
    with closing(rows_of(numbers(HangingAtTheStart, 10))) as client:
        eventually(client.status, lambda status: status is JobStatus.RUNNING, DEADLINE_S)
        client.cancel()
        eventually(client.status, lambda status: status is JobStatus.CANCELED, DEADLINE_S)
        RELEASED.set()


def test_a_job_whose_enumerator_hangs_for_a_while_goes_on_then() -> None:
    with closing(rows_of(numbers(HangingAtTheStart, 10))) as client:
        eventually(client.status, lambda status: status is JobStatus.RUNNING, DEADLINE_S)
        RELEASED.set()
        client.result(timeout=DEADLINE_S)


def test_an_enumerator_is_closed_in_its_thread_before_its_job_is_over() -> None:
    CLOSED.clear()
    with closing(rows_of(numbers(Closing, 10))) as client:
        client.result(timeout=DEADLINE_S)
        assert len(CLOSED) == 1
        assert CLOSED[0].endswith(" coordinator of Source: hanging"), CLOSED


def test_checkpoints_of_a_job_whose_enumerator_hangs_expire_and_complete_again_later() -> None:
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.timeout": "100 ms",
        "execution.checkpointing.tolerable-failed-checkpoints": 1_000_000,
    }
    job = rows_of(numbers(HangingInSnapshots, 10_000_000, rows_per_second=100), **options)
    with closing(job) as client:
        eventually(lambda: client.checkpoints().counts, lambda counts: counts.failed >= 2, DEADLINE_S)
        assert client.checkpoints().counts.completed == 0
        RELEASED.set()
        eventually(lambda: client.checkpoints().counts, lambda counts: counts.completed >= 2, DEADLINE_S)
        client.cancel()
        eventually(client.status, lambda status: status is JobStatus.CANCELED, DEADLINE_S)
