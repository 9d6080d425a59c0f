"""What is wrong with statements over the tables of a program: each message has its place, and says what to do."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from flinkray import StreamExecutionEnvironment
from flinkray.tables.environment.environment import TableEnvironment
from tests.support.flink_statements import flink_statements
from tests.support.sql import assert_stored_message, wrong_statements

TABLES = ("create_bids", "create_people", "create_shipments", "create_rate_rows", "create_rates")
OTHERS = """
CREATE TABLE plain (at_time TIMESTAMP(3)) WITH ('connector' = 'datagen');
CREATE VIEW shifted AS SELECT id, at_time + INTERVAL '1' HOUR AS t FROM bids;
CREATE TABLE names (name STRING, n INT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '/nowhere');
CREATE TABLE made (n INT) WITH ('connector' = 'datagen');
CREATE TABLE twices (a INT, b AS a * 2) WITH ('connector' = 'blackhole');
CREATE TABLE printed (n INT) WITH ('connector' = 'print')
"""


@pytest.fixture(scope="module")
def tables() -> TableEnvironment:
    found = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).tables
    statements = flink_statements(Path("/nowhere"))
    for sql in (*map(statements.__getitem__, TABLES), OTHERS):
        found.execute_script(sql)
    return found


@pytest.mark.parametrize("name", wrong_statements("programs"))
def test_a_wrong_statement_of_a_program_keeps_its_message(tables: TableEnvironment, name: str) -> None:
    assert_stored_message("programs", name, functools.partial(_carry_out, tables))


def _carry_out(tables: TableEnvironment, sql: str) -> None:
    """Carry out the statements of a file, of which the last one is wrong; semicolons at the end of a line part them."""
    tables.drop_table("u")  # the one that statements before a wrong one may create
    for statement in sql.split(";\n"):
        tables.execute_sql(statement)
