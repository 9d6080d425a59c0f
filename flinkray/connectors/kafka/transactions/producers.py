"""Producers for transactions, one for each: a name that is used once is committed twice without harm."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from flinkray.connectors.kafka.clients import TIMEOUT_S, Brokers, KafkaError, confluent_kafka, made
from flinkray.connectors.kafka.transactions.coordinators import KafkaTransaction

_STATISTICS_MS = 250
"""librdkafka tells a producer's id and epoch in its statistics only."""
_LOOK_S = 0.2
"""How often a wait looks whether its job is cancelled."""


class TransactionalProducer:
    """A producer that is ready to begin its transaction."""

    def __init__(self, options: Mapping[str, Any], transactional_id: str, brokers: Brokers) -> None:
        self.transactional_id = transactional_id
        self._identity: tuple[int, int] | None = None
        self.client = made(
            "Producer",
            {
                **options,
                "transactional.id": transactional_id,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._on_statistics,
            },
        )
        try:
            self.client.init_transactions(TIMEOUT_S)
        except confluent_kafka().KafkaException as error:
            with contextlib.suppress(confluent_kafka().KafkaException):
                self.client.poll(0)  # has the client tell what it says of connections
            brokers.refuse(error, f"transaction {transactional_id!r} cannot begin")
        self._wait_for_identity()

    def transaction(self) -> KafkaTransaction:
        """What others need to commit the transaction."""
        assert self._identity is not None
        return KafkaTransaction(self.transactional_id, *self._identity)

    def abort(self) -> None:
        """Gives the transaction up, so that readers need not wait until its time is over."""
        self.client.purge()
        self.client.abort_transaction(TIMEOUT_S)

    def _wait_for_identity(self) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while self._identity is None:
            if time.monotonic() > deadline:
                raise KafkaError(f"the client does not tell the producer's id of transaction {self.transactional_id!r}")
            self.client.poll(_STATISTICS_MS / 1_000)

    def _on_statistics(self, statistics: str) -> None:
        if self._identity is None:
            eos = json.loads(statistics).get("eos", {})
            if eos.get("producer_id", -1) >= 0:
                self._identity = eos["producer_id"], eos["producer_epoch"]


class TransactionalProducers:
    """Has the next producer made while the present one is in use, as that takes a while.

    Args:
        create: makes a producer whose transaction begins after that checkpoint.
    """

    def __init__(self, create: Callable[[int], TransactionalProducer]) -> None:
        self._create = create
        self._thread = ThreadPoolExecutor(1, "kafka-transactions")
        self._next: tuple[int, Future[TransactionalProducer]] | None = None

    def prepare(self, checkpoint_id: int) -> None:
        """Begins to make the producer that will be wanted after that checkpoint."""
        self._next = checkpoint_id, self._thread.submit(self._create, checkpoint_id)

    def take(self, checkpoint_id: int, check_cancelled: Callable[[], None]) -> TransactionalProducer:
        """The producer of the transaction that begins now, after that checkpoint.

        Args:
            check_cancelled: called while it is waited for; ends the wait by raising.
        """
        prepared, self._next = self._next, None
        if prepared is not None and prepared[0] == checkpoint_id:
            future = prepared[1]
        else:
            future = self._thread.submit(self._create, checkpoint_id)
        deadline = time.monotonic() + 2 * TIMEOUT_S
        while not wait([future], _LOOK_S).done:
            check_cancelled()
            if time.monotonic() > deadline:
                raise KafkaError(
                    f"no transaction can begin after checkpoint {checkpoint_id}: the brokers gave no producer's id in "
                    f"{2 * TIMEOUT_S:.0f} s; are they running and reachable from here?"
                )
        return future.result()

    def retire(self, producer: TransactionalProducer) -> None:
        """Lets go of a producer whose messages are all written; its end takes a moment."""
        self._thread.submit(producer.client.purge)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
