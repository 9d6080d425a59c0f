"""A Kafka broker of one process (KRaft), from the jars of Maven Central."""

from __future__ import annotations

import contextlib
import functools
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.support.servers import ServerUnavailable, free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
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
                    "log.retention.ms": -1,  # tests have messages of any time
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

        def answers() -> bool:
            if process.poll() is not None:
                raise ServerUnavailable(f"Kafka ended: {(self._directory / 'log').read_text()[-2000:]}")
            with contextlib.closing(socket.socket()) as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        eventually(answers, deadline_s=START_S)
        self.admin.list_topics(timeout=START_S)
        return process

    def stop(self, with_signal: int = signal.SIGKILL) -> None:
        self._process.send_signal(with_signal)
        self._process.wait(30)

    def restart(self) -> None:
        self._process = self._start()

    # -- what tests do with it

    @functools.cached_property
    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create_topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic of a name of its own."""
        from confluent_kafka.admin import NewTopic

        name = f"topic-{uuid.uuid4().hex[:8]}"
        for created in self.admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
            created.result(30)
        return name

    def add_partitions(self, topic: str, count: int) -> None:
        from confluent_kafka.admin import NewPartitions

        for created in self.admin.create_partitions([NewPartitions(topic, count)]).values():
            created.result(30)

    def write(self, topic: str, values: Iterable[bytes | None], partition: int = 0, **message: Any) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(topic, value, partition=partition, **message)
            producer.poll(0)
        assert producer.flush(30) == 0

    def read(self, topic: str, count: int) -> list[Any]:
        """At least `count` messages, and all that there are then, in the order of each partition."""
        from confluent_kafka import Consumer, TopicPartition

        partitions = self.admin.list_topics(topic, timeout=30).topics[topic].partitions
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "test", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: list[Any] = []

        def take() -> bool:
            more = consumer.consume(1_000, 0.5)
            found.extend(message for message in more if message.error() is None)
            return len(found) >= count and not more

        eventually(take, deadline_s=30)
        consumer.close()
        return found


@contextlib.contextmanager
def kafka_broker() -> Iterator[KafkaBroker]:
    """A broker for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="kafka-") as directory:
        broker = KafkaBroker(Path(directory))
        try:
            yield broker
        finally:
            broker.stop()
