"""Jobs of compiled plans: what they give, and that another one goes on with their state."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from flinkray import JobClient, JobExecutionError, StreamExecutionEnvironment
from flinkray.errors import FlinkrayError
from flinkray.tables.compiled.references import PlanReference
from tests.support.jobs import environment
from tests.support.waiting import eventually

STATEMENTS = {
    "totals": "SELECT item, SUM(n), COUNT(*) FROM events GROUP BY item",
    "pairs": "SELECT a.item, a.n, b.n FROM events AS a JOIN events AS b ON a.item = b.item AND a.n < b.n",
    "top": """SELECT item, n, r FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY n DESC) AS r FROM events
    ) WHERE r <= 2""",
}


def started(saved: str | None = None) -> StreamExecutionEnvironment:
    return environment({} if saved is None else {"execution.state-recovery.path": saved}, parallelism=1)


def create_tables(env: StreamExecutionEnvironment, directory: Path) -> None:
    env.tables.execute_sql(
        f"""CREATE TABLE events (item STRING, n INT, other STRING)
        WITH ('connector'='filesystem', 'format'='csv', 'path'='{directory}', 'source.monitor-interval'='10 ms')"""
    )
    for name, columns in {"totals": "item STRING, n INT, c BIGINT", "pairs": "item STRING, a INT, b INT"}.items():
        env.tables.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector'='print', 'print-identifier'='{name}')"
        )
    env.tables.execute_sql(
        "CREATE TABLE top WITH ('connector'='print', 'print-identifier'='top') LIKE totals (EXCLUDING ALL)"
    )


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[JobClient, int], list[str]]:
    """The lines that a job prints, once there are so many."""
    lines: list[str] = []

    def wait(client: JobClient, count: int) -> list[str]:
        def read() -> list[str]:
            assert not client.status().is_terminal
            lines.extend(capsys.readouterr().out.splitlines())
            return lines

        eventually(read, lambda found: len(found) >= count)
        found, lines[:] = sorted(lines), []
        return found

    return wait


def test_the_plan_of_a_file_goes_on_with_the_state_of_its_former_job(
    tmp_path: Path, printed: Callable[[JobClient, int], list[str]]
) -> None:
    events, plan = tmp_path / "events", tmp_path / "plan.json"
    events.mkdir()
    (events / "1.csv").write_text("tea,1,\ntea,2,\n")
    env = started()
    create_tables(env, events)
    inserts = " ".join(f"INSERT INTO {name} {query};" for name, query in STATEMENTS.items())
    result = env.tables.execute_sql(f"COMPILE AND EXECUTE PLAN '{plan}' FOR STATEMENT SET BEGIN {inserts} END")
    client = result.get_job_client()
    assert client is not None
    with closing(client):
        assert printed(client, 4) == [
            "pairs> +I[tea, 1, 2]",
            "top> +I[tea, 1, 2]",
            "top> +I[tea, 2, 1]",
            "totals> +I[tea, 3, 2]",
        ]
        saved = client.stop_with_savepoint(str(tmp_path), timeout=30)
    (events / "2.csv").write_text("tea,3,\n")
    result = started(saved).tables.execute_plan(PlanReference.from_file(plan))  # which has the tables too
    client = result.get_job_client()
    assert client is not None
    with closing(client):
        assert [each for each in printed(client, 8) if "-U" not in each] == [
            "pairs> +I[tea, 1, 3]",
            "pairs> +I[tea, 2, 3]",
            "top> +U[tea, 2, 2]",
            "top> +U[tea, 3, 1]",
            "totals> +U[tea, 6, 3]",
        ]
        client.cancel()


def test_a_statement_does_not_take_the_state_of_another_one_that_stood_in_its_place(
    tmp_path: Path, printed: Callable[[JobClient, int], list[str]]
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    (events / "1.csv").write_text("tea,1,green\n")
    env = started()
    create_tables(env, events)
    client = env.tables.execute_sql(f"INSERT INTO totals {STATEMENTS['totals']}").get_job_client()
    assert client is not None
    with closing(client):
        printed(client, 1)
        saved = client.stop_with_savepoint(str(tmp_path), timeout=30)
    for change in ("GROUP BY item", "GROUP BY other"), ("SUM(n)", "MAX(n)"), ("SUM(n)", "SUM(n + 1)"):
        env = started(saved)
        create_tables(env, events)
        query = (
            STATEMENTS["totals"]
            .replace(*change)
            .replace("SELECT item", f"SELECT {'other' if 'other' in change[1] else 'item'}")
        )
        with pytest.raises(
            (JobExecutionError, FlinkrayError),
            match=r"which computed GroupAggregate \[item\]: SUM\(n\), COUNT\(\*\), that is not in",
        ):
            env.tables.execute_sql(f"INSERT INTO totals {query}").wait(30_000)
