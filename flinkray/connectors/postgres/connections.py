"""Connections to a server, and what their errors mean to a user.

Rows go through ADBC, whole columns at a time; all else is asked and told through psycopg.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from flinkray.errors import ConnectorError, InvalidProgramError
from flinkray.extras import import_package
from flinkray.redaction import redacted

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_DELAYS_S = (0.2, 1.0, 3.0, 10.0)
"""How long to wait before each further try of what may succeed later: a server that starts again takes some seconds."""
_CONNECTION_OPTIONS = {
    "connect_timeout": 10,
    # A server whose machine is gone says nothing: without these it would be waited for for hours.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
LOCK_TIMEOUT_S = 10
"""How long a statement waits for a table or row that somebody else has locked, unless its role or database says."""
_TRANSIENT = ("08", "57P01", "57P02", "57P03", "40001", "40P01", "55P03", "55006", "53300")
"""Beginnings of SQLSTATEs after which the same may succeed: lost connections, a server that ends or starts,
serialization failures and deadlocks, locks that were not given in time, what another session has still, and too many
connections."""
_HINTS = {
    "28": "the server refuses user or password (in uri=, PGPASSWORD or a password file)",
    "3D000": "there is no such database; name one in uri=",
    "42P01": "there is no such table for this user; name it with its schema, as in 'sales.orders', and in "
    "quotation marks where it has capitals, as in '\"Orders\"'",
    "42703": "there is no such column",
    "42846": "the server has no way from one type to the other; map the value, or give text",
    "42501": "the user may not do that; GRANT it",
    "40P01": "others change the same rows in another order; key_by the sink's key, so that one subtask has each",
    "55P03": "somebody else has locked the table or its rows; pg_locks and pg_stat_activity say who",
    "57014": "the statement was cancelled, or took longer than statement_timeout",
    "53100": "the server's disk is full",
    "53300": "the server has as many connections as it may (max_connections); use a lower parallelism",
    "55006": "another session has it; give each job a slot of its own (slot=)",
    "53400": "the server has as many slots as it may (max_replication_slots); drop those that nobody uses",
    "55000": "prepared transactions need max_prepared_transactions on the server, for each subtask at least two",
    "23505": "a row with that key is there already; key= of the sink makes it replace the former",
    "23502": "a column that may not be null has no value",
    "23503": "the row that it refers to is not there (yet)",
    "23514": "a CHECK of the table forbids the value",
    "22": "a value does not fit its column; map it to one that does, or widen the column",
}
_TEXTS = {
    "Connection refused": "no server answers there; does it run, and is it reachable from here?",
    "timeout expired": "no server answers there in time; does it run, and is it reachable from here?",
    "resolve host": "the name of the host is not known",
    "Name or service not known": "the name of the host is not known",
    "could not translate host name": "the name of the host is not known",
    "authentication failed": _HINTS["28"],
    "no password supplied": _HINTS["28"],
    "SSL": "the encrypted connection failed (sslmode and sslrootcert in uri=)",
    "statement timeout": _HINTS["57014"],
    "does not exist": _HINTS["3D000"],
    "one-dimensional array": "arrays of several dimensions are no lists; cast the column to text in a query",
}
"""What libpq says of connections that fail, and the server in the middle of a result: neither comes with a SQLSTATE."""
_TRANSIENT_TEXTS = ("onnection", "server closed", "terminat", "no COPY in progress", "EOF detected", "with recovery")
_LASTING_TEXTS = ("authentication failed", "no password supplied", "does not exist")


class PostgresError(ConnectorError):
    """The server cannot be reached, or refuses what it is told; says which, and the way out."""


def psycopg() -> Any:
    """The package; a MissingDependencyError says what brings it."""
    return import_package("psycopg", "PostgreSQL")


def adbc() -> Any:
    """The module with ADBC's connections; a MissingDependencyError says what brings it."""
    return import_package("adbc_driver_postgresql.dbapi", "PostgreSQL")


def checked_uri(uri: str, what: str) -> str:
    """The address of a server as a user gives it.

    Raises:
        InvalidProgramError: it is none.
    """
    if not uri:
        raise InvalidProgramError(f"{what}(uri=...) takes 'postgresql://host:5432/database'")
    return uri


def shown(uri: str) -> str:
    """Host, port and database, and no secret."""
    with contextlib.suppress(Exception):
        parts = psycopg().conninfo.conninfo_to_dict(uri)
        return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
    return "the server"


def control(uri: str, where: str, delays_s: Sequence[float] | None = None) -> Any:
    """A psycopg connection, on which each statement is a transaction, unless one is begun.

    Args:
        delays_s: how long to wait before each further try; None: `RETRY_DELAYS_S`.
    Raises:
        PostgresError: it cannot be made.
    """
    connect = psycopg().connect

    def once() -> Any:
        connection = connect(_complete(uri, where), autocommit=True)
        connection.execute(_SETTINGS)
        return connection

    return tried(once, where, f"cannot connect to {shown(uri)}", delays_s=delays_s)


def columnar(uri: str, where: str) -> Any:
    """An ADBC connection, on which statements are in a transaction until `commit`.

    Raises:
        Exception: it cannot be made; `tried` says what it means.
    """
    connection = adbc().connect(_complete(uri, where))
    try:
        with connection.cursor() as cursor:
            cursor.execute(_SETTINGS)
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


def replicating(uri: str, where: str) -> Any:
    """A psycopg connection for commands of replication, to be given by its `pgconn.exec_`; writes values as `control`
    does, in UTF-8.

    Raises:
        Exception: it cannot be made; `tried` says what it means.
    """
    connection = psycopg().connect(_complete(uri, where), autocommit=True, replication="database")
    try:
        for command in (_SETTINGS, _LOGGED_AS):
            told(connection.pgconn, command)
    except BaseException:
        connection.close()
        raise
    return connection


def told(connection: Any, command: str) -> Any:
    """The result of a command on a connection of libpq; raises what psycopg has for errors of the server."""
    result = connection.exec_(command.encode())
    if result.error_message:
        raise psycopg().errors.error_from_result(result, encoding="utf-8")
    return result


_LOGGED_AS = "SELECT set_config('client_encoding', 'UTF8', false)"
_SETTINGS = (
    "SELECT set_config('client_min_messages', 'warning', false), "  # others would be written to standard error
    # What a text means, and how a value reads as one, is the same whatever server and user are set to.
    "set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO, MDY', false), "
    "set_config('IntervalStyle', 'postgres', false), set_config('bytea_output', 'hex', false), "
    "set_config('extra_float_digits', '1', false), set_config('standard_conforming_strings', 'on', false), "
    f"set_config('lock_timeout', CASE current_setting('lock_timeout') WHEN '0' THEN '{LOCK_TIMEOUT_S}s' "
    "ELSE current_setting('lock_timeout') END, false)"
)


def _complete(uri: str, where: str) -> str:
    """The address with what it leaves open: whoever looks at the server's sessions sees whose they are."""
    package = psycopg()
    given = None
    with contextlib.suppress(package.Error):  # its text has the address, and so the password
        given = package.conninfo.conninfo_to_dict(uri)
    if given is None:
        raise InvalidProgramError(
            f"{where}: uri= is no address of PostgreSQL, such as 'postgresql://host:5432/database'; what is "
            "special in a user or password is written as %40 for '@'"
        )
    ours = {**_CONNECTION_OPTIONS, "application_name": f"flinkray {where}"[:63]}
    return str(package.conninfo.make_conninfo(uri, **{key: value for key, value in ours.items() if key not in given}))


# -- errors


def is_of_server(error: BaseException) -> bool:
    """Whether a client raised it for the server, or for the way there."""
    return (
        isinstance(error, psycopg().Error)
        or type(error).__module__.startswith("adbc_driver_manager")
        or "[libpq]" in str(error)  # what Arrow raises for ADBC
    )


def sqlstate(error: BaseException) -> str:
    """Five characters that say what is wrong; empty: the server did not say."""
    return getattr(error, "sqlstate", None) or ""


def is_transient(error: BaseException) -> bool:
    """Whether trying again may help."""
    error = _of_client(error)
    state = sqlstate(error)
    if state:
        return state.startswith(_TRANSIENT)
    text = str(error)
    return (
        is_of_server(error)
        and any(each in text for each in _TRANSIENT_TEXTS)
        and not any(each in text for each in _LASTING_TEXTS)
    )


def _of_client(error: BaseException) -> BaseException:
    """The client's own error behind a PostgresError."""
    return error.__cause__ if isinstance(error, PostgresError) and error.__cause__ is not None else error


def explained(error: BaseException, hints: Mapping[str, str] = MappingProxyType({})) -> str:
    """An error of a client, with what can be done about it.

    Args:
        hints: by SQLSTATE, instead of those that are known.
    """
    error = _of_client(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines).rstrip(" .") or type(error).__name__
    state = sqlstate(error)
    hint = next((hint for code, hint in {**_HINTS, **hints}.items() if state.startswith(code)), None) if state else None
    if hint is None and not state:
        hint = next((hint for part, hint in _TEXTS.items() if part in text), None)
    return text if hint is None else f"{text}: {hint}"


def refuse(error: BaseException, where: str, what: str) -> NoReturn:
    """Raises the PostgresError for an error of a client; other errors as they are."""
    if not is_of_server(error):
        raise error
    raise PostgresError(f"{where}: {what}: {explained(error)}") from error


def tried(
    step: Callable[[], T],
    where: str,
    what: str,
    ended: threading.Event | None = None,
    delays_s: Sequence[float] | None = None,
    on_retry: Callable[[], None] = lambda: None,
) -> T:
    """Carries out a step again after failures that may pass.

    Args:
        step: does all of its work anew each time.
        what: what could not be done, for the error.
        ended: set where nobody waits for the step any more.
        delays_s: how long to wait before each further try; None: `RETRY_DELAYS_S`.
        on_retry: called before each further try.
    Raises:
        PostgresError: it cannot be done.
    """
    delays = iter(RETRY_DELAYS_S if delays_s is None else delays_s)
    ended = ended or threading.Event()
    while True:
        try:
            return step()
        except Exception as error:
            delay = next(delays, None) if is_transient(error) else None
            if delay is None or ended.is_set():
                refuse(error, where, what)
            log.warning("%s: %s: %s; trying again in %s s", where, what, redacted(explained(error)), delay)
            on_retry()
            ended.wait(delay)
