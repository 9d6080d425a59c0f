"""Jobs that are stopped and go on with more or fewer subtasks, another state backend, and rows in flight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.checkpoints.storage.metadata import find_latest, load
from actors.protocol.checkpoint_handles import PartKind
from flinkray import ExternalizedCheckpointRetention, JobStatus
from tests.support.saved_jobs import (
    Env,
    committed,
    count_windows,
    everything,
    expected,
    expected_counts,
    local,
    started,
)
from tests.support.waiting import eventually

ROWS = 3_000
ROWS_PER_SECOND = 500
ROWS_PER_RUN = 150


def check_same(found: Counter[Any], wanted: Counter[Any]) -> None:
    missing, extra = wanted - found, found - wanted
    assert (missing, extra) == (Counter(), Counter())


def run_in_parts(
    directory: Path,
    parallelisms: tuple[int, ...],
    backends: tuple[str, ...] = ("hashmap",),
    program: Callable[[Env, Path, int, float | None], None] = everything,
    **first: object,
) -> None:
    """Each part goes on from the savepoint that the one before was stopped with; the last one to the end.

    Args:
        first: further options of the first part.
    """
    saved = None
    rows_then = 0
    for index, parallelism in enumerate(parallelisms):
        is_last = index == len(parallelisms) - 1
        options = first if saved is None else {}
        env = local(parallelism, saved, **{"state.backend.type": backends[index % len(backends)]}, **options)
        env.enable_checkpointing("50 ms")
        program(env, directory / "rows", ROWS, None if is_last else ROWS_PER_SECOND)
        if is_last:
            env.execute()
        else:
            with started(env, ROWS_PER_RUN) as client:
                saved = client.stop_with_savepoint(str(directory / "savepoints"), timeout=30)
                assert client.status() is JobStatus.FINISHED
        rows_now = sum(1 for kind, *_ in committed(directory / "rows").elements() if kind == "row")
        assert rows_then + ROWS_PER_RUN <= rows_now, "each part commits what it has read"
        assert (rows_now == ROWS) == is_last, "it was stopped in the middle"
        rows_then = rows_now


def test_a_job_that_nobody_stops_gives_what_plain_loops_give(tmp_path: Path) -> None:
    env = local(2)
    env.enable_checkpointing("50 ms")
    everything(env, tmp_path, ROWS, None)
    env.execute()
    check_same(committed(tmp_path), expected(ROWS))


@pytest.mark.parametrize("parallelisms", [(1, 4, 2, 3), (3, 1, 4, 2)], ids=str)
def test_a_job_that_goes_on_with_other_numbers_of_subtasks_gives_what_an_undisturbed_one_gives(
    tmp_path: Path, parallelisms: tuple[int, ...]
) -> None:
    run_in_parts(tmp_path, parallelisms)
    check_same(committed(tmp_path / "rows"), expected(ROWS))


def test_a_job_that_sets_no_max_parallelism_has_that_of_its_savepoint(tmp_path: Path) -> None:
    """As one at another parallelism must, of which another max parallelism would be made."""
    run_in_parts(tmp_path, (2, 3, 1), **{"pipeline.max-parallelism": 60})
    check_same(committed(tmp_path / "rows"), expected(ROWS))


def test_count_windows_go_on_with_the_rows_that_they_had_at_other_numbers_of_subtasks(tmp_path: Path) -> None:
    run_in_parts(tmp_path, (1, 2, 3, 1), ("hashmap", "rocksdb"), count_windows)
    check_same(committed(tmp_path / "rows"), expected_counts(ROWS))


def test_a_job_that_goes_on_with_another_state_backend_and_back_gives_what_an_undisturbed_one_gives(
    tmp_path: Path,
) -> None:
    run_in_parts(tmp_path, (2, 3, 1), ("hashmap", "rocksdb", "hashmap"))
    check_same(committed(tmp_path / "rows"), expected(ROWS))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_rows_in_flight_go_to_their_new_subtasks(tmp_path: Path, backend: str) -> None:
    """Cancelled under back-pressure, the job leaves a checkpoint that holds rows which no operator has seen."""
    options: dict[str, object] = {"state.backend.type": backend}
    env = local(2, None, **options, **{"execution.checkpointing.dir": str(tmp_path / "checkpoints")})
    config = env.enable_checkpointing("50 ms").get_checkpoint_config()
    config.enable_unaligned_checkpoints()
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    everything(env, tmp_path / "rows", ROWS, None, pause_s=0.001)
    with started(env, 100) as client:
        eventually(client.checkpoints, lambda overview: any(has_rows(each) for each in overview.history))
        client.cancel()
        eventually(client.status, lambda status: status is JobStatus.CANCELED)
        saved = find_latest(str(tmp_path / "checkpoints" / client.job_id))
    parts = [
        part for state in load(saved).operators.values() for each in state.subtasks.values() for part in each.parts
    ]
    assert any(part.kind is PartKind.IN_FLIGHT for part in parts)
    assert sum(committed(tmp_path / "rows").values()) < sum(expected(ROWS).values())

    env = local(3, saved, **options)
    env.enable_checkpointing("50 ms")
    everything(env, tmp_path / "rows", ROWS, None)
    env.execute()
    check_same(committed(tmp_path / "rows"), expected(ROWS))


def has_rows(checkpoint: Any) -> bool:
    return checkpoint.ended_ms is not None and checkpoint.failure is None and checkpoint.in_flight_bytes > 0
