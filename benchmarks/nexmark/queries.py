"""Nexmark's queries, and how their answers are compared.

Read by Flink's virtual environment too, so it imports nothing but the standard library. The queries are in `queries/`,
written from the benchmark's description. Two differ from the benchmark: q10 gives the columns that it writes to a
partitioned file there; in q14 built-in functions count the letters, in place of a user's function in Java.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent / "queries"
TABLES = ("person", "auction", "bid", "side_input", "bid_with_time")
"""What queries read beside `events`, in the order in which they are created."""
SIDE_INPUT_ROWS = 10_000
"""`side_input` has the pairs (n, text of n) from 0."""


@dataclass(frozen=True)
class Query:
    """A query of the benchmark."""

    name: str
    work: str
    key: tuple[int, ...] = ()
    """The columns by which later rows replace earlier ones, where the engine may send updates without what they update;
    none: the answer is the multiset of rows that are there in the end."""
    compared: tuple[int, ...] = ()
    """The columns that are determined; none: all. Which of several rows of the same rank is the last is not."""
    no_flink: str = ""
    """Why Flink has no answer that could be compared."""
    no_answer: str = ""
    """Why there is none at all."""

    @property
    def sql(self) -> str:
        return (DIRECTORY / f"{self.name}.sql").read_text()

    @property
    def changes_file(self) -> str:
        """The name of the file with Flink's changes: another one when the query is written otherwise."""
        text = self.sql + (DIRECTORY / "tables.sql").read_text()
        return f"{self.name}-{zlib.crc32(text.encode()):08x}.json"


_CLOCK = "its windows are of the time at which rows come"
QUERIES: dict[str, Query] = {
    query.name: query
    for query in (
        Query("q0", "bids as they are"),
        Query("q1", "prices in another currency"),
        Query("q2", "bids for some auctions"),
        Query("q3", "sellers of some states: a join"),
        Query("q4", "average price by category: a join, and an aggregate of an aggregate"),
        Query("q5", "auctions with the most bids in sliding windows: a join of windows"),
        Query("q7", "highest bid in tumbling windows: a join with bounds in time"),
        Query("q8", "new sellers in tumbling windows: a join of windows"),
        Query("q9", "winning bids: a join, and the first by price", key=(0,)),
        Query("q10", "bids with day and minute"),
        Query("q11", "bids by session"),
        Query("q12", "bids in windows of processing time", no_answer=_CLOCK),
        Query("q13", "bids beside a table: a lookup", no_flink="none of its own connectors looks rows up"),
        Query("q14", "expressions: case, hour, counted letters"),
        Query("q15", "counts and distinct counts of a day"),
        Query("q16", "the same by channel"),
        Query("q17", "aggregates by auction and day"),
        Query("q18", "the last bid of a bidder for an auction"),
        Query("q19", "the ten highest bids of an auction", compared=(0, 2, 7)),
        Query("q20", "bids with their auction: a join"),
        Query("q21", "channel ids by regular expression"),
        Query("q22", "parts of URLs"),
        Query("q23", "bidders who sell: two joins"),
    )
}


def table_statements() -> dict[str, str]:
    """The statements that create the tables and views, by name; `events` first."""
    found = {}
    for part in (DIRECTORY / "tables.sql").read_text().split("\n-- ")[1:]:
        name, _, statement = part.partition("\n")
        found[name] = statement.strip().rstrip(";")
    return found
