"""A PostgreSQL server with a database of its own, from the system's binaries."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from examples.servers import ServerUnavailable, free_port

START_S = 60
PASSWORD = "pa55 word"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_prepared_transactions": 20,
    "fsync": "off",
    "max_connections": 60,
}


def binaries() -> Path:
    """The directory of the newest server that is installed.

    Raises:
        ServerUnavailable: there is none.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        raise ServerUnavailable("PostgreSQL's server is not there (Debian: apt-get install postgresql)")
    return found[-1].parent if found else Path(os.path.realpath(str(on_path))).parent


class PostgresServer:
    """A running server, which can be stopped and started again, with the same data at the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._binaries = binaries()
        self._owner = _owner()
        self.port = free_port()
        if self._owner is not None:
            shutil.chown(directory, self._owner)
        password = directory / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        arguments = ["-U", "tester", "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "--locale=C", "-N"]
        self._run("initdb", *arguments).check_returncode()
        with (directory / "data" / "postgresql.conf").open("a") as config:
            config.writelines(f"{name} = '{value}'\n" for name, value in {**SETTINGS, "port": self.port}.items())
        self.start()

    @property
    def uri(self) -> str:
        """Of the superuser, with the password."""
        return self.uri_of("tester", PASSWORD.replace(" ", "%20"))

    def uri_of(self, user: str, password: str, database: str = "postgres") -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        started = self._run("pg_ctl", "-w", "-l", str(self._directory / "log"), "-t", str(START_S), "start")
        if started.returncode:
            raise ServerUnavailable(f"PostgreSQL did not start: {(self._directory / 'log').read_text()[-2000:]}")

    def stop(self, mode: str = "immediate") -> None:
        if (connection := self.__dict__.pop("connection", None)) is not None:
            connection.close()
        self._run("pg_ctl", "-m", mode, "-w", "stop")

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._binaries / program), "-D", str(self._directory / "data"), *arguments]
        return subprocess.run(
            command, user=self._owner, cwd="/", stdout=subprocess.DEVNULL, text=True, timeout=START_S + 30, check=False
        )

    @functools.cached_property
    def connection(self) -> Any:
        import psycopg

        return psycopg.connect(self.uri, autocommit=True)

    def execute(self, statement: str, *values: Any) -> list[Any]:
        """Rows of a query; of another statement none."""
        cursor = self.connection.execute(statement, values or None)
        return [] if cursor.description is None else list(cursor.fetchall())

    @classmethod
    @contextlib.contextmanager
    def running(cls) -> Iterator[Self]:
        """A server for as long as the context lasts."""
        with tempfile.TemporaryDirectory(prefix="postgres-") as directory:
            server = cls(Path(directory))
            try:
                yield server
            finally:
                server.stop()


def _owner() -> str | None:
    """The user that has the server where this process is root's, which it refuses; None: this one."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise ServerUnavailable("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
