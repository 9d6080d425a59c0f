"""Which entries of a stream were removed before they were read, against a model that knows each entry."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from flinkray.connectors.redis.removals import StreamCounts, advanced, look_at
from flinkray.connectors.redis.splits import RedisSplit


class Stream:
    """What a server keeps."""

    def __init__(self) -> None:
        self.entries: list[int] = []
        self.added = 0

    def add(self, count: int) -> None:
        self.entries += range(self.added + 1, self.added + count + 1)
        self.added += count

    def trim(self, length: int) -> None:
        self.entries = self.entries[max(0, len(self.entries) - length) :]

    @property
    def counts(self) -> StreamCounts:
        first = f"{self.entries[0]}-0" if self.entries else None
        return StreamCounts(self.added, len(self.entries), first, f"{self.added}-0")

    def after(self, split: RedisSplit, most: int) -> list[int]:
        return [entry for entry in self.entries if entry > int(split.last_id.split("-")[0])][:most]


def read_on(split: RedisSplit, stream: Stream, found: Sequence[int]) -> RedisSplit:
    return advanced(split, f"{found[-1]}-0", len(found), stream.counts) if found else split


@pytest.mark.parametrize("begins_late", [False, True])
@pytest.mark.seeds(30)
def test_entries_that_are_trimmed_unread_are_counted_and_no_others(seed: int, begins_late: bool) -> None:
    rand = random.Random(seed)
    stream = Stream()
    stream.add(rand.randint(0, 20))
    stream.trim(rand.randint(0, 20))
    begins_at = stream.added if begins_late else 0
    split = RedisSplit("s", f"{begins_at}-0")
    position = begins_at if begins_late else stream.added - len(stream.entries)
    for _ in range(60):
        look = look_at(split, stream.counts)
        found = stream.after(split, rand.randint(1, 8))
        next_one = found[0] if found else stream.added + 1
        assert (look.unread, look.is_uncertain, look.is_another) == (next_one - position - 1, False, False)
        split = read_on(look.split, stream, found)
        position = max(next_one - 1, found[-1] if found else 0)
        stream.add(rand.randint(0, 6))
        if rand.random() < 0.4:
            stream.trim(rand.randint(0, 15))
        if rand.random() < 0.3:  # another reader deletes what it has read, and so has this one
            stream.entries = [entry for entry in stream.entries if entry > position or rand.random() < 0.5]


def test_where_it_is_not_known_how_many_were_read_others_may_be_missing() -> None:
    stream = Stream()
    stream.add(10)
    split = RedisSplit("s", "4-0", is_begun=True)
    assert look_at(split, stream.counts).split == split
    stream.trim(5)
    assert look_at(split, stream.counts).is_uncertain
    read = read_on(split, stream, stream.after(split, 100))
    assert read.number == 10
    assert not look_at(read, stream.counts).is_uncertain


def test_a_stream_that_has_had_fewer_entries_than_were_read_is_another_or_that_of_a_replica() -> None:
    read = RedisSplit("s", "10-0", is_begun=True, number=10)
    of_a_replica = StreamCounts(added=8, length=8, first_id="1-0", last_id="8-0")
    assert look_at(read, of_a_replica) == (RedisSplit("s", "10-0", is_begun=True, number=8), 0, False, True)
    made_anew = StreamCounts(added=5, length=3, first_id="14-0", last_id="16-0")
    look = look_at(read, made_anew)
    assert (look.unread, look.is_another, look.split.number) == (2, True, 2)


def test_older_servers_do_not_count() -> None:
    info = {"length": 1, "last-generated-id": b"5-0", "first-entry": (b"5-0", {b"n": b"1"})}
    assert StreamCounts.of(info) is None
    assert StreamCounts.of({**info, "entries-added": 3}) == StreamCounts(3, 1, "5-0", "5-0")
    assert StreamCounts.of({**info, "entries-added": 3, "first-entry": None}) == StreamCounts(3, 1, None, "5-0")
