"""Running an uploaded program: the command for it, and what it has said of its job.

No program's code runs in the server's process: a `ProgramHost` runs a command elsewhere, and gives what it prints.
"""

from __future__ import annotations

import logging
import re
import shlex
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from actors.rest.asking.refusals import Refusal
from actors.rest.programs.uploads import MAIN, StoredProgram
from flinkray.config.configuration import Configuration
from flinkray.config.options import ALLOW_NON_RESTORED_STATE, PARALLELISM, SAVEPOINT_PATH
from flinkray.errors import FlinkrayError
from flinkray.redaction import redacted
from flinkray.rest.jobs import JobPlan
from flinkray.rest.programs import ProgramRequest, SubmittedJob

log = logging.getLogger(__name__)

# A process is started on another node first, which may have to fetch the program's packages.
TIMEOUT_MS = 120_000.0
_PAUSE_S = 0.25

# So many are waited for at the same time, as each takes a thread of the server's.
MOST = 4

# Of what a program has said before it failed, this much is told.
_MOST_TOLD = 4_000

_ENTRY = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*)?")

_Printed = TypeVar("_Printed")


class CommandState(Struct, frozen=True):
    """What has become of a command."""

    is_over: bool
    output: str
    """All that it has printed so far."""


class ProgramHost(Protocol):
    """Runs commands of `flinkray` on the cluster, each in a process of its own. Any thread; blocks."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The options with which a program's jobs run where this server looks."""

    def start(self, arguments: list[str], files: Path) -> str:
        """Starts `flinkray` with these arguments in a copy of a directory, or of what is in a zip archive; gives an id.

        Raises:
            FlinkrayError: it cannot.
        """

    def state(self, command_id: str) -> CommandState:
        """Raises as `start`."""

    def stop(self, command_id: str) -> None:
        """Ends a command that is not over. Raises as `start`."""


def run_arguments(program: StoredProgram, request: ProgramRequest, settings: Mapping[str, str]) -> list[str]:
    """The arguments with which `flinkray` submits the jobs of a program, says their ids, and ends.

    Raises:
        Refusal, ConfigurationError: the request is wrong.
    """
    if request.claim_mode not in (None, "NO_CLAIM"):
        raise Refusal(400, f"claimMode {request.claim_mode!r} is not there: savepoints stay their owner's, NO_CLAIM")
    wanted: dict[str, Any] = {}
    if request.savepoint_path:
        wanted[SAVEPOINT_PATH.key] = request.savepoint_path
    if request.allow_non_restored_state:
        wanted[ALLOW_NON_RESTORED_STATE.key] = "true"
    return ["run", "--detached", "--json", *_of_program(program, request, {**wanted, **settings})]


def plan_arguments(program: StoredProgram, request: ProgramRequest) -> list[str]:
    """The arguments with which `flinkray` prints the graph of a program's first job. Raises as `run_arguments`."""
    return ["render", "--json", *_of_program(program, request, {})]


def _of_program(program: StoredProgram, request: ProgramRequest, settings: Mapping[str, str]) -> list[str]:
    if request.job_id is not None:
        raise Refusal(400, "jobId cannot be chosen: a job's id is made when it is submitted")
    wanted = dict(request.flink_configuration or {})
    if request.parallelism not in (None, ""):
        wanted[PARALLELISM.key] = str(request.parallelism)
    wanted |= settings  # where the jobs run is no matter of who uploads programs
    Configuration(wanted)
    options = [word for key, value in wanted.items() for word in ("-D", f"{key}={value}")]
    return [*options, *_entry(program, request.entry_class), *_arguments(request)]


def _entry(program: StoredProgram, entry: str | None) -> list[str]:
    if not program.is_archive:
        if entry:
            raise Refusal(400, f"{program.name!r} is a single file, which has no module {entry!r} to choose")
        return ["--", program.name]
    entry = entry or MAIN
    if not _ENTRY.fullmatch(entry):
        raise Refusal(400, f"entryClass {entry!r} is no module, and no module:function")
    if entry == MAIN and MAIN not in program.modules():
        known = ", ".join(program.modules()) or "(none)"
        raise Refusal(400, f"{program.name!r} has no __main__.py: entryClass has to name one of its modules, {known}")
    return ["--", f"{MAIN}.py"] if entry == MAIN else ["--module", entry, "--"]


def _arguments(request: ProgramRequest) -> list[str]:
    if request.program_args_list is not None:
        return request.program_args_list
    try:
        return shlex.split(request.program_args or "")
    except ValueError as error:
        raise Refusal(400, f"programArgs {request.program_args!r} cannot be divided: {error}") from error


class _Left(Exception):
    """Nobody waits any more for a command that may go on."""

    def __init__(self, reason: FlinkrayError | Refusal) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Running:
    """Runs programs, and waits until they have said what is asked for. Any thread.

    Args:
        monotonic_ms: a clock that never goes back.
        pause_s: how long it waits before it looks again.
    """

    def __init__(self, host: ProgramHost, monotonic_ms: Callable[[], float], pause_s: float = _PAUSE_S) -> None:
        self._host = host
        self._monotonic_ms = monotonic_ms
        self._pause_s = pause_s
        self._ended = threading.Event()
        self._places = threading.BoundedSemaphore(MOST)

    def close(self) -> None:
        """Nobody waits any more; the programs go on, but those of which only the plan was asked for."""
        self._ended.set()

    def run(self, program: StoredProgram, request: ProgramRequest) -> SubmittedJob:
        """Returns when the program has submitted its first job; it goes on then.

        Raises:
            Refusal: the request is wrong, or the program submits none; says what it has printed.
            FlinkrayError: it cannot be started.
        """
        arguments = run_arguments(program, request, self._host.settings)
        return self._printed(program, arguments, SubmittedJob, "submitted a job", goes_on=True)

    def plan(self, program: StoredProgram, request: ProgramRequest) -> JobPlan:
        """The graph of the program's first job; one that nobody waits for any more is stopped. Raises as `run`."""
        return self._printed(program, plan_arguments(program, request), JobPlan, "come to a job", goes_on=False)

    def _printed(
        self, program: StoredProgram, arguments: list[str], kind: type[_Printed], what: str, *, goes_on: bool
    ) -> _Printed:
        if not self._places.acquire(blocking=False):
            raise Refusal(503, f"{MOST} programs are being started: ask again when one of them has been")
        try:
            command = self._start(program, arguments)
            try:
                return self._awaited(program.name, command, kind, what, "goes on" if goes_on else "is stopped")
            except _Left as left:
                if not goes_on:
                    self._stop(command)
                raise left.reason from left.reason.__cause__
        finally:
            self._places.release()

    def _awaited(self, name: str, command: str, kind: type[_Printed], what: str, fate: str) -> _Printed:
        """
        Raises:
            Refusal: the program has ended.
            _Left: it may go on.
        """
        deadline = self._monotonic_ms() + TIMEOUT_MS
        while True:
            try:
                state = self._host.state(command)
            except FlinkrayError as error:
                raise _Left(error) from error
            found = _document(state.output, kind)
            if found is not None:
                return found
            if state.is_over:
                told = redacted(state.output[-_MOST_TOLD:].strip())
                raise Refusal(400, f"{name!r} has ended ({command}) and not {what}: {told}")
            if self._monotonic_ms() >= deadline:
                seconds = TIMEOUT_MS / 1000
                raise _Left(Refusal(503, f"{name!r} {fate} ({command}), and has not {what} for {seconds:.0f} s"))
            if self._ended.wait(self._pause_s):
                raise _Left(Refusal(503, f"this server ends; {name!r} {fate} ({command})"))

    def _stop(self, command: str) -> None:
        try:
            self._host.stop(command)
        except FlinkrayError as error:
            log.warning("%s may go on, though nobody waits for its plan: %s", command, error)

    def _start(self, program: StoredProgram, arguments: list[str]) -> str:
        if program.is_archive:
            return self._host.start(arguments, program.path)
        with tempfile.TemporaryDirectory(prefix="flinkray-run-") as directory:
            # Under its own name, which tracebacks show.
            (Path(directory) / program.name).write_bytes(program.path.read_bytes())
            return self._host.start(arguments, Path(directory))


def _document(output: str, kind: type[_Printed]) -> _Printed | None:
    """The first line that is such a document; None: there is none yet. What programs print is beside it."""
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                return msgspec.json.decode(line, type=kind)
            except msgspec.DecodeError:
                continue
    return None
