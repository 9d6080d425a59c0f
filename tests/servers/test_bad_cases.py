"""What goes wrong with servers, as docs/connectors/errors.md lists it: a sentence each, and no client's traceback."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    AvroFormat,
    CommitRequest,
    DeliveryGuarantee,
    JobExecutionError,
    JsonFormat,
    KafkaSink,
    KafkaSource,
    NatsSink,
    NatsSource,
    PostgresChangesSource,
    PostgresLookup,
    PostgresSink,
    PostgresSource,
    RawFormat,
    RedisSink,
    RedisSource,
    SchemaRegistry,
    WatermarkStrategy,
)
from flinkray.batches.batch import Batch
from flinkray.connectors import fetcher
from flinkray.connectors.kafka import enumerator as kafka_enumerator
from flinkray.connectors.kafka import reader as kafka_reader
from flinkray.connectors.kafka.enumerator import KafkaEnumeratorState, KafkaSplit
from flinkray.connectors.kafka.transactions.coordinators import TransactionCoordinators
from flinkray.connectors.nats.enumerator import NatsSplit
from flinkray.connectors.postgres import connections
from flinkray.connectors.postgres.changes.splits import LogSplit
from flinkray.connectors.redis.splits import RedisSplit
from tests.servers.test_kafka_source import environment
from tests.servers.test_postgres_lookup import Figures
from tests.support.api import Assignments
from tests.support.bad_cases import check, committed, enumerated, polled, writer_of, written
from tests.support.operators import as_batch
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.nats import NatsTestServer, nats_server
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer

pytestmark = pytest.mark.timeout(180)

NOBODY = "127.0.0.1:1"
JSON = JsonFormat({"n": int})
EXACTLY_ONCE, AT_LEAST_ONCE = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE
ROWS = {"n": [1]}
HEADERS = pa.map_(pa.string(), pa.string())


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long."""
    monkeypatch.setattr(fetcher, "AWAY_S", 0.0)
    monkeypatch.setattr(kafka_reader, "_LOOK_S", 0.0)
    monkeypatch.setattr(connections, "RETRY_DELAYS_S", (0.01,))


# -- Kafka


@pytest.mark.kafka
def test_kafka_sources(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.create_topic()
    kafka.write(topic, [b'{"n": 1}', b"x"], key=b"k")

    def source(servers: str = kafka.servers, topics: Any = (topic,), **given: Any) -> KafkaSource:
        return KafkaSource(servers, topics, **given)

    def soon(source: KafkaSource) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(kafka_enumerator, "TIMEOUT_S", 0.5)
            enumerated(source)

    def read(source: KafkaSource, offset: int = 0, partition: int = 0) -> Any:
        return polled(source, [KafkaSplit(topic, partition, offset)])

    def made_anew() -> None:
        with contextlib.closing(source().create_enumerator(Assignments())) as former:
            former.start()
            state = former.snapshot_state(1)
        renewed = KafkaEnumeratorState(
            state.known, (), {each: f"not {known}" for each, known in state.topic_ids.items()}
        )
        assert renewed.topic_ids.keys() == {topic}
        with contextlib.closing(source().create_enumerator(Assignments(), renewed)) as later:
            later.start()

    registry = SchemaRegistry(f"http://{NOBODY}")
    avro = AvroFormat({"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}, registry=registry)
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": "ann", "sasl.password": "hidden"}
    check(
        "Kafka: source",
        {
            "no broker answers at the start": lambda: soon(source(NOBODY)),
            "a name of a broker that is not known": lambda: soon(source("absent.invalid:9092")),
            "no broker answers while it reads": lambda: read(source(NOBODY), 3),
            "a topic that is not there": lambda: enumerated(source(topics=["absent"])),
            "a group without offsets": lambda: enumerated(source(start="committed", group_id="nobody")),
            "a partition that has vanished": lambda: read(source(), 0, 7),
            "messages that were deleted before they were read": lambda: read(source(), 17),
            "a poison message": lambda: read(source(value_format=JSON)),
            "a poison key": lambda: read(
                source(value_format=RawFormat(), key=["k"], key_format=JsonFormat({"k": int}))
            ),
            "an option that librdkafka does not know": lambda: enumerated(source(client_options={"fetch.min": 1})),
            "an option with a value that it does not take": lambda: enumerated(
                source(client_options={"security.protocol": "SSLL"})
            ),
            "a login that the brokers do not take": lambda: soon(source(client_options=login)),
            "TLS where the brokers speak none": lambda: soon(source(client_options={"security.protocol": "SSL"})),
            "a topic that was deleted and made anew": made_anew,
            "a registry of schemas that does not answer": lambda: polled(
                source(value_format=avro), [KafkaSplit(kafka_with(kafka, b"\0\0\0\0\1\2"), 0, 0)]
            ),
        },
    )


def kafka_with(kafka: KafkaBroker, value: bytes) -> str:
    topic = kafka.create_topic()
    kafka.write(topic, [value])
    return topic


@pytest.mark.kafka
def test_kafka_sinks(kafka: KafkaBroker) -> None:
    topic, small = kafka.create_topic(), kafka.create_topic(**{"max.message.bytes": "1000"})
    quickly = {"topic.metadata.propagation.max.ms": "1", "message.timeout.ms": "2000"}

    def sink(servers: str = kafka.servers, topic: str | None = topic, **given: Any) -> KafkaSink:
        return KafkaSink(servers, topic, **{"value_format": JSON, "client_options": quickly, **given})

    def exactly_once(prefix: str, **given: Any) -> KafkaSink:
        return sink(delivery_guarantee=EXACTLY_ONCE, transactional_id_prefix=prefix, client_options=given)

    def ended_by_others() -> None:
        with writer_of(exactly_once("ended")) as writer:
            writer.write(as_rows())
            writer.flush(False)
            coordinators = TransactionCoordinators(kafka.servers, {})
            coordinators.abort([each for each in coordinators.open_ids() if each.startswith("ended-")])
            writer.write(as_rows())
            writer.flush(False)

    def aborted_before_its_commit() -> None:
        made = exactly_once("late")
        committer = made.create_committer()
        assert committer is not None
        with writer_of(made) as writer:
            writer.write(as_rows())
            writer.flush(False)
            (transaction,) = writer.prepare_commit(4)
        TransactionCoordinators(kafka.servers, {}).abort([transaction.transactional_id])
        committer.commit([CommitRequest(transaction, 4)])

    text = {"value_format": RawFormat()}
    check(
        "Kafka: sink",
        {
            "no broker takes a message in time": lambda: written(sink(NOBODY), ROWS),
            "a topic that is not there": lambda: written(sink(topic="absent"), ROWS),
            "a partition that is not there": lambda: written(sink(partition_column="p"), {"n": [1], "p": [9]}),
            "a message that is too large": lambda: written(sink(topic=small, **text), {"t": ["x" * 5_000]}),
            "a row that has no form": lambda: written(sink(), {"m": [1]}),
            "no topic in its column": lambda: written(
                sink(topic=None, topic_column="to"), pa.record_batch({"n": [1], "to": pa.array([None], pa.string())})
            ),
            "no key where rows replace each other": lambda: written(
                sink(key="k", upsert=True), pa.record_batch({"n": [1], "k": pa.array([None], pa.string())})
            ),
            "a column of the key that is not there": lambda: written(sink(key="k"), ROWS),
            "a transaction that may take longer than brokers let it": lambda: written(
                exactly_once("long", **{"transaction.timeout.ms": "90000000"}), ROWS
            ),
            "a transaction that took too long while rows were written": ended_by_others,
            "a transaction that took too long before its commit": aborted_before_its_commit,
            "a login without a part": lambda: written(
                exactly_once("login", **{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}), ROWS
            ),
            "a file of TLS that is not there": lambda: written(
                exactly_once("tls", **{"security.protocol": "SSL", "ssl.ca.location": "absent.pem"}), ROWS
            ),
            "brokers that do not answer about transactions": lambda: written(
                KafkaSink(NOBODY, "t", JSON, delivery_guarantee=EXACTLY_ONCE), ROWS
            ),
        },
    )


def as_rows() -> Batch:
    return as_batch(ROWS)


# -- PostgreSQL


@pytest.mark.postgres
def test_postgres_sources(postgres: PostgresServer) -> None:
    table = postgres.create_table("(id int PRIMARY KEY, word text)")
    postgres.execute(f"INSERT INTO {table} VALUES (1, 'x'); CREATE VIEW {table}_view AS SELECT * FROM {table}")
    doubled = postgres.create_table("(id int, word text)")
    postgres.execute(f"INSERT INTO {doubled} VALUES (5, 'a'), (5, 'b')")
    bare = postgres.create_table("(n int)")
    infinite = postgres.create_table("(v timestamp)")
    postgres.execute(f"INSERT INTO {infinite} VALUES ('infinity')")

    def rows(uri: str = postgres.uri, table: str = table, **given: Any) -> Any:
        source = PostgresSource(uri, table, **given).prepare()
        context = enumerated(source)
        return polled(source, context.assigned.get(0) or source._splits(1))  # type: ignore[attr-defined]

    def gone() -> Any:
        lost = postgres.create_table("(id int)")
        source = PostgresSource(postgres.uri, lost).prepare()
        splits = source._splits(1)  # type: ignore[attr-defined]
        postgres.execute(f"DROP TABLE {lost}")
        return polled(source, splits)

    def looked_up(keys: Any, table: str = doubled) -> Any:
        lookup = PostgresLookup(postgres.uri, table, "id")
        try:
            lookup.open(Figures())
            return lookup(pa.record_batch({"id": keys}))
        finally:
            lookup.close()

    def changes(table: str = table, **given: Any) -> PostgresChangesSource:
        return PostgresChangesSource(postgres.uri, table, **given)

    def without_slot() -> Any:
        source = changes().prepare()
        return polled(source, [LogSplit(100)])

    def without_publication() -> Any:
        postgres.execute(f"CREATE PUBLICATION of_{bare} FOR TABLE {bare}")
        return enumerated(changes(publication=f"of_{bare}").prepare())

    check(
        "PostgreSQL: sources and lookups",
        {
            "no server answers": lambda: rows("postgresql://ann:hidden@127.0.0.1:1/x"),
            "a name of a host that is not known": lambda: rows("postgresql://ann:hidden@absent.invalid/x"),
            "a wrong password": lambda: rows(postgres.uri_of("tester", "hidden")),
            "a database that is not there": lambda: rows(postgres.uri_of("tester", "pa55%20word", "absent")),
            "an address that is none": lambda: rows("postgresql://ann:hidden%@host/x"),
            "a table that is not there": lambda: rows(table="absent"),
            "a table that is dropped while it is read": gone,
            "a view without a key": lambda: rows(table=f"{table}_view"),
            "a key that is no integer": lambda: rows(key="word"),
            "a value that Arrow cannot hold": lambda: rows(table=infinite),
            "several rows for a key that is looked up": lambda: looked_up([5]),
            "a key of another type": lambda: looked_up(["x"]),
            "a slot that was dropped": without_slot,
            "a publication without the table": without_publication,
            "a table whose changes name no row": lambda: changes(bare).prepare(),
        },
    )


@pytest.mark.postgres
def test_postgres_sinks(postgres: PostgresServer) -> None:
    columns = "(n int PRIMARY KEY, m int NOT NULL DEFAULT 0, s text, g int GENERATED ALWAYS AS (n + 1) STORED)"
    table = postgres.create_table(columns)
    postgres.execute(f"INSERT INTO {table} (n) VALUES (7)")
    postgres.execute(
        f"CREATE FUNCTION full_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
        "'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"
    )
    full = postgres.create_table("(n int)")
    bounded = postgres.create_table("(n int CHECK (n > 0))")
    postgres.execute(f"CREATE TRIGGER t BEFORE INSERT ON {full} EXECUTE FUNCTION full_{table}()")
    postgres.execute(f"CREATE ROLE reader_{table} LOGIN PASSWORD 'r'")

    def sink(table: str = table, uri: str = postgres.uri, **given: Any) -> PostgresSink:
        return PostgresSink(uri, table, **{"delivery_guarantee": AT_LEAST_ONCE, **given})

    def locked() -> None:
        uri = f"{postgres.uri}?options=-c%20lock_timeout%3D20"
        with writer_of(sink(uri=uri)) as writer, postgres.locked(table):
            writer.write(as_rows())

    def rolled_back() -> None:
        made = sink(delivery_guarantee=EXACTLY_ONCE, prepared=True).prepare()
        committer = made.create_committer()
        assert committer is not None
        with writer_of(made) as writer:
            writer.write(as_rows())
            (transaction,) = writer.prepare_commit(3)
        postgres.execute(f"ROLLBACK PREPARED '{transaction.name}'")
        try:
            committer.commit([CommitRequest(transaction, 3)])
        finally:
            committer.close()

    check(
        "PostgreSQL: sink",
        {
            "a table that is not there": lambda: written(sink("absent"), ROWS),
            "a user without the right": lambda: written(sink(uri=postgres.uri_of(f"reader_{table}", "r")), ROWS),
            "a table that is locked": locked,
            "a full disk at the server": lambda: written(sink(full), ROWS),
            "a row with a key that is there": lambda: committed(sink(delivery_guarantee=EXACTLY_ONCE), {"n": [7]}),
            "no unique index for the key": lambda: written(sink(key="m"), {"n": [1], "m": [1]}),
            "a column that the table has not": lambda: written(sink(), {"n": [1], "nn": [1]}),
            "a column that the server makes": lambda: written(sink(), {"n": [1], "g": [2]}),
            "a value that is too large": lambda: written(sink(), {"n": [2**40]}),
            "null where there has to be a value": lambda: written(
                sink(), pa.record_batch({"n": [1], "m": pa.array([None], pa.int64())})
            ),
            "a text that is no such value": lambda: written(sink(), {"n": ["x"]}),
            "a row that a CHECK of the table forbids": lambda: committed(
                sink(bounded, delivery_guarantee=EXACTLY_ONCE), {"n": [1, -1]}
            ),
            "a struct": lambda: written(sink(), {"n": [1], "s": [{"a": 1}]}),
            "a prepared transaction that somebody rolled back": rolled_back,
        },
    )


# -- Redis


@pytest.mark.redis
def test_redis(redis: RedisServer) -> None:
    client = redis.client
    client.set("bad-text", "x")
    client.xadd("bad-stream", {"n": "1"}, id="1-0")
    client.xadd("bad-stream", {"n": "many"}, id="2-0")
    client.xadd("bad-stream", {"n": "3"}, id="3-0")
    for number in range(1, 5):
        client.xadd("bad-trimmed", {"n": number}, id=f"{number}-0", maxlen=1, approximate=False)

    def source(url: str = redis.url, stream: str = "bad-stream") -> RedisSource:
        return RedisSource(url, stream, {"n": int})

    def read(source: RedisSource, last: str = "0-0", stream: str = "bad-stream") -> Any:
        return polled(source, [RedisSplit(stream, last, is_begun=last != "0-0")])

    def sink(stream: str | None = "bad-sink", url: str = redis.url, **given: Any) -> RedisSink:
        return RedisSink(url, stream, **given)

    def full() -> None:
        client.config_set("maxmemory", 1)
        try:
            written(sink(delivery_guarantee=AT_LEAST_ONCE), ROWS)
        finally:
            client.config_set("maxmemory", 0)

    def replica() -> None:
        client.replicaof("127.0.0.1", "1")
        try:
            committed(sink(), ROWS)
        finally:
            client.replicaof("NO", "ONE")

    nobody = f"redis://ann:hidden@{NOBODY}/0"
    wrong = redis.url.replace("redis://", "redis://nobody:hidden@")
    check(
        "Redis",
        {
            "no server answers at the start": lambda: enumerated(RedisSource(nobody, "s", {"n": int}, stop="latest")),
            "no server answers while it reads": lambda: read(source(nobody)),
            "no server answers to a commit": lambda: committed(sink(url=nobody), ROWS),
            "a login that the server does not take": lambda: committed(sink(url=wrong), ROWS),
            "a name that something else has": lambda: written(sink("bad-text", delivery_guarantee=AT_LEAST_ONCE), ROWS),
            "a stream that is no stream": lambda: read(source(), "0-0", "bad-text"),
            "a poison entry": lambda: read(source()),
            "entries that were trimmed before they were read": lambda: read(source(), "0-5"),
            "entries that are trimmed while a slower job runs": lambda: polled(
                source(stream="bad-trimmed"), [RedisSplit("bad-trimmed", "1-0", is_begun=True, number=1)]
            ),
            "a full memory at the server": full,
            "a replica": replica,
            "a list in a field": lambda: written(sink(), {"n": [[1]]}),
            "a row without a key": lambda: written(
                sink(None, key_prefix="u", key="n"), pa.record_batch({"n": pa.array([None], pa.int64())})
            ),
        },
    )


# -- NATS


@pytest.mark.nats
def test_nats(nats: NatsTestServer) -> None:
    stream = nats.create_stream()
    nats.write(f"{stream}.a", [b'{"n":1}', b"many", b'{"n":3}'])
    queue = nats.create_stream(retention="workqueue", allow_atomic=False, allow_msg_ttl=False)
    tiny = nats.create_stream(max_msgs=1, discard="new")
    nats.write(f"{tiny}.a", [b"1"])
    trimmed = nats.create_stream()
    nats.write(f"{trimmed}.a", [b'{"n":1}'] * 9)
    nats.connection.run(lambda client: client.jetstream().purge_stream(trimmed, seq=6))

    def source(url: str = nats.url, stream: str = stream) -> NatsSource:
        return NatsSource(url, stream, JSON)

    def read(source: NatsSource, stream: str = stream, last: int = 0) -> Any:
        return polled(source, [NatsSplit(stream, ">", last, is_begun=bool(last))])

    def sink(stream: str = stream, url: str = nats.url, **given: Any) -> NatsSink:
        given = {"stream": stream, "marks": f"{stream}.marks", "delivery_guarantee": EXACTLY_ONCE, **given}
        return NatsSink(url, given.pop("subject", f"{stream}.rows"), given.pop("value_format", JSON), **given)

    nobody = f"nats://ann:hidden@{NOBODY}"

    def refused() -> Any:
        with nats_server("ann", "secret") as server:
            return enumerated(NatsSource(f"nats://nobody:hidden@127.0.0.1:{server.port}", "s", JSON))

    text = JsonFormat({"t": str})
    check(
        "NATS",
        {
            "no server answers at the start": lambda: enumerated(source(nobody)),
            "no server answers while it reads": lambda: read(source(nobody), last=3),
            "no server answers to a commit": lambda: committed(sink(url=nobody), ROWS),
            "a login that the server does not take": refused,
            "a stream that is not there": lambda: enumerated(source(stream="nowhere")),
            "a stream that deletes what is read": lambda: read(source(stream=queue), queue),
            "messages that were deleted before they were read": lambda: read(source(stream=trimmed), trimmed, 3),
            "a stream that was deleted and made anew": lambda: read(source(), last=99),
            "a poison message": lambda: read(source()),
            "a stream to write to that is not there": lambda: written(sink("nowhere"), ROWS),
            "a subject of no stream": lambda: written(NatsSink(nats.url, "nowhere", JSON), ROWS),
            "a subject of another stream": lambda: written(sink(subject=f"{queue}.rows"), ROWS),
            "a stream without atomic batches": lambda: written(sink(queue), ROWS),
            "no place for marks": lambda: written(sink(marks="other"), ROWS),
            "a stream that is full": lambda: committed(sink(tiny), ROWS),
            "a row that is too large": lambda: written(sink(value_format=text), {"t": ["x" * (2 << 20)]}),
            "a header of the server's own": lambda: written(
                sink(headers_column="h"), pa.record_batch({"n": [1], "h": pa.array([{"Nats-TTL": "1s"}], HEADERS)})
            ),
            "a row that has no form": lambda: written(sink(), {"m": [1]}),
        },
    )


# -- the whole way to the user


JOBS: dict[str, Any] = {
    "kafka": lambda server: KafkaSource(server.servers, kafka_with(server, b"x"), JSON, stop="latest"),
    "postgres": lambda server: PostgresSource(server.uri, infinity(server)),
    "redis": lambda server: RedisSource(server.url, "whole-way", {"n": int}, stop="latest"),
    "nats": lambda server: NatsSource(server.url, "nowhere", JSON),
}


def infinity(postgres: PostgresServer) -> str:
    table = postgres.create_table("(v timestamp)")
    postgres.execute(f"INSERT INTO {table} VALUES ('infinity')")
    return table


@pytest.mark.parametrize("name", [pytest.param(each, marks=getattr(pytest.mark, each)) for each in JOBS])
def test_a_job_says_what_is_wrong_with_its_operator_and_without_a_traceback(
    name: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(name)
    if name == "redis":
        server.client.xadd("whole-way", {"n": "many"}, id="1-0")
    rows = environment(1).from_source(JOBS[name](server), WatermarkStrategy.no_watermarks(), "orders")
    with pytest.raises(JobExecutionError) as caught:
        list(rows.execute_and_collect())
    text = str(caught.value)
    assert "operator 'Source: orders' (subtask " in text
    assert "Traceback" not in text
