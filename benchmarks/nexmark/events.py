"""Nexmark's events, whole columns at a time, as functions of the events' numbers.

An event's number says what it is: of each 50, the first is a new person, the next three new auctions, and 46 bids. All
of its values are made from its number and a seed, so that any range of events can be made again, by anybody. Rules and
figures are those of the generator of github.com/nexmark/nexmark, whose own events are other ones each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.random_values import (
    Longs,
    below,
    bits,
    choices,
    prices,
    separated_letters,
    texts,
)
from flinkray.batches.numpy_arrays import from_numpy

PERSONS, AUCTIONS, BIDS = 1, 3, 46
"""How many events of each kind there are among `EPOCH`."""
EPOCH = PERSONS + AUCTIONS + BIDS
FIRST_ID = 1000
"""Of persons and of auctions."""
HOT_GROUP = 100
"""One of so many persons or auctions, in the order of their ids, is hot."""
HOT_AUCTION_RATIO, HOT_BIDDER_RATIO, HOT_SELLER_RATIO = 2, 4, 4
"""All but one of so many bids and auctions are of what is hot."""
IN_FLIGHT_AUCTIONS = 100
ACTIVE_PERSONS = 1000
ID_LEAD = 10
"""Bids and auctions may name persons and auctions that are so many ids ahead."""
FIRST_CATEGORY, CATEGORIES = 10, 5
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100
"""What rows take on average, filled up by `extra`."""
CHANNELS = 10_000
"""Besides the hot ones, which have half of the bids."""
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")

_STATES = pa.array(("AZ", "CA", "ID", "OR", "WA", "WY"))
_CITIES = pa.array(
    (
        *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
        *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
    )
)
_FIRST_NAMES = pa.array(
    ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
)
_LAST_NAMES = pa.array(("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"))
_TIME = pa.timestamp("ms")

_RANDOM = (
    *("name", "surname", "email", "email_length", "host", "host_length", "card", "city", "state"),
    *("person_extra", "person_extra_length", "item", "item_length", "description", "description_length"),
    *("auction_extra", "auction_extra_length", "initial", "reserve", "expires", "seller", "is_hot_seller", "category"),
    *("bid_extra", "bid_extra_length", "auction", "is_hot_auction", "bidder", "is_hot_bidder", "price"),
    *("channel", "is_hot_channel", "url1", "url2", "url3", "has_channel_id"),
)
"""The random values of events, by whose place here they are seeded: another order makes other events."""
_SEEDS = {name: 1 + place for place, name in enumerate(_RANDOM)}

FIELDS: dict[str, dict[str, pa.DataType]] = {
    "person": {
        **dict.fromkeys(("id",), pa.int64()),
        **dict.fromkeys(("name", "emailAddress", "creditCard", "city", "state"), pa.string()),
        "dateTime": _TIME,
        "extra": pa.string(),
    },
    "auction": {
        "id": pa.int64(),
        **dict.fromkeys(("itemName", "description"), pa.string()),
        **dict.fromkeys(("initialBid", "reserve"), pa.int64()),
        **dict.fromkeys(("dateTime", "expires"), _TIME),
        **dict.fromkeys(("seller", "category"), pa.int64()),
        "extra": pa.string(),
    },
    "bid": {
        **dict.fromkeys(("auction", "bidder", "price"), pa.int64()),
        **dict.fromkeys(("channel", "url"), pa.string()),
        "dateTime": _TIME,
        "extra": pa.string(),
    },
}
"""The columns of each kind of event, in order."""
KINDS = tuple(FIELDS)
"""The kinds by their `event_type`."""
ALL_FIELDS = frozenset({"event_type", *(f"{kind}.{name}" for kind, fields in FIELDS.items() for name in fields)})
"""The names of all columns of the events, those within a row behind its name."""


@dataclass(frozen=True)
class EventTimes:
    """When events happen: evenly, by their numbers."""

    per_second: int = 10_000_000
    first_ms: int = 1_700_006_380_000
    """Of event 0, in epoch milliseconds: 20 s before midnight, so that few events are of two days."""

    def of(self, numbers: Longs) -> Longs:
        return self.first_ms + numbers * 1000 // self.per_second


TIMES = EventTimes()


@dataclass(frozen=True)
class EventColumn:
    """The column of one kind of event, a row of the kind's columns: NULL for events of other kinds.

    Args:
        kind: "person", "auction" or "bid".
        names: those of its columns that have values; the others are NULL, which takes no time.
    """

    kind: str
    names: frozenset[str]
    times: EventTimes
    seed: int = 0

    def __call__(self, numbers: Longs) -> pa.Array:
        if not self.names:
            return pa.nulls(len(numbers), pa.struct(FIELDS[self.kind]))
        is_of_kind = _kinds(numbers) == KINDS.index(self.kind)
        if self.kind == "bid":
            # Nearly all events are bids, so that making all of them and hiding some is less than spreading them.
            return self._rows(numbers, from_numpy(~is_of_kind))
        rows = self._rows(numbers[is_of_kind], None)
        positions = np.cumsum(is_of_kind) - 1
        return rows.take(pa.array(positions, mask=~is_of_kind))

    def _rows(self, numbers: Longs, mask: pa.Array | None) -> pa.Array:
        made = _Values(numbers, self.times, self.seed)
        columns = [
            _MAKERS[self.kind, name](made) if name in self.names else pa.nulls(len(numbers), kind)
            for name, kind in FIELDS[self.kind].items()
        ]
        fields = [pa.field(name, kind) for name, kind in FIELDS[self.kind].items()]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def event_types(numbers: Longs) -> pa.Array:
    """0 for a person, 1 for an auction, 2 for a bid."""
    return from_numpy(_kinds(numbers).astype(np.int32))


def _kinds(numbers: Longs) -> npt.NDArray[np.int8]:
    place = _places(numbers)[1]
    return (place >= PERSONS).view(np.int8) + (place >= PERSONS + AUCTIONS).view(np.int8)


def _places(numbers: Longs) -> tuple[Longs, Longs]:
    """In which epoch events are, and where in it: numpy has a fast division by a constant, but no such remainder."""
    epochs = numbers // EPOCH
    return epochs, numbers - epochs * EPOCH


def event_columns(
    fields: Iterable[str] = ALL_FIELDS, times: EventTimes = TIMES, seed: int = 0
) -> dict[str, Callable[[Longs], pa.Array]]:
    """The columns of all events, by name, as functions from events' numbers to values.

    Args:
        fields: the names, as in `ALL_FIELDS`, of what is to have values; all else is NULL.
    """
    asked = frozenset(fields)
    unknown = asked - ALL_FIELDS
    if unknown:
        raise ValueError(f"events have no {', '.join(sorted(unknown))}; they have {', '.join(sorted(ALL_FIELDS))}")
    columns: dict[str, Callable[[Longs], pa.Array]] = {"event_type": event_types}
    for kind in KINDS:
        names = frozenset(name for name in FIELDS[kind] if f"{kind}.{name}" in asked)
        columns[kind] = EventColumn(kind, names, times, seed)
    return columns


def events(numbers: Longs, times: EventTimes = TIMES, seed: int = 0) -> pa.RecordBatch:
    """The events of these numbers, with all of their values."""
    return pa.RecordBatch.from_pydict(
        {name: make(numbers) for name, make in event_columns(ALL_FIELDS, times, seed).items()}
    )


# -- the values of events of one kind


class _Values:
    """What the values of some events are made of."""

    def __init__(self, numbers: Longs, times: EventTimes, seed: int) -> None:
        self.numbers = numbers
        self.times = times
        self._seed = seed * len(_SEEDS)
        epoch, place = _places(numbers)
        self.last_person = epoch
        """The newest person at the time of the event, counted from 0."""
        self.last_auction = epoch * AUCTIONS + np.clip(place - PERSONS, -1, AUCTIONS - 1)
        """The newest auction, counted from 0; -1 before the first."""
        self.moments = times.of(numbers)

    def seed(self, name: str) -> int:
        return self._seed + _SEEDS[name]

    def below(self, name: str, limit: Longs | int) -> Longs:
        return below(self.numbers, self.seed(name), limit)

    def price(self, name: str) -> Longs:
        return prices(self.numbers, self.seed(name))

    def choice(self, name: str, values: pa.Array) -> pa.Array:
        return choices(values, self.numbers, self.seed(name))

    def words(self, name: str, length: int) -> pa.Array:
        """Texts of 3 to below `length` letters and blanks."""
        lengths = 3 + self.below(f"{name}_length", length - 3)
        return pc.utf8_trim_whitespace(texts(self.numbers, self.seed(name), lengths, length, separated_letters(" ")))

    def hot_or(self, name: str, ratio: int, hot: Longs, other: Longs) -> Longs:
        return np.where(self.below(f"is_hot_{name}", ratio) > 0, hot, other) + FIRST_ID

    def some_person(self, name: str) -> Longs:
        """One of the active persons, or of those that come next."""
        persons = self.last_person + 1
        active = np.minimum(persons, ACTIVE_PERSONS)
        return persons - active + self.below(name, active + ID_LEAD)

    def extra(self, kind: str, rest: Longs, average: int) -> pa.Array:
        """What fills a row up to an average of `average` bytes, give or take a fifth, beside the `rest`."""
        wanted = np.maximum(average - rest, 0)
        delta = np.rint(wanted * 0.2).astype(np.int64)
        lengths = wanted - delta + self.below(f"{kind}_extra_length", np.maximum(2 * delta, 1))
        return texts(self.numbers, self.seed(f"{kind}_extra"), lengths, average * 6 // 5)


def _bytes(*columns: pa.Array) -> Longs:
    lengths: Longs = np.sum([pc.binary_length(each).to_numpy() for each in columns], axis=0, dtype=np.int64)
    return lengths


def _moments(made: _Values) -> pa.Array:
    return from_numpy(made.moments).cast(_TIME)


def _person_name(made: _Values) -> pa.Array:
    return pc.binary_join_element_wise(made.choice("name", _FIRST_NAMES), made.choice("surname", _LAST_NAMES), " ")


def _email(made: _Values) -> pa.Array:
    return pc.binary_join_element_wise(made.words("email", 7), "@", made.words("host", 5), ".com", "")


def _credit_card(made: _Values) -> pa.Array:
    digits = bits(made.numbers, made.seed("card")) % np.uint64(10**16)
    text = pc.utf8_lpad(from_numpy(digits.view(np.int64)).cast(pa.string()), 16, "0")
    parts = [pc.utf8_slice_codeunits(text, start, start + 4) for start in range(0, 16, 4)]
    return pc.binary_join_element_wise(*parts, " ")


def _person_extra(made: _Values) -> pa.Array:
    columns = (_person_name(made), _email(made), _credit_card(made), _city(made), _state(made))
    return made.extra("person", 8 + _bytes(*columns), PERSON_BYTES)


def _city(made: _Values) -> pa.Array:
    return made.choice("city", _CITIES)


def _state(made: _Values) -> pa.Array:
    return made.choice("state", _STATES)


def _item_name(made: _Values) -> pa.Array:
    return made.words("item", 20)


def _description(made: _Values) -> pa.Array:
    return made.words("description", 100)


def _expires(made: _Values) -> pa.Array:
    """In flight are, on average, `IN_FLIGHT_AUCTIONS`."""
    horizon = made.times.of(made.numbers + IN_FLIGHT_AUCTIONS * EPOCH // AUCTIONS) - made.moments
    return from_numpy(made.moments + 1 + made.below("expires", np.maximum(2 * horizon, 1))).cast(_TIME)


def _seller(made: _Values) -> pa.Array:
    hot = made.last_person // HOT_GROUP * HOT_GROUP
    return from_numpy(made.hot_or("seller", HOT_SELLER_RATIO, hot, made.some_person("seller")))


def _auction_extra(made: _Values) -> pa.Array:
    return made.extra("auction", 48 + _bytes(_item_name(made), _description(made)), AUCTION_BYTES)


def _bid_auction(made: _Values) -> pa.Array:
    hot = made.last_auction // HOT_GROUP * HOT_GROUP
    first = np.maximum(made.last_auction - IN_FLIGHT_AUCTIONS, 0)
    other = first + made.below("auction", made.last_auction - first + 1 + ID_LEAD)
    return from_numpy(made.hot_or("auction", HOT_AUCTION_RATIO, hot, other))


def _bidder(made: _Values) -> pa.Array:
    # The second of the group, as the first is the hot seller.
    hot = made.last_person // HOT_GROUP * HOT_GROUP + 1
    return from_numpy(made.hot_or("bidder", HOT_BIDDER_RATIO, hot, made.some_person("bidder")))


@cache
def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """The names of all channels and their URLs, the hot ones last; most others have an id, which is in the URL."""
    numbers = np.arange(CHANNELS + len(HOT_CHANNELS))
    lengths = {part: 3 + below(numbers, seed + _SEEDS[part], 2) for part in ("url1", "url2", "url3")}
    parts = [texts(numbers, seed + _SEEDS[part], each, 5, separated_letters("_")) for part, each in lengths.items()]
    url = pc.binary_join_element_wise("https://www.nexmark.com", *parts, "item.htm?query=1", "/")
    mixed = (bits(numbers, seed + _SEEDS["has_channel_id"]) >> np.uint64(33)).view(np.int64)
    has_id = (below(numbers, seed + _SEEDS["has_channel_id"], 10) > 0) & (numbers < CHANNELS)
    ids = pc.if_else(
        from_numpy(has_id), pc.binary_join_element_wise("&channel_id=", from_numpy(mixed).cast(pa.string()), ""), ""
    )
    names = [f"channel-{number}" for number in range(CHANNELS)]
    return pa.array([*names, *HOT_CHANNELS]), pc.binary_join_element_wise(url, ids, "")


def _channel_numbers(made: _Values) -> pa.Array:
    hot = CHANNELS + made.below("channel", len(HOT_CHANNELS))
    return from_numpy(np.where(made.below("is_hot_channel", 2) > 0, hot, made.below("channel", CHANNELS)))


def _channel(made: _Values) -> pa.Array:
    return _channels(made.seed("name"))[0].take(_channel_numbers(made))


def _url(made: _Values) -> pa.Array:
    return _channels(made.seed("name"))[1].take(_channel_numbers(made))


_MAKERS: dict[tuple[str, str], Callable[[_Values], pa.Array]] = {
    ("person", "id"): lambda made: from_numpy(made.last_person + FIRST_ID),
    ("person", "name"): _person_name,
    ("person", "emailAddress"): _email,
    ("person", "creditCard"): _credit_card,
    ("person", "city"): _city,
    ("person", "state"): _state,
    ("person", "dateTime"): _moments,
    ("person", "extra"): _person_extra,
    ("auction", "id"): lambda made: from_numpy(made.last_auction + FIRST_ID),
    ("auction", "itemName"): _item_name,
    ("auction", "description"): _description,
    ("auction", "initialBid"): lambda made: from_numpy(made.price("initial")),
    ("auction", "reserve"): lambda made: from_numpy(made.price("initial") + made.price("reserve")),
    ("auction", "dateTime"): _moments,
    ("auction", "expires"): _expires,
    ("auction", "seller"): _seller,
    ("auction", "category"): lambda made: from_numpy(FIRST_CATEGORY + made.below("category", CATEGORIES)),
    ("auction", "extra"): _auction_extra,
    ("bid", "auction"): _bid_auction,
    ("bid", "bidder"): _bidder,
    ("bid", "price"): lambda made: from_numpy(made.price("price")),
    ("bid", "channel"): _channel,
    ("bid", "url"): _url,
    ("bid", "dateTime"): _moments,
    ("bid", "extra"): lambda made: made.extra("bid", np.full(len(made.numbers), 32), BID_BYTES),
}
