"""The servers of these tests, each started when a test first needs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import pytest

from examples.servers import ServerUnavailable
from tests.support.servers import is_ci
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.nats import NatsTestServer, nats_server
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer, redis_server
from tests.support.servers.s3 import S3Store, s3_store

Server = TypeVar("Server")


@contextlib.contextmanager
def _or_skipped(started: AbstractContextManager[Server]) -> Iterator[Server]:
    try:
        with started as server:
            yield server
    except ServerUnavailable as unavailable:
        if is_ci():
            raise
        pytest.skip(str(unavailable))


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    with _or_skipped(KafkaBroker.running()) as broker:
        yield broker


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with _or_skipped(PostgresServer.running()) as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    with _or_skipped(redis_server()) as server:
        yield server


@pytest.fixture(scope="session")
def nats() -> Iterator[NatsTestServer]:
    with _or_skipped(nats_server()) as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Store]:
    with _or_skipped(s3_store()) as store:
        yield store
