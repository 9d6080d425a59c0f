"""Whether engines come to the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engines import ENGINES, NotSetUp, python_of, set_up_jars, variables
from benchmarks.nexmark.answers import Answer, WrongChangelog, difference, stored, written
from benchmarks.nexmark.batch_answers import batch_answer
from benchmarks.nexmark.program import stream_answer
from benchmarks.nexmark.queries import QUERIES, Query
from benchmarks.nexmark.run import file_source
from benchmarks.process_tree import RunFailed
from benchmarks.process_tree import run as run_tree
from flinkray import StreamExecutionEnvironment
from flinkray.errors import FlinkrayError, SqlUnsupportedError

STORED_EVENTS, STORED_PER_SECOND = 2_000, 50
"""The events whose answers are kept for a test."""
JARS_VARIABLE = "FLINK_NEXMARK_JARS"
CHECK_DEADLINE_S = 3600.0
Outcome = Answer | str
"""An engine's answer, or why it has none."""


@dataclass(frozen=True)
class Checked:
    """A query and what each engine made of it: "ok", or in which way it is not."""

    query: str
    rows: int
    """Of the answer that the others are compared with: Flink's where there is one, else DuckDB's."""
    verdicts: dict[str, str]


def judged(query: Query, outcomes: dict[str, Outcome]) -> Checked:
    """What engines made of a query, compared with Flink's answer, or with DuckDB's where Flink has none."""
    answers = [each for name in ("flink-sql", "duckdb") if not isinstance(each := outcomes.get(name, ""), str)]
    expected = answers[0] if answers else None
    verdicts = {name: _verdict(outcome, expected) for name, outcome in outcomes.items()}
    return Checked(query.name, expected.total() if expected is not None else 0, verdicts)


def _verdict(outcome: Outcome, expected: Answer | None) -> str:
    if isinstance(outcome, str):
        return outcome
    if expected is None:
        return f"runs: {outcome.total():,} rows"
    found = difference(outcome, expected)
    return f"differs: {found}" if found else "ok"


def checked(
    names: Sequence[str], files: Path, parallelism: int, environments: Path, tell: Callable[[str], None]
) -> list[Checked]:
    """The verdicts on the queries, over the events in the files."""
    tell(f"Flink: {', '.join(names)}")
    flink = flink_outcomes([QUERIES[name] for name in names], files, parallelism, environments)
    found = []
    for name in names:
        tell(f"{name}: DuckDB and flinkray")
        query = QUERIES[name]
        batch = f"cannot: {query.no_answer}" if query.no_answer else batch_answer(files, query)
        own = own_outcome(query, files, parallelism)
        found.append(judged(query, {"flink-sql": flink[name], "duckdb": batch, "flinkray": own}))
    return found


def store(target: Path, files: Path, parallelism: int, environments: Path) -> None:
    """Writes Flink's answers, or DuckDB's where Flink has none, as a test compares them.

    Raises:
        RunFailed: Flink has no answer where it should have one.
    """
    queries = [query for query in QUERIES.values() if not query.no_answer]
    outcomes = flink_outcomes(queries, files, parallelism, environments)
    answers = {}
    for query in queries:
        outcome = batch_answer(files, query) if query.no_flink else outcomes[query.name]
        if isinstance(outcome, str):
            raise RunFailed(f"{query.name}: {outcome}")
        answers[query.name] = stored(outcome)
    target.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")


def own_outcome(query: Query, files: Path, parallelism: int) -> Outcome:
    """flinkray's, in this process."""
    settings = {"execution.target": "local", "parallelism.default": parallelism}
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    try:
        return stream_answer(env, query, file_source(files))
    except SqlUnsupportedError as error:
        return f"cannot: {error.message}"
    except (FlinkrayError, WrongChangelog) as error:
        return f"fails: {error}"


def flink_outcomes(queries: Sequence[Query], files: Path, parallelism: int, environments: Path) -> dict[str, Outcome]:
    """Flink's, from a process of its own; what it gave before is kept beside the files."""
    target = files.with_name(f"{files.name}-flink")
    able = [each for each in queries if not (each.no_flink or each.no_answer)]
    waiting = [each.name for each in able if not (target / each.changes_file).exists()]
    problems = _run_flink(waiting, files, parallelism, environments) if waiting else {}
    found: dict[str, Outcome] = {each.name: f"cannot: {each.no_flink or each.no_answer}" for each in queries}
    for query in able:
        path = target / query.changes_file
        found[query.name] = written(path, query) if path.exists() else f"fails: {problems.get(query.name, 'no answer')}"
    return found


def flink_command(purpose: str, parallelism: int, files: Path, names: Sequence[str], environments: Path) -> list[str]:
    python = python_of(ENGINES["flink-sql"], environments)
    return [str(python), "-m", "benchmarks.peers.flink_nexmark", purpose, str(parallelism), str(files), *names]


def flink_variables(environments: Path) -> dict[str, str]:
    return {**variables(ENGINES["flink-sql"], environments), JARS_VARIABLE: str(set_up_jars(environments))}


def _run_flink(names: Sequence[str], files: Path, parallelism: int, environments: Path) -> dict[str, str]:
    """Has Flink write its answers; the problems of those that fail."""
    try:
        command = flink_command("check", parallelism, files, names, environments)
        return run_tree(command, flink_variables(environments), CHECK_DEADLINE_S).output
    except (NotSetUp, RunFailed) as error:
        return dict.fromkeys(names, str(error))
