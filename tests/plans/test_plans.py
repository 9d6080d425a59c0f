"""Programs and what they compile to.

Each `cases/<name>.py` has a function `program()` that gives an environment with a program, or a Pipeline; next to it,
`<name>.txt` holds its three graphs as text and the JobGraph as a drawing. Of a case `error_...` the message is kept.
The texts show operator ids, so a change that would lose the state of running programs shows up here.

After a change that is meant, write the texts anew and read the difference:

    UPDATE_PLANS=1 pytest tests/plans
"""

from __future__ import annotations

import os
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from flinkray.execution import Pipeline
from flinkray.streams.environment import StreamExecutionEnvironment
from flinkray.transformations.partitioning import ShufflePartitioner
from graphs.compiler.planner import plan
from graphs.job_graph import JobGraph
from graphs.render import job_graph_mermaid, job_graph_text
from tests.support.graphs import Program

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.stem for path in CASES.glob("*.py"))
SHOWN = (("stream", "text"), ("job", "text"), ("execution", "text"), ("job", "mermaid"))


def compiled(name: str) -> str:
    program = runpy.run_path(str(CASES / f"{name}.py"))["program"]
    parts = []
    for graph, format in SHOWN:
        built: StreamExecutionEnvironment | Pipeline = program()
        if isinstance(built, Pipeline):
            parts.append(plan(built, graph, format))
        else:
            parts.append(built.get_execution_plan(graph, format))
    return "\n".join(parts)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_compiles_to_the_stored_graphs(name: str) -> None:
    if name.startswith("error_"):
        with pytest.raises(InvalidProgramError) as caught:
            compiled(name)
        text = f"{type(caught.value).__name__}: {caught.value}\n"
    else:
        text = compiled(name)
    stored = CASES / f"{name}.txt"
    if os.environ.get("UPDATE_PLANS"):
        stored.write_text(text)
    assert text == stored.read_text()


def test_every_stored_text_belongs_to_a_case() -> None:
    assert sorted(path.stem for path in CASES.glob("*.txt")) == NAMES


def test_an_unknown_graph_or_format_is_refused_with_those_that_exist() -> None:
    pipeline: Pipeline = runpy.run_path(str(CASES / "chained_sources.py"))["program"]()
    with pytest.raises(InvalidProgramError, match="no graph 'task'; there are: stream, job, execution"):
        plan(pipeline, "task")
    with pytest.raises(InvalidProgramError, match="no format 'svg'; there are: text, mermaid"):
        plan(pipeline, "job", "svg")


@pytest.mark.parametrize("draw", [job_graph_text, job_graph_mermaid])
def test_a_graph_is_looked_through_a_few_times_however_large_it_is(draw: Callable[[JobGraph], str]) -> None:
    looks: Counter[int] = Counter()

    class Counted(tuple[Any, ...]):
        def __iter__(self) -> Iterator[Any]:
            looks[id(self)] += 1
            return super().__iter__()

    program = Program()
    stream = program.source()
    for number in range(20):
        stream = program.map(program.partition(stream, ShufflePartitioner()), f"a {number}")
        for _ in range(10):
            stream = program.map(stream, f"b {number}")
    program.sink(stream)
    graph = program.job_graph()
    vertices = Counted(replace(vertex, operators=Counted(vertex.operators)) for vertex in graph.vertices)
    assert draw(replace(graph, vertices=vertices)) == draw(graph)
    assert max(looks.values()) <= 5
