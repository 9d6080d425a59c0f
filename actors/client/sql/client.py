"""What becomes of each statement: what it gives is shown, what it starts goes on, and what is wrong is said."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from actors.client.sql.jobs import ClusterJobs, Jobs
from actors.client.sql.pieces import leading_blank, pieces_of
from actors.client.sql.screen import show_on_screen
from flinkray.config.configuration import Configuration
from flinkray.config.options import TARGET
from flinkray.errors import ConfigurationError, FlinkrayError, InvalidProgramError, SqlError, did_you_mean
from flinkray.streams.environment import StreamExecutionEnvironment
from flinkray.tables.environment.answers import OK, Answer, ResultKind, tabled
from flinkray.tables.environment.results import TableResult
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.types.records import JobId

logger = logging.getLogger(__name__)

OWN = "sql-client."
"""What keys of options begin with that are the client's."""
RESULT_MODE = "sql-client.execution.result-mode"
VERBOSE = "sql-client.verbose"
MOST_ROWS = "sql-client.execution.max-table-result.rows"
TIME_COST = "sql-client.display.print-time-cost"
_TRUTH = ("true", "false")
MODES = ("tableau", "changelog", "table")
DEFAULTS = {RESULT_MODE: "tableau", VERBOSE: "false", MOST_ROWS: "1000000", TIME_COST: "false"}
WITHOUT_EFFECT = {
    "sql-client.display.color-schema": "lines are edited without colours",
    "sql-client.display.show-line-numbers": "lines are edited without numbers",
}
"""Options of Flink's client, and why they change nothing in this one."""
_HELP = """\
Statements of Flink SQL, each with a ; behind it, in as many lines as you like. Beside them:

SET 'key' = 'value'; RESET 'key';   options of the jobs; SET; shows them
SET 'sql-client.execution.result-mode' = 'tableau' | 'changelog' | 'table';
                                    results as they come; their last changes; the rows that there are
SHOW JOBS; DESCRIBE JOB 'id';       jobs, also those of the Ray cluster
STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN];
CLEAR; HELP; QUIT;                  Ctrl-C ends a query, or the line that you are at; Ctrl-D the client
"""


_JOBS = (syntax.Insert, syntax.StatementSet, syntax.CompilePlan, syntax.ExecutePlan)
"""Statements that start jobs whose rows nobody takes."""


class Quit(Exception):
    """The user ends the client."""


class SqlClient:
    """Carries out statements one after the other, and shows on a console what they give.

    Args:
        settings: options of the jobs, and of the client itself.
        cluster: jobs beside those that it starts.
        is_interactive: whether somebody sits at the console: errors of a statement then end nothing else.
        as_json: prints nothing but a line of JSON for each row, and each job that is submitted.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        console: Console,
        cluster: ClusterJobs | None,
        *,
        is_interactive: bool,
        as_json: bool = False,
    ) -> None:
        own = {key: value for key, value in settings.items() if key.startswith(OWN)}
        configuration = Configuration({key: value for key, value in settings.items() if key not in own})
        self.environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        self.tables = self.environment.tables
        self.console = console
        self._is_interactive = is_interactive
        self._as_json = as_json
        self._settings = dict(DEFAULTS)
        for key, value in own.items():
            self._set(key, value)
        is_local = self.environment.configuration.get(TARGET) == "local"
        self._jobs = Jobs(None if is_local else cluster)
        self._has_warned = False

    # -- texts

    def run_script(self, script: str, name: str = "") -> None:
        """Carries out the statements of a text.

        Args:
            name: of the file that it is.
        Raises:
            FlinkrayError: of the first statement that fails; says in which line of the file that begins. The place of
                what is wrong with its words is that in the file.
        """
        end = 0
        for piece in pieces_of(script):
            if not self._as_json:
                self.console.print(Text(f"Flink SQL> {piece};", style="dim"), soft_wrap=True)
            start = script.index(piece, end)
            end = start + len(piece)
            try:
                self.execute(piece)
            except FlinkrayError as error:
                if name and not self._as_json:
                    line = script.count("\n", 0, start + len(leading_blank(piece))) + 1
                    self.console.print(Text(f"in {name}, the statement that begins in line {line}:"), soft_wrap=True)
                if isinstance(error, SqlError) and error.sql == piece:
                    raise type(error)(error.message, script, start + error.start, start + error.end) from error
                raise

    def run_line(self, text: str) -> None:
        """Carries out the statements that somebody has typed; says what is wrong with one, and goes on.

        Raises:
            Quit: one of them says so.
        """
        for piece in pieces_of(text):
            try:
                self.execute(piece)
            except FlinkrayError as error:
                self.say_error(error)
                return
            except KeyboardInterrupt:
                self.console.print("[yellow]the statement is ended[/]")
                return

    def say_error(self, error: BaseException) -> None:
        """Says what was wrong; with its traceback where `sql-client.verbose` is true."""
        if self._settings[VERBOSE] == "true":
            self.console.print(Text("".join(traceback.format_exception(error))), soft_wrap=True)
        self.console.print(Text("[ERROR] ", style="bold red") + Text(str(error)), soft_wrap=True)

    # -- statements

    def execute(self, statement: str) -> None:
        """Carries out one statement.

        Raises:
            FlinkrayError: it is wrong, or fails.
            Quit: it says so.
        """
        self._jobs.running()  # what has ended since then is let go
        command = self._command(statement)
        if command is not None:
            command()
            return
        node = parse_statement(statement)
        answer = self._own_answer(node)
        if answer is not None:
            self._print(TableResult(answer.row_type, answer))
            return
        result = self.tables.execute_sql(statement)
        client = result.get_job_client()
        match node:
            case syntax.QueryStatement():
                self._show(result)
            case _ if isinstance(node, _JOBS) and client is not None:
                self._jobs.started(_name_of(node), client)
                self._say_submitted(client.job_id)
            case _:
                self._print(result)

    def _command(self, statement: str) -> Callable[[], None] | None:
        """What a word means that is no SQL."""
        words = " ".join(statement.split()).upper()
        commands: dict[str, Callable[[], None]] = {
            "QUIT": self._quit,
            "EXIT": self._quit,
            "CLEAR": self.console.clear,
            "HELP": lambda: self.console.print(_HELP, markup=False, highlight=False),
        }
        return commands.get(words)

    def _own_answer(self, node: syntax.Statement) -> Answer | None:
        """The answer to what only the client knows; None: the environment has to be asked."""
        match node:
            case syntax.Show(subject="JOBS"):
                columns = ("job id", "job name", "status", "cluster")
                jobs = self._jobs.all()
                return tabled(columns, [(job.job_id, job.name, job.status, job.cluster) for job in jobs], [str] * 4)
            case syntax.Describe(kind="JOB", path=path):
                return self._described(".".join(path.texts))
            case syntax.StopJob():
                return self._stopped(node)
            case syntax.Set(key=key, value=value) if key is not None and key.startswith(OWN):
                self._set(key, value or "")
                return OK
            case syntax.Set(key=None):
                changed = {key: value for key, value in self._settings.items() if value != DEFAULTS[key]}
                return tabled(("key", "value"), sorted((self.environment.configuration.shown() | changed).items()))
            case syntax.Reset(key=key) if key is not None and key.startswith(OWN):
                self._set(key, DEFAULTS.get(key, ""))
                return OK
            case syntax.Reset(key=None):
                self._settings = dict(DEFAULTS)  # and those of the jobs
        return None

    def _set(self, key: str, value: str) -> None:
        if key in WITHOUT_EFFECT:
            logger.warning("option %r has no effect here: %s", key, WITHOUT_EFFECT[key])
            return
        if key not in DEFAULTS:
            raise ConfigurationError(f"there is no option {key!r}{did_you_mean(key, DEFAULTS)}")
        if key == MOST_ROWS:
            if not value.isdecimal() or int(value) < 1:
                raise ConfigurationError(f"{key} is {value!r}, and takes a whole number above 0")
            self._settings[key] = value
            return
        allowed = MODES if key == RESULT_MODE else _TRUTH
        if value.lower() not in allowed:
            raise ConfigurationError(f"{key} is {value!r}, and takes {', '.join(allowed)}")
        self._settings[key] = value.lower()

    # -- results

    def _show(self, result: TableResult) -> None:
        """Shows a query's rows until there are no more; ended by the user, its job is cancelled."""
        mode = self._settings[RESULT_MODE]
        began = time.monotonic()
        with result:
            try:
                if mode == "tableau" or self._as_json or not self.console.is_terminal:
                    self._print(result)
                else:
                    most = int(self._settings[MOST_ROWS])
                    show_on_screen(result, self.console, only_changes=mode == "changelog", most=most)
            except KeyboardInterrupt:
                if not self._is_interactive:
                    raise
                self.console.print("\n[yellow]the query is ended[/]")
        if self._settings[TIME_COST] == "true" and not self._as_json:
            self.console.out(f"{time.monotonic() - began:.2f} seconds", highlight=False)

    def _print(self, result: TableResult) -> None:
        if not self._as_json:
            for line in result.lines():
                self.console.out(line, highlight=False)
        elif result.get_result_kind() is ResultKind.SUCCESS_WITH_CONTENT:
            for row in result.collect():
                self._print_json({"kind": str(row.get_row_kind()), "row": row.as_dict(recursive=True)})

    def _say_submitted(self, job_id: JobId) -> None:
        if self._as_json:
            self._print_json({"jobid": job_id})
        else:
            self.console.print(f"[INFO] The job has been submitted. Job ID: {job_id}", markup=False)

    def _print_json(self, document: dict[str, Any]) -> None:
        line = msgspec.json.encode(document, enc_hook=str).decode()
        click.echo(line, file=self.console.file)

    # -- jobs

    def _described(self, job: str) -> Answer:
        client = self._jobs.find(job)
        line = (client.job_id, client.status().value, client.web_url)
        return tabled(("job id", "status", "web url"), [line], [str] * 3)

    def _stopped(self, node: syntax.StopJob) -> Answer:
        client = self._jobs.find(node.job)
        if client.status().is_terminal:
            raise InvalidProgramError(f"job {client.job_id} is {client.status().value} already")
        if not node.savepoint and not node.drain:
            client.cancel()
            return OK
        saved = client.stop_with_savepoint(None, node.drain)
        return tabled(("savepoint path",), [(saved,)])

    def wait_for_jobs(self) -> None:
        """Waits for the jobs that have been started, which a script does before it ends: those that run in this process
        would end with it.

        Raises:
            JobExecutionError: one of them failed.
        """
        for client in self._jobs.running():
            client.result()

    def close(self) -> None:
        """Ends the jobs that run in this process, or in clusters of their own."""
        self._jobs.close()

    def _quit(self) -> None:
        running = self._jobs.running() if self._is_interactive else []
        if running and not self._has_warned and self._ends_with_process:
            self._has_warned = True
            ids = ", ".join(client.job_id for client in running)
            self.console.print(f"[yellow]still running in this process: {ids}; QUIT again to end it, and them[/]")
            return
        raise Quit

    @property
    def _ends_with_process(self) -> bool:
        target: str = self.environment.configuration.get(TARGET)
        return target != "ray-session"


def _name_of(node: syntax.Statement) -> str:
    if isinstance(node, syntax.CompilePlan | syntax.ExecutePlan):
        return f"plan {node.file}"
    inserts = [node] if isinstance(node, syntax.Insert) else getattr(node, "inserts", ())
    return "insert-into " + ", ".join(".".join(each.table.texts) for each in inserts)
