"""Nexmark in Flink SQL. Run in the virtual environment of apache-flink.

    python -m benchmarks.peers.flink_nexmark time 2 FILES q5          # prints {"seconds": ...}
    python -m benchmarks.peers.flink_nexmark check 1 FILES q4 q5 ...  # writes the changes of each to FILES-flink/q4.json
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment

from benchmarks.definitions import stdout_on_stderr
from benchmarks.nexmark.answers import value_text
from benchmarks.nexmark.queries import QUERIES, TABLES, table_statements

JARS = "FLINK_NEXMARK_JARS"
"""Names the directory of the jars that read Parquet, which the wheel does not have."""
SETTINGS = {
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.exec.source.idle-timeout": "0 ms",
    "table.local-time-zone": "UTC",
}
"""As the benchmark has them, and what it says nothing of as it is."""


def environment(parallelism: int, files: Path) -> TableEnvironment:
    """A table environment with Nexmark's tables over the files."""
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    config = env.get_config()
    for key, value in SETTINGS.items():
        config.set(key, value)
    config.set("parallelism.default", str(parallelism))
    config.set("pipeline.jars", ";".join(f"file://{jar}" for jar in sorted(Path(os.environ[JARS]).glob("*.jar"))))
    statements = table_statements()
    columns = statements["events"].partition(") WITH (")[0]
    env.execute_sql(f"{columns}) WITH ('connector' = 'filesystem', 'path' = '{files}', 'format' = 'parquet')")
    for name in TABLES:
        if name != "side_input":
            env.execute_sql(statements[name])
    return env


def check(env: TableEnvironment, name: str, target: Path) -> None:
    """Writes the changes of a query, a JSON array of kind and values in each line."""
    kinds = ("+I", "-U", "+U", "-D")
    with env.sql_query(QUERIES[name].sql).execute().collect() as rows, (target / f"{name}.json").open("w") as file:
        for row in rows:
            values = [value_text(value) for value in row]
            file.write(json.dumps([kinds[row.get_row_kind().value], values], ensure_ascii=False) + "\n")


def timed(env: TableEnvironment, name: str) -> float:
    """Seconds from submitting a query, whose rows are discarded, to its end."""
    table = env.sql_query(QUERIES[name].sql)
    started = time.monotonic()
    table.execute_insert(TableDescriptor.for_connector("blackhole").build()).wait()
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("purpose", choices=("check", "time"))
    parser.add_argument("parallelism", type=int)
    parser.add_argument("files", type=Path)
    parser.add_argument("queries", nargs="+", choices=list(QUERIES))
    given = parser.parse_args()
    files = given.files.resolve()
    printed = {}
    with stdout_on_stderr():
        env = environment(given.parallelism, files)
        target = files.with_name(f"{files.name}-flink")
        target.mkdir(exist_ok=True)
        for name in given.queries:
            if given.purpose == "check":
                try:
                    check(env, name, target)
                except Exception as error:
                    printed[name] = str(error)[-2000:]
            else:
                printed = {"seconds": timed(env, name)}
    print(json.dumps(printed), flush=True)


if __name__ == "__main__":
    main()
