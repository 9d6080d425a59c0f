"""Running a user's program from the command line, as `python PROGRAM` would, with settings of the caller's."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import cloudpickle
from msgspec import Struct

from actors.client.cluster import new_job_id
from actors.rest.answers.jobs import planned
from flinkray.config.configuration import Configuration
from flinkray.config.python_options import PYTHON_FILES
from flinkray.config.sources import variable_name
from flinkray.errors import ConfigurationError, InvalidProgramError
from flinkray.execution import JobClient, Pipeline
from flinkray.functions.program_files import named_files, place_of
from flinkray.plugins import EXECUTORS, PLANNERS, load_plugin, replace_plugins
from flinkray.progress import PROGRAM_USE
from flinkray.rest.jobs import JobPlan
from flinkray.streams.environment import JobListener, StreamExecutionEnvironment
from graphs.compiler.job_graph_generator import job_graph_of
from graphs.compiler.stream_graph_generator import generate_stream_graph
from graphs.execution_graph import ExecutionGraph


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """`key=value` texts as a mapping.

    Raises:
        ConfigurationError: one is no such text, no option, or a value that its option does not take.
    """
    parsed: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigurationError(f"-D takes key=value, got {setting!r}")
        parsed[key.strip()] = value.strip()
    Configuration(parsed)
    return parsed


class Module(Struct, frozen=True):
    """A program that is a module, or a function of one that is called without arguments."""

    name: str
    function: str = ""

    @classmethod
    def parse(cls, text: str) -> Module:
        """From `module` or `module:function`."""
        name, _, function = text.partition(":")
        return cls(name, function)

    def __str__(self) -> str:
        return f"{self.name}:{self.function}" if self.function else self.name

    def run(self) -> None:
        try:
            found = importlib.util.find_spec(self.name) is not None
        except ModuleNotFoundError:  # of a package before it
            found = False
        if not found:
            raise InvalidProgramError(
                f"there is no module {self.name!r} to run, in {Path.cwd()} or where Python finds modules: start in the "
                "directory that has it, install it, or bring it along with --py-files"
            )
        if not self.function:
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
            return
        module = importlib.import_module(self.name)
        function = getattr(module, self.function, None)
        if not callable(function):
            raise InvalidProgramError(f"module {self.name!r} has no function {self.function!r} to run")
        cloudpickle.register_pickle_by_value(module)  # a program's own functions go along with its job
        try:
            function()
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def run_program(
    program: Path | Module, arguments: Sequence[str], settings: Mapping[str, str], listener: JobListener | None = None
) -> None:
    """Runs the file or module; what it raises is raised. Modules are looked for in the current directory too.

    Args:
        settings: option -> value. They win over environment variables and the configuration file, and lose against
            what the program itself sets.
        listener: hears of the jobs that the program submits.
    """
    with _as_main(program, arguments, settings), _listening(listener):
        try:
            if isinstance(program, Module):
                program.run()
            else:
                runpy.run_path(str(program), run_name="__main__")
        except BaseException:
            PROGRAM_USE.use()  # its error says why nothing ran
            raise


@contextlib.contextmanager
def _listening(listener: JobListener | None) -> Iterator[None]:
    listeners = StreamExecutionEnvironment._default_listeners
    former = list(listeners)
    if listener is not None:
        listeners.append(listener)
    try:
        yield
    finally:
        listeners[:] = former


def render_program(
    program: Path | Module, arguments: Sequence[str], settings: Mapping[str, str], graph: str, format: str
) -> str:
    """The graph of the first job that the program executes; the program ends there, and no job is run.

    Args:
        graph: "stream", "job" or "execution".
        format: "text" or "mermaid".

    Raises:
        InvalidProgramError: the program executes nothing.
    """
    plan = load_plugin(PLANNERS, "default")
    return str(plan(_first_pipeline(program, arguments, settings), graph, format))


def plan_of_program(program: Path | Module, arguments: Sequence[str], settings: Mapping[str, str]) -> JobPlan:
    """The same graph in the shape of the REST interface. Raises as `render_program`."""
    stream_graph = generate_stream_graph(_first_pipeline(program, arguments, settings))
    job_graph = job_graph_of(stream_graph, new_job_id(), with_code=False)
    return planned(ExecutionGraph.from_job_graph(job_graph), is_batch=job_graph.is_batch)


def _first_pipeline(program: Path | Module, arguments: Sequence[str], settings: Mapping[str, str]) -> Pipeline:
    """The first job that the program executes; it ends there. Raises as `render_program`."""
    with replace_plugins(EXECUTORS, _Renderer), contextlib.suppress(SystemExit):
        try:
            run_program(program, arguments, settings)
        except _Reached as reached:
            return reached.pipeline
    raise InvalidProgramError(f"{program} executed nothing: it has to call execute(), or something that does")


class _Reached(BaseException):
    """Ends a program where it would execute its first job. No Exception, so that the program does not handle it."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline.name)
        self.pipeline = pipeline


class _Renderer:
    """Takes the place of every executor."""

    needs_preparation = False

    def execute(self, pipeline: Pipeline) -> JobClient:
        raise _Reached(pipeline)


@contextlib.contextmanager
def _as_main(program: Path | Module, arguments: Sequence[str], settings: Mapping[str, str]) -> Iterator[None]:
    """Gives the program its arguments, its own directory and what it brings along on the path, and the settings, as if
    it were run itself."""
    former_argv, former_path, former_environ = sys.argv, sys.path, dict(os.environ)
    sys.argv = [str(program), *arguments]
    places = [place_of(file) for file in named_files(settings.get(PYTHON_FILES.key, ""))]
    own = Path.cwd() if isinstance(program, Module) else program.resolve().parent
    sys.path = [*places, str(own), *former_path]
    os.environ.update({variable_name(key): value for key, value in settings.items()})
    try:
        yield
    finally:
        sys.argv, sys.path = former_argv, former_path
        for key in settings:
            variable = variable_name(key)
            if variable in former_environ:
                os.environ[variable] = former_environ[variable]
            else:
                os.environ.pop(variable, None)
