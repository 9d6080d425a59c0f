"""Nexmark in Flink SQL. Run in the virtual environment of apache-flink.

python -m benchmarks.peers.flink_nexmark time 2 FILES q5          # prints {"seconds": ...}
python -m benchmarks.peers.flink_nexmark check 2 FILES q4 q5 ...  # writes the changes of each into FILES-flink
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment

from benchmarks.nexmark.answers import value_text
from benchmarks.nexmark.queries import QUERIES, TABLES, table_statements
from benchmarks.peers.printed import stdout_to_file

ROW = re.compile(r"(?:\d+> )?([+-][IUD])\[(.*)\]")
"""A printed row, such as "2> +U[7, 3]"."""
JARS = "FLINK_NEXMARK_JARS"
"""Names the directory of the jars that read Parquet, which the wheel does not have."""
SETTINGS = {
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.local-time-zone": "UTC",
}
"""Those of the benchmark."""


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


def check(env: TableEnvironment, name: str, printed: BinaryIO, target: Path) -> None:
    """Writes the changes of a query, a JSON array of kind and values in each line."""
    table = env.sql_query(QUERIES[name].sql)
    kinds = [str(each) for each in table.get_schema().get_field_data_types()]
    printed.seek(0, os.SEEK_END)
    start = printed.tell()
    table.execute_insert(TableDescriptor.for_connector("print").build()).wait()
    printed.seek(start)
    partial = target / f"{name}.part"
    with partial.open("w") as file:
        for line in printed.read().decode().splitlines():
            row = ROW.fullmatch(line)
            if row is not None:
                values = [value_of(text, kind) for text, kind in zip(row[2].split(", "), kinds, strict=True)]
                file.write(json.dumps([row[1], values], ensure_ascii=False) + "\n")
    partial.rename(target / QUERIES[name].changes_file)


def value_of(text: str, kind: str) -> Any:
    """A printed value as JSON has it; `kind` is its type. No text of the events has a comma, or is "null"."""
    if text == "null":
        return None
    if kind.startswith(("BIGINT", "INT")):
        return int(text)
    if kind.startswith("DECIMAL"):
        return value_text(Decimal(text))
    return value_text(datetime.fromisoformat(text) if kind.startswith("TIMESTAMP") else text)


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
    with stdout_to_file() as printed:
        env = environment(given.parallelism, files)
        if given.purpose == "time":
            result = {"seconds": timed(env, given.queries[0])}
        else:
            result = check_all(env, given.queries, printed, files.with_name(f"{files.name}-flink"))
    print(json.dumps(result), flush=True)


def check_all(env: TableEnvironment, names: Sequence[str], printed: BinaryIO, target: Path) -> dict[str, str]:
    """Writes the changes of each query; what was wrong with those that have none, by name."""
    target.mkdir(exist_ok=True)
    problems = {}
    for name in names:
        try:
            check(env, name, printed, target)
        except Exception as error:
            problems[name] = str(error)[-2000:]
    return problems


if __name__ == "__main__":
    main()
