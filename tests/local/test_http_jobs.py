"""Whole jobs that ask services and are asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    Configuration,
    HttpSink,
    JobExecutionError,
    JsonFormat,
    RequestLimits,
    StreamExecutionEnvironment,
    WatermarkStrategy,
    WebhookSource,
)
from tests.support.http import Answered, Service, ask, free_port
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

    port = free_port()

    def acknowledged(number: int) -> bool:
        try:
            return ask(port, json.dumps({"n": number}).encode()).status == 200
        except OSError:  # the server is away
            return False

    refusals = [503]
    with Service(lambda _: Answered(refusals.pop() if refusals else 200)) as service:
        env = StreamExecutionEnvironment.get_execution_environment(Configuration(options)).set_parallelism(1)
        source = WebhookSource(port, JsonFormat({"n": int}))
        rows = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "webhook")
        rows.map(fail_once).sink_to(HttpSink(service.url, limits=RequestLimits(max_time_in_buffer_ms=1)))
        job = env.execute_async()
        try:
            for number in range(8):
                eventually(lambda number=number: acknowledged(number))  # type: ignore[misc]
        finally:
            job.cancel()
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
