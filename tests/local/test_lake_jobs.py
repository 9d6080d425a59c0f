"""Whole jobs that read and write tables of a lake."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkray import InvalidProgramError, JobCanceledError, MapFunction, Row, RuntimeContext, WatermarkStrategy
from tests.support.jobs import environment
from tests.support.lake import TABLES, DeltaTable, LakeTable, tuples
from tests.support.waiting import eventually

SCHEMA = pa.schema({"n": pa.int64()})


@pytest.fixture(params=TABLES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def tables(name: str, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """Two tables of a kind."""
    found = [TABLES[name](tmp_path / each) for each in ("in", "out")]
    for each in found:
        each.directory.mkdir()
    yield found[0], found[1]
    for each in found:
        each.close()


class FailsOnce(MapFunction):
    """Fails in the first attempt when it gets a row that came after others had been read."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._is_first = runtime_context.get_attempt_number() == 0

    def map(self, value: Any) -> Row:
        if self._is_first and value.n >= 10:
            raise RuntimeError("fails once")
        return Row(n=value.n)


def test_rows_that_are_added_over_time_go_from_table_to_table_once_though_the_job_fails(
    tables: tuple[LakeTable, LakeTable],
) -> None:
    read, written = tables
    read.sink(schema=SCHEMA).prepare()
    read.append(pa.table({"n": range(10)}, schema=SCHEMA))
    env = environment(
        {
            "execution.checkpointing.interval": 20,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 3,
            "restart-strategy.fixed-delay.delay": 0,
        }
    )
    rows = env.from_source(read.source(monitor=20), WatermarkStrategy.no_watermarks(), "added")
    rows.map(FailsOnce(), output_type=SCHEMA).sink_to(written.sink(schema=SCHEMA))
    job = env.execute_async("copy")

    def copied() -> list[Any]:
        return sorted(written.read().column("n").to_pylist())

    eventually(lambda: len(copied()) >= 10)
    read.append(pa.table({"n": range(10, 20)}, schema=SCHEMA))
    eventually(lambda: len(copied()) >= 20)
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.result(timeout=60)
    assert copied() == list(range(20))


def test_tables_of_sql_are_created_added_to_and_read(tables: tuple[LakeTable, LakeTable]) -> None:
    table, _ = tables
    if isinstance(table, DeltaTable):
        options = f"'connector' = 'delta', 'table-path' = '{table.uri}'"
        wrong = {"'mode' = 'stream'": "did you mean 'streaming'", "'startingVersion' = '1', 'versionAsOf' = '1'": "go"}
    else:
        catalog = table.catalog  # type: ignore[attr-defined]
        options = (
            f"'connector' = 'iceberg', 'catalog-type' = 'sql', 'uri' = '{catalog['uri']}', "
            f"'warehouse' = '{catalog['warehouse']}', 'catalog-database' = 'shop', 'catalog-table' = 'orders'"
        )
        wrong = {"'streeming' = 'true'": "did you mean 'streaming'", "'snapshot-id' = 'a'": "'snapshot-id'"}
    env = environment({"table.dml-sync": True}, parallelism=1)
    columns = "(id BIGINT, placed TIMESTAMP(3), on_day DATE, price DECIMAL(6, 2), tags ARRAY<STRING>)"
    env.tables.execute_sql(f"CREATE TABLE orders {columns} PARTITIONED BY (on_day) WITH ({options})")
    env.tables.execute_sql(
        "INSERT INTO orders VALUES (1, TIMESTAMP '2024-01-02 03:04:05.006', DATE '2024-01-02', 1.5, ARRAY['a'])"
    )
    (row,) = env.tables.execute_sql("SELECT on_day, placed, price, tags, id FROM orders").to_arrow().to_pylist()
    at = datetime.datetime(2024, 1, 2, 3, 4, 5, 6_000)
    assert (row["on_day"], row["placed"], str(row["price"]), row["tags"]) == (at.date(), at, "1.50", ["a"])
    assert tuples(table.read(), ["id"]) == [(1,)]
    for option, says in wrong.items():
        env.tables.execute_sql(f"CREATE TABLE wrong {columns} WITH ({options}, {option})")
        with pytest.raises(InvalidProgramError, match=says):
            env.tables.execute_sql("SELECT * FROM wrong")
        env.tables.execute_sql("DROP TABLE wrong")


def test_the_program_of_the_page_prints_what_it_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "connectors" / f"{name}.md"
    program, printed = re.findall(r"```(?:python|text)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(program, page.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed
