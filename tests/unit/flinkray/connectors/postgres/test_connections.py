"""What errors of PostgreSQL's clients mean, and how often a step is tried again."""

from __future__ import annotations

import threading

import psycopg
import pytest

from flinkray import InvalidProgramError, PostgresSink, PostgresSource
from flinkray.connectors.postgres.connections import PostgresError, control, explained, is_transient, tried
from flinkray.connectors.postgres.lookup import PostgresLookup


class Failing:
    """A step that fails some times."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error = error
        self.left = times

    def __call__(self) -> str:
        if self.left:
            self.left -= 1
            raise self.error
        return "done"


def test_what_may_pass_is_tried_again_as_often_as_there_are_delays() -> None:
    retries: list[None] = []
    error = psycopg.errors.DeadlockDetected("deadlock")
    step = Failing(error, 2)
    assert tried(step, "sink", "cannot", delays_s=(0, 0), on_retry=lambda: retries.append(None)) == "done"
    assert len(retries) == 2
    with pytest.raises(PostgresError, match=r"sink: cannot: deadlock: others change the same rows.*key_by"):
        tried(Failing(error, 3), "sink", "cannot", delays_s=(0, 0))


def test_what_will_not_pass_and_what_nobody_waits_for_is_not_tried_again() -> None:
    with pytest.raises(PostgresError, match="sink: cannot: full: the server's disk is full"):
        tried(Failing(psycopg.errors.DiskFull("full"), 1), "sink", "cannot", delays_s=(0,))
    ended = threading.Event()
    ended.set()
    with pytest.raises(PostgresError):
        tried(Failing(psycopg.errors.AdminShutdown("down"), 1), "sink", "cannot", ended, delays_s=(0,))
    with pytest.raises(ZeroDivisionError):
        tried(Failing(ZeroDivisionError(), 1), "sink", "cannot", delays_s=(0,))


@pytest.mark.parametrize(
    ("error", "transient", "hint"),
    [
        (psycopg.OperationalError("connection to server failed: Connection refused"), True, "does it run"),
        (psycopg.OperationalError("connection failed: FATAL: password authentication failed"), False, "refuses user"),
        (psycopg.OperationalError('connection failed: FATAL: database "x" does not exist'), False, "no such database"),
        (psycopg.OperationalError("[libpq] canceling statement due to statement timeout"), False, "took longer than"),
        (psycopg.errors.LockNotAvailable("lock"), True, "pg_locks"),
        (psycopg.errors.TooManyConnections("many"), True, "max_connections"),
        (psycopg.errors.UndefinedTable("table"), False, "no such table for this user"),
        (psycopg.errors.InsufficientPrivilege("permission"), False, "GRANT"),
        (psycopg.errors.SerializationFailure("serialize"), True, "serialize"),
    ],
)
def test_errors_say_the_way_out(error: Exception, transient: bool, hint: str) -> None:
    assert is_transient(error) is transient
    assert hint in explained(error)


def test_no_secret_of_an_address_is_shown() -> None:
    uri = "postgresql://me:s3cret@host/db"
    for each in (PostgresSource(uri, "t"), PostgresSink(uri, "t"), PostgresLookup(uri, "t", "k")):
        assert "s3cret" not in repr(each)
    with pytest.raises(InvalidProgramError, match="sink: uri= is no address") as caught:
        control("postgresql://me:s3cret%@host/db", "sink", delays_s=())
    assert "s3cret" not in f"{caught.value}{caught.value.__cause__}{caught.value.__context__}"
