"""Rows for the driver in Ray's object store: a slot that is killed takes none of its committed blocks along."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from actors.blocks.sink import BlockSink, committed
from flinkray import DataGenSource, MapFunction, RestartStrategies, SequenceField, WatermarkStrategy
from tests.support.jobs import environment

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300), pytest.mark.usefixtures("ray_cluster")]

ROWS = 3_000


class KillsItsSlot(MapFunction):
    """At each of these rows, the first time that it sees one."""

    def __init__(self, directory: Path, rows: tuple[int, ...]) -> None:
        self.directory = directory
        self.rows = rows

    def map(self, value: Any) -> int:
        if value.n in self.rows:
            marker = self.directory / f"killed-{value.n}"
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return int(value.n)


def test_blocks_survive_the_slots_that_wrote_them_and_count_once(tmp_path: Path) -> None:
    from actors.hosts.ray.datasets.block_store import RayBlockStore

    store = RayBlockStore.create(outlives_driver=False)
    env = environment(target="ray").set_parallelism(2)
    env.enable_checkpointing("200 ms")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(10, "10 ms"))
    source = DataGenSource({"n": SequenceField()}, rows=ROWS, rows_per_second=1_500)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    rows.map(KillsItsSlot(tmp_path, (1_000,))).sink_to(BlockSink(store))
    env.execute()
    try:
        blocks = [block for committable in committed(store) for block in committable.blocks]
        found = sorted(value for block in blocks for value in store.get(block.block_id).column(0).to_pylist())
        assert found == list(range(ROWS))
        assert len(list(tmp_path.glob("killed-*"))) == 1
    finally:
        store.close()
