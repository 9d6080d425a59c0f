"""PostgresLookup against a real server."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from flinkray import InvalidProgramError, JobExecutionError, PostgresLookup, RecordError, UnknownColumnError
from flinkray.connectors.postgres.connections import PostgresError
from tests.servers.test_kafka_source import environment
from tests.support.servers.postgres import PostgresServer, end_sessions

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]


class Figures:
    """A runtime context that has metrics only."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def get_metrics_group(self) -> Any:
        return SimpleNamespace(counter=lambda name: SimpleNamespace(inc=lambda n=1: self.counts.update({name: n})))


class Opened:
    """A lookup as in a task, with a clock."""

    def __init__(self, postgres: PostgresServer, table: str, key: Any = "id", **options: Any) -> None:
        self.lookup = PostgresLookup(postgres.uri, table, key, **options)
        self.now = 0.0
        self.lookup._now_ms = lambda: self.now
        self.figures = Figures()
        self.lookup.open(self.figures)

    def __call__(self, *ids: int | None) -> list[Any]:
        return [row["word"] for row in self.lookup(pa.record_batch({"id": pa.array(ids, pa.int64())})).to_pylist()]


@pytest.fixture
def words(postgres: PostgresServer) -> str:
    table = postgres.create_table("(id int PRIMARY KEY, word text, other int)")
    postgres.execute(f"INSERT INTO {table} SELECT i, 'word ' || i, -i FROM generate_series(0, 99) AS i")
    return table


def test_rows_get_the_columns_of_their_key_and_nulls_where_there_is_none(postgres: PostgresServer, words: str) -> None:
    env = environment(1)
    ids = [{"who": number} for number in (7, 3, 7, None, 2**40, 99, 100)]
    lookup = PostgresLookup(postgres.uri, words, {"who": "id"}, where="id <> 3 -- a comment")
    found = list(env.from_collection(ids).map_batches(lookup).execute_and_collect())
    assert [(row.who, row.word, row.other) for row in found] == [
        (7, "word 7", -7),
        (3, None, None),
        (7, "word 7", -7),
        (None, None, None),
        (2**40, None, None),
        (99, "word 99", -99),
        (100, None, None),
    ]


def test_arrays_are_looked_up(postgres: PostgresServer) -> None:
    table = postgres.create_table("(id int PRIMARY KEY, tags text[], days timestamp[])")
    postgres.execute(
        f"INSERT INTO {table} VALUES (1, '{{a,NULL}}', '{{2024-02-29}}'), (2, '{{}}', NULL), (3, NULL, NULL)"
    )
    lookup = PostgresLookup(postgres.uri, table, "id")
    lookup.open(Figures())
    found = lookup(pa.record_batch({"id": [3, 2, 1, 4]}))
    assert found["tags"].to_pylist() == [None, [], ["a", None], None]
    assert found["days"].to_pylist() == [None, None, [datetime(2024, 2, 29)], None]
    postgres.execute(f"UPDATE {table} SET days = '{{infinity}}'")
    with pytest.raises(RecordError, match="column 'days' is infinity"):
        lookup(pa.record_batch({"id": [1]}))
    lookup.close()


def test_keys_of_several_columns_and_of_any_text(postgres: PostgresServer) -> None:
    table = postgres.create_table("(a text, b varchar(3), u uuid, v numeric(5,1))")
    texts = ["a,b", 'q"q', "back\\slash", "quo'te", "", "é{}", "NULL"]
    for number, text in enumerate(texts):
        postgres.execute(f"INSERT INTO {table} VALUES (%s, 'abc', %s, %s)", text, f"{number:032x}", number)
    lookup = PostgresLookup(postgres.uri, table, ["a", "b"], columns=["v"])
    lookup.open(Figures())
    found = lookup(pa.record_batch({"a": [*texts, "q"], "b": ["abc"] * 7 + ["abcd"]}))["v"].to_pylist()
    assert [None if each is None else int(each) for each in found] == [0, 1, 2, 3, 4, 5, 6, None]
    lookup.close()
    # What two texts of a type that has other texts for one value mean is the server's to say.
    other = PostgresLookup(postgres.uri, table, "u", columns=["v"])
    other.open(Figures())
    keys = pa.record_batch({"u": ["00000000-0000-0000-0000-000000000005", "0" * 31 + "5"]})
    assert [int(each) for each in other(keys)["v"].to_pylist()] == [5, 5]
    other.close()
    by_bytes = postgres.create_table("(k bytea, v int)")
    postgres.execute(f"INSERT INTO {by_bytes} VALUES (%s, 1), (%s, 2)", b"\x00\xff", rb"\x41")
    binary = PostgresLookup(postgres.uri, by_bytes, "k")
    binary.open(Figures())
    asked = pa.record_batch({"k": [rb"\x41", None, b"A", b"\x00\xff"]})
    assert binary(asked)["v"].to_pylist() == [2, None, None, 1]
    binary.close()


def test_what_was_found_or_not_is_good_for_a_while(postgres: PostgresServer, words: str) -> None:
    lookup = Opened(postgres, words, cache="1 s", columns=["word"])
    assert lookup(1, 200) == ["word 1", None]
    postgres.execute(f"UPDATE {words} SET word = 'new'; INSERT INTO {words} VALUES (200, 'new')")
    lookup.now = 900
    assert lookup(1, 200, 2) == ["word 1", None, "new"]
    assert lookup.figures.counts["lookups_cached"] == 2
    lookup.now = 1_000
    assert lookup(1, 200, 2) == ["new", "new", "new"]
    assert lookup.figures.counts["lookups_cached"] == 3
    lookup.lookup.close()


def test_the_oldest_keys_are_forgotten_first(postgres: PostgresServer, words: str) -> None:
    lookup = Opened(postgres, words, cache="1 s", cache_rows=3)
    for number in range(5):
        lookup(number)
    lookup.figures.counts.clear()
    assert lookup(0, 1, 2, 3, 4) == [f"word {number}" for number in range(5)]
    assert lookup.figures.counts["lookups_cached"] == 3
    assert lookup(*range(50)) == [f"word {number}" for number in range(50)]
    lookup.lookup.close()


def test_nothing_is_remembered_without_a_cache(postgres: PostgresServer, words: str) -> None:
    lookup = Opened(postgres, words)
    assert lookup(1, 1) == ["word 1"] * 2
    postgres.execute(f"UPDATE {words} SET word = 'new'")
    assert lookup(1) == ["new"]
    lookup.lookup.close()


def test_a_lookup_whose_connection_is_lost_asks_again(postgres: PostgresServer, words: str) -> None:
    lookup = Opened(postgres, words)
    assert lookup(1) == ["word 1"]
    end_sessions(postgres.uri, "flinkray PostgresLookup")
    assert lookup(2) == ["word 2"]
    assert lookup.figures.counts["lookups_retried"] == 1
    lookup.lookup.close()


def test_what_is_wrong_is_said_with_the_way_out(postgres: PostgresServer, words: str) -> None:
    with pytest.raises(PostgresError, match=r"cannot look up rows of table 'absent' of 127.*no such table"):
        Opened(postgres, "absent")
    with pytest.raises(UnknownColumnError, match="no column 'idd'; did you mean 'id'"):
        Opened(postgres, words, "idd")
    with pytest.raises(UnknownColumnError, match="no column 'id'"):
        Opened(postgres, words).lookup(pa.record_batch({"n": [1]}))
    with pytest.raises(InvalidProgramError, match="two columns named 'word'"):
        Opened(postgres, words).lookup(pa.record_batch({"id": [1], "word": [1]}))
    with pytest.raises(RecordError, match=r"'id' of the table is int32, and a key of the stream is no such: .*'x'"):
        Opened(postgres, words).lookup(pa.record_batch({"id": ["x"]}))
    postgres.execute(f"UPDATE {words} SET other = 5 WHERE id < 2")
    twice = PostgresLookup(postgres.uri, words, {"key": "other"}, columns=["word"])
    env = environment(1)
    with pytest.raises(JobExecutionError, match=r'several rows of table_.* have the key "5"'):
        list(env.from_collection([{"key": 5}]).map_batches(twice).execute_and_collect())
    with pytest.raises(InvalidProgramError, match="names no column"):
        PostgresLookup(postgres.uri, words, [])
