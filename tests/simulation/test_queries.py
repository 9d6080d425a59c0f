"""Random queries in jobs whose processes die: what their changelogs lead to is what DuckDB answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from actors.hosts.simulation.faults import Faults
from flinkray import DataStream, StreamExecutionEnvironment, WatermarkStrategy
from flinkray.errors import SqlUnsupportedError
from flinkray.execution import JobStatus
from tests.support.random_queries import EVENTS, TABLES, QueryGenerator, RandomQuery, random_row, schema_of
from tests.support.simulation import run_job
from tests.support.tables import Change, fold, random_table_changes

QUERIES = 2
"""That one job runs."""
NEVER_LATE = WatermarkStrategy.for_bounded_out_of_orderness(100 * 3_600_000).with_timestamp_assigner("ts")
KINDS = ("+I", "-U", "+U", "-D")


class Program:
    """Queries over tables that only grow, or are updated and deleted from."""

    def __init__(self, seed: int) -> None:
        generator = random.Random(seed)
        options = {
            "execution.target": "local",
            "parallelism.default": generator.choice([1, 2, 2]),
            "flinkray.batch.target-rows": generator.choice([1, 4, 10, 100]),
            "execution.checkpointing.interval": 50,
            "execution.checkpointing.unaligned.enabled": seed % 2 == 0,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 100,
            "restart-strategy.fixed-delay.delay": 20,
        }
        self.environment = StreamExecutionEnvironment.get_execution_environment(options)
        self.tables: dict[str, list[Change]] = {}
        streams = {}
        for name in TABLES:
            deletes = 0.0 if name == EVENTS else generator.choice([0.0, 0.4])
            changes = random_table_changes(
                seed,
                generator.choice([0, 8, 8, 25, 25, 25]),
                lambda rows, name=name: random_row(name, rows),
                deletes=deletes,
            )
            self.tables[name] = changes
            streams[name] = self._stream(name, changes, deletes > 0)
        queries = QueryGenerator(generator)
        self.queries: dict[str, RandomQuery] = {}
        self._results: dict[str, DataStream] = {}
        while len(self.queries) < QUERIES:
            query, name = queries.query(), str(len(self.queries))
            try:
                self._results[name] = self.environment.sql(query.for_flink, **streams).kinds_as_column("op")
            except SqlUnsupportedError:
                continue
            self.queries[name] = query

    def _stream(self, name: str, changes: list[Change], is_changelog: bool) -> DataStream:
        schema = schema_of(name).append(pa.field("op", pa.string()))
        rows = [(*row, KINDS[kind]) for kind, row in changes]
        columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
        stream = self.environment.from_arrow(pa.Table.from_arrays(columns, schema=schema))
        if is_changelog:
            return stream.set_parallelism(1).as_changelog("op")
        return stream.drop("op").assign_timestamps_and_watermarks(NEVER_LATE) if name == EVENTS else stream.drop("op")

    @property
    def results(self) -> Mapping[str, DataStream]:
        return self._results

    def expected(self) -> dict[str, Counter[tuple[Any, ...]]]:
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
            for name, changes in self.tables.items():
                rows = list(fold(changes).elements())
                schema = schema_of(name)
                columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
                connection.register(name, pa.Table.from_arrays(columns, schema=schema))
            return {
                name: Counter(connection.execute(query.for_duckdb).fetchall()) for name, query in self.queries.items()
            }


@pytest.mark.seeds(2)
def test_what_a_query_gives_leads_to_what_duckdb_answers_whatever_dies(seed: int) -> None:
    program = Program(seed)
    expected = program.expected()
    outcome = run_job(program, seed, Faults(kills={"TaskSlot": 0.002}, after_steps=300))
    assert outcome.status is JobStatus.FINISHED, outcome.error
    for name, query in program.queries.items():
        found: Counter[tuple[Any, ...]] = Counter()
        for (*row, kind), count in outcome.rows[name].items():
            found[tuple(row)] += -count if kind in ("-U", "-D") else count
        assert {row: count for row, count in found.items() if count} == expected[name], query.for_flink
