"""Small files are read as one split."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import cloudpickle
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pytest
from pyarrow import fs

from flinkray import (
    FileSource,
    RecordError,
)
from flinkray.connectors.coalescing import coalesced
from flinkray.connectors.files.formats import FileSplit
from flinkray.connectors.files.small_files import FileGroup, grouped
from flinkray.connectors.source import SourceBatch
from tests.support.api import FakeSubtaskContext, ThreadedRun, rows_of
from tests.support.files import FORMATS, read, splits_of, table_of, write


def small_files(directory: Path, format: str, count: int = 100, rows: int = 3) -> list[int]:
    """Their rows."""
    for number in range(count):
        numbers = list(range(number * rows, (number + 1) * rows))
        write(directory / f"{number:03}.{format}", format, pa.table({"n": numbers}))
    return list(range(count * rows))


@pytest.mark.parametrize("format", FORMATS)
def test_many_small_files_are_few_splits_and_batches(tmp_path: Path, format: str) -> None:
    numbers = small_files(tmp_path, format)
    source = FileSource(tmp_path)
    assert len(splits_of(source)) == 17  # of six files each, so that subtasks end together
    batches = read(source, batch_rows=1_000)
    assert len(batches) == 17
    assert table_of(batches).column("n").to_pylist() == numbers


def test_few_files_and_parts_of_files_and_larger_files_are_splits_of_their_own() -> None:
    splits = [(FileSplit(str(number), str(number), fs.LocalFileSystem()), 100) for number in range(64)]
    assert grouped(splits[:31], 1) == [split for split, _ in splits[:31]]
    assert grouped(splits, 3) == [split for split, _ in splits]
    assert grouped([(split, None) for split, _ in splits], 1) == [split for split, _ in splits]
    assert grouped([(split, 1 << 20) for split, _ in splits], 1) == [split for split, _ in splits]
    groups = grouped(splits, 1)
    assert [len(group.files) for group in groups if isinstance(group, FileGroup)] == [4] * 16
    assert len({group.split_id for group in groups}) == 16


@pytest.mark.parametrize("taken", range(0, 20, 3))
def test_a_group_of_files_is_read_on_with_the_next_row(tmp_path: Path, taken: int) -> None:
    numbers = small_files(tmp_path, "json", rows=5)
    source = FileSource(tmp_path).prepare()
    run = ThreadedRun(source, FakeSubtaskContext(batch_rows=3), splits_of(FileSource(tmp_path)))
    before = [run.poll() for _ in range(taken)]
    state = cloudpickle.loads(cloudpickle.dumps(run.reader.snapshot_state(1)))
    run.reader.close()
    rest = ThreadedRun(source, FakeSubtaskContext(batch_rows=7), state).read()
    assert [row.n for item in before if isinstance(item, SourceBatch) for row in rows_of([item.batch])] == (
        numbers[: len(numbers) - len(rest)]
    )
    assert [row.n for row in rest] == numbers[len(numbers) - len(rest) :]


def test_what_cannot_be_read_in_a_group_names_its_file_behind_the_rows_before_it(tmp_path: Path) -> None:
    small_files(tmp_path, "csv")
    (tmp_path / "003.csv").write_text("n\nx\n")
    run = ThreadedRun(FileSource(tmp_path).prepare(), FakeSubtaskContext(), splits_of(FileSource(tmp_path)))
    first = run.poll()
    assert isinstance(first, SourceBatch)
    assert [row.n for row in rows_of([first.batch])] == [0, 1, 2]
    with pytest.raises(RecordError, match=r"cannot read .*003\.csv"):
        run.read()
    run.reader.close()


def test_rows_do_not_wait_long_for_those_of_further_files() -> None:
    group = FileGroup("group", ())
    clock = itertools.count(0, 8)
    batches = [(pa.record_batch({"n": [number]}), group) for number in range(6)]
    read = coalesced(iter(batches), 1_000, lambda: next(clock))
    assert [data.column("n").to_pylist() for data, _ in read] == [[0, 1, 2], [3, 4, 5]]


def test_files_of_several_dictionaries_are_read_as_a_group(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    words = [f"w{number}" for number in range(200)]
    for number, word in enumerate(words):
        (tmp_path / f"{number:03}.json").write_text(json.dumps({"word": word}))
    batches = read(FileSource(tmp_path, schema={"word": kind}))
    assert [row.word for row in rows_of(batches)] == words
