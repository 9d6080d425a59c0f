"""A Redis server of one process (Debian's redis-server)."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from examples.servers import ServerUnavailable, free_port
from tests.support.servers.processes import ServerProcess


class RedisServer(ServerProcess):
    """A running server."""

    def __init__(self, directory: Path) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            raise ServerUnavailable("Redis needs redis-server (Debian: apt-get install redis-server)")
        self.port = free_port()
        command = [
            *(program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(directory)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
        ]
        super().__init__("Redis", command, directory / "log")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @cached_property
    def client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.url)

    def _answers(self) -> bool:
        return bool(self.client.ping())


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
