"""Running a user's program file from the command line, as `python PROGRAM` would, with settings of the caller's."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flinkray.config.configuration import Configuration
from flinkray.config.sources import variable_name
from flinkray.errors import ConfigurationError, InvalidProgramError
from flinkray.execution import JobClient, Pipeline
from flinkray.plugins import EXECUTORS, PLANNERS, load_plugin, replace_plugins
from flinkray.progress import PROGRAM_USE
from flinkray.streams.environment import JobListener, StreamExecutionEnvironment


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


def run_program(
    program: Path, arguments: Sequence[str], settings: Mapping[str, str], listener: JobListener | None = None
) -> None:
    """Runs the file; what it raises is raised.

    Args:
        settings: option -> value. They win over environment variables and the configuration file, and lose against
            what the program itself sets.
        listener: hears of the jobs that the program submits.
    """
    with _as_main(program, arguments, settings), _listening(listener):
        try:
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
    program: Path, arguments: Sequence[str], settings: Mapping[str, str], graph: str, format: str
) -> str:
    """The graph of the first job that the program executes; the program ends there, and no job is run.

    Args:
        graph: "stream", "job" or "execution".
        format: "text" or "mermaid".

    Raises:
        InvalidProgramError: the program executes nothing.
    """
    plan = load_plugin(PLANNERS, "default")
    with replace_plugins(EXECUTORS, _Renderer), contextlib.suppress(SystemExit):
        try:
            run_program(program, arguments, settings)
        except _Reached as reached:
            return str(plan(reached.pipeline, graph, format))
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
def _as_main(program: Path, arguments: Sequence[str], settings: Mapping[str, str]) -> Iterator[None]:
    """Gives the program its arguments, its own directory on the path, and the settings, as if it were run itself."""
    former_argv, former_path, former_environ = sys.argv, sys.path, dict(os.environ)
    sys.argv = [str(program), *arguments]
    sys.path = [str(program.resolve().parent), *former_path]
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
