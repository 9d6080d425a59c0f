"""Jobs that get another parallelism while they run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    DataGenSource,
    DiscardSink,
    InvalidProgramError,
    MapFunction,
    SequenceField,
    WatermarkStrategy,
)
from tests.local.test_rescaling import check_same
from tests.support.saved_jobs import committed, everything, expected, local, started
from tests.support.waiting import eventually

ROWS = 3_000
ROWS_PER_SECOND = 500


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_that_is_rescaled_while_it_runs_gives_what_an_undisturbed_one_gives(tmp_path: Path, backend: str) -> None:
    env = local(2, None, **{"state.backend.type": backend})
    env.enable_checkpointing("50 ms")
    all_may_come = tmp_path / "all may come"
    everything(env, tmp_path / "rows", ROWS, ROWS_PER_SECOND, until=all_may_come)
    with started(env, 150) as client:
        for parallelism in (4, 1, 3):
            now = client.rescale(parallelism, timeout=30)
            assert max(now.values()) == parallelism
            assert {v.vertex_id: v.parallelism for v in client.details().vertices} == now
        all_may_come.touch()
        client.result(60)
    check_same(committed(tmp_path / "rows"), expected(ROWS))


AUTOSCALED = {
    "job.autoscaler.enabled": True,
    "job.autoscaler.metrics.window": "1 s",
    "job.autoscaler.stabilization.interval": "100 ms",
    "job.autoscaler.scale-down.interval": "0 s",
    "job.autoscaler.scale-down.max-factor": 1.0,
    "job.autoscaler.restart.time": "0 s",
    "metrics.fetcher.update-interval": "100 ms",
}


class Costly(MapFunction):
    """Takes 16 ms for each row as long as a file is there."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def map(self, value: Any) -> Any:
        if self._file.exists():
            threading.Event().wait(0.016)
        return value


def test_a_job_that_follows_its_load_gets_more_subtasks_and_then_fewer(tmp_path: Path) -> None:
    """Of 100 rows per second, each takes 16 ms first: 1.6 subtasks would be busy all the time. Then nearly none."""
    cost, rows = tmp_path / "cost", 200_000
    cost.touch()
    env = local(1, None, **AUTOSCALED)
    env.enable_checkpointing("100 ms")
    source = DataGenSource({"n": SequenceField()}, rows, rows_per_second=100)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(1)
    stream.rebalance().map(Costly(cost)).name("costly").sink_to(DiscardSink())
    client = env.execute_async("autoscaled")

    def subtasks() -> dict[str, int]:
        return {vertex.name.split(" -> ")[0]: vertex.parallelism for vertex in client.details().vertices}

    try:
        eventually(subtasks, lambda numbers: numbers["costly"] >= 2, deadline_s=60)
        cost.unlink()
        eventually(subtasks, lambda numbers: numbers["costly"] == 1, deadline_s=60)
    finally:
        client.close()


def test_a_job_without_checkpoints_cannot_follow_its_load() -> None:
    env = local(1, None, **{"job.autoscaler.enabled": True})
    env.from_sequence(0, 9).sink_to(DiscardSink())
    with pytest.raises(InvalidProgramError, match=r"'job.autoscaler.enabled' rescales the job, .* takes none"):
        env.execute()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"utilization.target": 70}, r"'job.autoscaler.utilization.target' must be above 0 and at most 1, got 70"),
        (
            {"utilization.min": 0.9},
            r"'job.autoscaler.utilization.min' is 0.9, and above 'job.autoscaler.util.*target', 0.7",
        ),
        ({"vertex.min-parallelism": 8, "vertex.max-parallelism": 4}, r"min-parallelism' is 8, and above .*, 4"),
    ],
)
def test_options_of_the_autoscaler_that_contradict_each_other_are_refused(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        run_autoscaled({f"job.autoscaler.{key}": value for key, value in options.items()})


def run_autoscaled(options: dict[str, object]) -> None:
    env = local(1, None, **{"job.autoscaler.enabled": True, **options})
    env.enable_checkpointing("100 ms")
    env.from_sequence(0, 9).sink_to(DiscardSink())
    env.execute()


def test_a_job_whose_other_source_has_come_to_its_end_follows_its_load(tmp_path: Path) -> None:
    cost = tmp_path / "cost"
    cost.touch()
    env = local(1, None, **AUTOSCALED)
    env.enable_checkpointing("100 ms")
    source = DataGenSource({"n": SequenceField()}, 200_000, rows_per_second=100)
    endless = env.from_source(source, WatermarkStrategy.no_watermarks(), "endless").set_parallelism(1)
    few = DataGenSource({"n": SequenceField()}, 3)
    ended = env.from_source(few, WatermarkStrategy.no_watermarks(), "few").set_parallelism(1)
    endless.rebalance().union(ended.rebalance()).map(Costly(cost)).name("costly").sink_to(DiscardSink())
    client = env.execute_async("autoscaled")
    try:
        eventually(lambda: max(client.details().parallelisms.values()), lambda number: number >= 2, deadline_s=60)
    finally:
        client.close()
