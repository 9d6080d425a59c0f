"""The servers of these tests, each started when a test first needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.kafka import KafkaBroker, ServerUnavailable, is_ci, kafka_broker


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    try:
        with kafka_broker() as broker:
            yield broker
    except ServerUnavailable as unavailable:
        if is_ci():
            raise
        pytest.skip(str(unavailable))
