"""Operators that sinks add: before the writers, and behind what commits, in each subtask or for all."""

from __future__ import annotations

from typing import Any

from flinkray import (
    Committer,
    DataStream,
    DiscardSink,
    Sink,
    SinkWriter,
    SinkWriterContext,
    StreamExecutionEnvironment,
    SupportsPostCommitTopology,
    SupportsPreWriteTopology,
)


class Table(Sink, SupportsPreWriteTopology, SupportsPostCommitTopology):
    def add_pre_write_topology(self, rows: DataStream) -> DataStream:
        return rows.key_by(lambda n: n % 7).map(lambda n: n).name("sorted").uid("sorted")

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        raise NotImplementedError

    def create_committer(self) -> Committer:
        raise NotImplementedError

    def add_post_commit_topology(self, committables: DataStream) -> None:
        committables.map(lambda each: each).name("merged").uid("merged").sink_to(DiscardSink())


class Lake(Table):
    commits_globally = True

    def add_pre_write_topology(self, rows: DataStream) -> DataStream:
        return rows


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 4})
    numbers = env.from_sequence(1, 10)
    numbers.sink_to(Table()).name("table").uid("table").set_parallelism(2)
    numbers.sink_to(Lake()).name("lake").uid("lake")
    return env
