"""How the records of a stream are spread over the subtasks of the next operator, in whole jobs."""

from __future__ import annotations

from typing import Any

import pytest

from flinkray import (
    DataStream,
    JobExecutionError,
    KeySelectorFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinkray.pyflink.datastream import Partitioner
from tests.support.whole_jobs import cities

# -- partitioning


class Subtask(MapFunction):
    """Each value with the subtask that got it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> tuple[int, Any]:
        return self.subtask, value


def spread(stream: DataStream, parallelism: int = 2) -> dict[int, list[Any]]:
    """What each subtask after `stream` got."""
    found: dict[int, list[Any]] = {}
    for subtask, value in stream.map(Subtask()).set_parallelism(parallelism).execute_and_collect():
        found.setdefault(subtask, []).append(value)
    return {subtask: sorted(values) for subtask, values in sorted(found.items())}


def test_forward_keeps_the_subtask(env: StreamExecutionEnvironment) -> None:
    before = env.from_sequence(1, 10).map(Subtask()).disable_chaining()
    found = spread(before.forward())
    assert {subtask for subtask, values in found.items() for other, _ in values if other != subtask} == set()
    assert sum(map(len, found.values())) == 10


def test_rebalance_goes_round_all_subtasks(env: StreamExecutionEnvironment) -> None:
    found = spread(env.from_sequence(1, 10).set_parallelism(1).rebalance(), parallelism=2)
    assert sorted(map(len, found.values())) == [5, 5]


def test_rescale_stays_within_each_senders_group(env: StreamExecutionEnvironment) -> None:
    before = env.from_sequence(1, 20).set_parallelism(1).rebalance().map(Subtask()).set_parallelism(2)
    found = spread(before.rescale(), parallelism=4)
    senders = {subtask: {sender for sender, _ in values} for subtask, values in found.items()}
    assert senders == {0: {0}, 1: {0}, 2: {1}, 3: {1}}


def test_shuffle_loses_nothing(env: StreamExecutionEnvironment) -> None:
    found = spread(env.from_sequence(1, 1000).shuffle())
    assert sorted(value for values in found.values() for value in values) == list(range(1, 1001))
    assert all(350 < len(values) < 650 for values in found.values())


def test_global_sends_all_to_the_first_subtask(env: StreamExecutionEnvironment) -> None:
    assert spread(env.from_sequence(1, 5).global_()) == {0: [1, 2, 3, 4, 5]}


def test_broadcast_sends_all_to_every_subtask(env: StreamExecutionEnvironment) -> None:
    assert spread(env.from_collection([1, 2]).broadcast(), parallelism=3) == {0: [1, 2], 1: [1, 2], 2: [1, 2]}


def test_partition_custom_by_a_function_of_the_record(env: StreamExecutionEnvironment) -> None:
    found = spread(env.from_sequence(1, 6).partition_custom(lambda key, n: key % n, lambda value: value // 2))
    assert found == {0: [1, 4, 5], 1: [2, 3, 6]}


def test_partition_custom_by_a_column(env: StreamExecutionEnvironment) -> None:
    found = spread(
        cities(env).partition_custom(lambda key, n: n - 1 if key == "Rome" else 0, "city").map(lambda r: r.city)
    )
    assert found == {0: ["Lima", "Oslo"], 1: ["Rome"]}


class ByHalves(Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        return key // 4 % num_partitions


def test_partition_custom_by_pyflinks_partitioner(env: StreamExecutionEnvironment) -> None:
    assert spread(env.from_sequence(0, 7).partition_custom(ByHalves(), "value")) == {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}


def test_a_partitioner_that_points_outside_is_an_error(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobExecutionError, match=r"a channel from 0 to 1 .* not 5"):
        spread(env.from_sequence(1, 6).partition_custom(lambda *_: 5, lambda value: value))


# A pair of neighbours, 2n and 2n + 1, has one key.
class ByHalf(KeySelectorFunction):
    def get_key(self, value: int) -> int:
        return value // 2


@pytest.mark.parametrize("key", [ByHalf(), lambda value: value // 2])
def test_key_by_a_function_brings_equal_keys_together(env: StreamExecutionEnvironment, key: Any) -> None:
    found = spread(env.from_sequence(0, 39).key_by(key))
    assert len(found) == 2
    assert all(value ^ 1 in values for values in found.values() for value in values)


def test_key_by_a_column_brings_equal_keys_together(env: StreamExecutionEnvironment) -> None:
    found = spread(env.from_sequence(0, 19).union(env.from_sequence(0, 19)).rebalance().key_by("value"))
    assert len(found) == 2
    assert all(values.count(value) == 2 for values in found.values() for value in values)
