"""What the pages about connectors show runs against real servers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.nats import NatsTestServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer

DOCS = Path(__file__).parents[2] / "docs" / "connectors"


def run(page: str, replaced: dict[str, str], number: int = 0) -> None:
    """Runs a program of a page with the tests' own servers and names."""
    program = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)[number]
    for shown, here in replaced.items():
        assert shown in program
        program = program.replace(shown, here)
    exec(compile(program, page, "exec"), {"__name__": "__main__"})


@pytest.mark.kafka
def test_the_program_about_kafka(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    orders, totals = kafka.create_topic(), kafka.create_topic()
    kafka.write(orders, [json.dumps({"user": user, "cents": 10}).encode() for user in "abba"], timestamp=1_000)
    monkeypatch.setenv("FLINKRAY_EXECUTION_TARGET", "local")
    run("kafka.md", {"localhost:9092": kafka.servers, '"orders"]': f'"{orders}"]', '"totals"': f'"{totals}"'})
    found = [json.loads(message.value()) for message in kafka.read(totals, 2)]
    assert sorted((each["user"], each["cents"]) for each in found) == [("a", 20), ("b", 20)]


@pytest.mark.postgres
def test_the_programs_about_postgresql(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.execute(
        """
        CREATE TABLE orders (id int, customer int, cents int, placed timestamptz);
        CREATE TABLE customers (id int PRIMARY KEY, country text);
        CREATE TABLE customers_copy (id int PRIMARY KEY, country text);
        CREATE TABLE totals (word text PRIMARY KEY, total bigint);
        CREATE TABLE sales (country text, window_start bigint, cents bigint, PRIMARY KEY (country, window_start));
        INSERT INTO customers VALUES (1, 'NZ'), (2, 'PE');
        INSERT INTO orders SELECT i, i % 2 + 1, 10, '1970-01-01 12:00 UTC' FROM generate_series(1, 99) AS i;
        INSERT INTO sales VALUES ('NZ', 0, 7)
        """
    )
    monkeypatch.setenv("FLINKRAY_EXECUTION_TARGET", "local")
    run("postgres.md", {"postgresql://localhost/shop": postgres.uri})
    assert sorted(postgres.execute("SELECT * FROM sales")) == [("NZ", 0, 490), ("PE", 0, 500)]
    run("postgres.md", {"postgresql://localhost/shop": postgres.uri}, 1)
    assert sorted(postgres.execute("SELECT * FROM customers_copy")) == [(1, "NZ"), (2, "PE")]
    run("postgres.md", {"postgresql://localhost/shop": postgres.uri}, 2)
    assert postgres.execute("SELECT * FROM totals") == [("a", 1)]


@pytest.mark.redis
def test_the_program_about_redis(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for user in "abba":
        redis.client.xadd("clicks", {"user": user, "cents": 10})
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "redis.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.setenv("FLINKRAY_EXECUTION_TARGET", "local")
    program = program.replace("redis://localhost:6379/0", redis.url)
    exec(compile(program, "redis.md", "exec"), {"__name__": "__main__"})
    assert {user: redis.client.hget(f"total:{user}", "cents") for user in "ab"} == {"a": b"20", "b": b"20"}


@pytest.mark.nats
def test_the_program_about_nats(nats: NatsTestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = nats.create_stream()
    for user in "abba":
        nats.write(f"{stream}.clicks.{user}", [json.dumps({"user": user, "cents": 10}).encode()])
    monkeypatch.setenv("FLINKRAY_EXECUTION_TARGET", "local")
    run("nats.md", {"nats://localhost:4222": nats.url, '"shop"': f'"{stream}"', '"shop.': f'"{stream}.'})
    found = [json.loads(each) for each in nats.read(stream, f"{stream}.totals")]
    assert sorted((each["user"], each["cents"]) for each in found) == [("a", 20), ("b", 20)]
