"""A store that speaks S3, in a process of its own (moto's server)."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from pyarrow import fs

from examples.servers import ServerUnavailable, free_port
from tests.support.waiting import eventually

START_S = 60
KEY, SECRET, REGION = "AKIATESTS", "secret-of-tests", "eu-central-1"


class S3Store:
    """A running store; every key is taken for right."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"127.0.0.1:{port}"

    def filesystem(self) -> fs.FileSystem:
        return fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            endpoint_override=self.endpoint,
            scheme="http",
            region=REGION,
            allow_bucket_creation=True,
        )

    def uri(self, path: str) -> str:
        """A path as programs name it, with all that is needed to reach it."""
        query = f"endpoint_override={self.endpoint}&scheme=http&region={REGION}"
        return f"s3://{KEY}:{SECRET}@{path}?{query}"


@contextlib.contextmanager
def s3_store() -> Iterator[S3Store]:
    """The store, until the block ends.

    Raises:
        ServerUnavailable: moto is not installed, or does not start.
    """
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask_cors") is None:
        raise ServerUnavailable("S3 needs moto's server: pip install 'moto[s3]' flask flask-cors")
    port = free_port()
    with tempfile.TemporaryDirectory() as directory, (Path(directory) / "log").open("ab") as log:
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

        def answers() -> bool:
            if process.poll() is not None:
                raise ServerUnavailable(f"moto ended: {(Path(directory) / 'log').read_text()[-2000:]}")
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5).close()
                return True
            return False

        try:
            eventually(answers, deadline_s=START_S)
            yield S3Store(port)
        finally:
            process.kill()
            process.wait(30)
