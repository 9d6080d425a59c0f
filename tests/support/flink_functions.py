"""What Flink 2.3 answers: expressions with the types and values that it gave, kept under tests/data/flink_functions.

Each line of a file is {"sql", "type", "value"}, where the value is `CAST(… AS STRING)` of the result: a text or null,
or, in columns.jsonl, one for each row of COLUMNS; or {"sql", "error": true} where Flink's job fails; or
{"sql", "invalid": true} where it refuses the statement. The session's time zone was UTC.

    python -m tests.support.flink_functions expressions.txt answers.jsonl

asks the PyFlink of the environment that calls it (apache-flink 2.3.0, Java 17) about the lines of a file, and writes
the answers; `--columns` has it ask about columns.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data" / "flink_functions"
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "i": ("INT", [7, -7, 2147483647, None]),
    "b": ("BIGINT", [2, 3, -1, None]),
    "d": ("DOUBLE", [1.5, -2.5, 1e10, None]),
    "f": ("DOUBLE", [0.10000000149011612, -1.25, 16777217.0, None]),
    "m": ("DECIMAL(10, 2)", [Decimal("12.34"), Decimal("-0.05"), Decimal("99999999.99"), None]),
    "s": ("STRING", ["hello", "Straße 12", " 12", None]),
    "ts": (
        "TIMESTAMP(3)",
        [
            dt.datetime(2024, 3, 5, 10, 20, 30, 567_000),
            dt.datetime(1999, 12, 31, 23, 59, 59, 999_000),
            dt.datetime(1970, 1, 1),
            None,
        ],
    ),
    "dt": ("DATE", [dt.date(2024, 2, 29), dt.date(1999, 12, 31), dt.date(1970, 1, 1), None]),
}
"""Columns that expressions of columns.jsonl are about: their types, and four rows."""
MORE_COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "d": ("DOUBLE", [1.5, -2.5, 1e10, None, 0.1, -0.0]),
    "b": ("BIGINT", [2, 2**63 - 1, -(2**63), None, -1, 0]),
    "i": ("INT", [7, -7, 2**31 - 1, None, -(2**31), 0]),
    "ni": ("INT NOT NULL", [2, -1, 1, 3, 5, 4]),
    "s": ("STRING", ["hello", "Straße 12", "", None, " a\U0001f600b ", "2024-01-05"]),
    "tt": (
        "STRING",
        ["2024-02-29 10:20:30.123456789", "2024-1-5", "nope", None, "2024-01-05 10:20", "1969-12-31 23:59:59.5"],
    ),
}
"""Columns that expressions of more_columns.jsonl are about: limits, -0.0, and texts that are nearly times."""
_BATCH = 30


def answers(name: str) -> list[dict[str, Any]]:
    """What a file holds."""
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def _table() -> str:
    """COLUMNS as a table of SQL."""
    rows = []
    for place in range(4):
        values = [values[place] for _, values in COLUMNS.values()]
        kinds = [kind for kind, _ in COLUMNS.values()]
        literals = ["NULL" if value is None else f"'{value}'" for value in values]
        rows.append(f"({', '.join(f'CAST({text} AS {kind})' for text, kind in zip(literals, kinds, strict=True))})")
    return f"FROM (VALUES {', '.join(rows)}) AS t({', '.join(COLUMNS)})"


def ask(expressions: list[str], source: str) -> list[dict[str, Any]]:
    """Flink's answers: each statement is planned alone, and many are computed in one job."""
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    environment.get_config().set_local_timezone("UTC")
    environment.get_config().set("parallelism.default", "1")
    found: dict[str, dict[str, Any]] = {}
    for sql in expressions:
        try:
            schema = environment.sql_query(f"SELECT {sql} {source}")._j_table.getResolvedSchema()
            kind = schema.getColumnDataTypes().get(0).getLogicalType().asSummaryString()
            found[sql] = {"sql": sql, "type": str(kind)}
        except Exception:
            found[sql] = {"sql": sql, "invalid": True}

    def compute(group: list[str]) -> None:
        texts = ", ".join(f"CAST({sql} AS STRING)" for sql in group)
        try:
            with environment.execute_sql(f"SELECT {texts} {source}").collect() as results:
                rows = list(results)
        except Exception:
            if len(group) == 1:
                found[group[0]] = {"sql": group[0], "error": True}
                return
            compute(group[: len(group) // 2])
            compute(group[len(group) // 2 :])
            return
        for place, sql in enumerate(group):
            values = [row[place] for row in rows]
            found[sql]["value"] = values if source else values[0]

    valid = [sql for sql in expressions if "type" in found[sql]]
    for begin in range(0, len(valid), _BATCH):
        compute(valid[begin : begin + _BATCH])
    return [found[sql] for sql in expressions]


if __name__ == "__main__":
    wanted = [line for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines() if line.strip()]
    lines = [json.dumps(answer) for answer in ask(wanted, _table() if "--columns" in sys.argv else "")]
    Path(sys.argv[2]).write_text("\n".join(lines) + "\n", encoding="utf-8")
