"""Whole jobs that ask services and are asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from examples.servers import free_port
from flinkray import (
    Configuration,
    HttpSink,
    InvalidProgramError,
    JobExecutionError,
    JsonFormat,
    RequestLimits,
    StreamExecutionEnvironment,
    WatermarkStrategy,
    WebhookSource,
)
from tests.support.http import Answered, Service, ask
from tests.support.waiting import eventually


def test_no_row_is_lost_where_clients_send_again_what_was_not_acknowledged(tmp_path: Path) -> None:
    options = {
        "execution.target": "local",
        "execution.checkpointing.interval": "20 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    failed = tmp_path / "failed"

    def fail_once(row: Any) -> Any:
        if row.n == 5 and not failed.exists():
            failed.touch()
            raise ValueError("a row that fails once")
        return row

    def acknowledged(number: int) -> bool:
        try:
            return ask(port, json.dumps({"n": number}).encode()).status == 200
        except OSError:  # the server is away
            return False

    refusals = [503]
    with Service(lambda _: Answered(refusals.pop() if refusals else 200)) as service:
        port = free_port()
        env = StreamExecutionEnvironment.get_execution_environment(Configuration(options)).set_parallelism(1)
        source = WebhookSource(port, JsonFormat({"n": int}))
        rows = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "webhook")
        rows.map(fail_once).sink_to(HttpSink(service.url, limits=RequestLimits(max_time_in_buffer_ms=1)))
        job = env.execute_async()
        try:
            for number in range(8):
                eventually(lambda number=number: acknowledged(number))  # type: ignore[misc]
        finally:
            job.close()
        assert {row["n"] for row in service.rows} == set(range(8))
        assert failed.exists()


def test_a_service_that_never_takes_rows_ends_the_job_and_is_named() -> None:
    with Service(lambda _: Answered(500, "out of order")) as service:
        env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).set_parallelism(1)
        sink = HttpSink(service.url, limits=RequestLimits(max_attempts=2, max_time_in_buffer_ms=1))
        env.from_collection([{"n": 1}]).sink_to(sink).name("orders")
        with pytest.raises(JobExecutionError) as raised:
            env.execute()
    said = f"HttpSink cannot POST rows to {service.url}: it answered 500 (out of order)"
    assert "operator 'Sink: orders' (subtask 1 of 1): 1 rows could not be sent in 2 attempts" in str(raised.value)
    assert said in str(raised.value)
    assert "RequestLimits(max_attempts=...)" in str(raised.value)


def test_a_table_is_a_service_that_is_asked_and_one_that_gets_rows() -> None:
    names = {"/rows?id=1": Answered(200, '{"name": "a"}'), "/rows?id=2": Answered(404)}
    with Service(lambda asked: names.get(asked.path, Answered())) as service:
        env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).set_parallelism(1)
        place = f"'connector' = 'http', 'url' = '{service.url}', 'header.Authorization' = 'Bearer x'"
        env.tables.execute_sql(f"CREATE TABLE names (id INT, name STRING) WITH ({place})")
        env.tables.execute_sql(f"CREATE TABLE greeted (n INT, name STRING) WITH ({place}, 'format' = 'json')")
        asked = "(SELECT n, PROCTIME() AS p FROM (VALUES (1), (2), (1)) AS v(n)) AS t"
        lookup = f"{asked} LEFT JOIN names FOR SYSTEM_TIME AS OF t.p AS c ON t.n = c.id"
        env.tables.execute_sql(f"INSERT INTO greeted SELECT n, name FROM {lookup}").wait()
        written = [row for each in service.taken if each.method == "POST" for row in each.lines]
        with pytest.raises(InvalidProgramError, match=r"table 'names' .* the table cannot be read"):
            env.tables.execute_sql("SELECT * FROM names")
    assert sorted(map(repr, written)) == ["{'n': 1, 'name': 'a'}"] * 2 + ["{'n': 2, 'name': None}"]
    assert {each.headers["Authorization"] for each in service.asked} == {"Bearer x"}
