"""Checkpoints that a program cannot start from, and stores that cannot be written: one clear error, nothing touched."""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.checkpoints.storage.metadata import load
from actors.protocol.checkpoint_handles import FileState
from flinkray import (
    CheckpointStatus,
    FileSink,
    FileSource,
    FlinkrayError,
    InvalidProgramError,
    JobCanceledError,
    JobExecutionError,
    JobStatus,
    KeyedProcessFunction,
    MapFunction,
    RestartStrategies,
    Row,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from tests.support.jobs import environment
from tests.support.saved_jobs import Env, committed, keys_of, listing, local, numbered, started
from tests.support.troubled_storage import TroubledStorage, mounted
from tests.support.waiting import eventually

ROWS = 2_000
COUNTED = pa.schema([("key", pa.int64()), ("n", pa.int64()), ("count", pa.int64())])


class Counted(KeyedProcessFunction):
    """Adds to each row its number within its key."""

    def __init__(self, state_type: type = int) -> None:
        self.state_type = state_type

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", self.state_type))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = int(self.count.value() or 0) + 1
        self.count.update(self.state_type(count))
        yield Row(key=value.key, n=value.n, count=count)


def counting(
    env: Env,
    directory: Path,
    rate: float | None = None,
    *,
    ends: tuple[str, str] = ("numbers", "files"),
    uids: tuple[str | None, ...] = ("counted",),
    hashes: tuple[str, ...] = (),
    state_type: type = int,
    before: MapFunction | None = None,
    until: Path | None = None,
) -> None:
    """numbers -> as many counting functions as there are uids (the last one counts for the result) -> files.

    Args:
        ends: uids of the first and the last operator.
        until: a file without which a job that has a rate does not end.
    """
    stream = numbered(env, ROWS, rate, until).uid(ends[0])
    if before is not None:
        stream = stream.map(before)
    for index, uid in enumerate(uids):
        stream = stream.key_by("key").process(Counted(state_type), output_type=COUNTED).name(f"count {index}")
        if uid is not None:
            stream = stream.uid(uid)
        if hashes:
            stream = stream.set_uid_hash(hashes[index])
    stream.sink_to(FileSink(directory)).uid(ends[1])


def expected() -> Counter[Any]:
    seen: Counter[int] = Counter()
    rows = []
    for n in range(ROWS):
        key = int(keys_of(n))
        seen[key] += 1
        rows.append((key, n, seen[key]))
    return Counter(rows)


def saved_by(directory: Path, **program: Any) -> str:
    """A savepoint in the middle; what the job had committed by then is in `directory`/rows."""
    env = local(1, **{"pipeline.max-parallelism": 128})
    env.enable_checkpointing("1 h")
    counting(env, directory / "rows", 500, **program)
    with started(env, 50) as client:
        return client.stop_with_savepoint(str(directory / "savepoints"), timeout=30)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with rows and a savepoint of two counting functions."""
    directory = tmp_path_factory.mktemp("origin")
    saved_by(directory, uids=("first", "counted"))
    return directory


@pytest.fixture
def place(origin: Path, tmp_path: Path) -> Path:
    """A copy for one test."""
    shutil.copytree(origin, tmp_path, dirs_exist_ok=True)
    return tmp_path


def savepoint_in(place: Path) -> Path:
    (found,) = (place / "savepoints").iterdir()
    return found


BOTH: tuple[str | None, ...] = ("first", "counted")


def refused(place: Path, saved: Path | str, options: dict[str, object] | None = None, **program: Any) -> str:
    """The error of a job that cannot start from it; it does not try again, and changes nothing."""
    before = listing(place)
    settings = {"restart-strategy.type": "default", "pipeline.max-parallelism": 128, **(options or {})}
    env = local(1, str(saved), **settings)
    env.enable_checkpointing("1 h")
    counting(env, place / "rows", **{"uids": BOTH, **program})
    client = env.execute_async("refused")
    try:
        with pytest.raises(JobExecutionError) as failure:
            client.result(timeout=20)
    finally:
        client.close()
    assert listing(place) == before
    text = str(failure.value)
    assert text.startswith("job 'refused' failed: ")
    return text


def goes_on(place: Path, options: dict[str, object] | None = None, **program: Any) -> None:
    env = local(1, str(savepoint_in(place)), **{"pipeline.max-parallelism": 128, **(options or {})})
    env.enable_checkpointing("1 h")
    counting(env, place / "rows", **{"uids": BOTH, **program})
    env.execute()


# -- changed programs --------------------------------------------------------------------------------------------


def test_state_of_an_operator_that_is_gone_is_left_behind_only_where_that_is_allowed(place: Path) -> None:
    saved = savepoint_in(place)
    error = refused(place, saved, uids=("counted",))
    for part in (str(saved), "operator 'count 0' (uid 'first')", "execution.state-recovery.ignore-unclaimed-state"):
        assert part in error
    goes_on(place, {"execution.state-recovery.ignore-unclaimed-state": True}, uids=("counted",))
    assert committed(place / "rows") == expected()


def test_a_new_operator_starts_without_state(place: Path) -> None:
    goes_on(place, uids=("first", "new", "counted"))
    assert committed(place / "rows") == expected()


def test_another_max_parallelism_is_refused_by_both_numbers(place: Path) -> None:
    error = refused(place, savepoint_in(place), {"pipeline.max-parallelism": 64})
    assert re.search(r"operator 'count \d' cannot start from savepoint", error)
    for part in ("max parallelism 128, the program has 64", "set_max_parallelism(128)", str(savepoint_in(place))):
        assert part in error


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_whose_type_has_changed_is_refused_by_its_name_and_both_types(place: Path, backend: str) -> None:
    error = refused(place, savepoint_in(place), {"state.backend.type": backend}, state_type=str)
    for part in ("operator 'count ", "state 'count' was saved with", "int", "string", "keep the old type"):
        assert part in error


def test_an_operator_without_uid_that_has_moved_is_found_by_its_former_id(tmp_path: Path) -> None:
    saved = Path(saved_by(tmp_path, uids=(None,)))
    moved: dict[str, Any] = {"before": Same(), "uids": (None,)}
    (found,) = (state for state in load(str(saved)).operators.values() if state.name == "count 0")
    error = refused(tmp_path, saved, **moved)
    for part in (str(saved), f"operator 'count 0' (id {found.operator_id})", "uid_hash"):
        assert part in error
    goes_on(tmp_path, **moved, hashes=(found.operator_id,))
    assert committed(tmp_path / "rows") == expected()


class Same(MapFunction):
    def map(self, value: Any) -> Any:
        return value


# -- damaged files -----------------------------------------------------------------------------------------------


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 3)


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "says"), [(truncate, "bytes instead of"), (alter, "was altered"), (Path.unlink, "there is no file")]
)
def test_a_damaged_file_of_state_is_named_with_its_operator(
    place: Path, damage: Callable[[Path], None], says: str
) -> None:
    saved = savepoint_in(place)
    state = next(each for each in load(str(saved)).operators.values() if each.uid == "counted")
    (path,) = {part.data.path for part in state.subtasks[0].parts if isinstance(part.data, FileState)}
    damage(Path(path))
    error = refused(place, saved)
    if damage is not Path.unlink:  # the file has the state of all operators of the task
        assert f"operator {state.name!r}" in error
    for part in ("operator '", "(subtask 1 of 1)", str(saved), path, says, "start from another checkpoint"):
        assert part in error


@pytest.mark.parametrize(
    ("damage", "says"), [(truncate, "is truncated"), (alter, "was altered"), (Path.unlink, "has no _metadata")]
)
def test_damaged_metadata_is_named(place: Path, damage: Callable[[Path], None], says: str) -> None:
    saved = savepoint_in(place)
    damage(saved / "_metadata")
    error = refused(place, saved)
    assert str(saved) in error
    assert says in error


def test_a_directory_that_does_not_exist_is_named(place: Path) -> None:
    error = refused(place, place / "savepoints" / "nothing")
    assert f"there is no checkpoint {place / 'savepoints' / 'nothing'}: the directory does not exist" in error


def test_a_savepoint_of_another_program_is_refused_by_its_job(place: Path) -> None:
    saved = savepoint_in(place)
    error = refused(place, saved, ends=("other numbers", "other files"), uids=("other",))
    for part in (str(saved), "is of job 'saved'", "none of its operators is in this program"):
        assert part in error


# -- stores that cannot be written -------------------------------------------------------------------------------

REFUSALS = {errno.ENOSPC: "No space left on device", errno.EACCES: "Permission denied"}


@pytest.fixture
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[TroubledStorage]:
    # Those who try again do so at once.
    monkeypatch.setattr("actors.high_availability.store_queue.RETRY_MS", 5.0)
    monkeypatch.setattr("actors.job_master.RECOVERY_RETRY_MS", 5.0)
    monkeypatch.setattr("actors.client.cluster.MAX_PAUSES", 10)
    with mounted(re.sub(r"\W+", "-", request.node.name)) as storage:
        yield storage


def stored(storage: TroubledStorage, tolerable: int, **options: object) -> Env:
    directory = f"memory://{storage.name}/checkpoints"
    env = local(1, **{"execution.checkpointing.dir": directory, **options})
    env.enable_checkpointing("30 ms").get_checkpoint_config().set_tolerable_checkpoint_failure_number(tolerable)
    return env


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_store_that_cannot_be_written_fails_checkpoints_and_then_the_job(
    tmp_path: Path, storage: TroubledStorage, refusal: int
) -> None:
    env = stored(storage, 2)
    counting(env, tmp_path / "rows", 100)
    with started(env) as client:
        eventually(client.checkpoints, lambda overview: overview.counts.completed > 0)
        storage.refusal = refusal
        with pytest.raises(JobExecutionError) as failure:
            client.result(timeout=20)
        overview = client.checkpoints()
    failed = [each for each in overview.history if each.status is CheckpointStatus.FAILED]
    assert 3 <= len(failed) <= 4, "when the third ends the job, another may be under way"
    error = str(failure.value)
    (third,) = (each for each in failed if f"/chk-{each.checkpoint_id}" in error)
    for text in (error, third.failure or ""):
        assert f"checkpoints/{client.job_id}/chk-{third.checkpoint_id}" in text
        assert REFUSALS[refusal] in text
    assert "only 2 may fail one after another (execution.checkpointing.tolerable-failed-checkpoints)" in error


def test_a_job_outlives_a_store_that_is_full_for_a_while(tmp_path: Path, storage: TroubledStorage) -> None:
    env = stored(storage, 1_000)
    all_may_come = tmp_path / "all may come"
    counting(env, tmp_path / "rows", 2_000, until=all_may_come)
    with started(env) as client:
        eventually(client.checkpoints, lambda overview: overview.counts.completed > 0)
        storage.refusal = errno.ENOSPC
        failing = eventually(client.checkpoints, lambda overview: overview.counts.failed > 2)
        read = client.progress().records_in
        all_may_come.touch()
        eventually(client.progress, lambda progress: progress.records_in > read)
        assert client.status() is JobStatus.RUNNING
        assert failing.history[0].status is not CheckpointStatus.COMPLETED
        completed = client.checkpoints().counts.completed
        storage.refusal = None
        eventually(client.checkpoints, lambda overview: overview.counts.completed > completed)
        client.result(timeout=30)
    assert committed(tmp_path / "rows") == expected()
    assert not [path for path in storage.files if f"/{client.job_id}/" in path and "/ha/" not in path]


def test_a_job_can_be_cancelled_while_its_store_is_full(tmp_path: Path, storage: TroubledStorage) -> None:
    env = stored(storage, 1_000)
    counting(env, tmp_path / "rows", 100)
    with started(env) as client:
        storage.refusal = errno.ENOSPC
        eventually(client.checkpoints, lambda overview: overview.counts.failed > 0)
        client.cancel()
        with pytest.raises(JobCanceledError):
            client.result(timeout=20)


def test_a_job_whose_store_is_full_when_it_starts_says_so(tmp_path: Path, storage: TroubledStorage) -> None:
    storage.refusal = errno.ENOSPC
    env = stored(storage, 0)
    counting(env, tmp_path / "rows")
    with pytest.raises(FlinkrayError) as failure:
        env.execute()
    for part in ("checkpoints/ha", REFUSALS[errno.ENOSPC]):
        assert part in str(failure.value)


# -- a damaged checkpoint with an older one ----------------------------------------------------------------------


class FailsWhenTold(MapFunction):
    """Once, as soon as there is a file, which it takes away.

    Args:
        pause_s: taken for every row.
    """

    def __init__(self, file: Path, pause_s: float = 0.0) -> None:
        self.file = file
        self.pause_s = pause_s

    def map(self, value: Any) -> Any:
        time.sleep(self.pause_s)
        if self.file.exists():
            self.file.unlink()
            raise ValueError("told to fail")
        return value


def test_a_restart_passes_over_a_damaged_checkpoint_for_an_older_one(
    tmp_path: Path, storage: TroubledStorage, caplog: pytest.LogCaptureFixture
) -> None:
    env = stored(storage, 1_000, **{"execution.checkpointing.num-retained": 2})
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, "10 ms"))
    all_may_come = tmp_path / "all may come"
    counting(env, tmp_path / "rows", 1_000, before=FailsWhenTold(tmp_path / "fail"), until=all_may_come)
    with started(env) as client:
        eventually(client.checkpoints, lambda overview: overview.counts.completed >= 3)
        storage.damages_newest = True
        (tmp_path / "fail").touch()
        all_may_come.touch()
        overview = eventually(client.checkpoints, lambda overview: overview.counts.restored == 2)
        client.result(timeout=30)
    assert storage.damaged is not None
    assert overview.latest_restored is not None
    assert overview.latest_restored.checkpoint_id < int(storage.damaged)
    warnings = [each.getMessage() for each in caplog.records if "it is not used any more" in each.getMessage()]
    assert len(warnings) == 1
    for part in (f"chk-{storage.damaged}", "operator ", "bytes instead of"):
        assert part in warnings[0]
    # What was committed with the damaged one may be there twice, but nothing else, and nothing is missing.
    assert set(committed(tmp_path / "rows")) == set(expected())


def test_splits_that_were_assigned_after_the_older_checkpoint_are_given_again(
    tmp_path: Path, storage: TroubledStorage
) -> None:
    lines = [f"{number:03}" for number in range(300)]
    (tmp_path / "lines").mkdir()
    for start in range(0, len(lines), 10):
        (tmp_path / "lines" / f"{start:03}.txt").write_text("\n".join(lines[start : start + 10]))
    # So that a checkpoint comes in the middle of a file, which was begun after the one before.
    options = {"execution.checkpointing.num-retained": 2, "flinkray.batch.target-rows": 1}
    env = stored(storage, 1_000, **options)
    env.enable_checkpointing("100 ms").set_restart_strategy(RestartStrategies.fixed_delay_restart(2, "10 ms"))
    read = env.from_source(FileSource(tmp_path / "lines"), WatermarkStrategy.no_watermarks(), "lines")
    slow = read.map(FailsWhenTold(tmp_path / "fail", 0.004), output_type=str)
    slow.sink_to(FileSink(tmp_path / "rows", "text"))
    with started(env, 50) as client:
        completed = client.checkpoints().counts.completed
        eventually(client.checkpoints, lambda overview: overview.counts.completed >= completed + 3)
        storage.damages_newest = True
        (tmp_path / "fail").touch()
        client.result(timeout=30)
    assert storage.damaged is not None
    committed_lines = {line for path in (tmp_path / "rows").glob("part-*") for line in path.read_text().split()}
    assert committed_lines == set(lines)


@pytest.mark.parametrize(
    "option", ["execution.checkpointing.dir", "execution.checkpointing.savepoint-dir", "high-availability.storageDir"]
)
def test_a_place_that_no_filesystem_knows_is_refused_before_the_job_starts(option: str) -> None:
    for place in ("s4://bucket/x", "hdfs//:x://y"):
        env = environment({option: place})
        with pytest.raises(InvalidProgramError, match=rf"option {option}: no filesystem for '{place}'"):
            env.from_collection([1]).to_arrow()


@pytest.mark.parametrize(
    "option", ["execution.checkpointing.dir", "execution.checkpointing.savepoint-dir", "high-availability.storageDir"]
)
def test_a_place_that_cannot_be_a_directory_is_refused_before_the_job_starts(option: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (f"{tmp_path}/file/a/b", f"file://{tmp_path}/file"):
        env = environment({option: place})
        with pytest.raises(InvalidProgramError, match=rf"option {option}: .*'{place}': {tmp_path}/file is not a dir"):
            env.from_collection([1]).to_arrow()
