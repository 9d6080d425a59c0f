"""Which channel each row goes to, against a model that goes row by row."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.keys.hashes import key_groups
from actors.network.producer.partitioners import ChannelSelector, create_selector
from flinkray.batches.batch import Batch
from flinkray.errors import TypeMismatchError, UserFunctionError
from flinkray.transformations.partitioning import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    KeyGroupPartitioner,
    Partitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
)
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.records import Kind
from graphs.key_groups import subtask_for_key_group
from tests.support.network import numbers, values_of

BY_VALUE = ColumnKey(("value",))
LISTS = st.lists(st.integers(-100, 100), min_size=1, max_size=40)


def selector(partitioner: Partitioner, channels: int, seed: int = 0) -> ChannelSelector:
    return create_selector(partitioner, channels, random.Random(seed), "map (1/2)")


def split(chosen: ChannelSelector, batch: Batch) -> dict[int, list[Any]]:
    """Channel -> its rows; checks what holds for every partitioner."""
    parts = list(chosen.split(batch))
    assert len({channel for channel, _ in parts}) == len(parts), "no channel comes twice"
    assert all(part.num_rows for _, part in parts), "no part is empty"
    assert all(0 <= channel < chosen.channels for channel, _ in parts)
    return {channel: values_of(part) for channel, part in parts}


def by_row(rows: list[int], channel_of: Callable[[int], int]) -> dict[int, list[int]]:
    model: dict[int, list[int]] = {}
    for row in rows:
        model.setdefault(channel_of(row), []).append(row)
    return model


@pytest.mark.parametrize("partitioner", [ForwardPartitioner(), GlobalPartitioner()])
def test_forward_and_global_give_everything_to_the_first_channel(partitioner: Partitioner) -> None:
    assert split(selector(partitioner, 3), numbers(1, 2, 3)) == {0: [1, 2, 3]}


def test_broadcast_gives_everything_to_every_channel() -> None:
    assert split(selector(BroadcastPartitioner(), 3), numbers(1, 2)) == {0: [1, 2], 1: [1, 2], 2: [1, 2]}


@settings(deadline=None, max_examples=60)
@given(rows=LISTS, channels=st.integers(1, 9), max_parallelism=st.integers(9, 200))
def test_a_key_goes_to_the_subtask_that_owns_its_key_group(
    rows: list[int], channels: int, max_parallelism: int
) -> None:
    def owner(row: int) -> int:
        group = int(key_groups(numbers(row).data, max_parallelism)[0])
        return int(subtask_for_key_group(group, channels, max_parallelism))

    chosen = selector(KeyGroupPartitioner(BY_VALUE, max_parallelism), channels)
    assert split(chosen, numbers(*rows)) == by_row(rows, owner)


@settings(deadline=None, max_examples=60)
@given(rows=LISTS, channels=st.integers(1, 9))
def test_a_custom_partitioner_decides_per_key(rows: list[int], channels: int) -> None:
    chosen = selector(CustomPartitioner(lambda key, count: abs(key) % count, BY_VALUE), channels)
    assert split(chosen, numbers(*rows)) == by_row(rows, lambda row: abs(row) % channels)


@pytest.mark.parametrize("partitioner", [RebalancePartitioner(), RescalePartitioner()])
@settings(deadline=None, max_examples=60)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=12), channels=st.integers(1, 9), seed=st.integers(0, 99))
def test_round_robin_never_gives_a_channel_more_than_one_row_more_than_another(
    partitioner: Partitioner, sizes: list[int], channels: int, seed: int
) -> None:
    chosen = selector(partitioner, channels, seed)
    counts = dict.fromkeys(range(channels), 0)
    for size in sizes:
        parts = split(chosen, numbers(*range(size)))
        assert sorted(value for part in parts.values() for value in part) == list(range(size))
        for channel, part in parts.items():
            counts[channel] += len(part)
        assert max(counts.values()) - min(counts.values()) <= 1


def test_round_robin_sends_single_rows_to_one_channel_after_the_other() -> None:
    chosen = selector(RebalancePartitioner(), 3)
    channels = [next(iter(split(chosen, numbers(number)))) for number in range(6)]
    assert channels[:3] == channels[3:]
    assert sorted(channels[:3]) == [0, 1, 2]


def test_round_robin_starts_with_a_random_channel() -> None:
    firsts = {next(iter(split(selector(RebalancePartitioner(), 4, seed), numbers(1)))) for seed in range(40)}
    assert firsts == {0, 1, 2, 3}


def test_shuffle_spreads_rows_evenly_and_keeps_the_order_on_each_channel() -> None:
    parts = split(selector(ShufflePartitioner(), 4), numbers(*range(4_000)))
    assert sorted(value for part in parts.values() for value in part) == list(range(4_000))
    assert all(part == sorted(part) for part in parts.values())
    assert all(880 < len(part) < 1_120 for part in parts.values())


def test_shuffle_repeats_itself_with_the_same_generator() -> None:
    first = split(selector(ShufflePartitioner(), 4, seed=7), numbers(*range(50)))
    assert first == split(selector(ShufflePartitioner(), 4, seed=7), numbers(*range(50)))


def test_a_batch_of_one_key_is_passed_on_without_a_copy() -> None:
    batch = numbers(5, 5, 5)
    ((_, part),) = selector(KeyGroupPartitioner(BY_VALUE, 128), 4).split(batch)
    assert part is batch


def test_event_times_travel_with_their_rows() -> None:
    rows = list(range(50))
    batch = numbers(*rows).with_times(pa.array([row * 10 for row in rows]))
    for _, part in selector(KeyGroupPartitioner(BY_VALUE, 128), 4).split(batch):
        assert part.timestamps is not None
        assert part.timestamps.to_pylist() == [10 * value for value in values_of(part)]


@pytest.mark.parametrize("channels", [1, 4])
def test_keys_that_a_function_made_travel_beside_their_rows(channels: int) -> None:
    chosen = selector(KeyGroupPartitioner(FunctionKey(lambda value: -value), 128), channels)
    for _, part in chosen.split(numbers(*range(20))):
        assert part.keys is not None
        assert part.keys.column(0).to_pylist() == [-value for value in values_of(part)]


def stale() -> Batch:
    batch = numbers(*range(8))
    return Batch(batch.data, Kind.SCALAR, keys=pa.RecordBatch.from_pydict({"key": ["of an earlier exchange"] * 8}))


@pytest.mark.parametrize(
    "partitioner",
    [
        ForwardPartitioner(),
        GlobalPartitioner(),
        RebalancePartitioner(),
        RescalePartitioner(),
        ShufflePartitioner(),
        BroadcastPartitioner(),
        KeyGroupPartitioner(BY_VALUE, 128),
        CustomPartitioner(lambda key, count: key % count, BY_VALUE),
    ],
    ids=str,
)
@pytest.mark.parametrize("channels", [1, 3])
def test_keys_of_an_earlier_exchange_are_dropped(partitioner: Partitioner, channels: int) -> None:
    assert all(part.keys is None for _, part in selector(partitioner, channels).split(stale()))


def test_keys_of_an_earlier_exchange_are_not_taken_for_this_ones() -> None:
    for _, part in selector(KeyGroupPartitioner(FunctionKey(lambda value: value % 2), 128), 2).split(stale()):
        assert part.keys is not None
        assert part.keys.column(0).to_pylist() == [value % 2 for value in values_of(part)]


@pytest.mark.parametrize("channel", [-1, 3, "one", None])
def test_a_custom_partitioner_must_name_a_channel_that_exists(channel: Any) -> None:
    chosen = selector(CustomPartitioner(lambda key, count: channel, BY_VALUE), 3)  # noqa: ARG005
    with pytest.raises(TypeMismatchError, match=r"map \(1/2\): the partitioner must give a channel from 0 to 2"):
        chosen.split(numbers(1))


def test_an_error_of_a_custom_partitioner_names_the_key() -> None:
    chosen = selector(CustomPartitioner(lambda key, count: count // key, BY_VALUE), 3)
    with pytest.raises(UserFunctionError, match=r"map \(1/2\), partitioner.*ZeroDivisionError.*the value was 0"):
        chosen.split(numbers(3, 0))


def test_ending_the_thread_in_a_custom_partitioner_is_an_error_of_the_partitioner() -> None:
    def stop(_key: int, _count: int) -> int:
        raise SystemExit("no")

    chosen = selector(CustomPartitioner(stop, BY_VALUE), 3)
    with pytest.raises(UserFunctionError, match=r"map \(1/2\), partitioner.*SystemExit: no; the value was 3"):
        chosen.split(numbers(3))
