"""A Redis server of one process (Debian's redis-server)."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from examples.servers import ServerUnavailable, free_port
from tests.support.waiting import eventually

START_S = 30


class RedisServer:
    """A running server, which can be stopped and started again, with the same data at the same port."""

    def __init__(self, directory: Path) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            raise ServerUnavailable("Redis needs redis-server (Debian: apt-get install redis-server)")
        self.port = free_port()
        self._directory = directory
        self._command = [
            *(program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(directory)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
        ]
        self._process = self._start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @cached_property
    def client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.url)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def restart(self) -> None:
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._directory / "log").open("ab") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

        def answers() -> bool:
            if process.poll() is not None:
                raise ServerUnavailable(f"Redis ended: {(self._directory / 'log').read_text()[-2000:]}")
            with contextlib.suppress(Exception):
                return bool(self.client.ping())
            return False

        eventually(answers, deadline_s=START_S)
        return process


@contextlib.contextmanager
def redis_server() -> Iterator[RedisServer]:
    """A server for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="redis-") as directory:
        server = RedisServer(Path(directory))
        try:
            yield server
        finally:
            server.client.close()
            server.stop()
