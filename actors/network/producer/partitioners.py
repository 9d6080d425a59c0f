"""Which channel each row of a batch goes to: the kernels behind `flinkray.transformations.partitioning`.

Every kernel works on whole columns: one pass gives a channel per row, one `take` brings the rows of each channel
together, and the parts are slices of that. Rows of one channel keep their order.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.columns.take import take_rows
from actors.keys.hashes import key_columns, key_values
from actors.keys.key_types import KeyTypes
from actors.network.producer.key_owners import KeyOwners
from actors.user_code.errors import raise_attributed
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import short_repr
from flinkray.errors import TypeMismatchError
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
from flinkray.types.keys import FunctionKey, KeySelector
from graphs.key_groups import subtask_for_key_group

Parts = Iterable[tuple[int, Batch]]
"""(channel, its rows), no channel twice, no part empty."""

# Up to so many channels their rows are looked for one channel after the other, which then costs less than sorting.
_FEW_CHANNELS = 8


class ChannelSelector(ABC):
    """Splits batches over `channels` channels. Belongs to one writer, and so to one thread."""

    def __init__(self, channels: int) -> None:
        self.channels = channels

    @abstractmethod
    def split(self, batch: Batch) -> Parts:
        """The batch's rows by channel; the batch is not empty.

        Key columns that an earlier exchange left beside the batch are dropped: they are not the next one's.
        """


class FirstChannel(ChannelSelector):
    """Everything to channel 0: forward has only that one, global wants no other."""

    def split(self, batch: Batch) -> Parts:
        return ((0, batch.without_keys()),)


class RoundRobin(ChannelSelector):
    """Rows in turn: each channel gets one slice of the batch, and no channel ever more than one row more than another.
    Rescale does the same, over the few channels that its group has.

    A batch of fewer rows than channels goes on where the last one stopped, so single rows go round robin too.
    """

    def __init__(self, channels: int, first: int) -> None:
        super().__init__(channels)
        self._next = first

    def split(self, batch: Batch) -> Parts:
        batch = batch.without_keys()
        if self.channels == 1:
            return ((0, batch),)
        share, extra = divmod(batch.num_rows, self.channels)
        parts, start = [], 0
        for turn in range(self.channels if share else extra):
            length = share + (turn < extra)
            parts.append(((self._next + turn) % self.channels, batch.slice(start, length)))
            start += length
        self._next = (self._next + extra) % self.channels
        return parts


class Shuffle(ChannelSelector):
    """Each row to a channel at random, all equally likely."""

    def __init__(self, channels: int, generator: random.Random) -> None:
        super().__init__(channels)
        self._generator = np.random.default_rng(generator.getrandbits(64))

    def split(self, batch: Batch) -> Parts:
        chosen = self._generator.integers(0, self.channels, batch.num_rows, dtype=np.uint16)
        return _by_channel(batch.without_keys(), chosen, self.channels)


class ByKeyGroup(ChannelSelector):
    """Each row to the subtask that owns its key's group. Keys that a function made travel beside the rows."""

    def __init__(self, channels: int, key: KeySelector, max_parallelism: int, where: str) -> None:
        super().__init__(channels)
        self._key = key
        self._key_types = KeyTypes()
        self._where = where
        groups = np.arange(max_parallelism, dtype=np.int64)
        owners = subtask_for_key_group(groups, channels, max_parallelism)
        self._owners = KeyOwners(owners.astype(np.uint8 if channels <= 256 else np.uint16))

    def split(self, batch: Batch) -> Parts:
        batch = batch.without_keys()
        if self.channels == 1 and not isinstance(self._key, FunctionKey):
            return ((0, batch),)
        columns = key_columns(batch, self._key, self._where)
        self._key_types.add(columns, self._where)
        if isinstance(self._key, FunctionKey):
            batch = replace(batch, keys=columns)
        return _by_channel(batch, self._owners.of(columns), self.channels)


class Custom(ChannelSelector):
    """Each row to the channel that the user's function gives for its key."""

    def __init__(self, channels: int, function: Callable[[Any, int], int], selector: KeySelector, where: str) -> None:
        super().__init__(channels)
        self._function = function
        self._selector = selector
        self._key_types = KeyTypes()
        self._where = where

    def split(self, batch: Batch) -> Parts:
        batch = batch.without_keys()
        columns = key_columns(batch, self._selector, self._where)
        self._key_types.add(columns, self._where)
        keys = key_values(columns, self._selector)
        chosen = np.fromiter((self._channel(key) for key in keys), dtype=np.uint16, count=len(keys))
        return _by_channel(batch, chosen, self.channels)

    def _channel(self, key: Any) -> int:
        try:
            channel = self._function(key, self.channels)
        except BaseException as error:
            raise_attributed(f"{self._where}, partitioner", "", key, error)
        if isinstance(channel, int | np.integer) and 0 <= channel < self.channels:
            return int(channel)
        raise TypeMismatchError(
            f"{self._where}: the partitioner must give a channel from 0 to {self.channels - 1} for every key, "
            f"not {short_repr(channel)} for {short_repr(key)}"
        )


class EveryChannel(ChannelSelector):
    """The whole batch to every channel. The record writer shares one buffer among them instead of asking for parts."""

    def split(self, batch: Batch) -> Parts:
        batch = batch.without_keys()
        return [(channel, batch) for channel in range(self.channels)]


def create_selector(partitioner: Partitioner, channels: int, generator: random.Random, where: str) -> ChannelSelector:
    """The kernel for a description.

    Args:
        generator: for shuffle, and for the channel that a round robin starts with (so that many producers do not all
            start with the first).
        where: names the producing task in errors.
    """
    match partitioner:
        case ForwardPartitioner() | GlobalPartitioner():
            return FirstChannel(channels)
        case RebalancePartitioner() | RescalePartitioner():
            return RoundRobin(channels, generator.randrange(channels))
        case ShufflePartitioner():
            return Shuffle(channels, generator)
        case BroadcastPartitioner():
            return EveryChannel(channels)
        case KeyGroupPartitioner(key, max_parallelism):
            assert max_parallelism is not None, f"{where}: the compiler must settle the max parallelism"
            return ByKeyGroup(channels, key, max_parallelism, where)
        case CustomPartitioner(function, selector):
            return Custom(channels, function, selector, where)
    raise TypeError(f"{where}: there is no kernel for {type(partitioner).__name__}")


def _by_channel(batch: Batch, chosen: npt.NDArray[Any], channels: int) -> Parts:
    """The parts of a batch whose row i goes to channel `chosen[i]`, an unsigned integer of 8 or 16 bits."""
    if channels <= _FEW_CHANNELS:
        # Arrow takes rows by indices of 32 bits in less time than by those of 64.
        rows = [(chosen == channel).nonzero()[0] for channel in range(channels)]
        counts = np.array([len(each) for each in rows])
        indices = np.concatenate(rows, dtype=np.uint32, casting="unsafe")
    else:
        counts = np.bincount(chosen, minlength=channels)
        # numpy sorts such integers stably by counting digits: linear, and no row overtakes another of its channel.
        indices = np.argsort(chosen, kind="stable").astype(np.uint32)
    used = np.flatnonzero(counts)
    if len(used) == 1:
        return ((int(used[0]), batch),)
    sorted_rows = take_rows(batch, indices)
    starts = np.cumsum(counts) - counts
    return [(int(channel), sorted_rows.slice(int(starts[channel]), int(counts[channel]))) for channel in used]
