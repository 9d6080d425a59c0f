"""A program's graphs as text: what `get_execution_plan()` and the command line show."""

from __future__ import annotations

from flinkray.errors import InvalidProgramError
from flinkray.execution import Pipeline
from flinkray.redaction import redacted
from flinkray.types.records import JobId
from graphs.compiler.job_graph_generator import job_graph_of
from graphs.compiler.stream_graph_generator import generate_stream_graph
from graphs.execution_graph import ExecutionGraph
from graphs.render import (
    execution_graph_mermaid,
    execution_graph_text,
    job_graph_mermaid,
    job_graph_text,
    stream_graph_mermaid,
    stream_graph_text,
)

GRAPHS = ("stream", "job", "execution")
FORMATS = ("text", "mermaid")


def plan(pipeline: Pipeline, graph: str = "job", format: str = "text") -> str:
    """One of the program's graphs. Calls and pickles nothing of the user's.

    Args:
        graph: "stream" (as written), "job" (chained) or "execution" (unfolded by parallelism).
        format: "text" or "mermaid".

    Raises:
        InvalidProgramError: the program cannot be compiled, or there is no such graph or format.
    """
    if graph not in GRAPHS:
        raise InvalidProgramError(f"no graph {graph!r}; there are: {', '.join(GRAPHS)}")
    if format not in FORMATS:
        raise InvalidProgramError(f"no format {format!r}; there are: {', '.join(FORMATS)}")
    return redacted(_rendered(pipeline, graph, is_text=format == "text"))


def _rendered(pipeline: Pipeline, graph: str, *, is_text: bool) -> str:
    stream_graph = generate_stream_graph(pipeline)
    if graph == "stream":
        return stream_graph_text(stream_graph) if is_text else stream_graph_mermaid(stream_graph)
    job_graph = job_graph_of(stream_graph, JobId("plan"), with_code=False)
    if graph == "job":
        return job_graph_text(job_graph) if is_text else job_graph_mermaid(job_graph)
    execution_graph = ExecutionGraph.from_job_graph(job_graph)
    return execution_graph_text(execution_graph) if is_text else execution_graph_mermaid(execution_graph)
