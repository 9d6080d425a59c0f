"""Nexmark's events are the same whoever makes them, and have the proportions and ranges of the benchmark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.nexmark.events import FIELDS, EventTimes, event_columns, events
from benchmarks.nexmark.source import NexmarkSource
from flinkray import Boundedness

COUNT = 20_000
TIMES = EventTimes(per_second=1_000)


@pytest.fixture(scope="module")
def made() -> pa.RecordBatch:
    return events(np.arange(COUNT), TIMES)


def rows_of(made: pa.RecordBatch, kind: str) -> tuple[np.ndarray, dict[str, pa.Array]]:
    """The numbers of the events of a kind, and their columns."""
    column = made.column(kind)
    numbers = np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
    rows = column.drop_null()
    return numbers, dict(zip(FIELDS[kind], rows.flatten(), strict=True))


def share(flags: np.ndarray) -> float:
    return float(flags.mean())


@pytest.mark.parametrize(("start", "step"), [(0, 1), (4999, 1), (1, 2), (3, 7)])
def test_an_event_is_the_same_in_whatever_batch_it_is_made(made: pa.RecordBatch, start: int, step: int) -> None:
    numbers = np.arange(start, min(COUNT, start + 5_000 * step), step)
    assert events(numbers, TIMES).equals(made.take(pa.array(numbers)))


def test_another_seed_makes_other_events_of_the_same_kinds(made: pa.RecordBatch) -> None:
    other = events(np.arange(200), TIMES, seed=1)
    assert other.column("event_type").equals(made.column("event_type").slice(0, 200))
    assert not other.column("bid").equals(made.column("bid").slice(0, 200))


def test_columns_that_are_not_asked_for_are_null_and_the_others_as_they_are(made: pa.RecordBatch) -> None:
    asked = {"bid.price", "person.name"}
    columns = {name: make(np.arange(COUNT)) for name, make in event_columns(asked, TIMES).items()}
    for kind, fields in FIELDS.items():
        assert columns[kind].type == made.schema.field(kind).type
        for name in fields:
            whole, part = (pc.struct_field(each, name) for each in (made.column(kind), columns[kind]))
            assert part.equals(whole) if f"{kind}.{name}" in asked else part.null_count == COUNT
    with pytest.raises(ValueError, match=r"events have no bid\.prize; they have auction\.category, "):
        event_columns({"bid.prize"})


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_others_bids(made: pa.RecordBatch) -> None:
    assert made.column("event_type").to_pylist()[:50] == [0, 1, 1, 1] + [2] * 46
    for place, kind in enumerate(FIELDS):
        is_there = pc.is_valid(made.column(kind))
        assert is_there.equals(pc.equal(made.column("event_type"), place))
    assert [len(rows_of(made, kind)[0]) for kind in FIELDS] == [COUNT // 50, COUNT // 50 * 3, COUNT // 50 * 46]


def test_events_happen_evenly(made: pa.RecordBatch) -> None:
    for kind in FIELDS:
        numbers, columns = rows_of(made, kind)
        assert columns["dateTime"].cast(pa.int64()).to_numpy().tolist() == TIMES.of(numbers).tolist()
    assert EventTimes(10_000_000, 5).of(np.array([0, 9_999, 10_000, 100_000_000])).tolist() == [5, 5, 6, 10_005]


def test_ids_count_up_and_what_refers_to_them_is_active_or_comes_soon(made: pa.RecordBatch) -> None:
    _, persons = rows_of(made, "person")
    auction_numbers, auctions = rows_of(made, "auction")
    bid_numbers, bids = rows_of(made, "bid")
    assert persons["id"].to_pylist() == list(range(1000, 1000 + COUNT // 50))
    assert auctions["id"].to_pylist() == list(range(1000, 1000 + COUNT // 50 * 3))
    newest = {"person": 1000 + bid_numbers // 50, "auction": 1002 + bid_numbers // 50 * 3}
    for name, last in (("auction", newest["auction"]), ("bidder", newest["person"])):
        ids = bids[name].to_numpy()
        assert ids.min() >= 1000
        assert np.all(ids <= last + 10)
        assert np.any(ids > last)
    # An auction that is not hot is one of the last hundred.
    auction = bids["auction"].to_numpy()
    assert np.all((auction >= newest["auction"] - 100) | (auction % 100 == 0))
    assert np.all(auctions["seller"].to_numpy() <= 1000 + auction_numbers // 50 + 10)


def test_half_of_the_bids_and_three_quarters_of_bidders_and_sellers_are_hot(made: pa.RecordBatch) -> None:
    bid_numbers, bids = rows_of(made, "bid")
    auction_numbers, auctions = rows_of(made, "auction")
    hot_auction = 1000 + (bid_numbers // 50 * 3 + 2) // 100 * 100
    hot_person = 1000 + bid_numbers // 50 // 100 * 100
    assert share(bids["auction"].to_numpy() == hot_auction) == pytest.approx(0.505, abs=0.02)
    assert share(bids["bidder"].to_numpy() == hot_person + 1) == pytest.approx(0.75, abs=0.02)
    hot_seller = 1000 + auction_numbers // 50 // 100 * 100
    assert share(auctions["seller"].to_numpy() == hot_seller) == pytest.approx(0.75, abs=0.04)
    channels = bids["channel"]
    hot = pc.is_in(channels, pa.array(["Google", "Facebook", "Baidu", "Apple"])).to_numpy(zero_copy_only=False)
    assert share(hot) == pytest.approx(0.5, abs=0.02)
    has_id = pc.match_substring(bids["url"], "&channel_id=").to_numpy(zero_copy_only=False)
    assert not has_id[hot].any()
    assert share(has_id[~hot]) == pytest.approx(0.9, abs=0.02)


def test_prices_are_as_likely_in_each_power_of_ten(made: pa.RecordBatch) -> None:
    prices = rows_of(made, "bid")[1]["price"].to_numpy()
    assert (prices.min(), prices.max()) >= (100, 10**7)
    assert prices.max() <= 10**8
    assert [share(prices < 10**power) for power in (3, 4, 5, 6, 7)] == pytest.approx(
        [n / 6 for n in range(1, 6)], abs=0.02
    )


def test_an_auction_takes_as_long_that_a_hundred_are_open(made: pa.RecordBatch) -> None:
    _, auctions = rows_of(made, "auction")
    begins, ends = (auctions[name].cast(pa.int64()).to_numpy() for name in ("dateTime", "expires"))
    lengths = ends - begins
    horizon = 100 * 50 // 3  # events until there are a hundred more, each a millisecond
    assert (lengths.min(), lengths.max()) >= (1, horizon)
    assert lengths.max() <= 2 * horizon
    assert lengths.mean() == pytest.approx(horizon, rel=0.05)
    assert set(auctions["category"].to_pylist()) == {10, 11, 12, 13, 14}
    assert np.all(auctions["reserve"].to_numpy() - auctions["initialBid"].to_numpy() >= 100)


@pytest.mark.parametrize(("kind", "average"), [("person", 200), ("auction", 500), ("bid", 100)])
def test_rows_have_the_bytes_of_their_kind_on_average(made: pa.RecordBatch, kind: str, average: int) -> None:
    _, columns = rows_of(made, kind)
    # A bid's channel and URL are not counted, nor are the times of persons.
    counted = {name: column for name, column in columns.items() if name not in ("channel", "url")}
    numbers = sum(8 for name, column in counted.items() if not pa.types.is_string(column.type))
    texts = sum(pc.binary_length(each).to_numpy().mean() for each in counted.values() if pa.types.is_string(each.type))
    assert numbers + texts == pytest.approx(average, rel=0.05)


def test_a_source_of_events_knows_its_end_and_its_columns(made: pa.RecordBatch) -> None:
    source = NexmarkSource(100, TIMES, fields={"bid.price"})
    assert source.boundedness is Boundedness.BOUNDED
    assert source.output_type is not None
    assert source.output_type.schema == made.schema
