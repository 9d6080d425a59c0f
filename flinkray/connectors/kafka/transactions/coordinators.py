"""Transactions whose producers may be gone: listed, committed and aborted by name, producer id and epoch.

librdkafka ends a transaction only in the process that began it. The brokers take the same request from anybody who
knows the producer's id and epoch, as Flink's sink does with Java's client; aiokafka says it to them.
"""

from __future__ import annotations

import asyncio
import enum
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from flinkray.connectors.kafka.clients import TIMEOUT_S, KafkaError
from flinkray.errors import InvalidProgramError
from flinkray.extras import import_package

_Result = TypeVar("_Result")

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_TLS_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_RETRY_S = 0.1
_SPREAD_S = 2.0
"""How long the partitions of transactions that have ended are waited for, until they have heard of it."""
_SPREADS_S = 0.005
"""Between two questions whether all partitions of a transaction have heard of its end: 10 ms is usual."""
# Error codes of Kafka's protocol.
_WAIT = frozenset({14, 15, 16, 51})
"""The coordinator is loading, not available, elsewhere, or still ends the transaction before."""
_FENCED = frozenset({47, 48, 90})
_FORGOTTEN = 49


class KafkaTransaction(Struct, frozen=True):
    """A transaction that has all its messages, and waits for its end."""

    transactional_id: str
    producer_id: int
    epoch: int


class Ending(enum.Enum):
    """What the coordinator says to the end of a transaction."""

    ENDED = "ended"
    """Now, or before: it says the same the second time."""
    ABORTED = "aborted"
    """It was aborted before: it took longer than it may, or another producer took its name."""
    FORGOTTEN = "forgotten"
    """The brokers do not know the name any more; it ended long ago, one way or the other."""
    LATER = "later"


class TransactionCoordinators:
    """The brokers that coordinate transactions. Each call connects anew, and blocks for at most a few seconds."""

    def __init__(self, servers: str, client_options: Mapping[str, Any]) -> None:
        self._servers = servers
        self._security = security(client_options)

    def commit(self, transactions: Sequence[KafkaTransaction]) -> list[tuple[Ending, str]]:
        """What became of each, with the reason where it is to be tried later.

        Who reads committed messages sees those of all that have ended: a coordinator says at once that a transaction
        will end, and when it is asked again whether all partitions have heard of it.
        """

        async def commit_each(client: Any) -> list[tuple[Ending, str]]:
            endings = [await self._commit(client, each) for each in transactions]
            until = time.monotonic() + _SPREAD_S
            for each, (ending, _) in zip(transactions, endings, strict=True):
                while ending is Ending.ENDED and (await self._commit(client, each))[0] is Ending.LATER:
                    if time.monotonic() >= until:
                        return endings  # decided all the same; a partition has no leader, say
                    await asyncio.sleep(_SPREADS_S)
            return endings

        try:
            return self._asked(commit_each)
        except KafkaError as error:
            return [(Ending.LATER, str(error)) for _ in transactions]

    def open_ids(self) -> list[str]:
        """The names of all transactions that have begun and not ended.

        Raises:
            KafkaError: the brokers cannot be asked.
        """

        async def listed(client: Any) -> list[str]:
            from flinkray.connectors.kafka.transactions.list_transactions import (
                ListTransactionsRequest,  # an extra brings aiokafka
            )

            found: list[str] = []
            for broker in client.cluster.brokers():
                request = ListTransactionsRequest(["Ongoing", "PrepareAbort"])
                while (answer := await client.send(broker.nodeId, request)).error_code in _WAIT:
                    await asyncio.sleep(_RETRY_S)  # until the time for the whole call is over
                if answer.error_code:
                    raise KafkaError(f"a broker lists no transactions: {_name_of(answer.error_code)}")
                found += [each[0] for each in answer.transaction_states]
            return found

        return self._asked(listed)

    def abort(self, transactional_ids: Sequence[str]) -> None:
        """Aborts what is open under these names; producers that still have them cannot write any more.

        Raises:
            KafkaError: the brokers cannot be asked, or refuse.
        """

        async def abort_each(client: Any) -> None:
            for each in transactional_ids:
                await self._abort(client, each)

        self._asked(abort_each)

    # -- inside --------------------------------------------------------------------------------------------------

    async def _commit(self, client: Any, transaction: KafkaTransaction) -> tuple[Ending, str]:
        transactions = import_package("aiokafka.protocol.transaction", "Kafka")
        request = transactions.EndTxnRequest(
            transaction.transactional_id, transaction.producer_id, transaction.epoch, True
        )
        code = (await self._of_coordinator(client, transaction.transactional_id, request)).error_code
        if not code:
            return Ending.ENDED, ""
        if code in _WAIT:
            return Ending.LATER, _name_of(code)
        if code in _FENCED:
            return Ending.ABORTED, _name_of(code)
        if code == _FORGOTTEN:
            return Ending.FORGOTTEN, _name_of(code)
        raise KafkaError(f"transaction {transaction.transactional_id!r} cannot be committed: {_name_of(code)}")

    async def _abort(self, client: Any, transactional_id: str) -> None:
        """A new producer of that name aborts what an earlier one has begun."""
        transactions = import_package("aiokafka.protocol.transaction", "Kafka")
        request = transactions.InitProducerIdRequest(transactional_id, 60_000)
        while code := (await self._of_coordinator(client, transactional_id, request)).error_code:
            if code not in _WAIT:
                raise KafkaError(f"transaction {transactional_id!r} cannot be aborted: {_name_of(code)}")
            await asyncio.sleep(_RETRY_S)  # until the time for the whole call is over

    async def _of_coordinator(self, client: Any, transactional_id: str, request: Any) -> Any:
        kind = import_package("aiokafka.client", "Kafka").CoordinationType.TRANSACTION
        errors = import_package("aiokafka.errors", "Kafka")
        while True:
            try:
                coordinator = await client.coordinator_lookup(kind, transactional_id)
                break
            except errors.GroupCoordinatorNotAvailableError:  # so is that of transactions called, too
                await asyncio.sleep(_RETRY_S)  # until the time for the whole call is over
        return await client.send(coordinator, request)

    def _asked(self, ask: Callable[[Any], Awaitable[_Result]]) -> _Result:
        """What `ask` gives, of a client that is connected for it."""

        async def connected() -> _Result:
            client = import_package("aiokafka.client", "Kafka").AIOKafkaClient(
                bootstrap_servers=self._servers, request_timeout_ms=int(TIMEOUT_S * 1_000), **self._security
            )
            try:
                await client.bootstrap()
                return await ask(client)
            finally:
                await client.close()

        errors = import_package("aiokafka.errors", "Kafka")
        try:
            return asyncio.run(asyncio.wait_for(connected(), TIMEOUT_S))
        except (errors.KafkaError, OSError, TimeoutError) as error:
            raise KafkaError(
                f"the brokers at {self._servers} do not answer about transactions: {type(error).__name__}: {error}; "
                "are they running and reachable from here, and are security.protocol, sasl.* and ssl.* "
                "(client_options) those of the listener?"
            ) from error


def security(client_options: Mapping[str, Any]) -> dict[str, Any]:
    """What aiokafka calls the options of librdkafka that say how to connect.

    Raises:
        InvalidProgramError: a mechanism that it has not, a login that lacks a part, or a file that cannot be used.
    """
    protocol = str(client_options.get("security.protocol", "PLAINTEXT")).upper()
    given: dict[str, Any] = {"security_protocol": protocol}
    if protocol.startswith("SASL"):
        mechanism = client_options.get("sasl.mechanism", client_options.get("sasl.mechanisms", "GSSAPI"))
        if mechanism not in _MECHANISMS:
            raise InvalidProgramError(
                f"KafkaSink with exactly once logs in by {', '.join(_MECHANISMS)}, not by {mechanism!r} "
                "(sasl.mechanism in client_options)"
            )
        given["sasl_mechanism"] = mechanism
        for option in ("sasl.username", "sasl.password"):
            if client_options.get(option) is None:
                raise InvalidProgramError(f"KafkaSink logs in by {mechanism!r}, and client_options lack {option}")
        given["sasl_plain_username"] = client_options["sasl.username"]
        given["sasl_plain_password"] = client_options["sasl.password"]
    if protocol.endswith("SSL"):
        try:
            given["ssl_context"] = _ssl_context(client_options)
        except (OSError, ValueError) as error:
            files = ", ".join(f"{name} {client_options[name]!r}" for name in _TLS_FILES if name in client_options)
            raise InvalidProgramError(f"client_options of KafkaSink cannot be used ({files}): {error}") from error
    return given


def _ssl_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ssl.ca.location"), cadata=options.get("ssl.ca.pem"))
    if str(options.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif options.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if certificate := options.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, options.get("ssl.key.location"), options.get("ssl.key.password"))
    return context


def _name_of(code: int) -> str:
    """The error as Kafka's protocol calls it."""
    return str(import_package("aiokafka.errors", "Kafka").for_code(code).message)
