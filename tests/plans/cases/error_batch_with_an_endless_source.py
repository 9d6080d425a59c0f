"""Batch mode needs sources that end."""

from __future__ import annotations

from flinkray import Configuration, DataGenSource, RandomField, StreamExecutionEnvironment, WatermarkStrategy


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.runtime-mode": "batch"}))
    env.from_source(DataGenSource({"n": RandomField(0, 9)}), WatermarkStrategy.no_watermarks(), "endless").print()
    return env
