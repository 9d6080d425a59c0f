"""Buckets of files, and what one committer does for all subtasks: whole partitions, small files put together."""

from __future__ import annotations

import datetime
import gc
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from pyarrow import fs

from flinkray import (
    BasePathBucketAssigner,
    Batch,
    BucketAssigner,
    BucketContext,
    CommittedPartition,
    CsvFormat,
    DateTimeBucketAssigner,
    FileCompaction,
    FileSink,
    FileSource,
    FlinkrayError,
    InvalidProgramError,
    PartitionCommit,
    PartitionCommitPolicy,
    TypeMismatchError,
)
from flinkray.connectors.committer import END_OF_INPUT, CommitOutcome, CommitRequest
from flinkray.connectors.files.writing.compaction import FileToCompact, WaitingFile, bins, merge
from flinkray.connectors.files.writing.open_files import FileKind
from flinkray.types.records import Kind
from tests.support.api import FakeSubtaskContext
from tests.support.files import FORMATS, write

HOUR_MS = 3_600_000


def visible(directory: Path) -> dict[str, list[str]]:
    """The files of each directory that readers see, and the marks of complete ones."""
    found: dict[str, list[str]] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            found.setdefault(str(path.relative_to(directory).parent), []).append(path.name)
    return found


class Job:
    """Writers of a sink and its committer, with what it has carried over."""

    def __init__(self, sink: FileSink, subtasks: int = 2) -> None:
        self.sink = cloudpickle.loads(cloudpickle.dumps(sink.prepare()))
        self.contexts = [FakeSubtaskContext(subtask, subtasks) for subtask in range(subtasks)]
        self.writers = [self.sink.create_writer(context) for context in self.contexts]
        self.committer = self.sink.create_global_committer()
        self.carried: list[CommitRequest[Any]] = []

    def write(self, subtask: int, **columns: Any) -> None:
        self.writers[subtask].write(Batch(pa.RecordBatch.from_pydict(columns)))

    def watermarks(self, *timestamps: int) -> None:
        for writer, timestamp in zip(self.writers, timestamps, strict=True):
            writer.write_watermark(timestamp)

    def prepare(self, checkpoint_id: int, is_last: bool = False) -> list[CommitRequest[Any]]:
        """What is to be committed with a checkpoint."""
        requests = list(self.carried)
        for writer in self.writers:
            if is_last:
                writer.flush(end_of_input=True)
            writer.flush(end_of_input=False)
            requests += [CommitRequest(each, checkpoint_id) for each in writer.prepare_commit(checkpoint_id)]
        return requests

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        self.committer.commit(requests)
        self.carried = [
            CommitRequest(each.committable, each.checkpoint_id)
            for each in requests
            if each.outcome is CommitOutcome.CARRIED_OVER
        ]

    def checkpoint(self, checkpoint_id: int, is_last: bool = False) -> None:
        self.commit(self.prepare(checkpoint_id, is_last))


# -- buckets


class ByWord(BucketAssigner):
    def assign(self, batch: Batch, context: BucketContext) -> pa.Array:
        return batch.data.column("word")


def test_rows_go_to_the_directories_that_an_assigner_says_in_their_order(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, "text", bucket_assigner=DateTimeBucketAssigner("yyyy/MM-dd--HH'h'mm", "Asia/Kolkata"))
    context = FakeSubtaskContext()
    context.now = 1_000_000_000_123
    writer, committer = sink.create_writer(context), sink.create_committer()
    assert committer is not None
    writer.write(Batch(pa.record_batch({"value": ["x"]}), Kind.SCALAR))
    committer.commit([CommitRequest(each) for each in writer.prepare_commit(1)])
    assert list(visible(tmp_path)) == ["2001/09-09--07h16"]
    by_word = FileSink(tmp_path / "words", "json", bucket_assigner=ByWord())
    writer = by_word.create_writer(context)
    writer.write(Batch(pa.record_batch({"n": [1, 2, 3, 4], "word": ["b", "a", "b", ""]})))
    writer.write(Batch(pa.record_batch({"n": [5], "word": ["a"]})))
    committer.commit([CommitRequest(each) for each in writer.prepare_commit(1)])
    found = {path.parent.name: path.read_text() for path in (tmp_path / "words").rglob("part*")}
    assert found == {
        "words": '{"n":4,"word":""}\n',
        "a": '{"n":2,"word":"a"}\n{"n":5,"word":"a"}\n',
        "b": '{"n":1,"word":"b"}\n{"n":3,"word":"b"}\n',
    }
    assert BasePathBucketAssigner().assign(Batch(pa.record_batch({"n": [1]})), BucketContext(0, 0)) == ""


def test_a_bucket_that_cannot_be_is_an_error_that_names_the_assigner(tmp_path: Path) -> None:
    for words, reason in ((["../x"], "cannot be '../x'"), (["_x"], "hidden"), (["/x"], "empty"), ([None], "0 have")):
        writer = FileSink(tmp_path, "json", bucket_assigner=ByWord()).create_writer(FakeSubtaskContext())
        with pytest.raises(TypeMismatchError, match=f"'Source: test': what ByWord assigns .*{reason}"):
            writer.write(Batch(pa.record_batch({"word": pa.array(words, pa.string())})))
    for arguments, message in (
        ({"partition_by": ["a"], "bucket_assigner": ByWord()}, "not by both"),
        ({"partition_commit": PartitionCommit()}, "name columns"),
    ):
        with pytest.raises(InvalidProgramError, match=message):
            FileSink(tmp_path, **arguments)
    with pytest.raises(InvalidProgramError, match="'YY' in the format 'YY' of a bucket assigner is not known"):
        DateTimeBucketAssigner("YY")
    with pytest.raises(InvalidProgramError, match="no time zone 'Mars' of a bucket assigner"):
        DateTimeBucketAssigner(zone="Mars")


# -- partitions that are complete


class Told(PartitionCommitPolicy):
    told: list[tuple[str, Mapping[str, str | None]]] = []  # noqa: RUF012  (the policy is pickled with its sink)

    def commit(self, partition: CommittedPartition) -> None:
        assert partition.filesystem.get_file_info(f"{partition.path}/_SUCCESS").type is fs.FileType.File
        self.told.append((partition.path, partition.values))


def test_a_partition_is_complete_when_all_watermarks_are_behind_its_hour(tmp_path: Path) -> None:
    commit = PartitionCommit("partition-time", "1 h", policies=[Told()], timestamp_pattern="$dt $hour:00:00")
    job = Job(FileSink(tmp_path, "json", partition_by=["dt", "hour"], partition_commit=commit))
    job.write(0, n=[1, 2], dt=["1970-01-01"] * 2, hour=[0, 1])
    job.write(1, n=[3], dt=["1970-01-01"], hour=[0])
    hours = [f"dt=1970-01-01/hour={hour}" for hour in range(2)]

    def marked() -> list[str]:
        return [partition for partition, names in visible(tmp_path).items() if "_SUCCESS" in names]

    job.watermarks(2 * HOUR_MS, HOUR_MS)
    job.checkpoint(1)
    assert sorted(visible(tmp_path)) == hours
    assert marked() == [], "the watermark has to be greater"
    job.watermarks(2 * HOUR_MS, HOUR_MS + 1)
    job.checkpoint(2)
    assert marked() == hours[:1]
    (tmp_path / hours[0] / "_SUCCESS").unlink()
    job.write(1, n=[4], dt=["1970-01-01"], hour=[0])  # late
    job.checkpoint(3)
    assert marked() == hours[:1]
    assert len(job.carried) == 1
    job.checkpoint(4, is_last=True)
    assert marked() == hours
    assert [path for path, _ in Told.told] == [str(tmp_path / hours[each]) for each in (0, 0, 1)]
    assert Told.told[2][1] == {"dt": "1970-01-01", "hour": "1"}


def hours(*parts: int) -> float:
    """Since the epoch."""
    return datetime.datetime(*parts, tzinfo=datetime.UTC).timestamp() / 3600  # type: ignore[arg-type, misc]


def test_by_process_time_a_partition_is_complete_so_long_after_its_first_rows(tmp_path: Path) -> None:
    job = Job(FileSink(tmp_path, "json", partition_by=["k"], partition_commit=PartitionCommit(delay=100)))
    for number, (now, expected) in enumerate([(0, []), (60, []), (100, []), (101, ["_SUCCESS"]), (120, ["_SUCCESS"])]):
        for context in job.contexts:
            context.now = now
        if number < 2:
            job.write(number, n=[1], k=["a"])
        job.checkpoint(number + 1)
        assert [name for name in visible(tmp_path)["k=a"] if not name.startswith("part")] == expected
    at_once = Job(FileSink(tmp_path / "now", "json", partition_by=["k"], partition_commit=PartitionCommit()))
    at_once.write(0, n=[1], k=["a"])
    at_once.checkpoint(1)
    assert "_SUCCESS" in visible(tmp_path / "now")["k=a"]
    (tmp_path / "now" / "k=a" / "_SUCCESS").unlink()
    at_once.checkpoint(2)
    assert "_SUCCESS" not in visible(tmp_path / "now")["k=a"], "nothing new is there"


@pytest.mark.parametrize(
    ("given", "values", "expected"),
    [
        ({}, {"dt": "1970-01-02"}, 24),
        ({}, {"dt": "1970-1-1 24:30:00"}, 24.5),
        ({}, {"dt": None}, None),
        ({"timestamp_pattern": "$year-$month-$day"}, {"year": "1970", "month": "1", "day": "2"}, 24),
        ({"timestamp_pattern": "$d $day:00:00"}, {"d": "1970-01-01", "day": "5"}, 5),
        ({"timestamp_format": "yyyyMMddHH"}, {"dt": "1970010107"}, 7),
        ({"time_zone": "America/New_York"}, {"dt": "1970-01-01"}, 5),
        # A time that clocks skip, and one that they show twice, as Java's LocalDateTime.atZone has them.
        ({"time_zone": "America/New_York"}, {"dt": "2024-03-10 02:30:00"}, hours(2024, 3, 10, 7, 30)),
        ({"time_zone": "America/New_York"}, {"dt": "2024-11-03 01:30:00"}, hours(2024, 11, 3, 5, 30)),
        ({"extractor": lambda values: datetime.datetime(1970, 1, int(values["n"]))}, {"n": "3"}, 48),
    ],
)
def test_the_time_of_a_partition_is_in_its_name(
    given: dict[str, Any], values: dict[str, str | None], expected: float | None
) -> None:
    found = PartitionCommit("partition-time", **given).time_of(values)
    assert found == (None if expected is None else expected * HOUR_MS)


def test_what_cannot_be_a_partition_commit_says_so() -> None:
    for given, message in (
        ({"trigger": "process_time"}, "is one of process-time, partition-time, not 'process_time'; did you mean"),
        ({"time_zone": "Mars"}, "no time zone 'Mars'"),
        ({"success_file": None}, "nothing happens"),
        ({"success_file": "a/b"}, "cannot be called 'a/b'"),
        ({"timestamp_format": "YY"}, "'YY' in the format"),
    ):
        with pytest.raises(InvalidProgramError, match=message):
            PartitionCommit(**given)  # type: ignore[arg-type]
    for text in ("yesterday", "2024-13-01"):
        with pytest.raises(FlinkrayError, match=f"the time of a partition cannot be read from '{text}'"):
            PartitionCommit("partition-time").time_of({"dt": text})


# -- small files


@pytest.mark.parametrize("format", [*FORMATS, "lines"])
def test_small_files_of_a_checkpoint_become_one_that_has_all_their_rows(tmp_path: Path, format: str) -> None:
    word = "w" if format == "avro" else 'w"\n'  # which Avro does not have
    schema = pa.schema({"n": pa.int64(), word: pa.string()})
    chosen: Any = CsvFormat({"value": int}) if format == "lines" else format
    job = Job(FileSink(tmp_path, chosen, compaction=FileCompaction()), 3)
    for subtask in range(3):
        rows = {"value": [subtask, 7]} if format in ("text", "lines") else {"n": [subtask, 7], word: ["a", None]}
        data = pa.RecordBatch.from_pydict(rows, schema if len(rows) == 2 else None)
        job.writers[subtask].write(Batch(data, Kind.SCALAR if format == "text" else Kind.ROW))
    requests = job.prepare(1)
    assert visible(tmp_path) == {}
    job.commit(requests)
    job.commit(requests)
    (name,) = visible(tmp_path)["."]
    assert name.startswith("compacted-part-")
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing is left"
    if format == "lines":
        assert sorted((tmp_path / name).read_text().split()) == ["0", "1", "2", "7", "7", "7"]
    else:
        found = FileSource(tmp_path / name, format).read_all().column(0).to_pylist()
        assert sorted(map(int, found)) == [0, 1, 2, 7, 7, 7]


def test_files_of_other_directories_and_columns_stay_apart(tmp_path: Path) -> None:
    job = Job(FileSink(tmp_path, "arrow", partition_by=["k"], compaction=FileCompaction()))
    job.write(0, n=[1, 2], k=["a", "b"])
    job.write(1, n=[3], k=["a"])
    job.write(1, n=["text"], k=["a"])
    job.checkpoint(1)
    assert {key: [name[:9] for name in names] for key, names in visible(tmp_path).items()} == {
        "k=a": ["compacted", "part-0123"],
        "k=b": ["part-0123"],
    }


@pytest.mark.parametrize(
    ("given", "sizes", "is_last", "expected"),
    [
        ({}, [1, 1, 1], False, [[0, 1, 2]]),
        ({"file_size": 10}, [6, 5, 5, 3], False, [[0], [1, 2], [3]]),
        ({"file_size": 10, "checkpoints": 9}, [6, 5, 3], False, [[0]]),
        ({"file_size": 10, "checkpoints": 9}, [6, 5, 3], True, [[0], [1, 2]]),
        ({"file_size": 10, "checkpoints": 9}, [6, 4], False, [[0, 1]]),
        ({"file_size": 10, "checkpoints": 9}, [20], False, [[0]]),
        ({"file_size": None, "checkpoints": 3}, [1, 1], False, []),
        ({"file_size": None, "checkpoints": 2}, [1, 1], False, [[0, 1]]),
        ({}, [], True, []),
    ],
)
def test_files_wait_for_others_up_to_a_size_and_a_number_of_checkpoints(
    given: dict[str, Any], sizes: list[int], is_last: bool, expected: list[list[int]]
) -> None:
    files = [WaitingFile(4 + (index > 0), FileToCompact(str(index), "", size, "")) for index, size in enumerate(sizes)]
    found = bins(files, FileCompaction(**given), 5, is_last)
    assert [list(map(int, names)) for names in found] == expected
    for wrong in ({"file_size": 0}, {"checkpoints": 0}):
        with pytest.raises(InvalidProgramError, match="is at least 1"):
            FileCompaction(**wrong)


class Dies(Exception):
    """A process that is killed."""


def test_a_commit_that_dies_anywhere_and_is_repeated_shows_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(8):
        chance = random.Random(seed)
        directory = tmp_path / str(seed)
        compaction = FileCompaction(chance.choice([None, 20, 60]), checkpoints=chance.randint(1, 3))
        commit = PartitionCommit("partition-time", timestamp_pattern="1970-01-01 00:00:$k")
        job = Job(FileSink(directory, "json", partition_by=["k"], compaction=compaction, partition_commit=commit))
        written: list[int] = []
        for checkpoint_id in range(1, 6):
            for subtask in range(2):
                if chance.random() < 0.7:
                    rows = [len(written) + index for index in range(chance.randint(1, 3))]
                    written += rows
                    job.write(subtask, n=rows, k=[chance.randint(0, 2) for _ in rows])
            job.watermarks(checkpoint_id * 700, checkpoint_id * 600)
            requests = job.prepare(checkpoint_id, is_last=checkpoint_id == 5)
            stored = [(each.committable, each.checkpoint_id) for each in requests]
            while True:
                steps = chance.randint(0, 12)
                _die_after(monkeypatch, steps)
                try:
                    job.commit(requests)
                    break
                except Dies:
                    # The next attempt has what the snapshot has, and begins with what was carried over.
                    job.carried = []
                    for each in sorted({own for _, own in stored}):
                        requests = [CommitRequest(made, own) for made, own in stored if own == each]
                        if each < checkpoint_id:
                            _die_after(monkeypatch, 10**9)
                            job.commit([*job.carried, *requests])
                    requests = [*job.carried, *requests]
                finally:
                    monkeypatch.undo()
        source = FileSource(directory, "json", {"n": int, "k": int}, partition_columns=["k"])
        found = source.read_all()
        assert sorted(found.column("n").to_pylist()) == written, f"seed {seed}"
        assert {path.name for path in directory.rglob("*.pending")} == set(), f"seed {seed}"
        for partition, names in visible(directory).items():
            assert "_SUCCESS" in names, f"seed {seed}: {partition}"


def _die_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Lets so many changes of files be made, and then none any more."""
    left = [steps]

    def dying(make: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Dies
            return make(*arguments, **named)

        return call

    for module in ("commits", "global_commits", "partition_commit"):
        found = __import__(f"flinkray.connectors.files.writing.{module}", fromlist=[module])
        for name in ("delete_file", "merge"):
            if hasattr(found, name):
                monkeypatch.setattr(found, name, dying(getattr(found, name)))
    monkeypatch.setattr(PartitionCommit, "carry_out", dying(PartitionCommit.carry_out))


def test_what_a_sink_prepared_before_it_compacted_is_committed_as_it_was(tmp_path: Path) -> None:
    writer = FileSink(tmp_path, "json").create_writer(FakeSubtaskContext())
    writer.write(Batch(pa.record_batch({"n": [1]})))
    restored = [CommitRequest(each) for each in writer.prepare_commit(1)]
    committer = FileSink(tmp_path, "json", compaction=FileCompaction()).create_committer()
    assert committer is not None
    committer.commit(restored)
    assert [name[:5] for name in visible(tmp_path)["."]] == ["part-"]


# -- replacing what is there


def test_new_files_replace_those_of_their_directories_when_the_input_ends(tmp_path: Path) -> None:
    for partition_by, kept in ((["k"], {"k=b": ["old"], "k=c": ["old"]}), ([], {})):
        directory = tmp_path / ("parts" if partition_by else "all")
        for key in "abc":
            (directory / f"k={key}").mkdir(parents=True)
            (directory / f"k={key}" / "old").touch()
        sink = FileSink(directory, "json", partition_by=partition_by, overwrite=True)
        job = Job(sink)
        job.write(0, n=[1], k=["a"])
        job.checkpoint(1)
        assert sum(map(len, visible(directory).values())) == 3, "not before the end"
        job.write(1, n=[2], k=["a"])
        requests = job.prepare(END_OF_INPUT, is_last=True)
        job.commit(requests)
        job.commit(requests)
        found = visible(directory)
        assert {key: names for key, names in found.items() if names == ["old"]} == kept
        assert len(found["k=a" if partition_by else "."]) == 2


@pytest.mark.parametrize("format", ["parquet", "orc", "arrow", "avro"])
def test_a_file_that_cannot_be_read_leaves_nothing_of_the_writer_that_was_to_have_its_rows(
    tmp_path: Path, format: str
) -> None:
    """One that is given up closed itself later, on a stream that was closed: a warning, which is an error here."""
    write(tmp_path / f"first.{format}", format, pa.table({"n": [1, 2]}))
    kind, sources = FileKind(format), [str(tmp_path / f"{name}.{format}") for name in ("first", "second")]
    with pytest.raises(OSError, match="second"):
        merge(fs.LocalFileSystem(), kind, sources, str(tmp_path / "merged"))
    gc.collect()
