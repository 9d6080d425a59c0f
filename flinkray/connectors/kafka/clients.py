"""Clients of confluent-kafka, and what their errors mean to a user."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from flinkray.errors import ConnectorError, InvalidProgramError
from flinkray.extras import import_package

TIMEOUT_S = 15.0
"""How long a question to the brokers may take, such as for the partitions of a topic."""
_IDS_S = 5.0
"""How long is waited for the ids of topics, without which nothing is but a check."""
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
AGAIN_S = 0.1
"""How soon they are asked again while partitions get a leader."""
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
_ENDED = (
    "the brokers have ended the transaction: it took longer than transaction.timeout.ms (client_options), or another "
    "job has its transactional_id_prefix"
)
_HINTS = {
    "_RESOLVE": "the name of a broker is not known",
    "_AUTHENTICATION": "the brokers refuse user or password (sasl.username, sasl.password in client_options)",
    "SASL_AUTHENTICATION_FAILED": "the brokers refuse user or password (sasl.* in client_options)",
    "_SSL": "the encrypted connection failed (ssl.* in client_options)",
    "TOPIC_AUTHORIZATION_FAILED": "the user may not use the topic",
    "GROUP_AUTHORIZATION_FAILED": "the user may not use the group (group_id=)",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user may not use the transactional id (transactional_id_prefix=)",
    "CLUSTER_AUTHORIZATION_FAILED": "the user may not write idempotently; GRANT it, or set enable.idempotence to False",
    "_UNKNOWN_TOPIC": "there is no such topic; create it, as most brokers make none by themselves",
    "UNKNOWN_TOPIC_OR_PART": "there is no such topic or partition (any more)",
    "_UNKNOWN_PARTITION": "the topic has no such partition (any more)",
    "MSG_SIZE_TOO_LARGE": "raise max.message.bytes of the topic, and message.max.bytes in client_options; write less",
    "_MSG_TIMED_OUT": "the brokers took none within message.timeout.ms; are they, and the topic's leader, running?",
    "KAFKA_STORAGE_ERROR": "a disk of the broker is full or broken",
    "NOT_ENOUGH_REPLICAS": "fewer replicas are in sync than the topic's min.insync.replicas; are all brokers running?",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "fewer replicas are in sync than the topic's min.insync.replicas",
    "INVALID_RECORD": "the brokers refuse it as it is; a topic that is compacted wants a key for each message (key=)",
    "POLICY_VIOLATION": "a policy of the brokers forbids it",
    "INVALID_TRANSACTION_TIMEOUT": "transaction.timeout.ms is more than the brokers allow (transaction.max.timeout.ms)",
    **dict.fromkeys(("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "_FENCED", "INVALID_TXN_STATE"), _ENDED),
}
"""What errors mean, by the names that the client has for their codes."""
_AWAY = ("_ALL_BROKERS_DOWN", "_TRANSPORT")
_SILENT = ("_TIMED_OUT", "_MSG_TIMED_OUT")
_SETTLING = (
    *("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART", "FENCED_LEADER_EPOCH"),
    *("UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "NETWORK_EXCEPTION"),
    *("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "REQUEST_TIMED_OUT"),
    *("UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID", "KAFKA_STORAGE_ERROR", "UNSTABLE_OFFSET_COMMIT"),
    *("BROKER_NOT_AVAILABLE", "THROTTLING_QUOTA_EXCEEDED", "_WAIT_COORD"),
)
"""What brokers say of partitions and groups that are there, while these are new or change their leader: errors that
Java's client asks again after."""
_TELLING = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL", "_RESOLVE")
"""What a client says of its connections only, while a question just gets no answer."""
_ENCRYPTION = ("SSL handshake", "SSL_HANDSHAKE", "security.protocol")
"""What a client says of connections that brokers close at once, as they speak with or without TLS, and the client does
not; by its code that is just a lost one."""
_REFUSED = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED")
"""Those of them that are so the next time, too. Of encrypted connections the client says the same where a broker that
stops has closed one."""


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


class KafkaError(ConnectorError):
    """The brokers cannot be asked or do not know what they are asked for; says which, and the way out."""


class KafkaAwayError(KafkaError):
    """The brokers do not answer, or are not ready yet: what is asked for may succeed later, as it stands."""


def made(kind: str, options: Mapping[str, Any], **arguments: Any) -> Any:
    """A client: a "Consumer" or a "Producer".

    Raises:
        InvalidProgramError: it does not know an option, or not its value.
    """
    package = confluent_kafka()
    try:
        return getattr(package, kind)(dict(options), **arguments)
    except (package.KafkaException, TypeError, ValueError) as error:
        reason = error.args[0].str() if isinstance(error, package.KafkaException) else str(error)
        raise InvalidProgramError(
            f"librdkafka, which connects to Kafka, does not take these client_options: {reason}. Options of Java's "
            "client may have other names there"
        ) from error


class Brokers:
    """What a client says of the brokers beside the answers to questions; `note` is its `error_cb`."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._telling: Any = None
        self._refuses = False
        """Whether the client has said so since that was looked at last."""
        self.are_away = False
        """Whether there is no connection to any."""

    def note(self, error: Any) -> None:
        """Called by the client, on the thread that asks it for messages."""
        if error.name() in _TELLING or _is_of_encryption(error):
            self._telling = error
            self._refuses = error.name() in _REFUSED
        elif error.name() in _AWAY:
            self.are_away = True

    def answered(self) -> None:
        """One is there."""
        self.are_away, self._telling, self._refuses = False, None, False

    def explained(self, error: Any) -> str:
        """An error of the client, or why it came; with what can be done about it."""
        if error.name() not in (*_AWAY, *_SILENT):
            return explained(error, self._servers)
        text = explained(self._telling or error, self._servers)
        is_said = self._telling is not None or error.name() in _AWAY
        return text if is_said or not self.are_away else f"{text} No broker answers at {self._servers}"

    def refuse(self, error: BaseException, what: str) -> NoReturn:
        """Raises the KafkaError for what a call of a client raised, a KafkaAwayError where that may pass.

        After an error that ends a client for good, its callbacks run while that is raised, and raise SystemErrors of
        their own: the first of such a chain is what is wrong.
        """
        package = confluent_kafka()
        first = error
        while not isinstance(first, package.KafkaException) and first.__cause__ is not None:
            first = first.__cause__
        if not isinstance(first, package.KafkaException):
            raise KafkaError(f"{what}: {error}") from error
        raise self.kind_of(first.args[0])(f"{what}: {self.explained(first.args[0])}") from error

    def kind_of(self, error: Any) -> type[KafkaError]:
        """What to raise for an error of the client, or for why it came."""
        refuses, self._refuses = self._refuses, False
        return KafkaError if refuses else kind_of(error)


def is_transient(error: Any) -> bool:
    """Whether the same may succeed in a moment."""
    return error.retriable() or error.name() in (*_AWAY, *_SETTLING)


def kind_of(error: Any) -> type[KafkaError]:
    """What to raise for an error of the client."""
    return KafkaAwayError if is_transient(error) or error.name() in _SILENT else KafkaError


def asked(question: Callable[[], Any], what: str, servers: str) -> Any:
    """The answer of brokers, for which partitions that get a leader are waited for as long as for brokers.

    Raises:
        KafkaError: there is none; `what` says what was asked for. A KafkaAwayError where there may be one later.
    """
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return question()
        except confluent_kafka().KafkaException as error:
            if not is_transient(error.args[0]) or time.monotonic() >= until:
                reason = explained(error.args[0], servers)
                raise kind_of(error.args[0])(f"cannot ask for {what}: {reason}") from error
            threading.Event().wait(AGAIN_S)


def _is_of_encryption(error: Any) -> bool:
    return any(text in error.str() for text in _ENCRYPTION)


def topic_ids(servers: str, client_options: Mapping[str, Any], topics: Sequence[str]) -> dict[str, str]:
    """What tells topics from later ones of the same name. Brokers before version 2.8 have no such ids, and topics are
    left out of which they do not say them now."""
    package, admin = confluent_kafka(), import_package("confluent_kafka.admin", "Kafka")
    try:
        client = admin.AdminClient({**client_options, "bootstrap.servers": servers, "log_level": 0})
        asked_for = client.describe_topics(package.TopicCollection(list(topics)), request_timeout=_IDS_S)
    except (package.KafkaException, TypeError, ValueError):
        return {}
    found = {}
    for topic, described in asked_for.items():
        with contextlib.suppress(package.KafkaException, TimeoutError):
            found[topic] = str(described.result(_IDS_S).topic_id)
    return {topic: each for topic, each in found.items() if each != _NO_ID}


def is_missing(error: Any) -> bool:
    """Whether brokers say of a topic that there is none."""
    return error.name() in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC")


def explained(error: Any, servers: str) -> str:
    """An error of the client, with what can be done about it."""
    name = error.name()
    hint = _HINTS.get(name)
    if _is_of_encryption(error):
        hint = "does the listener want TLS, or none? security.protocol and ssl.* in client_options say what it gets"
    elif name in _AWAY:
        hint = f"no broker answers at {servers}; are they running and reachable from here?"
    elif name == "_TIMED_OUT":
        hint = f"no broker answered at {servers} within {TIMEOUT_S:.0f} s; are they reachable from here?"
    return f"{error.str()} ({name})" if hint is None else f"{error.str()} ({name}): {hint}"
