"""flinkray's side of Nexmark: runs one query over files, discards its rows, and prints the seconds that it took.

    python -m benchmarks.nexmark.run q4 FILES 2 --target ray

Before the clock starts, a job over few events has imported everything.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from benchmarks.definitions import stdout_on_stderr
from benchmarks.flinkray_engine import environment
from benchmarks.nexmark.events import events
from benchmarks.nexmark.program import query_stream
from benchmarks.nexmark.queries import QUERIES, Query
from benchmarks.nexmark.source import NexmarkSource
from flinkray import DiscardSink, FileSource, Source

_FEW = 100


def file_source(files: Path) -> Source:
    """The events of `event_files`."""
    return FileSource(files, format="parquet", schema=events(np.arange(1)).schema)


def seconds(query: Query, source: Source, target: str, parallelism: int) -> float:
    """From submitting the job to its end."""
    env = environment(target, parallelism)
    query_stream(env, query, source).sink_to(DiscardSink())
    started = time.monotonic()
    env.execute(f"Nexmark {query.name}")
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("query", choices=list(QUERIES))
    parser.add_argument("files", type=Path)
    parser.add_argument("parallelism", type=int)
    parser.add_argument("--target", default="ray")
    given = parser.parse_args()
    query = QUERIES[given.query]
    with stdout_on_stderr():
        seconds(query, NexmarkSource(_FEW), given.target, given.parallelism)
        took = seconds(query, file_source(given.files), given.target, given.parallelism)
    print(json.dumps({"seconds": took}), flush=True)


if __name__ == "__main__":
    main()
