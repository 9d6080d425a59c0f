"""What errors of Redis mean to a user."""

from __future__ import annotations

import pytest

pytest.importorskip("redis")

from redis import exceptions

from flinkray.connectors.redis.clients import explained


@pytest.mark.parametrize(
    "error",
    [
        exceptions.MovedError("5798 127.0.0.1:7001"),
        exceptions.AskError("5798 127.0.0.1:7001"),
        exceptions.ResponseError("Script attempted to access a non local key in a cluster node script: 1a2b"),
        exceptions.ResponseError("Hash slot not served"),
    ],
)
def test_a_server_of_a_cluster_of_shards_is_said_to_be_one(error: Exception) -> None:
    assert "the server is of a Redis Cluster" in explained(error)
