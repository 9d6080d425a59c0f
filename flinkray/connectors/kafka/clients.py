"""Clients of confluent-kafka, and what their errors mean to a user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkray.errors import FlinkrayError, InvalidProgramError
from flinkray.extras import import_package

TIMEOUT_S = 15.0
"""How long a question to the brokers may take, such as for the partitions of a topic."""
# What flinkray decides itself: offsets are in checkpoints, and nobody else may move or reset them.
_OWN = {
    "bootstrap.servers": "servers=",
    "group.id": "group_id=",
    "enable.auto.commit": "group_id=",
    "enable.auto.offset.store": "group_id=",
    "auto.offset.reset": "start=",
    "enable.partition.eof": "stop=",
    "transactional.id": "transactional_id_prefix=",
}


def confluent_kafka() -> Any:
    """The package; a MissingDependencyError says what brings it."""
    return import_package("confluent_kafka", "Kafka")


def checked_client_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of librdkafka that a user sets.

    Raises:
        InvalidProgramError: one of them has an argument of its own.
    """
    for name, argument in _OWN.items():
        if name in options:
            raise InvalidProgramError(f"{name} is not for client_options; say it with {argument}")
    return dict(options)


class KafkaError(FlinkrayError):
    """The brokers cannot be asked or do not know what they are asked for; says which, and the way out."""


def explained(error: Any, servers: str) -> str:
    """An error of the client, with what can be done about it."""
    code, kafka = error.code(), confluent_kafka().KafkaError
    hints = {
        kafka._ALL_BROKERS_DOWN: f"no broker answers at {servers}; are they running and reachable from here?",
        kafka._TRANSPORT: f"no broker answers at {servers}; are they running and reachable from here?",
        kafka._TIMED_OUT: f"no broker answered at {servers} within {TIMEOUT_S:.0f} s; are they reachable from here?",
        kafka._RESOLVE: f"the name of a broker in {servers} is not known",
        kafka._AUTHENTICATION: "the brokers refuse user or password (sasl.username, sasl.password in client_options)",
        kafka.TOPIC_AUTHORIZATION_FAILED: "the user may not read the topic",
        kafka.GROUP_AUTHORIZATION_FAILED: "the user may not use the group (group_id=)",
        kafka._SSL: "the encrypted connection failed (ssl.* in client_options)",
    }
    hint = hints.get(code)
    return f"{error.str()} ({error.name()})" if hint is None else f"{error.str()} ({error.name()}): {hint}"
