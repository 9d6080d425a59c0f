"""`flinkray sql` over jobs: what a script prints, what goes wrong, and how jobs are named and ended."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from actors.client.cli import main
from actors.client.sql.client import Quit, SqlClient
from flinkray.errors import FlinkrayError
from flinkray.tables.environment.results import TableResult

NUMBERS = """CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '4',
    'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '4')"""
ENDLESS = "CREATE TABLE ticks (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10')"
LOCAL = {"execution.target": "local", "parallelism.default": "1"}


def client(*, is_interactive: bool = True, **console: object) -> tuple[SqlClient, Callable[[], str]]:
    """A client, and what it has printed since that was last asked for."""
    written = io.StringIO()

    def printed() -> str:
        text = written.getvalue()
        written.seek(0)
        written.truncate()
        return text

    made = SqlClient(LOCAL, Console(file=written, width=100, **console), None, is_interactive=is_interactive)  # type: ignore[arg-type]
    return made, printed


def test_a_script_prints_what_each_statement_gives(tmp_path: Path) -> None:
    init, script = tmp_path / "init.sql", tmp_path / "script.sql"
    init.write_text(f"{NUMBERS};", encoding="utf-8")
    script.write_text(
        "SHOW TABLES; CREATE TABLE shown WITH ('connector' = 'print') LIKE numbers (EXCLUDING ALL);\n"
        "INSERT INTO shown SELECT n * 10 FROM numbers; SELECT n FROM numbers WHERE n > 3;",
        encoding="utf-8",
    )
    settings = [f"-D{key}={value}" for key, value in LOCAL.items()]
    result = CliRunner().invoke(main, ["sql", *settings, "-i", str(init), "-f", str(script)])
    assert result.exit_code == 0, result.output
    assert "| numbers |" in re.sub(" +", " ", result.output)
    assert "+I[40]" in result.output
    assert "| +I | 4 |" in re.sub(" +", " ", result.output)


def test_a_script_gives_its_rows_and_jobs_as_lines_of_json() -> None:
    settings = [f"-D{key}={value}" for key, value in LOCAL.items()]
    query = "SELECT n, ROW(n, 'a') AS r, CAST(n AS DECIMAL(4, 2)) AS d, MAP[n, 1] AS m FROM numbers WHERE n > 3"
    insert = (
        "CREATE TABLE gone WITH ('connector' = 'blackhole') LIKE numbers (EXCLUDING ALL); INSERT INTO gone SELECT 1"
    )
    result = CliRunner().invoke(main, ["sql", "--json", *settings, "-e", f"{NUMBERS}; SHOW TABLES; {query}; {insert};"])
    assert result.exit_code == 0, result.output
    shown, row, job = [json.loads(line) for line in result.stdout.splitlines()]
    assert shown == {"kind": "+I", "row": {"table name": "numbers"}}
    assert row == {"kind": "+I", "row": {"n": 4, "r": {"EXPR$0": 4, "EXPR$1": "a"}, "d": "4.00", "m": {"4": 1}}}
    assert len(job.pop("jobid")) == 32
    assert job == {}


def test_a_script_ends_with_the_first_statement_that_is_wrong() -> None:
    settings = [f"-D{key}={value}" for key, value in LOCAL.items()]
    result = CliRunner().invoke(main, ["sql", *settings, "-e", "SELECT 1 AS a; SELECT b FROM nowhere; SELECT 2 AS c"])
    assert result.exit_code == 1
    assert "| a |" in re.sub(" +", " ", result.output)
    assert "nowhere" in result.output
    assert "| c |" not in re.sub(" +", " ", result.output)


def test_what_is_wrong_in_a_file_is_said_with_its_lines_there(tmp_path: Path) -> None:
    file, settings = tmp_path / "daily.sql", [f"-D{key}={value}" for key, value in LOCAL.items()]
    wrong = {
        "-- a day\nSHOW TABLES;\n\nSELECT 1 AS a,\n  b\nFROM (VALUES (1)) AS t(c);": [
            "begins in line 4",
            "line 5, column 3",
        ],
        "SHOW TABLES;\nSET 'sql-client.verbos' = 'true';": ["begins in line 2", "sql-client.verbos"],
    }
    for text, said in wrong.items():
        file.write_text(text, encoding="utf-8")
        result = CliRunner().invoke(main, ["sql", *settings, "-f", str(file)])
        assert result.exit_code == 1
        assert all(each in result.output for each in ["daily.sql, the statement that", *said]), result.output


def test_a_script_that_quits_waits_for_its_jobs_too() -> None:
    settings = [f"-D{key}={value}" for key, value in LOCAL.items()]
    tables = f"{NUMBERS}; CREATE TABLE shown WITH ('connector' = 'print') LIKE numbers (EXCLUDING ALL)"
    script = f"{tables}; INSERT INTO shown SELECT 7 / (n - 4) FROM numbers; QUIT; SELECT 'not this'"
    result = CliRunner().invoke(main, ["sql", *settings, "-e", script])
    assert result.exit_code == 1
    assert "division by zero" in result.output
    assert "not this" not in result.output.replace(script, "")


def test_who_types_goes_on_after_an_error() -> None:
    sql, printed = client()
    sql.run_line("SELEKT 1; SELECT 2 AS two;")
    assert "[ERROR]" in printed()
    sql.run_line("SELECT 2 AS two;")
    assert "two" in printed()


def test_jobs_are_listed_and_stopped_by_their_ids(tmp_path: Path) -> None:
    sql, printed = client()
    savepoints = tmp_path.as_uri()
    sql.run_line(f"SET 'execution.checkpointing.savepoint-dir' = '{savepoints}'; {ENDLESS};")
    sql.run_line("CREATE TABLE nowhere WITH ('connector' = 'blackhole') LIKE ticks (EXCLUDING ALL);")
    job_ids = []
    for _ in range(2):
        printed()
        sql.run_line("INSERT INTO nowhere SELECT n FROM ticks;")
        job_ids += re.findall("Job ID: ([0-9a-f]{32})", printed())
    sql.run_line("SHOW JOBS;")
    listed = printed()
    assert all(job_id in listed for job_id in job_ids)
    sql.run_line("QUIT;")
    assert "still running" in printed()
    sql.run_line(f"STOP JOB '{job_ids[0][:12]}' WITH SAVEPOINT;")
    assert f"{savepoints}/savepoint-" in printed()
    sql.run_line(f"STOP JOB '{job_ids[1]}'; STOP JOB 'none';")
    assert "there is no job 'none'" in printed()
    assert sql._jobs.all()[0].status == "FINISHED"
    sql.close()
    assert not [each.name for each in threading.enumerate() if each.name.startswith("job-")]


def test_the_client_ends_where_it_is_told_to() -> None:
    sql, _ = client()
    with pytest.raises(Quit):
        sql.run_line("EXIT;")


@pytest.mark.parametrize(("mode", "shown"), [("changelog", ["op", "+I", "3"]), ("table", ["n", "3"])])
def test_results_are_drawn_anew_while_they_change(mode: str, shown: list[str]) -> None:
    sql, printed = client(force_terminal=True, height=30)
    sql.run_line(f"{NUMBERS}; SET 'sql-client.execution.result-mode' = '{mode}'; SELECT n FROM numbers;")
    text = printed()
    assert all(each in text for each in shown)
    assert "4 changes, the query has ended" in text


def test_a_query_that_the_user_ends_is_cancelled_and_the_client_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    sql, printed = client()
    sql.run_line(f"{ENDLESS};")
    results: list[TableResult] = []
    lines = TableResult.lines

    def interrupted(result: TableResult):  # type: ignore[no-untyped-def]
        if result.get_job_client() is None:
            yield from lines(result)
            return
        results.append(result)
        yield from (line for line, _ in zip(lines(result), range(4), strict=False))
        raise KeyboardInterrupt

    monkeypatch.setattr(TableResult, "lines", interrupted)
    sql.run_line("SELECT n FROM ticks;")
    assert "the query is ended" in printed()
    job = results[0].get_job_client()
    assert job is not None
    assert job.status().is_terminal


def test_options_of_the_client_are_checked() -> None:
    sql, _ = client()
    with pytest.raises(FlinkrayError, match="result-mode is 'tabel', and takes tableau, changelog, table"):
        sql.execute("SET 'sql-client.execution.result-mode' = 'tabel'")
    with pytest.raises(FlinkrayError, match=r"did you mean 'sql-client\.verbose'"):
        sql.execute("SET 'sql-client.verbos' = 'true'")
    with pytest.raises(FlinkrayError, match=r"max-table-result\.rows is '0', and takes a whole number above 0"):
        sql.execute("SET 'sql-client.execution.max-table-result.rows' = '0'")


def test_set_shows_options_of_the_client_that_are_others_and_reset_takes_them_back() -> None:
    sql, printed = client()
    for statement in ("SET 'sql-client.verbose' = 'true'", "SET"):
        sql.execute(statement)
    assert "sql-client.verbose |  true" in printed()
    for statement in ("SET 'table.dml-sync' = 'true'", "RESET", "SET"):
        sql.execute(statement)
    left = printed()
    assert "execution.target" in left
    assert "verbose" not in left
    assert "dml-sync" not in left


def test_the_jobs_of_compiled_plans_are_named_by_their_files(tmp_path: Path) -> None:
    sql, printed = client()
    file = tmp_path / "plan.json"
    sql.run_line(f"{NUMBERS}; CREATE TABLE nowhere WITH ('connector' = 'blackhole') LIKE numbers (EXCLUDING ALL);")
    sql.run_line(f"COMPILE PLAN '{file}' FOR INSERT INTO nowhere SELECT n FROM numbers;")
    printed()
    sql.run_line(f"EXECUTE PLAN '{file}';")
    assert "The job has been submitted. Job ID: " in printed()
    sql.run_line("SHOW JOBS;")
    assert f"plan {file}" in printed()
    sql.wait_for_jobs()
    sql.close()


def test_options_of_flink_s_client_that_change_nothing_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    sql, printed = client()
    key = "sql-client.display.show-line-numbers"
    sql.execute(f"SET '{key}' = 'true'")
    assert caplog.messages == [f"option {key!r} has no effect here: lines are edited without numbers"]
    sql.execute("SET 'sql-client.display.print-time-cost' = 'true'")
    sql.execute("SELECT 1")
    assert printed().rstrip().endswith(" seconds")
