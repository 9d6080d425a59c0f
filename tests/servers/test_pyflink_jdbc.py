"""PyFlink's JdbcSink against a real server."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkray import InvalidProgramError, JobExecutionError, RestartStrategies, WatermarkStrategy
from flinkray.batches.batch import Batch
from flinkray.connectors.postgres import connections
from flinkray.connectors.sink import SinkWriter
from flinkray.pyflink.common import Row, Types
from flinkray.pyflink.common.typeinfo import TypeInformation
from flinkray.pyflink.datastream import StreamExecutionEnvironment
from flinkray.pyflink.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from flinkray.testing import Crash, ScriptedSource
from tests.servers.test_kafka_source import environment
from tests.support.api import FakeSubtaskContext
from tests.support.servers.postgres import PostgresServer, end_sessions

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

TYPE = Types.ROW_NAMED(["n", "word"], [Types.INT(), Types.STRING()])
ROWS = [Row(1, "a"), Row(2, "b"), Row(1, None)]


def sink(
    postgres: PostgresServer,
    sql: str,
    type_info: TypeInformation = TYPE,
    settings: JdbcExecutionOptions | None = None,
    parameters: str = "",
) -> JdbcSink:
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:{postgres.uri}{parameters}")
    return JdbcSink.sink(sql, type_info, options.with_driver_name("org.postgresql.Driver").build(), settings)


def write(made: JdbcSink, rows: Sequence[Row], type_info: TypeInformation = TYPE) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection(rows, type_info).add_sink(made)
    env.execute("write")


@pytest.fixture(autouse=True)
def locally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINKRAY_EXECUTION_TARGET", "local")


def writer(made: JdbcSink, context: FakeSubtaskContext) -> SinkWriter:
    return made.to_sink().prepare().create_writer(context)  # type: ignore[arg-type]


def batch(*numbers: int) -> Batch:
    return Batch(pa.record_batch({"n": pa.array(numbers, pa.int64()), "word": pa.array(map(str, numbers))}))


def content(postgres: PostgresServer, table: str) -> list[Any]:
    return sorted(postgres.execute(f"SELECT * FROM {table}"))


def test_rows_are_inserted_replaced_changed_and_deleted_as_statements_say(postgres: PostgresServer) -> None:
    table = postgres.create_table("(n bigint PRIMARY KEY, word text)")
    upsert = f"INSERT INTO {table} VALUES (?, ?) ON CONFLICT (n) DO UPDATE SET word = COALESCE(EXCLUDED.word, '?')"
    write(sink(postgres, upsert), ROWS)
    assert content(postgres, table) == [(1, "?"), (2, "b")]
    texts = Types.ROW([Types.STRING(), Types.INT()])
    write(sink(postgres, f"UPDATE {table} SET word = word || ? WHERE n = ?", texts), [Row("!", 2), Row("-", 7)], texts)
    assert content(postgres, table) == [(1, "?"), (2, "b!")]
    number = Types.TUPLE([Types.LONG()])
    write(sink(postgres, f"DELETE FROM {table} /* ? */ WHERE n = ?", number), [(1,), (5,)], number)  # type: ignore[list-item]
    assert content(postgres, table) == [(2, "b!")]


DAY = datetime.datetime(2024, 2, 29, 1, 2, 3, 456000)
VALUES: dict[str, tuple[TypeInformation, Any]] = {
    "text": (Types.STRING(), "it's\n\u00e9"),
    "boolean": (Types.BOOLEAN(), True),
    "int2": (Types.BYTE(), -1),
    "smallint": (Types.SHORT(), 2),
    "int": (Types.INT(), 3),
    "bigint": (Types.LONG(), 2**62),
    "real": (Types.FLOAT(), 1.25),
    "float8": (Types.DOUBLE(), 1e300),
    "numeric": (Types.BIG_DEC(), Decimal("1.5")),
    "date": (Types.SQL_DATE(), DAY.date()),
    "time": (Types.SQL_TIME(), DAY.time()),
    "timestamp": (Types.SQL_TIMESTAMP(), DAY),
    "bytea": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00a"),
    "int[]": (Types.LIST(Types.INT()), [1, 2]),
    "text[]": (Types.BASIC_ARRAY(Types.STRING()), ["a", "b,"]),
}


def test_values_of_each_type_and_nulls_come_as_they_are(postgres: PostgresServer) -> None:
    table = postgres.create_table(f"({', '.join(f'c{place} {name}' for place, name in enumerate(VALUES))})")
    type_info = Types.ROW([each for each, _ in VALUES.values()])
    rows = [Row(*(value for _, value in VALUES.values())), Row(*[None] * len(VALUES))]
    write(sink(postgres, f"INSERT INTO {table} VALUES ({', '.join('?' * len(VALUES))})", type_info), rows, type_info)
    assert postgres.execute(f"SELECT * FROM {table}") == [tuple(row) for row in rows]
    # A time without a zone is UTC.
    zoned = postgres.create_table("(at timestamptz)")
    time = Types.ROW([Types.SQL_TIMESTAMP()])
    write(sink(postgres, f"INSERT INTO {zoned} VALUES (?)", time), [Row(DAY)], time)
    assert postgres.execute(f"SELECT at FROM {zoned}") == [(DAY.replace(tzinfo=datetime.UTC),)]


def test_texts_are_varchar_unless_statement_or_address_say_otherwise(postgres: PostgresServer) -> None:
    table = postgres.create_table("(n int, j jsonb)")
    plain, rows = f"INSERT INTO {table} VALUES (?, ?)", [Row(1, '{"a": 2}')]
    with pytest.raises(JobExecutionError, match=r"is of type jsonb.*CAST\(\? AS jsonb\), or .*stringtype=unspecified"):
        write(sink(postgres, plain), rows)
    write(sink(postgres, f"INSERT INTO {table} SELECT * FROM (VALUES (?, ?::jsonb)) v (n, j) WHERE j ?? 'a'"), rows)
    write(sink(postgres, plain, parameters="?stringtype=unspecified&reWriteBatchedInserts=true"), rows)
    assert postgres.execute(f"SELECT * FROM {table}") == [(1, {"a": 2})] * 2


def test_rows_are_sent_by_number_after_the_interval_and_before_checkpoints(postgres: PostgresServer) -> None:
    table = postgres.create_table("(n int, word text)")
    settings = JdbcExecutionOptions.builder().with_batch_size(3).with_batch_interval_ms(50).build()
    context = FakeSubtaskContext()
    made = writer(sink(postgres, f"INSERT INTO {table} VALUES (?, ?)", settings=settings), context)
    made.write(batch(1, 2))
    assert content(postgres, table) == []
    made.write(batch(3, 4, 5, 6, 7))
    assert [n for n, _ in content(postgres, table)] == [1, 2, 3, 4, 5, 6]
    context.advance(50)
    assert [n for n, _ in content(postgres, table)] == [1, 2, 3, 4, 5, 6, 7]
    assert context.timers == []
    made.write(batch(8))
    made.flush(end_of_input=False)
    assert [n for n, _ in content(postgres, table)] == [1, 2, 3, 4, 5, 6, 7, 8]
    made.close()


def test_a_lost_connection_is_tried_again_as_often_as_is_said(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RETRY_DELAYS_S", (0.01,))
    table = postgres.create_table("(n int, word text)")
    for retries in (1, 0):
        settings = JdbcExecutionOptions.builder().with_max_retries(retries).build()
        context = FakeSubtaskContext()
        context.operator_name = f"{table} {retries}"
        made = writer(sink(postgres, f"INSERT INTO {table} VALUES (?, ?)", settings=settings), context)
        made.write(batch(1))
        end_sessions(postgres.uri, f"flinkray operator '{table} {retries}")
        if retries:
            made.flush(end_of_input=False)
            assert content(postgres, table) == [(1, "1")]
            assert context.counts == {"writes_retried": 1}
        else:
            with pytest.raises(connections.PostgresError, match=r"cannot execute 'INSERT .* for 1 rows at"):
                made.flush(end_of_input=False)
        made.close()


def test_errors_name_the_statement_the_row_and_the_way_out(postgres: PostgresServer) -> None:
    table = postgres.create_table("(n int PRIMARY KEY CHECK (n < 10), word text)")
    insert = f"INSERT INTO {table} VALUES (?, ?)"
    with pytest.raises(JobExecutionError, match=r"ON CONFLICT.*The row is n = 1, word = None") as refused:
        write(sink(postgres, insert), ROWS)
    assert "INSERT INTO" in str(refused.value)
    with pytest.raises(JobExecutionError, match=r"a CHECK of the table.*The row is n = 12, word = 'c'"):
        write(sink(postgres, insert), [Row(3, "a"), Row(12, "c"), Row(4, "d")])
    assert content(postgres, table) == []
    with pytest.raises(JobExecutionError, match=r"takes rows of 2 fields \(n, word\).*of 1 columns"):
        write(sink(postgres, insert), [Row(1)], Types.ROW([Types.INT()]))
    with pytest.raises(JobExecutionError, match=r"Python objects; declare the type"):
        write(sink(postgres, insert), [Row(1, "a")], Types.PICKLED_BYTE_ARRAY())
    wide = Types.ROW_NAMED(["n", "word"], [Types.LONG(), Types.STRING()])
    with pytest.raises(JobExecutionError, match="a value of column 'n' is no int32"):
        write(sink(postgres, insert), [Row(2**40, "a")], wide)
    with pytest.raises(InvalidProgramError, match=r"has 1 \? for values"):
        sink(postgres, f"INSERT INTO {table} VALUES (?)")


def test_all_rows_are_there_after_restarts(postgres: PostgresServer, tmp_path: Path) -> None:
    table = postgres.create_table("(n bigint)")
    env = environment(1, **{"execution.checkpointing.dir": str(tmp_path)})
    env.enable_checkpointing(20)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(9, 10))
    steps: list[Any] = [Row(n=n) for n in range(400)]
    for place in (350, 250, 100):
        steps.insert(place, Crash)
    stream = env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "steps")
    number = Types.ROW([Types.LONG()])
    stream.sink_to(sink(postgres, f"INSERT INTO {table} VALUES (?)", number).to_sink())
    env.execute("write")
    assert {n for (n,) in content(postgres, table)} == set(range(400))
