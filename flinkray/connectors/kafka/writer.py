"""Writes rows to Kafka as they come, or in transactions that belong to checkpoints."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flinkray.batches.batch import Batch
from flinkray.connectors.committer import END_OF_INPUT
from flinkray.connectors.kafka.clients import TIMEOUT_S, Brokers, KafkaError, asked, confluent_kafka, made
from flinkray.connectors.kafka.messages import MessageEncoder
from flinkray.connectors.kafka.transactions.coordinators import KafkaTransaction, TransactionCoordinators
from flinkray.connectors.kafka.transactions.producers import TransactionalProducer, TransactionalProducers
from flinkray.connectors.kafka.transactions.transactional_ids import left_behind, transactional_id
from flinkray.connectors.sink import SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label

log = logging.getLogger(__name__)

_DELIVERY_MS = 120_000
"""How long a message may take to be written, as long as with Java's client; then the job fails, and writes it again."""
_TRANSACTION_MS = 900_000
"""How long a transaction may take, from its first row until it is committed: as long as brokers let one by default."""
_LINGER_MS = 50
"""How long messages wait for others. librdkafka keeps its thread awake while messages of a partition have waited longer
and others of it are on their way (`rd_kafka_toppar_producer_serve`): with its 5 ms it takes up to a core."""
_POLL_S = 0.1


class KafkaWriter(SinkWriter):
    """Hands messages to librdkafka, which sends them on a thread of its own; waits for room there, and in `flush` until
    the brokers have all.

    Args:
        client_options: of librdkafka, as the user gave them.
    """

    def __init__(
        self, encoder: MessageEncoder, context: SinkWriterContext, servers: str, client_options: Mapping[str, Any]
    ) -> None:
        self._encoder = encoder
        self._context = context
        self._where = subtask_label(context)
        self._servers = servers
        self._brokers = Brokers(servers)
        self._failure: KafkaError | None = None
        self._options = {
            "enable.idempotence": True,
            "delivery.report.only.error": True,
            "message.timeout.ms": _DELIVERY_MS,
            "linger.ms": _LINGER_MS,
            "partitioner": "murmur2_random",
            "reconnect.backoff.ms": 1_000,
            **client_options,
            "bootstrap.servers": servers,
            "on_delivery": self._on_failure,
            "error_cb": self._brokers.note,
            "logger": log,
        }
        self._client: Any = None
        self._is_connected = False
        self._partitions: dict[str, Sequence[int]] = {}

    def write(self, batch: Batch) -> None:
        client = self._opened_client()
        produce = client.produce
        for topic, value, key, partition, headers, timestamp in self._encoder.messages(batch, self._partitions_of):
            while True:
                try:
                    # Without names, which take the client as long as the rest: the two in the middle are its callbacks.
                    produce(topic, value, key, partition, None, None, timestamp, headers)
                    if not self._is_connected:  # what gathers until it is would keep its thread from sleeping
                        self.flush(False)
                        self._is_connected = True
                    break
                except BufferError:  # it holds as much as it may
                    self._context.check_cancelled()
                    self._asked(lambda: client.poll(_POLL_S))
                except confluent_kafka().KafkaException as error:
                    self._brokers.refuse(error, f"{self._where}: cannot write to topic {topic!r}")
        self._asked(lambda: client.poll(0))

    def flush(self, end_of_input: bool) -> None:
        if self._client is None:
            return
        while self._asked(lambda: self._client.flush(_POLL_S)):  # messages that take too long are failures: this ends
            self._context.check_cancelled()

    def close(self) -> None:
        if self._client is not None:
            self._client.purge()
            self._client.flush(0)

    def _opened_client(self) -> Any:
        if self._client is None:
            self._client = made("Producer", self._options)
        return self._client

    def _partitions_of(self, topic: str) -> Sequence[int]:
        """As they were when the topic was first written to."""

        def listed() -> Sequence[int]:
            found = self._opened_client().list_topics(topic, timeout=TIMEOUT_S).topics[topic]
            if found.error is not None:
                raise confluent_kafka().KafkaException(found.error)
            return sorted(found.partitions)

        if topic not in self._partitions:
            what = f"the partitions of topic {topic!r}, to which {self._where} writes"
            self._partitions[topic] = asked(listed, what, self._servers)
        return self._partitions[topic]

    # -- failures

    def _on_failure(self, error: Any, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = KafkaError(
                f"{self._where}: a message for topic {message.topic()!r} could not be written: "
                f"{self._brokers.explained(error)}"
            )

    def _asked(self, call: Callable[[], int]) -> int:
        """What a call of the client gives in which it tells of messages.

        Raises:
            KafkaError: one of them could not be written.
        """
        try:
            found = call()
        except (confluent_kafka().KafkaException, SystemError) as error:
            if self._failure is not None and isinstance(error, SystemError):
                raise self._failure from error  # which was told before the client ended for good
            self._brokers.refuse(error, f"{self._where}: messages could not be written")
        if self._failure is not None:
            raise self._failure
        return found


class TransactionalKafkaWriter(KafkaWriter):
    """Writes the rows between two checkpoints in one transaction, which begins with the first of them; none if there
    are none. Readers of committed messages see them once the checkpoint is complete.

    Args:
        prefix: of the transactions' names.
        former_prefixes: of the transactions that the checkpoint's job began.
    """

    def __init__(
        self,
        encoder: MessageEncoder,
        context: SinkWriterContext,
        servers: str,
        client_options: Mapping[str, Any],
        prefix: str,
        former_prefixes: frozenset[str],
    ) -> None:
        super().__init__(encoder, context, servers, client_options)
        self._options.setdefault("transaction.timeout.ms", _TRANSACTION_MS)
        self._prefix = prefix
        self._subtask = context.subtask_index
        self._checkpoint_id = context.restored_checkpoint_id or 0
        self._producer: TransactionalProducer | None = None
        self._abort_what_was_left_behind(client_options, former_prefixes | {prefix}, context.parallelism)
        self._producers = TransactionalProducers(self._create)
        self._producers.prepare(self._checkpoint_id)

    def _abort_what_was_left_behind(
        self, client_options: Mapping[str, Any], prefixes: frozenset[str], parallelism: int
    ) -> None:
        coordinators = TransactionCoordinators(self._servers, client_options)
        left = left_behind(coordinators.open_ids(), prefixes, self._subtask, parallelism, self._checkpoint_id)
        if left:
            log.info("%s aborts %d transactions that an attempt before it left behind", self._where, len(left))
            coordinators.abort(left)

    def _create(self, checkpoint_id: int) -> TransactionalProducer:
        name = transactional_id(self._prefix, self._subtask, checkpoint_id)
        return TransactionalProducer(self._options, name, self._brokers)

    def _opened_client(self) -> Any:
        if self._producer is None:
            self._producer = self._producers.take(self._checkpoint_id, self._context.check_cancelled)
            self._client = self._producer.client
            try:
                self._client.begin_transaction()
            except confluent_kafka().KafkaException as error:
                name = self._producer.transactional_id
                self._brokers.refuse(error, f"{self._where}: transaction {name!r} cannot begin")
        return self._client

    def prepare_commit(self, checkpoint_id: int) -> list[KafkaTransaction]:
        self._checkpoint_id = checkpoint_id
        producer, self._producer, self._client = self._producer, None, None
        if producer is None:
            return []
        if checkpoint_id != END_OF_INPUT:
            self._producers.prepare(checkpoint_id)
        self._producers.retire(producer)
        return [producer.transaction()]

    def snapshot_state(self, checkpoint_id: int) -> str:
        """The prefix, as a later job may have another one."""
        return self._prefix

    def close(self) -> None:
        producer, self._producer, self._client = self._producer, None, None
        if producer is not None:
            with contextlib.suppress(confluent_kafka().KafkaException):  # its time ends it then
                producer.abort()
        self._producers.close()
