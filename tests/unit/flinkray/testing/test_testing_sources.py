"""Scripted sources, and readers of several splits that set some of them aside."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.connectors.collection.source import ArrowSource
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceProgress
from flinkray.connectors.split_list import SplitListReader
from flinkray.errors import InvalidProgramError
from flinkray.testing import Active, Crash, Idle, ScriptedCrash, ScriptedSource, Watermark
from flinkray.testing.scripted_source import Script
from tests.support.api import FakeSubtaskContext, SourceRun, batch_of


def polled(run: SourceRun, count: int) -> list[Any]:
    """So many values and news of event time, or the end."""
    found: list[Any] = []
    while len(found) < count:
        item = run.poll()
        if item is not ReaderStatus.NOTHING_AVAILABLE:
            found += decode(item.batch) if isinstance(item, SourceBatch) else [item]
    return found


# -- scripts


def test_a_script_gives_its_items_in_order() -> None:
    run = SourceRun(ScriptedSource([1, Watermark(5), 2, Idle, Active]))
    assert polled(run, 6) == [
        1,
        SourceProgress("script", watermark=5),
        2,
        SourceProgress("script", is_idle=True),
        SourceProgress("script", is_idle=False),
        ReaderStatus.END_OF_INPUT,
    ]


def test_a_crash_raises_once_and_a_restored_reader_gets_past_it() -> None:
    source = ScriptedSource(["a", Crash, "b", Crash])
    run = SourceRun(source)
    assert polled(run, 1) == ["a"]
    saved = run.snapshot()
    with pytest.raises(ScriptedCrash, match="item 1"):
        run.poll()
    again = SourceRun(source, restored=saved)
    assert polled(again, 1) == ["b"]
    with pytest.raises(ScriptedCrash, match="item 3"):
        again.poll()
    assert polled(SourceRun(source), 3) == ["a", "b", ReaderStatus.END_OF_INPUT]


def test_a_snapshot_has_the_position_behind_the_last_item() -> None:
    run = SourceRun(ScriptedSource([1, Watermark(5), 2]))
    polled(run, 2)
    assert run.snapshot()[1] == [[Script(2)]]


def test_the_type_is_that_of_all_values_or_the_declared_one() -> None:
    assert ScriptedSource([1, 2.5]).output_type == ScriptedSource([0.5]).output_type
    assert ScriptedSource([Idle], type_info=pa.int64()).output_type is not None
    with pytest.raises(InvalidProgramError, match="type_info="):
        ScriptedSource([Idle])


# -- splits that are set aside


def splits(run: SourceRun, parallelism: int) -> list[str]:
    """Gives all splits to one reader, as after rescaling; their ids in order."""
    everything: list[Any] = []
    for _ in range(parallelism * 4):
        before = len(run.assignments.assigned.get(0, []))
        run.enumerator.handle_split_request(0)
        everything += run.assignments.assigned.get(0, [])[before:]
    run.contexts[0].requests = 0
    run.readers[0].add_splits(everything)
    run.readers[0].notify_no_more_splits()
    return [split.split_id for split in everything]


@pytest.fixture
def run() -> SourceRun:
    return SourceRun(ArrowSource(pa.table({"n": list(range(32))})), parallelism=2, batch_rows=2)


def ids_read(run: SourceRun, count: int) -> list[str]:
    items = [run.readers[0].poll() for _ in range(count)]
    return [item.split_id if isinstance(item, SourceBatch) else item.name for item in items]


def test_a_paused_split_is_set_aside_and_read_on_where_it_was(run: SourceRun) -> None:
    first, second, *_ = splits(run, 2)
    reader = run.readers[0]
    assert ids_read(run, 1) == [first]
    assert reader.pause_or_resume_splits([first], [])
    assert ids_read(run, 2) == [second, second]
    reader.pause_or_resume_splits([], [first])
    rest = [item for item in iter(reader.poll, ReaderStatus.END_OF_INPUT) if isinstance(item, SourceBatch)]
    assert sorted(row.n for item in rest for row in decode(item.batch)) == [2, 3, *range(8, 32)]


def test_a_reader_whose_splits_are_all_paused_has_nothing_and_is_not_at_its_end(run: SourceRun) -> None:
    everything = splits(run, 2)
    run.readers[0].pause_or_resume_splits(everything, [])
    assert ids_read(run, 2) == ["NOTHING_AVAILABLE", "NOTHING_AVAILABLE"]
    run.readers[0].pause_or_resume_splits([], everything[-1:])
    assert ids_read(run, 3) == [everything[-1], everything[-1], "NOTHING_AVAILABLE"]


@pytest.mark.parametrize("seed", range(10))
def test_every_row_comes_once_whatever_is_paused_and_restored_on_the_way(seed: int) -> None:
    chance = random.Random(seed)
    source = ArrowSource(pa.table({"n": list(range(32))}))
    run = SourceRun(source, parallelism=2, batch_rows=2)
    everything = splits(run, 2)
    reader = run.readers[0]
    found: list[int] = []
    for _ in range(40):
        item = reader.poll()
        if isinstance(item, SourceBatch):
            found += [row.n for row in decode(item.batch)]
        paused = chance.sample(everything, chance.randrange(len(everything)))
        reader.pause_or_resume_splits(paused, [each for each in everything if each not in paused])
        if chance.random() < 0.2:
            saved = reader.snapshot_state(1)
            reader.close()
            reader = source.create_reader(FakeSubtaskContext(batch_rows=2))
            reader.add_splits(saved)
            reader.notify_no_more_splits()
    reader.pause_or_resume_splits([], everything)
    for item in iter(reader.poll, ReaderStatus.END_OF_INPUT):
        assert isinstance(item, SourceBatch)
        found += [row.n for row in decode(item.batch)]
    assert sorted(found) == list(range(32))


def test_a_reader_does_not_look_at_its_paused_splits_again_for_each_that_it_begins() -> None:
    @dataclass
    class Split:
        number: int
        looks = 0

        @property
        def split_id(self) -> str:
            Split.looks += 1
            return str(self.number)

    class Reader(SplitListReader[Split]):
        def read_split(self, split: Split) -> Iterator[tuple[Batch | None, Split]]:
            yield batch_of(split.number), split

    reader = Reader(FakeSubtaskContext())
    reader.add_splits([Split(number) for number in range(400)])
    reader.notify_no_more_splits()
    paused = [str(number) for number in range(200)]
    reader.pause_or_resume_splits(paused, [])
    while reader.poll() is not ReaderStatus.NOTHING_AVAILABLE:
        pass
    assert Split.looks < 4_000
    assert [split.number for split in reader.snapshot_state(1)] == list(range(200))
    reader.pause_or_resume_splits([], paused[100:])
    assert isinstance(item := reader.poll(), SourceBatch)
    assert item.split_id == "100"
