"""PyFlink's FileSink: which rows go to which file, and which files are seen."""

from __future__ import annotations

import datetime
import pickle
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from flinkray import InvalidProgramError, Row, TypeMismatchError, Types
from flinkray.connectors.committer import CommitOutcome, CommitRequest
from flinkray.connectors.sink import Sink, SinkWriter
from flinkray.pyflink.common import Encoder
from flinkray.pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
    StreamingFileSink,
)
from flinkray.pyflink.datastream.formats.csv import CsvBulkWriters
from flinkray.pyflink.datastream.formats.orc import OrcBulkWriters
from flinkray.pyflink.datastream.formats.parquet import ParquetBulkWriters
from flinkray.pyflink.table import DataTypes
from tests.support.api import FakeSubtaskContext, batch_of
from tests.support.commits import requests_of


def rows_sink(path: Path, policy: RollingPolicy | None = None) -> Any:
    builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    builder = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return (builder if policy is None else builder.with_rolling_policy(policy)).build()


def commit(sink: Sink, writer: SinkWriter) -> None:
    committer = sink.create_committer()
    assert committer is not None
    committer.commit(requests_of(writer.prepare_commit(1)))


def files(path: Path) -> list[list[str]]:
    """The lines of each visible file, in the order in which they were begun."""
    found = [each for each in path.rglob("*") if each.is_file() and not each.name.startswith(".")]
    found.sort(key=lambda each: int(each.stem.rpartition("-")[2]))
    return [each.read_text(encoding="utf-8").splitlines() for each in found]


def test_values_are_lines_as_print_shows_them(tmp_path: Path) -> None:
    sink = pickle.loads(pickle.dumps(rows_sink(tmp_path)))
    for values, lines in (
        (["a b", "ä"], ["a b", "ä"]),
        ([1, None], ["1", "null"]),
        (["x", None], ["x", "null"]),
        ([0.1], ["0.1"]),
        ([("a", 1)], ["(a,1)"]),
        ([Row(n=1, t="x")], ["+I[1, x]"]),
        ([frozenset({1})], ["frozenset({1})"]),
    ):
        writer = sink.create_writer(FakeSubtaskContext())
        writer.write(batch_of(*values))
        commit(sink, writer)
        assert files(tmp_path) == [lines]
        for each in tmp_path.iterdir():
            each.unlink()
    with pytest.raises(ValueError, match="UTF-8"):
        Encoder.simple_string_encoder("latin-1")


def test_files_are_named_as_the_program_says(tmp_path: Path) -> None:
    config = OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix(".ext").build()
    assert (config.get_part_prefix(), config.get_part_suffix()) == ("pre", ".ext")
    assigner = BucketAssigner.base_path_bucket_assigner()
    builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).with_bucket_assigner(assigner)
    sink = builder.with_output_file_config(config).with_bucket_check_interval(1000).build()
    writer = sink.create_writer(FakeSubtaskContext())
    writer.write(batch_of("a"))
    commit(sink, writer)
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("pre-")
    assert file.name.endswith("-0.ext")


def test_a_streaming_file_sink_is_what_a_file_sink_with_the_same_settings_is(tmp_path: Path) -> None:
    policy, config = RollingPolicy.on_checkpoint_rolling_policy(), OutputFileConfig("pre", ".ext")
    for takes, what in (
        ("for_row_format", Encoder.simple_string_encoder()),
        ("for_bulk_format", ParquetBulkWriters.for_row_type()),
    ):
        made = []
        for sinks in (FileSink, StreamingFileSink):
            builder = getattr(sinks, takes)(tmp_path, what)
            builder = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            builder = builder.with_bucket_check_interval(1000).with_rolling_policy(policy)
            made.append(builder.with_output_file_config(config).build())
        assert made[0] == made[1].to_sink()


def test_rows_go_to_the_bucket_of_the_hour_in_which_they_are_written(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).build()
    writer, context = None, FakeSubtaskContext()
    writer = sink.create_writer(context)
    begin = datetime.datetime(2024, 1, 31, 23, 59)
    for minutes in (0, 1, 61, 0):
        context.now = int((begin + datetime.timedelta(minutes=minutes)).timestamp() * 1000)
        writer.write(batch_of(str(minutes)))
    commit(sink, writer)
    found = {str(each.parent.relative_to(tmp_path)): each.read_text() for each in tmp_path.rglob("part-*")}
    assert found == {"2024-01-31--23": "0\n0\n", "2024-02-01--00": "1\n", "2024-02-01--01": "61\n"}


@pytest.mark.parametrize(
    ("format", "zone", "expected"),
    [
        ("yyyy/MM/dd", "UTC", "1970/01/01"),
        ("HH:mm:ss", "Asia/Tokyo", "09:00:01"),
        ("100%-yyyy", "UTC", "100%-1970"),
    ],
)
def test_buckets_are_named_by_javas_patterns(format: str, zone: str, expected: str) -> None:
    assert BucketAssigner.date_time_bucket_assigner(format, zone).bucket_at(1_000) == expected


def test_a_file_ends_after_the_line_that_makes_it_too_large(tmp_path: Path) -> None:
    sink = rows_sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=4))
    writer = sink.create_writer(FakeSubtaskContext())
    writer.write(batch_of("a", "b", "c", "ä"))  # 2 + 2 is not larger than 4
    writer.write(batch_of("long line", "d"))
    commit(sink, writer)
    assert files(tmp_path) == [["a", "b", "c"], ["ä", "long line"], ["d"]]


def test_a_file_ends_when_it_is_old_or_has_been_quiet(tmp_path: Path) -> None:
    sink = rows_sink(
        tmp_path, RollingPolicy.default_rolling_policy(1 << 20, rollover_interval=10, inactivity_interval=4)
    )
    context = FakeSubtaskContext()
    writer = sink.create_writer(context)
    for context.now in (0, 3, 6, 9, 10, 13, 17):
        writer.write(batch_of(str(context.now)))
    commit(sink, writer)
    assert files(tmp_path) == [["0", "3", "6", "9"], ["10", "13"], ["17"]]


def test_checkpoints_end_every_file_and_show_those_that_had_ended_before(tmp_path: Path) -> None:
    sink = rows_sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=1))
    writer = sink.create_writer(FakeSubtaskContext())
    writer.write(batch_of("a", "b"))
    assert files(tmp_path) == []
    commit(sink, writer)
    writer.write(batch_of("c"))
    assert files(tmp_path) == [["a"], ["b"]]
    commit(sink, writer)
    assert files(tmp_path) == [["a"], ["b"], ["c"]]


def test_a_closed_writer_leaves_nothing_that_was_not_prepared(tmp_path: Path) -> None:
    sink = rows_sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=1))
    writer = sink.create_writer(FakeSubtaskContext())
    writer.write(batch_of("a", "b"))
    commit(sink, writer)
    writer.write(batch_of("c", "d"))
    writer.close()
    assert [each.read_text() for each in sorted(tmp_path.iterdir())] == ["a\n", "b\n"]


@pytest.mark.parametrize("seed", range(40))
def test_any_batches_make_the_files_that_line_by_line_writing_makes(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    part, age, quiet = generator.randint(1, 40), generator.randint(1, 60), generator.randint(1, 60)
    sink = rows_sink(tmp_path, RollingPolicy.default_rolling_policy(part, age, quiet))
    context = FakeSubtaskContext()
    writer = sink.create_writer(context)
    expected: list[list[str]] = []
    opened: int | None = None
    last = size = 0
    for _ in range(generator.randint(1, 25)):
        context.now += generator.randint(0, 30)
        if generator.random() < 0.2:
            commit(sink, writer)
            opened = None
            assert files(tmp_path) == expected
        lines = ["ä" * generator.randint(0, 8) for _ in range(generator.randint(1, 6))]
        writer.write(batch_of(*lines))
        for line in lines:
            if opened is None or size > part or context.now - opened >= age or context.now - last >= quiet:
                expected.append([])
                opened, size = context.now, 0
            expected[-1].append(line)
            size += len(line.encode()) + 1
            last = context.now
    commit(sink, writer)
    assert files(tmp_path) == expected


@pytest.mark.parametrize(("writers", "read"), [(ParquetBulkWriters, pq.read_table), (OrcBulkWriters, orc.read_table)])
def test_bulk_formats_write_columns_of_the_types_that_are_declared(
    tmp_path: Path, writers: Any, read: Callable[[Path], pa.Table]
) -> None:
    declared = Types.ROW_NAMED(["n", "word"], [Types.INT(), Types.STRING()])
    sink = FileSink.for_bulk_format(tmp_path, writers.for_row_type(declared)).build()
    sink = pickle.loads(pickle.dumps(sink))
    writer = sink.create_writer(FakeSubtaskContext())
    writer.write(batch_of(Row(word="a", n=1)))
    commit(sink, writer)
    (file,) = tmp_path.rglob("part-*")
    assert str(read(file).schema.field("n").type) == "int32"
    assert read(file).to_pylist() == [{"n": 1, "word": "a"}]
    for row, message in (
        (Row(word="a", n=1 << 40), "do not fit"),
        (Row(word="a"), "do not fit the files' columns n: int"),
    ):
        with pytest.raises(TypeMismatchError, match=message):
            writer.write(batch_of(row))


def test_bulk_formats_round_decimals_to_the_digits_that_files_have(tmp_path: Path) -> None:
    number = DataTypes.DECIMAL(2, 0).bridged_to("java.math.BigDecimal")
    sink = FileSink.for_bulk_format(
        tmp_path, ParquetBulkWriters.for_row_type(DataTypes.ROW([DataTypes.FIELD("n", number)]))
    ).build()
    writer = sink.create_writer(FakeSubtaskContext())
    writer.write(batch_of(*[Row(n=Decimal(text)) for text in ("1.50", "-2.50", "0.49", "98.51")]))
    with pytest.raises(TypeMismatchError, match="do not fit the files' columns n: decimal128"):
        writer.write(batch_of(Row(n=Decimal("99.5"))))
    commit(sink, writer)
    (file,) = tmp_path.rglob("part-*")
    assert pq.read_table(file)["n"].to_pylist() == [2, -3, 0, 99]


def test_bulk_formats_write_rows_as_they_are_where_nothing_is_declared(tmp_path: Path) -> None:
    builder = FileSink.for_bulk_format(tmp_path, CsvBulkWriters.for_schema())
    builder = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    sink = (
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).with_bucket_check_interval(5).build()
    )
    writer = sink.create_writer(FakeSubtaskContext())
    writer.write(batch_of(Row(n=1)))
    commit(sink, writer)
    assert files(tmp_path) == [['"n"', "1"]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RollingPolicy.default_rolling_policy(part_size=0), "part_size of a rolling policy .* got 0"),
        (lambda: RollingPolicy.default_rolling_policy(rollover_interval=1.5), "rollover_interval .* got 1.5"),  # type: ignore[arg-type]
        (lambda: BucketAssigner.date_time_bucket_assigner("yyyy-EEE"), "'EEE' in the format 'yyyy-EEE'.*yyyy, MM"),
        (lambda: BucketAssigner.date_time_bucket_assigner("HH", "Mars/Base"), "no time zone 'Mars/Base'"),
        (lambda: FileSink.for_row_format("x", "utf-8"), "takes Encoder.simple_string_encoder"),  # type: ignore[arg-type]
        (lambda: FileSink.for_bulk_format("x", "parquet"), "takes a BulkWriterFactory"),  # type: ignore[arg-type]
        (
            lambda: FileSink.for_bulk_format("x", ParquetBulkWriters.for_row_type()).with_rolling_policy(
                RollingPolicy.default_rolling_policy()  # type: ignore[arg-type]
            ),
            "end with checkpoints only",
        ),
        (
            lambda: FileSink.for_row_format("x", Encoder.simple_string_encoder()).with_bucket_check_interval(0),
            "bucket check interval .* got 0",
        ),
        (
            lambda: (
                FileSink.for_row_format("x", Encoder.simple_string_encoder())
                .with_output_file_config(OutputFileConfig("_x"))
                .build()
            ),
            "hidden",
        ),
    ],
)
def test_wrong_arguments_are_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        make()


def test_files_of_a_bucket_are_put_together_as_the_strategy_says(tmp_path: Path) -> None:
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    builder = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    builder = builder.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=2))
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).set_size_threshold(100).build()
    sink = builder.enable_compact(strategy, FileCompactor.concat_file_compactor(b"-\n")).build()
    writers = [sink.create_writer(FakeSubtaskContext(subtask, 2)) for subtask in range(2)]
    committer = sink.create_global_committer()
    carried: list[CommitRequest[Any]] = []
    for checkpoint_id, expected in ((1, []), (2, [list("abcdabcd---")])):
        requests = [CommitRequest(each.committable, each.checkpoint_id) for each in carried]
        for writer in writers:
            writer.write(batch_of(*("ab" if checkpoint_id == 1 else "cd")))
            requests += requests_of(writer.prepare_commit(checkpoint_id), checkpoint_id)
        committer.commit(requests)
        carried = [each for each in requests if each.outcome is CommitOutcome.CARRIED_OVER]
        assert [sorted(lines) for lines in files(tmp_path)] == [sorted(lines) for lines in expected]
    as_they_are = builder.enable_compact(strategy, FileCompactor.identical_file_compactor()).build()
    assert not as_they_are.commits_globally
    assert not builder.disable_compact().build().commits_globally
    assert FileCompactStrategy.builder().set_size_threshold(7).build().compaction.file_size == 7
    for wrong in (
        lambda: FileCompactStrategy.builder().build(),
        lambda: FileCompactStrategy.builder().enable_compaction_on_checkpoint(0),
        lambda: FileCompactStrategy.builder().set_num_compact_threads(0),
        lambda: (
            FileSink.for_bulk_format("x", ParquetBulkWriters.for_row_type())
            .enable_compact(strategy, FileCompactor.concat_file_compactor(b"-"))
            .build()
        ),
    ):
        with pytest.raises(InvalidProgramError):
            wrong()
