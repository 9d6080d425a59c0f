"""Tables whose rows real servers have: written by INSERT, and read again."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from flinkray import (
    InvalidProgramError,
    JobExecutionError,
    KafkaPartitioner,
    PostgresChangesSource,
    StreamExecutionEnvironment,
)
from flinkray.tables.environment.environment import TableEnvironment
from tests.support.jobs import environment
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.nats import NatsTestServer
from tests.support.servers.postgres import PASSWORD, PostgresServer
from tests.support.servers.redis import RedisServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(180)
CHANGES = "SELECT n % 3 AS id, COUNT(*) AS many FROM (VALUES (0), (1), (2), (3), (4)) AS t(n) GROUP BY n % 3"


class ById(KafkaPartitioner):
    def partition(self, row: Any, key: Any, value: Any, topic: str, partitions: Sequence[int]) -> int:
        return partitions[row.id % len(partitions)]


@pytest.fixture
def tables() -> TableEnvironment:
    env: StreamExecutionEnvironment = environment({"table.dml-sync": True})
    return env.tables


def rows(tables: TableEnvironment, sql: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in tables.execute_sql(sql).to_arrow().to_pylist())


@pytest.mark.kafka
def test_a_topic_is_a_table_of_messages_or_by_key(tables: TableEnvironment, kafka: KafkaBroker) -> None:
    topic, by_key = kafka.create_topic(2), kafka.create_topic(2)
    server = f"'properties.bootstrap.servers' = '{kafka.servers}'"
    bounded = "'scan.bounded.mode' = 'latest-offset'"
    tables.execute_sql(
        f"""CREATE TABLE messages (
          part INT METADATA FROM 'partition' VIRTUAL, id BIGINT, name STRING, price DECIMAL(6, 2), twice AS id * 2
        ) WITH ('connector' = 'kafka', 'topic' = '{topic}', {server}, {bounded}, 'format' = 'json',
          'key.format' = 'raw', 'key.fields' = 'name', 'scan.startup.mode' = 'earliest-offset')"""
    )
    tables.execute_sql("INSERT INTO messages VALUES (1, 'a', 1.5), (2, 'b', CAST(NULL AS DECIMAL(6, 2)))")
    found = rows(tables, "SELECT id, name, CAST(price AS STRING) AS price, twice, part IS NOT NULL AS p FROM messages")
    assert found == [(1, "a", "1.50", 2, True), (2, "b", None, 4, True)]
    reset = "'properties.group.id' = 'nobody', 'properties.auto.offset.reset' = 'earliest'"
    of_group = f"/*+ OPTIONS('scan.startup.mode' = 'group-offsets', {reset}) */"
    assert rows(tables, f"SELECT id FROM messages {of_group}") == [(1,), (2,)]
    tables.execute_sql(
        f"""CREATE TABLE counts (id INT, many BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH (
          'connector' = 'upsert-kafka', 'topic' = '{by_key}', {server}, {bounded}, 'key.format' = 'json',
          'value.format' = 'json')"""
    )
    tables.execute_sql(f"INSERT INTO counts {CHANGES}")
    assert rows(tables, "SELECT * FROM counts") == [(0, 2), (1, 2), (2, 1)]


@pytest.mark.kafka
def test_parts_of_messages_are_columns_that_are_written_and_read(tables: TableEnvironment, kafka: KafkaBroker) -> None:
    one, other, chosen, by_key = (kafka.create_topic(2) for _ in range(4))
    server = f"'properties.bootstrap.servers' = '{kafka.servers}', 'scan.bounded.mode' = 'latest-offset'"
    earliest = "'scan.startup.mode' = 'earliest-offset'"
    tables.execute_sql(
        f"""CREATE TABLE parts (
          place STRING METADATA FROM 'topic', sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
          kind STRING METADATA FROM 'timestamp-type' VIRTUAL, epoch INT METADATA FROM 'leader-epoch' VIRTUAL,
          h MAP<STRING, BYTES> METADATA FROM 'headers', k_id INT, k_a STRING, id INT, topic STRING
        ) WITH ('connector' = 'kafka', 'topic' = '{one};{other}', {server}, {earliest}, 'value.format' = 'json',
          'key.format' = 'csv', 'key.fields' = 'k_a;k_id', 'key.fields-prefix' = 'k_',
          'value.fields-include' = 'EXCEPT_KEY', 'sink.delivery-guarantee' = 'exactly-once')"""
    )
    insert = "INSERT INTO parts VALUES ('{}', {}, {}, {})"
    tables.execute_sql(insert.format(one, "TO_TIMESTAMP_LTZ(5000, 3)", "MAP['h', x'01']", "1, 'a', 10, 'x'"))
    empty = "CAST(NULL AS MAP<STRING, BYTES>)"
    tables.execute_sql(insert.format(other, "CAST(NULL AS TIMESTAMP_LTZ(3))", empty, "2, 'b', 20, 'y'"))
    columns = "k_id, k_a, id, topic, place, kind, epoch, CARDINALITY(h) AS n, h['h'] AS h, sent < NOW() AS s"
    assert rows(tables, f"SELECT {columns}, YEAR(sent) = 1970 AS y FROM parts") == [
        (1, "a", 10, "x", one, "CreateTime", 0, 1, b"\x01", True, True),
        (2, "b", 20, "y", other, "CreateTime", 0, 0, None, True, False),
    ]
    (message,) = kafka.read(one, 1)
    assert (message.key(), message.value()) == (b"a,1", b'{"id":10,"topic":"x"}')
    with pytest.raises(JobExecutionError, match="column 'place' says topic 'elsewhere', which is none of topic-"):
        tables.execute_sql(insert.format("elsewhere", "NOW()", empty, "1, 'a', 10, 'x'"))

    tables.execute_sql(
        f"""CREATE TABLE chosen (
          id INT, part INT METADATA FROM 'partition' VIRTUAL, `timestamp` TIMESTAMP(3) METADATA
        ) WITH ('connector' = 'kafka', 'topic' = '{chosen}', {server}, {earliest}, 'format' = 'csv',
          'sink.partitioner' = '{__name__}.{ById.__name__}')"""
    )
    tables.execute_sql("CREATE VIEW ids AS SELECT * FROM (VALUES (1), (2), (3), (4), (5), (6)) AS t(id)")
    time = "CAST(TO_TIMESTAMP_LTZ(id * 1000, 3) AS TIMESTAMP(3))"
    tables.execute_sql(f"INSERT INTO chosen SELECT id, {time} FROM ids")
    columns = f"id, part, `timestamp` = {time} AS same"
    assert rows(tables, f"SELECT {columns} FROM chosen") == [(number, number % 2, True) for number in range(1, 7)]
    until = "OPTIONS('scan.bounded.mode' = 'timestamp', 'scan.bounded.timestamp-millis' = '3500')"
    assert rows(tables, f"SELECT id FROM chosen /*+ {until} */") == [(1,), (2,), (3,)]

    tables.execute_sql(
        f"""CREATE TABLE counts (id INT, many BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH (
          'connector' = 'upsert-kafka', 'topic' = '{by_key}', {server}, 'key.format' = 'json',
          'value.format' = 'json', 'sink.buffer-flush.max-rows' = '100', 'sink.buffer-flush.interval' = '1 min')"""
    )
    tables.execute_sql("INSERT INTO counts SELECT id / 4, COUNT(*) FROM ids GROUP BY id / 4")
    assert rows(tables, "SELECT * FROM counts") == [(0, 3), (1, 3)]
    assert len(kafka.read(by_key, 2)) == 2


@pytest.mark.kafka
def test_rows_meet_each_version_of_a_topic_by_key_though_all_are_read_at_once(
    tables: TableEnvironment, kafka: KafkaBroker
) -> None:
    orders, prices = kafka.create_topic(), kafka.create_topic()
    server = f"'properties.bootstrap.servers' = '{kafka.servers}', 'scan.bounded.mode' = 'latest-offset'"
    tables.execute_sql(
        f"""CREATE TABLE orders (id INT, product STRING, moment TIMESTAMP(3), WATERMARK FOR moment AS moment) WITH (
          'connector' = 'kafka', 'topic' = '{orders}', {server}, 'scan.startup.mode' = 'earliest-offset',
          'format' = 'json')"""
    )
    tables.execute_sql(
        f"""CREATE TABLE prices (product STRING, price INT, since TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
          PRIMARY KEY (product) NOT ENFORCED, WATERMARK FOR since AS since) WITH (
          'connector' = 'upsert-kafka', 'topic' = '{prices}', {server}, 'key.format' = 'raw',
          'value.format' = 'json')"""
    )
    for price in (10, 11, 12):
        kafka.write(prices, [b'{"product":"a","price":%d}' % price], key=b"a", timestamp=(price - 9) * 10_000)
    times = enumerate(("05", "15", "25", "35"))
    kafka.write(orders, [f'{{"id":{n},"product":"a","moment":"1970-01-01 00:00:{at}"}}'.encode() for n, at in times])
    joined = "orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.moment AS p ON o.product = p.product"
    assert rows(tables, f"SELECT o.id, p.price FROM {joined}") == [(0, None), (1, 10), (2, 11), (3, 12)]


@pytest.mark.postgres
def test_a_table_of_postgres_is_one_of_sql(tables: TableEnvironment, postgres: PostgresServer) -> None:
    name = f"t{uuid.uuid4().hex}"
    postgres.execute(f"CREATE SCHEMA of_{name}; CREATE TABLE of_{name}.{name} (id int PRIMARY KEY, many bigint)")
    tables.execute_sql(
        f"""CREATE TABLE counts (id INT, many BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH (
          'connector' = 'jdbc', 'url' = 'jdbc:{postgres.uri}?currentSchema=of_{name}',
          'table-name' = '{name}')"""
    )
    tables.execute_sql("INSERT INTO counts VALUES (1, 10), (2, 20)")
    tables.execute_sql("INSERT INTO counts SELECT id, many + 1 FROM counts WHERE id > 1")
    assert rows(tables, "SELECT id, many FROM counts") == [(1, 10), (2, 21)]
    tables.execute_sql(f"INSERT INTO counts {CHANGES}")
    assert rows(tables, "SELECT id, many FROM counts") == [(0, 2), (1, 2), (2, 1)]
    for cache in ("NONE", "PARTIAL"):
        looked_up = f"counts /*+ OPTIONS('lookup.cache' = '{cache}') */ FOR SYSTEM_TIME AS OF t.p AS c"
        asked = "(SELECT n, PROCTIME() AS p FROM (VALUES (1), (2), (2), (7), (CAST(NULL AS INT))) AS v(n)) AS t"
        found = rows(tables, f"SELECT many, n FROM {asked} JOIN {looked_up} ON t.n = c.id")
        assert found == [(1, 2), (1, 2), (2, 1)]


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_changes_of_a_table_of_postgres_go_through_a_query(
    tables: TableEnvironment, postgres: PostgresServer, mode: str
) -> None:
    name, slot = postgres.create_table("(id int PRIMARY KEY, word text)"), f"s{uuid.uuid4().hex}"
    counted = postgres.create_table("(word text PRIMARY KEY, many bigint)")
    postgres.execute(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'a')")
    server = f"'hostname' = '127.0.0.1', 'port' = '{postgres.port}', 'database-name' = 'postgres'"
    user = f"'username' = 'tester', 'password' = '{PASSWORD}'"
    tables.execute_sql(
        f"""CREATE TABLE words (
          id INT, word STRING, place STRING METADATA FROM 'table_name' VIRTUAL, schema_name STRING METADATA,
          PRIMARY KEY (id) NOT ENFORCED
        ) WITH (
          'connector' = 'postgres-cdc', {server}, {user}, 'table-name' = '{name}', 'slot.name' = '{slot}',
          'changelog-mode' = '{mode}')"""
    )
    tables.execute_sql(
        f"""CREATE TABLE counts (word STRING, many BIGINT, PRIMARY KEY (word) NOT ENFORCED) WITH (
          'connector' = 'jdbc', 'url' = 'jdbc:{postgres.uri}', 'table-name' = '{counted}',
          'sink.delivery-guarantee' = 'at-least-once')"""
    )
    tables.execute_sql("SET 'table.dml-sync' = 'false'")
    place = f"place = '{name}' AND schema_name = 'public'"
    counting = f"INSERT INTO counts SELECT word, COUNT(*) FROM words WHERE {place} GROUP BY word"
    if mode == "all":
        with pytest.raises(InvalidProgramError, match="REPLICA IDENTITY FULL"):
            tables.execute_sql(counting)
        postgres.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL")

    def content() -> list[tuple[object, ...]]:
        return sorted(postgres.execute(f"SELECT word, many FROM {counted}"))

    client = tables.execute_sql(counting).get_job_client()
    assert client is not None
    try:
        eventually(content, [("a", 2), ("b", 1)].__eq__)
        postgres.execute(f"UPDATE {name} SET word = 'c' WHERE id = 1; DELETE FROM {name} WHERE id = 2")
        eventually(content, [("a", 1), ("c", 1)].__eq__)
    finally:
        client.cancel()
        eventually(lambda: not postgres.execute("SELECT FROM pg_replication_slots WHERE active"))
        PostgresChangesSource(postgres.uri, name, slot=slot).drop()


@pytest.mark.redis
def test_a_stream_of_redis_is_a_table(tables: TableEnvironment, redis: RedisServer) -> None:
    stream = uuid.uuid4().hex
    tables.execute_sql(
        f"""CREATE TABLE entries (entry STRING METADATA FROM 'id' VIRTUAL, n BIGINT, name STRING) WITH (
          'connector' = 'redis', 'url' = '{redis.url}', 'stream' = '{stream}', 'scan.bounded.mode' = 'latest-offset')"""
    )
    tables.execute_sql("INSERT INTO entries VALUES (1, 'a'), (2, CAST(NULL AS STRING))")
    assert rows(tables, "SELECT n, name, entry LIKE '%-%' AS e FROM entries") == [(1, "a", True), (2, None, True)]


@pytest.mark.nats
def test_a_stream_of_nats_is_written_and_read(tables: TableEnvironment, nats: NatsTestServer) -> None:
    stream = nats.create_stream()
    tables.execute_sql(
        f"""CREATE TABLE messages (
          place BIGINT METADATA FROM 'sequence' VIRTUAL, topic STRING METADATA FROM 'subject' VIRTUAL,
          n INT, name STRING
        ) WITH ('connector' = 'nats', 'url' = '{nats.url}', 'stream' = '{stream}', 'subject' = '{stream}.rows',
          'format' = 'json', 'scan.bounded.mode' = 'latest-offset', 'sink.parallelism' = '1',
          'sink.delivery-guarantee' = 'exactly-once', 'sink.marks' = '{stream}.marks')"""
    )
    tables.execute_sql("INSERT INTO messages VALUES (1, 'a'), (2, CAST(NULL AS STRING))")
    found = rows(tables, "SELECT n, name, place, topic FROM messages")
    assert found == [(1, "a", 1, f"{stream}.rows"), (2, None, 2, f"{stream}.rows")]
