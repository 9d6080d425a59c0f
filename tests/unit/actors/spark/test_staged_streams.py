"""Staged batches: each row once whatever is restored when, files removed when covered, and what cannot go together."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from actors.spark.staged_source import EnumeratorState, SparkQueryError, StagedSource, look_for_batches
from actors.spark.staging import ReadProgress, Staging, StagingError, remove_covered, unread_batches
from actors.spark.stream import ENDED_SECONDS, SILENCE_SECONDS, JobWatch, failure_text
from flinkray.connectors.spark.source import StreamStaging
from flinkray.errors import InvalidProgramError
from flinkray.types.records import Kind, RecordType
from tests.support.staged_streams import QUERY, InlineExecutor, Stage, StagedRun, clean_up, staged_source

NOTHING_KNOWN = EnumeratorState(None, None, ())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(str(tmp_path / "staging"))


def progress(handed_out: int = 0, covered: int = 0, is_closed: bool = False, beat: str = "1") -> ReadProgress:
    return ReadProgress(beat, handed_out, covered, is_closed)


@pytest.mark.parametrize("seed", range(25))
def test_every_row_is_read_once_whatever_is_restored_when(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    stage = Stage(str(tmp_path))
    run = StagedRun(staged_source(stage.staging), seed, chance.randrange(1, 5))
    for _ in range(200):
        if chance.random() < 0.1:
            stage.add(
                *([chance.randrange(1, 8) for _ in range(chance.randrange(1, 3))] for _ in range(chance.randrange(4)))
            )
            clean_up(stage)
        run.step()
    stage.end()
    run.run_to_the_end()
    assert run.rows() == stage.staged, f"seed {seed}"
    # What is complete and told to everybody leaves nothing behind.
    for _ in range(100):
        run.take_checkpoint()
        if not stage.files():
            break
    assert stage.files() == []
    run.close()


def test_a_batch_that_is_staged_later_is_found(stage: Stage) -> None:
    run = StagedRun(staged_source(stage.staging), 0, 2)
    run.tick()
    stage.add([5], [2, 3])
    run.tick()
    stage.end()
    run.run_to_the_end()
    assert run.rows() == list(range(10))
    run.close()


def test_rows_of_a_file_keep_their_order_and_batches_theirs(stage: Stage) -> None:
    for _ in range(10):
        stage.add([4, 3], [5])
    stage.end()
    run = StagedRun(staged_source(stage.staging), 0, 1)
    run.run_to_the_end()
    assert run.subtasks[0].rows == stage.staged
    run.close()


def test_without_the_wish_to_end_with_it_the_source_outlives_the_query(stage: Stage) -> None:
    stage.add([1])
    stage.end()
    found = look_for_batches(stage.staging, NOTHING_KNOWN, 10, ends_with_query=False)
    assert (len(found.splits), found.is_all) == (1, False)
    assert look_for_batches(stage.staging, NOTHING_KNOWN, 10, ends_with_query=True).is_all


def test_a_query_that_failed_fails_the_source(stage: Stage) -> None:
    stage.end("no such table")
    with pytest.raises(SparkQueryError, match=f"feeds {stage.staging.location} failed: no such table"):
        look_for_batches(stage.staging, NOTHING_KNOWN, 10, ends_with_query=False)


def test_a_look_stops_where_there_is_enough(stage: Stage) -> None:
    for _ in range(6):
        stage.add([1], [1])
    known = EnumeratorState(QUERY, 1, ())
    found = look_for_batches(stage.staging, known, 3, ends_with_query=True)
    assert [split.order for split in found.splits] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert found.next_batch_id == 3


def test_a_job_without_state_begins_with_what_no_job_has_covered(stage: Stage) -> None:
    for _ in range(4):
        stage.add([1], [1])
    for batch_id in (0, 1):
        for name in sorted(stage.staging.present_files(batch_id))[: 2 - batch_id]:
            stage.staging.remove_file(batch_id, name)
    found = look_for_batches(stage.staging, NOTHING_KNOWN, 1, ends_with_query=True)
    assert [split.order for split in found.splits] == [(1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
    assert found.next_batch_id == 4


def test_state_that_is_older_than_what_was_removed_is_an_error(stage: Stage) -> None:
    for _ in range(3):
        stage.add([1])
    stage.staging.remove_batch(0)
    with pytest.raises(StagingError, match=r"batch 0, with which the job would go on, is gone .*latest checkpoint"):
        look_for_batches(stage.staging, EnumeratorState(QUERY, 0, ()), 9, True, progress())


def test_a_file_that_was_removed_under_a_reader_is_an_error(stage: Stage) -> None:
    stage.add([1])
    run = StagedRun(staged_source(stage.staging), 0, 1)
    (name,) = stage.files()
    stage.staging.remove_file(0, name)
    with pytest.raises(StagingError, match=f"the rows of Spark batch 0 are gone .*{name}"):
        run.run_to_the_end()
    run.close()


def test_a_file_that_is_not_what_was_written_is_an_error(stage: Stage, tmp_path: Path) -> None:
    stage.add([1])
    (path,) = (tmp_path / "staging").glob("rows/*/*.arrow")
    path.write_bytes(b"no Arrow")
    run = StagedRun(staged_source(stage.staging), 0, 1)
    with pytest.raises(StagingError, match=f"cannot read {path.name} of Spark batch 0"):
        run.run_to_the_end()
    run.close()


def test_rows_of_a_former_shape_are_an_error(stage: Stage) -> None:
    stage.add([1])
    other = RecordType(Kind.ROW, pa.schema([("n", pa.string())]))
    run = StagedRun(StagedSource(stage.staging, other, True, InlineExecutor), 0, 1)
    with pytest.raises(StagingError, match=r"other columns \(n: int64\) than the DataFrame has now \(n: string\)"):
        run.run_to_the_end()
    run.close()


def test_two_queries_do_not_share_a_directory(stage: Stage) -> None:
    stage.staging.claim(QUERY)
    with pytest.raises(StagingError, match="holds batches of query query-1, and this is query other"):
        stage.staging.claim("other")
    with pytest.raises(StagingError, match="of query query-1, and the job's state is about query other"):
        look_for_batches(stage.staging, EnumeratorState("other", 3, ()), 9, ends_with_query=True)


def test_a_batch_is_unread_until_its_last_file_is_handed_out(stage: Stage) -> None:
    for _ in range(3):
        stage.add([1], [1])
    assert unread_batches(stage.staging) == 3
    run = StagedRun(staged_source(stage.staging), 0, 1)
    run.tick()
    while run.subtasks[0].inbox:
        run.deliver(0)
    for _ in range(11):  # past the next sign of life
        run.tick()
    # The reader has the two files of the first batch.
    assert stage.staging.progress() is not None
    assert unread_batches(stage.staging) == 2
    run.close()
    closed = stage.staging.progress()
    assert closed is not None
    assert closed.is_closed


def test_batches_are_removed_in_order_once_covered_read_and_past(stage: Stage) -> None:
    for _ in range(4):
        stage.add([1])
    stage.add()
    left = stage.staging
    left.record_progress(progress(covered=5))
    remove_covered(left, 4)
    assert left.batch_ids() == [0, 1, 2, 3, 4], "their files are there"
    for batch_id in (0, 2, 3):
        for name in left.present_files(batch_id):
            left.remove_file(batch_id, name)
    remove_covered(left, 4)
    assert left.batch_ids() == [1, 2, 3, 4], "1 is not read, and 2 and 3 follow it"
    for name in left.present_files(1):
        left.remove_file(1, name)
    left.record_progress(progress(covered=3))
    remove_covered(left, 4)
    assert left.batch_ids() == [3, 4], "3 is in no checkpoint yet"
    left.record_progress(progress(covered=5))
    remove_covered(left, 4)
    assert left.batch_ids() == [4], "Spark may repeat the current one"


def test_a_new_query_removes_what_the_last_job_has_covered(stage: Stage) -> None:
    for _ in range(3):
        stage.add([1])
        stage.staging.remove_file(stage.next_batch_id - 1, stage.files()[-1])
    stage.staging.record_progress(progress(covered=3))
    stage.staging.begin_query()
    assert stage.staging.batch_ids() == [2], "Spark may repeat the newest"


def test_a_handle_travels_and_a_new_query_forgets_the_last(stage: Stage) -> None:
    stage.end("failed")
    stage.staging.record_progress(progress(handed_out=3))
    travelled: Staging = pickle.loads(pickle.dumps(stage.staging))
    travelled.begin_query()
    travelled.begin_query()
    assert (travelled.end(), travelled.progress(), travelled.query_id()) == (None, None, QUERY)


def test_a_query_is_stopped_when_its_job_is_gone_and_not_before() -> None:
    watch = JobWatch(0.0)
    assert watch.why_stop(None, SILENCE_SECONDS) is None
    assert watch.why_stop(progress(beat="a"), SILENCE_SECONDS + 1) is None, "a job has come"
    assert watch.why_stop(progress(beat="a"), 2 * SILENCE_SECONDS) is None
    assert "no job has read it" in str(watch.why_stop(progress(beat="a"), 2 * SILENCE_SECONDS + 2))
    ended = progress(beat="b", is_closed=True)
    assert watch.why_stop(ended, 2000.0) is None
    assert watch.why_stop(ended, 2000.0 + ENDED_SECONDS) is None
    assert watch.why_stop(progress(beat="c"), 2001.0 + ENDED_SECONDS) is None, "it was only restarted"
    assert watch.why_stop(ended, 2002.0 + ENDED_SECONDS) is None
    assert watch.why_stop(ended, 2003.0 + 2 * ENDED_SECONDS) == "the job that read it has ended"


def test_an_error_of_spark_is_told_without_the_stacks_of_its_jvm() -> None:
    told = "An error occurred while calling o1.collect.\n: SparkException: Job aborted\n\tat a.b(C:1)\n\t... 3 more\n"
    cause = "\nDriver stacktrace:\n\tat d.e\nCaused by: RuntimeException: seven is bad\n\tat f.g\n"
    plan = "\n=== Streaming Query ===\nplan"
    assert failure_text(ValueError(told + cause + plan)).splitlines() == [
        "ValueError: An error occurred while calling o1.collect.",
        ": SparkException: Job aborted",
        "Caused by: RuntimeException: seven is bad",
    ]
    assert failure_text(ValueError()) == "ValueError:"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"staging_directory": ""}, "needs a staging_directory"),
        ({"output_mode": "apend"}, "no output_mode 'apend'.*append"),
        ({"max_unread_batches": 0}, "at least 1, got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "staging_directory": "/staging",
        "checkpoint_location": None,
        "trigger": None,
        "output_mode": "append",
        "query_name": None,
        "max_unread_batches": 8,
    }
    assert StreamStaging.of(**arguments).checkpoint_location == "/staging/spark-checkpoint"
    with pytest.raises(InvalidProgramError, match=message):
        StreamStaging.of(**{**arguments, **changed})
