"""Programs that go on from a savepoint or a checkpoint, and take the rest of their rows to the driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkray import Configuration, DataStream, DiscardSink, StreamExecutionEnvironment
from flinkray.execution import JobStatus
from tests.support.waiting import eventually

ROWS = 400
TAKEN: dict[str, Callable[[DataStream], list[int]]] = {
    "execute_and_collect": lambda stream: list(stream.execute_and_collect()),
    "to_arrow": lambda stream: stream.to_arrow()["value"].to_pylist(),
    "to_pandas": lambda stream: stream.to_pandas()["value"].tolist(),
}


def slow(processed: Path) -> Callable[[int], int]:
    """Writes down what it has processed."""

    def process(value: int) -> int:
        # Those in the middle of each subtask's rows take so long that a job which is to be stopped is not at its end.
        time.sleep(0.004 if value % (ROWS // 2) < ROWS // 8 else 0.1)
        with processed.open("a") as file:
            file.write(f"{value}\n")
        return value

    return process


def same(value: int) -> int:
    return value


def program(function: Callable[[int], int], parallelism: int, options: dict[str, Any]) -> tuple[Any, DataStream]:
    settings = {"execution.target": "local", "parallelism.default": parallelism, "flinkray.batch.target-rows": 5}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({**settings, **options}))
    return env, env.from_sequence(0, ROWS - 1).uid("source").map(function, output_type=int).uid("map")


def checkpoints(directory: Path) -> dict[str, Any]:
    return {
        "execution.checkpointing.interval": 20,
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "retain-on-cancellation",
    }


def stopped(directory: Path, kind: str) -> str:
    """Where a job has left its state that processed some of the rows, and discarded them."""
    env, stream = program(slow(directory / "processed"), 2, checkpoints(directory))
    stream.sink_to(DiscardSink())
    job = env.execute_async("first")
    try:
        eventually(lambda: job.checkpoints().counts.completed > 1)
        if kind == "savepoint":
            return str(job.stop_with_savepoint(str(directory / "savepoints")))
        job.cancel()
        eventually(lambda: job.status() is JobStatus.CANCELED)
    finally:
        job.close()
    return max((directory / "checkpoints").glob("*/chk-*"), key=lambda path: int(path.name[4:])).as_uri()


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("has_checkpoints", [True, False])
@pytest.mark.parametrize(
    ("kind", "taken"), [("savepoint", "execute_and_collect"), ("checkpoint", "to_arrow"), ("savepoint", "to_pandas")]
)
def test_a_program_that_goes_on_collects_the_rest_of_its_rows(
    tmp_path: Path, kind: str, taken: str, has_checkpoints: bool, parallelism: int
) -> None:
    saved = stopped(tmp_path, kind)
    options = {"execution.state-recovery.path": saved, "restart-strategy.type": "none"}
    _, stream = program(same, parallelism, options | (checkpoints(tmp_path) if has_checkpoints else {}))
    rows = sorted(TAKEN[taken](stream))
    assert rows == sorted(set(rows)), "no row comes twice"
    rest = sorted(set(range(ROWS)) - set(map(int, (tmp_path / "processed").read_text().split())))
    assert rest
    assert rows == rest if kind == "savepoint" else set(rest) <= set(rows)
