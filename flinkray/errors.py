"""Every error that flinkray raises on purpose.

    FlinkrayError
    ├── InvalidProgramError        the program cannot be compiled: wrong argument, cycle, duplicate uid, no sink ...
    │   ├── UnknownColumnError     a column that the stream does not have, with the nearest one that it has
    │   ├── NotSerializableError   a function that cannot be sent to a worker
    │   ├── ConfigurationError     an unknown option, or a value that an option does not take
    │   └── SqlError               a SQL statement is wrong; shows the place in it
    │       ├── SqlParserError     ... it cannot be read
    │       ├── SqlValidationError ... its names or types do not fit
    │       └── SqlUnsupportedError ... it is right, and cannot be executed yet
    ├── MissingDependencyError     something that flinkray needs is missing on this machine (Java, a package)
    ├── ConnectorError             a system that a source or sink works with does not answer, or refuses
    ├── RecordError                a value that an operator cannot take, named with operator, subtask, field and value
    │   ├── UserFunctionError      the user's own code raised
    │   ├── TypeMismatchError      a value does not fit the stream's type
    │   └── NullTimestampError     a row without event time at a watermark assigner
    ├── NoResourceAvailableError   the cluster did not give the job its slots in time
    ├── PartitionError             a result partition is gone, or its channel broke
    ├── CheckpointError            a checkpoint or savepoint cannot be written, read, or used by this program
    │   ├── DamagedCheckpointError a file of it is gone or was altered
    │   └── IncompatibleStateError it has state that the program declares otherwise, or of a newer version
    └── JobExecutionError          what the driver gets when a job failed; its __cause__ is the first failure
        └── JobCanceledError       ... or was cancelled

Each carries its fields, and survives pickling. `origin` says who can mend it: "user", "external" or "internal".
"""

from __future__ import annotations

import contextlib
import difflib
import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from flinkray.persistence import dumps, loads
from flinkray.redaction import redacted

Origin = Literal["user", "external", "internal"]

LONGEST_TEXT = 64 << 10
"""Characters of an error's message or traceback that are kept: they go through all masters, into logs and listings."""
_SHOWN_BESIDE = 60
"""Characters that are shown on each side of what is wrong in a line of SQL, where the line is longer than both."""
_LARGEST_PICKLE = 1 << 20
"""Bytes of the pickle of an exception that is kept beside its text."""


class FlinkrayError(Exception):
    """Base of all: catch it to catch everything that flinkray raises on purpose."""

    origin: ClassVar[Origin] = "internal"
    is_recoverable: ClassVar[bool] = True
    """Whether a restart can help. False: the same error would come again at once, so the job fails instead (Flink's
    NonRecoverableError)."""

    def __str__(self) -> str:
        return redacted(self._text())

    def __repr__(self) -> str:
        return redacted(super().__repr__())

    def _text(self) -> str:
        """The message, which `str` gives without secrets."""
        return super().__str__()


class InvalidProgramError(FlinkrayError):
    """A program, or a call that writes one, cannot mean anything; says where, and what to write instead."""

    origin = "user"
    is_recoverable = False


class NotSerializableError(InvalidProgramError):
    """Names the operator, and where it can the captured variable that cannot be pickled."""


class ConfigurationError(InvalidProgramError):
    """An option that does not exist, or a value that it does not take."""


class UnknownColumnError(InvalidProgramError):
    """A column name that the stream does not have, or has more than once where one column is wanted."""

    def __init__(self, column: str, available: Iterable[str], where: str = "") -> None:
        self.column = column
        self.available = tuple(available)
        self.where = where
        super().__init__(column, self.available, where)

    def _text(self) -> str:
        prefix = f"{self.where}: " if self.where else ""
        if self.column in self.available:
            problem = f"several columns are called {self.column!r}; rename all but one of them where they are made"
        else:
            problem = f"no column {self.column!r}{did_you_mean(self.column, self.available)}"
        return f"{prefix}{problem}; columns: {', '.join(self.available)}"


class SqlError(InvalidProgramError):
    """A SQL statement cannot be taken: one sentence says why, and a caret stands under the place.

    Args:
        sql: the text that was read.
        start: the offset of the first character in it that is wrong.
        end: the offset behind the last one.
    """

    def __init__(self, message: str, sql: str, start: int, end: int) -> None:
        self.message = message
        self.sql = sql
        self.start = start
        self.end = end
        super().__init__(message, sql, start, end)

    @property
    def line(self) -> int:
        """The line of the place, from 1."""
        return self.sql.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """The column of the place in its line, in characters, from 1."""
        return self.start - (self.sql.rfind("\n", 0, self.start) + 1) + 1

    def _text(self) -> str:
        line, place = self.sql.split("\n")[self.line - 1].rstrip("\r"), self.column - 1
        if len(line) > 2 * _SHOWN_BESIDE:
            begin, end = max(0, place - _SHOWN_BESIDE), place + _SHOWN_BESIDE
            beginning = "..." if begin else ""
            line = beginning + line[begin:end] + ("..." if end < len(line) else "")
            place += len(beginning) - begin
        width = max(1, min(self.end - self.start, len(line) - place))
        # Tabs stay tabs, so that the caret stands under the place however wide they are shown.
        blank = "".join("\t" if each == "\t" else " " for each in line[:place])
        return f"line {self.line}, column {self.column}: {self.message}\n  {line}\n  {blank}{'^' * width}"


class SqlParserError(SqlError):
    """A statement is not written as Flink SQL is."""


class SqlValidationError(SqlError):
    """A statement is well written, but a name, a type or a function in it does not fit."""


class SqlUnsupportedError(SqlError):
    """A statement means something, but nothing executes that yet."""


class MissingDependencyError(FlinkrayError):
    """Something outside flinkray is missing; one sentence says what to install where."""

    origin = "external"
    is_recoverable = False


class ConnectorError(FlinkrayError):
    """A broker, database, store or registry does not answer, or refuses what it is asked for; names operator and place,
    and the way out. Kafka, PostgreSQL, Redis, NATS and HTTP have classes of their own below it."""

    origin = "external"


class RecordError(FlinkrayError):
    """Base of errors about one value or batch; the message begins with operator and subtask."""

    origin = "user"


class UserFunctionError(RecordError):
    """The user's function raised. `__cause__` (or `cause_traceback`, across processes) shows the user's own line."""

    def __init__(self, operator: str, subtask: str, value: str, message: str, cause_traceback: str = "") -> None:
        self.operator = operator
        self.subtask = subtask
        self.value = value
        self.message = message
        self.cause_traceback = cause_traceback
        super().__init__(operator, subtask, value, message, cause_traceback)

    def _text(self) -> str:
        text = f"{operator_label(self.operator, self.subtask)}: {self.message}"
        if self.value:
            text += f"; the value was {self.value}"
        if self.cause_traceback:
            text += f"\n{self.cause_traceback}"
        return text


class TypeMismatchError(RecordError):
    """A value does not fit the type of its stream, and widening it would lose something."""


class NullTimestampError(RecordError):
    """A row has no event time where one is needed."""


class NoResourceAvailableError(FlinkrayError):
    """The job did not get its slots; names what it needs, what the cluster has, and what to do."""

    origin = "external"
    is_recoverable = False


class PartitionError(FlinkrayError):
    """Data of a producer cannot be read any more: it is gone, was lost in the object store, or arrived with a gap."""

    partition_id: str | None = None
    """The partition that cannot be read, where it is known: set by the channel that reads it."""


class CheckpointError(FlinkrayError):
    """A checkpoint or savepoint cannot be written, read, or used by this program; names the file or operator."""


class DamagedCheckpointError(CheckpointError):
    """A file of a checkpoint is gone or was altered: reading it again will not help, another checkpoint may."""


class IncompatibleStateError(CheckpointError):
    """State was saved otherwise than the program declares it: names the operator, the state, and both. Or it was saved
    by a version of flinkray that knows more than this one: names what is unknown here."""

    origin = "user"
    is_recoverable = False


class RescaleError(FlinkrayError):
    """A job that runs is not given another parallelism, and goes on as it was; says why."""

    origin = "user"


class JobExecutionError(FlinkrayError):
    """The job failed. `__cause__` is the first failure; the message holds the user's traceback."""

    origin = "user"


class JobCanceledError(JobExecutionError):
    """The job was cancelled before it finished."""


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An exception on its way between processes: always picklable, whatever the exception was.

    `traceback_text` is empty for errors of the user and of systems outside: their message says where. `pickled` is the
    exception itself where it pickles, so that the driver can raise the user's own class as cause; not if it is large,
    or if its message holds a secret.
    """

    type_name: str
    message: str
    traceback_text: str
    pickled: bytes | None
    is_recoverable: bool = True
    """Whether restarting what failed can help."""
    partition_id: str | None = None
    """The partition that a PartitionError is about, where it is known."""

    @staticmethod
    def of(error: BaseException) -> ErrorInfo:
        """What of an exception can travel."""
        try:
            pickled: bytes | None = dumps(error, may_have_paths=True)
            loads(pickled or b"")
        except (Exception, SystemExit):
            # Many exception classes cannot be rebuilt from their args; their text is kept instead.
            pickled = None
        message = cut(message_of(error))
        if pickled is not None and (len(pickled) > _LARGEST_PICKLE or redacted(message) != message):
            pickled = None
        # What is wrong with the program or outside says itself where; frames of the runtime and of clients would only
        # hide that.
        says_where = isinstance(error, FlinkrayError) and error.origin != "internal"
        return ErrorInfo(
            type_name=type(error).__name__,
            message=redacted(message),
            traceback_text="" if says_where else redacted(cut(traceback_of(error))),
            pickled=pickled,
            is_recoverable=all(each.is_recoverable for each in _causes(error) if isinstance(each, FlinkrayError)),
            partition_id=next((each.partition_id for each in _causes(error) if isinstance(each, PartitionError)), None),
        )

    @property
    def is_consequence(self) -> bool:
        """Whether a consumer only says that its producer is gone: the reason is the producer's own error."""
        return self.type_name == PartitionError.__name__

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}\n{self.traceback_text}".rstrip()

    def exception(self) -> BaseException:
        """The exception again, or a FlinkrayError with its text where it cannot be rebuilt in this process."""
        if self.pickled is not None:
            try:
                error = loads(self.pickled)
            except (Exception, SystemExit):
                error = None  # its class is not importable here: the text below says what it was
            if isinstance(error, BaseException):
                make_printable(error)
                if self.traceback_text:
                    error.add_note(self.traceback_text)
                return error
        return FlinkrayError(str(self))


def cut(text: str) -> str:
    """The text, or its beginning and its end where it is longer than LONGEST_TEXT."""
    if len(text) <= LONGEST_TEXT:
        return text
    kept = LONGEST_TEXT // 2 - 50
    return f"{text[:kept]}\n... ({len(text) - 2 * kept:,} characters are left out) ...\n{text[-kept:]}"


def message_of(error: BaseException) -> str:
    """The text of an exception, or why it has none: classes of others may raise in `__str__`."""
    try:
        return str(error)
    except BaseException as second:  # what ends a program would take the place of the error that is to be told
        return f"(its message cannot be shown: __str__ raised {type(second).__name__})"


def traceback_of(error: BaseException) -> str:
    """The traceback of an exception as Python prints it."""
    make_printable(error)
    return "".join(traceback.format_exception(error))


def make_printable(error: BaseException) -> None:
    """Makes sure that the tracebacks of an exception, and of those behind it, can be printed, also by loggers.

    Python looks for notes there, and fails itself where a class answers with anything but an AttributeError: such as
    one that hands all names on to something that it has not got yet.
    """
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        try:
            getattr(each, "__notes__", None)
        except Exception:
            with contextlib.suppress(Exception):
                each.__notes__ = []
        left += [each.__cause__, each.__context__, *(each.exceptions if isinstance(each, BaseExceptionGroup) else ())]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, outermost first."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__


def operator_label(name: str, subtask: str = "") -> str:
    """How every error and log line calls an operator, for example "operator 'fares' (subtask 1 of 2)".

    Args:
        name: the operator's name as the user gave it.
        subtask: which of its subtasks, for example "1 of 2"; empty: the operator as a whole.
    """
    return f"operator {name!r} (subtask {subtask})" if subtask else f"operator {name!r}"


def name_operator(error: BaseException, name: str, subtask: str = "") -> None:
    """Puts an operator in front of the message of an error of ours that names none; see `operator_label`."""
    message = error.args[0] if isinstance(error, FlinkrayError) and len(error.args) == 1 else None
    if isinstance(message, str) and _OPERATOR.search(message) is None:
        error.args = (f"{operator_label(name, subtask)}: {message}",)


_OPERATOR = re.compile(r"\boperator ['\"]")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or nothing."""
    nearest = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
