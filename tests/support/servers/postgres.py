"""The server of the examples, with what tests do with it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

from examples.servers import postgres
from examples.servers.postgres import PASSWORD

__all__ = ["PASSWORD", "PostgresServer", "end_sessions"]


class PostgresServer(postgres.PostgresServer):
    """A server whose tables are made and locked."""

    def create_table(self, columns: str, what: str = "TABLE") -> str:
        """A new table of a name of its own."""
        name = f"table_{uuid.uuid4().hex[:8]}"
        self.execute(f"CREATE {what} {name} {columns}")
        return name

    @contextlib.contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """Nobody else reads or writes the table meanwhile."""
        import psycopg

        with psycopg.connect(self.uri) as other:
            other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            yield


def end_sessions(uri: str, application: str) -> None:
    """Ends the sessions of clients whose name begins so."""
    import psycopg

    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE starts_with(application_name, %s)"
    with psycopg.connect(uri) as connection:
        connection.execute(query, (application,))
