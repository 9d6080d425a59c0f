"""What the tasks of a running job spend their time on, asked over HTTP."""

from __future__ import annotations

import time
from typing import Any

import pytest

from flinkray import DataGenSource, DiscardSink, JobCanceledError, SequenceField, WatermarkStrategy
from tests.support.jobs import environment
from tests.support.rest import RestClient
from tests.support.waiting import eventually


def spins(row: Any) -> Any:
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        pass
    return row


def test_a_function_that_spins_is_found_in_the_time_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    env = environment({"rest.port": 0, "web.refresh-interval": "1 ms"}, parallelism=1)
    source = DataGenSource({"n": SequenceField()}, rows_per_second=10_000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(spins).name("busy").sink_to(DiscardSink())
    client = env.execute_async("spinning")
    try:
        http = RestClient(client.web_url)
        (vertex,) = eventually(lambda: http.get(f"/jobs/{client.job_id}").value["vertices"])
        path = f"/jobs/{client.job_id}/vertices/{vertex['id']}/flamegraph"

        def on_processor(query: str) -> str:
            return http.get(f"{path}/collapsed?type=on_cpu&{query}").text

        eventually(lambda: "spins" in on_processor("operator=busy&subtaskindex=0"))
        assert "spins" not in on_processor("operator=Source: numbers".replace(" ", "%20"))
        graph = http.get(f"{path}?type=ON_CPU").value
        assert graph["data"]["value"] > 0
        assert graph["endTimestamp"] > vertex["start-time"]
        assert http.get(f"{path}/speedscope").value["profiles"][0]["endValue"] >= graph["data"]["value"]
        refused = {query: http.get(f"{path}?{query}").status for query in ("type=x", "operator=x", "subtaskindex=1")}
        assert refused == {"type=x": 400, "operator=x": 400, "subtaskindex=1": 404}
    finally:
        client.cancel()
        eventually(lambda: http.get(path).value, lambda value: value == {"endTimestamp": -1, "data": None})
        with pytest.raises(JobCanceledError):
            client.result(timeout=30)
        client.close()
