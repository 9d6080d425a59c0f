"""Commits the transactions of a sink, whoever began them."""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.connectors.committer import CommitRequest, Committer
from flinkray.connectors.kafka.clients import KafkaError
from flinkray.connectors.kafka.transactions.coordinators import Ending, KafkaTransaction, TransactionCoordinators


class KafkaCommitter(Committer):
    """Ends transactions. Of one that was committed before, the brokers say that it is now: a repetition is harmless."""

    def __init__(self, coordinators: TransactionCoordinators) -> None:
        self._coordinators = coordinators

    def commit(self, requests: Sequence[CommitRequest[KafkaTransaction]]) -> None:
        endings = self._coordinators.commit([request.committable for request in requests])
        for request, (ending, reason) in zip(requests, endings, strict=True):
            name = request.committable.transactional_id
            if ending is Ending.LATER:
                request.retry_later(f"transaction {name!r} cannot be committed now: {reason}")
            elif ending is Ending.FORGOTTEN:
                request.give_up(
                    f"the brokers do not know transaction {name!r} any more ({reason}), so that it ended long ago: if "
                    "the job stopped in order after that checkpoint, it was committed"
                )
            elif ending is Ending.ABORTED:
                raise KafkaError(
                    f"transaction {name!r} of checkpoint {request.checkpoint_id} was aborted before it could be "
                    f"committed ({reason}): the job was down for longer than transaction.timeout.ms, or another job "
                    "has its transactional_id_prefix; its rows are lost. Start from an earlier checkpoint, or without "
                    "the state of this sink (give it another uid, and allow_non_restored_state); and let transactions "
                    "live longer (transaction.timeout.ms in client_options, transaction.max.timeout.ms of the brokers)"
                )

    def abort(self, committables: Sequence[KafkaTransaction]) -> None:
        self._coordinators.abort([each.transactional_id for each in committables])
