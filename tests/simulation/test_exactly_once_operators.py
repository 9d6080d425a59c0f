"""Jobs with operators of every kind, to which things happen: what they commit in the end is what plain loops give."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from actors.hosts.simulation.faults import NO_FAULTS, NODE, Faults, StorageFaults
from flinkray.execution import JobStatus
from tests.support.exactly_once import ExactlyOnceJob
from tests.support.operator_jobs import OPERATOR_KINDS, SCALABLE_KINDS, OperatorJob
from tests.support.simulated_savepoints import run_in_parts
from tests.support.simulation import LARGE_BATCHES, SLOW_STEP_MS, firing_in_pieces, in_pieces, run_committing

WINDOW_KINDS = ("session_columnar", "session_process", "sliding_columnar", "sliding_general", "all_windows")

FIRING_KINDS = (
    "session_dynamic",
    "session_reduce",
    "session_process",
    "sliding_general",
    "counting_trigger",
    "window_state",
    "late_rows",
    "evictor",
    "all_windows",
    "session_co_group",
    "connected",
    "buckets",
    "async_in_order",
)
"""Those in which functions are called when the watermark rises, or results of calls come."""

# A process that is killed ends no coroutine, not even one that has not begun.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

WORKERS = {"TaskSlot": 0.001, "TaskExecutor": 0.0003, NODE: 0.0003}
MASTERS = {"JobMaster": 0.0004, "Dispatcher": 0.0002, "ResourceManager": 0.0002}
EVERYTHING = Faults(
    kills={**WORKERS, **MASTERS},
    pauses=WORKERS,
    pause_ms=(100.0, 60_000.0),
    payload_loss=0.01,
    storage=StorageFaults(fails=0.005, lies=0.005, tears=0.005, crashes=0.005, slow=0.1),
    limit=6,
)


def some_kind(seed: int, purpose: str, among: Sequence[str] = OPERATOR_KINDS) -> str:
    """Of neighbouring seeds, different ones."""
    kinds = list(among)
    random.Random(f"{purpose} {seed // len(kinds)}").shuffle(kinds)
    return kinds[seed % len(kinds)]


def check(kind: str, seed: int, faults: Faults, step_ms: float | None = None) -> None:
    job = OperatorJob(seed, kind=kind)
    outcome = run_committing(job, seed, faults, step_ms=step_ms)
    assert outcome.status is JobStatus.FINISHED, f"{job}: {outcome.status}, {outcome.error}, {outcome.faults}"
    assert_committed(job)


def assert_committed(job: ExactlyOnceJob) -> None:
    committed = job.committed()
    assert committed == job.expected, f"{job}: {job.expected - committed} missing, {committed - job.expected} too much"


@pytest.mark.seeds(1)
def test_operators_that_nothing_happens_to_commit_every_row_once(seed: int) -> None:
    check(some_kind(seed, "undisturbed"), seed, NO_FAULTS)


@pytest.mark.seeds(1)
@pytest.mark.parametrize("kind", OPERATOR_KINDS)
def test_operators_that_lose_workers_commit_every_row_once(kind: str, seed: int) -> None:
    check(kind, seed, Faults(kills=WORKERS))


@pytest.mark.seeds(4)
def test_barriers_come_between_what_one_watermark_fires(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    firing_in_pieces(monkeypatch, seed)
    check(some_kind(seed, "pieces", FIRING_KINDS), seed, Faults(kills=WORKERS), SLOW_STEP_MS)


@pytest.mark.seeds(2)
def test_what_has_not_fired_fires_in_more_or_fewer_subtasks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    firing_in_pieces(monkeypatch, seed)
    check_rescaled(some_kind(seed, "pieces rescaled", FIRING_KINDS), seed, step_ms=SLOW_STEP_MS)


@pytest.mark.seeds(2)
def test_operators_to_which_everything_happens_commit_every_row_once(seed: int) -> None:
    check(some_kind(seed, "everything"), seed, EVERYTHING)


@pytest.mark.seeds(2)
def test_operators_that_are_stopped_and_go_on_with_more_or_fewer_subtasks_commit_every_row_once(seed: int) -> None:
    check_rescaled(some_kind(seed, "rescaled", SCALABLE_KINDS), seed)


@pytest.mark.seeds(2)
def test_splits_far_apart_in_event_time_go_on_in_more_or_fewer_subtasks(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A savepoint has rests of batches, which come in pieces: none is late beside a split that is ahead."""
    in_pieces(monkeypatch, seed)
    check_rescaled(some_kind(seed, "apart", WINDOW_KINDS), seed, skew_ms=100_000)


def check_rescaled(kind: str, seed: int, skew_ms: int = 0, step_ms: float | None = None) -> None:
    chance = random.Random(f"rescaled {seed}")
    # Some kinds take more than the 2 s that some jobs give a savepoint where each step is slow.
    patience = {"execution.checkpointing.timeout": 30_000} if step_ms is not None else {}

    def make(before: ExactlyOnceJob | None, saved: str) -> OperatorJob:
        options = {
            **(LARGE_BATCHES if skew_ms else {}),
            **patience,
            "parallelism.default": 2 if skew_ms and before is None else chance.randint(1, 3),
            "state.backend.type": chance.choice(["hashmap", "rocksdb"]),
            "execution.state-recovery.path": saved,
            "execution.checkpointing.dir": f"memory://job-{seed}/checkpoints {len(saved) and chance.random()}",
        }
        return OperatorJob(seed, kind=kind, options=options, before=before, skew_ms=skew_ms)

    job, outcomes = run_in_parts(make, 3, seed, Faults(kills=WORKERS), step_ms or (SLOW_STEP_MS if skew_ms else None))
    assert outcomes[-1].status is JobStatus.FINISHED, f"{job}: {outcomes[-1].error}, {outcomes[-1].faults}"
    assert_committed(job)
