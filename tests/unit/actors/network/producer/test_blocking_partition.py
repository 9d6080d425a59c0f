"""Results that are read when they are complete: in memory and in a file, read as often as wanted, then released."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from actors.network.producer.blocking_partition import BlockingResultPartition, ResultMemory
from actors.network.producer.subpartition import NextKind
from actors.protocol.elements import EndOfPartition, Event, Watermark
from flinkray.errors import FlinkrayError, PartitionError
from flinkray.types.records import Timestamp
from tests.support.network import numbers, partition_descriptor, values_of


class Result(BlockingResultPartition):
    """A partition with its memory, and whether it was released."""

    def __init__(
        self, subpartitions: int = 1, memory: int = 1 << 20, directory: str = "", target_rows: int = 4
    ) -> None:
        self.memory = ResultMemory(memory)
        self.released: list[Any] = []
        super().__init__(
            partition_descriptor(subpartitions),
            memory=self.memory,
            directory=directory,
            target_rows=target_rows,
            target_bytes=1 << 20,
            on_released=self.released.append,
        )

    def read(self, index: int = 0) -> list[Any]:
        """Numbers and events, by a reading of its own."""
        view = self.create_view(index, lambda: None)
        found: list[Any] = []
        backlog = view.backlog
        while (polled := view.poll()) is not None:
            backlog -= not polled.buffer.is_event
            assert polled.backlog == backlog, "the backlog is what is still to come"
            assert (polled.next_kind is NextKind.NOTHING) == isinstance(polled.buffer.event, EndOfPartition)
            found += values_of(polled.buffer.element)
        view.release()
        return found


@pytest.mark.parametrize("memory", [0, 100, 1 << 20])
def test_what_is_written_is_read_in_order_as_often_as_wanted_wherever_it_is_kept(memory: int) -> None:
    for seed in range(30):
        chance = random.Random(seed)
        result = Result(chance.randint(1, 3), memory, target_rows=chance.choice([1, 4, 100]))
        expected: list[list[int | Event]] = [[] for _ in range(result.number_of_subpartitions)]
        for _ in range(chance.randint(0, 40)):
            values = [chance.randint(0, 99) for _ in range(chance.randint(1, 6))]
            index = chance.randrange(len(expected))
            match chance.choice(["emit", "broadcast", "event", "everyone"]):
                case "emit":
                    result.emit(index, numbers(*values))
                    expected[index] += values
                case "broadcast":
                    result.broadcast(numbers(*values))
                    for each in expected:
                        each += values
                case "event":
                    result.emit_event(index, Watermark(Timestamp(values[0])))
                    expected[index].append(Watermark(Timestamp(values[0])))
                case _:
                    result.broadcast_event(Watermark(Timestamp(values[0])))
                    for each in expected:
                        each.append(Watermark(Timestamp(values[0])))
            result.check()
            assert result.is_available
        result.finish()
        for _ in range(2):
            for index, each in enumerate(expected):
                assert result.read(index) == [*each, EndOfPartition()], f"seed {seed}"
        result.release()
        assert result.memory.used == 0


def test_nothing_is_readable_before_the_end_and_then_readers_hear_of_it() -> None:
    result = Result()
    heard: list[str] = []
    view = result.create_view(0, lambda: heard.append("readable"))
    result.emit(0, numbers(1, 2, 3, 4, 5))
    assert (view.poll(), view.next_kind, heard) == (None, NextKind.NOTHING, [])
    result.finish()
    assert (view.next_kind, heard) == (NextKind.DATA, ["readable"])


def test_two_readings_at_once_do_not_see_each_other() -> None:
    result = Result(target_rows=1)
    for value in range(6):
        result.emit(0, numbers(value))
    result.finish()
    one, other = (result.create_view(0, lambda: None) for _ in range(2))
    taken = [one.poll(), one.poll(), other.poll(), one.poll(), other.poll()]
    assert [polled.buffer.batch.data.column(0)[0].as_py() for polled in taken if polled] == [0, 1, 0, 2, 1]
    assert [polled.sequence for polled in taken if polled] == [0, 1, 0, 2, 1]


def test_a_reader_that_fails_takes_nothing_along() -> None:
    result = Result()
    result.emit(0, numbers(1, 2))
    result.finish()
    result.create_view(0, lambda: None).fail_partition("its slot is gone")
    assert result.read() == [1, 2, EndOfPartition()]
    assert result.released == []


def test_a_release_frees_memory_and_file_and_ends_readings(tmp_path: Path) -> None:
    result = Result(memory=100, directory=str(tmp_path))
    for value in range(100):
        result.emit(0, numbers(*range(value, value + 10)))
    assert result.spilled_bytes > 0
    assert result.memory.used > 0
    result.finish()
    view = result.create_view(0, lambda: None)
    result.release()
    result.release()
    assert result.released == [result]
    assert result.memory.used == 0
    assert os.listdir(tmp_path) == []
    with pytest.raises(PartitionError, match="was released: nobody was to need it"):
        view.poll()
    with pytest.raises(PartitionError, match="was released"):
        result.create_view(0, lambda: None)


def test_a_writer_hears_why_its_result_was_released() -> None:
    result = Result()
    result.release(ValueError("bad row"))
    with pytest.raises(PartitionError, match="ValueError: bad row"):
        result.emit(0, numbers(1))


def test_results_of_one_slot_share_their_memory() -> None:
    memory = ResultMemory(100)
    assert memory.take(60)
    assert not memory.take(60)
    memory.give_back(60)
    assert memory.take(100)


def test_a_full_disk_is_named_with_the_option(tmp_path: Path) -> None:
    result = Result(memory=0, directory=str(tmp_path / "gone"))
    with pytest.raises(FlinkrayError, match=r"result p could not be written in .*gone.*io\.tmp\.dirs"):
        result.emit(0, numbers(1, 2, 3, 4))
    result.release()


def test_there_is_no_such_subpartition() -> None:
    with pytest.raises(PartitionError, match="has no subpartition 3"):
        Result().create_view(3, lambda: None)
