"""Jobs that get another parallelism while they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.test_rescaling import check_same
from tests.support.saved_jobs import committed, everything, expected, local, started

ROWS = 3_000
ROWS_PER_SECOND = 500


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_that_is_rescaled_while_it_runs_gives_what_an_undisturbed_one_gives(tmp_path: Path, backend: str) -> None:
    env = local(2, None, **{"state.backend.type": backend})
    env.enable_checkpointing("50 ms")
    everything(env, tmp_path / "rows", ROWS, ROWS_PER_SECOND)
    with started(env, 150) as client:
        for parallelism in (4, 1, 3):
            now = client.rescale(parallelism, timeout=30)
            assert max(now.values()) == parallelism
            assert {v.vertex_id: v.parallelism for v in client.details().vertices} == now
        client.result(60)
    check_same(committed(tmp_path / "rows"), expected(ROWS))
