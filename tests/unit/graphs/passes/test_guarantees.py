"""Sinks that write exactly once, and programs in which they never would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    DataStream,
    DeliveryGuarantee,
    DiscardSink,
    FileSink,
    InvalidProgramError,
    KafkaSink,
    Sink,
    SocketSource,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flinkray.types.records import JobId
from graphs.compiler.job_graph_generator import generate_job_graph


def compile_program(sink: Sink, options: dict[str, Any], *, is_bounded: bool = False) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(options)
    stream: DataStream = (
        env.from_collection(["a"])
        if is_bounded
        else env.from_source(SocketSource("host", 1), WatermarkStrategy.no_watermarks(), "lines")
    )
    stream.sink_to(sink)
    generate_job_graph(env._pipeline("job", should_prepare=False), JobId("0" * 32))


@pytest.fixture(params=["file", "kafka"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    if request.param == "file":
        return FileSink(tmp_path, "text")
    return KafkaSink("host:1", "t", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)


def test_a_sink_that_would_never_show_a_row_is_refused(sink: Sink) -> None:
    with pytest.raises(InvalidProgramError, match=r"operator 'Sink: Unnamed': .*Sink writes exactly once.*neither"):
        compile_program(sink, {})


def test_checkpoints_an_end_or_a_lesser_guarantee_will_do(sink: Sink) -> None:
    compile_program(sink, {"execution.checkpointing.interval": 1_000})
    compile_program(sink, {}, is_bounded=True)
    for other in (DiscardSink(), KafkaSink("host:1", "t")):
        compile_program(other, {})
