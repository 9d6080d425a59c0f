"""A Kafka broker of one process (KRaft), from the jars of Maven Central."""

from __future__ import annotations

import contextlib
import functools
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from examples.servers import ServerUnavailable, free_port

ROOT = Path(__file__).resolve().parents[2]
VERSION = "4.1.0"
JARS = ROOT / "build" / "servers" / f"kafka-{VERSION}"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>flinkray</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
</dependency></dependencies></project>"""
START_S = 90


def jars() -> Path:
    """The directory with the broker's jars, which are loaded once.

    Raises:
        ServerUnavailable: there is no Java or Maven, or Maven cannot load them.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise ServerUnavailable(f"Kafka needs {program} (Debian: apt-get install openjdk-17-jre-headless maven)")
    if not (JARS / "complete").exists():
        JARS.mkdir(parents=True, exist_ok=True)
        (JARS / "pom.xml").write_text(POM)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={JARS}"]
        loaded = subprocess.run(command, cwd=JARS, capture_output=True, text=True, timeout=600, check=False)
        if loaded.returncode:
            raise ServerUnavailable(f"Maven could not load Kafka's jars: {loaded.stdout[-2000:]}")
        (JARS / "complete").touch()
    return JARS


class KafkaBroker:
    """A running broker, which can be stopped and started again, with the same data at the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._classes = str(jars() / "*")
        self.port, controller = free_port(), free_port()
        self._config = directory / "server.properties"
        self._config.write_text(
            "\n".join(
                f"{name}={value}"
                for name, value in {
                    "process.roles": "broker,controller",
                    "node.id": 1,
                    "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                    "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
                    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
                    "controller.listener.names": "CONTROLLER",
                    "inter.broker.listener.name": "PLAINTEXT",
                    "log.dirs": directory / "data",
                    "offsets.topic.replication.factor": 1,
                    "offsets.topic.num.partitions": 1,
                    "transaction.state.log.replication.factor": 1,
                    "transaction.state.log.min.isr": 1,
                    "transaction.state.log.num.partitions": 1,
                    "group.initial.rebalance.delay.ms": 0,
                    "auto.create.topics.enable": "false",
                    "log.retention.ms": -1,  # messages may be of any time
                }.items()
            )
        )
        self._java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(self._config)).wait(
            60
        )
        self._process = self._start()

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._directory / "log").open("ab") as log:
            command = [
                "java",
                "-Xmx384m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                self._classes,
                *arguments,
            ]
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _start(self) -> subprocess.Popen[bytes]:
        process = self._java("kafka.Kafka", str(self._config))
        end = time.monotonic() + START_S
        while not _listens(self.port):
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                raise ServerUnavailable(f"Kafka did not start: {(self._directory / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        self.admin.list_topics(timeout=START_S)
        return process

    def stop(self, with_signal: int = signal.SIGKILL) -> None:
        self._process.send_signal(with_signal)
        self._process.wait(30)

    def restart(self) -> None:
        self._process = self._start()

    @functools.cached_property
    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def add_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        from confluent_kafka.admin import NewTopic

        for created in self.admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
            created.result(30)

    @classmethod
    @contextlib.contextmanager
    def running(cls) -> Iterator[Self]:
        """A broker for as long as the context lasts."""
        with tempfile.TemporaryDirectory(prefix="kafka-") as directory:
            broker = cls(Path(directory))
            try:
                yield broker
            finally:
                broker.stop()


def _listens(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
