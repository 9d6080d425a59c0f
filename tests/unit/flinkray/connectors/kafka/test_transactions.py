"""What is decided of Kafka's transactions without a broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("aiokafka")

import aiokafka.errors

from flinkray import CommitRequest, DeliveryGuarantee, InvalidProgramError, KafkaSink
from flinkray.connectors.kafka.clients import KafkaError
from flinkray.connectors.kafka.transactions import coordinators
from flinkray.connectors.kafka.transactions.committer import KafkaCommitter
from flinkray.connectors.kafka.transactions.coordinators import (
    Ending,
    KafkaTransaction,
    TransactionCoordinators,
    security,
)
from flinkray.connectors.kafka.transactions.transactional_ids import left_behind, transactional_id


def test_names_do_not_come_twice() -> None:
    assert len({transactional_id("p", 0, 5) for _ in range(100)}) == 100


def names(prefix: str, subtask: int, *checkpoints: int) -> list[str]:
    return [transactional_id(prefix, subtask, each) for each in checkpoints]


def test_what_began_after_the_checkpoint_was_left_behind() -> None:
    before, after = names("p", 0, 1, 4), names("p", 0, 5, 6, 17)
    assert left_behind(before + after, {"p"}, 0, 1, 5) == after


def test_each_subtask_looks_after_its_own_and_those_of_a_higher_parallelism() -> None:
    of_subtask = [names("p", subtask, 9)[0] for subtask in range(5)]
    found = [left_behind(of_subtask, {"p"}, subtask, 2, 0) for subtask in range(2)]
    assert found == [of_subtask[0::2], of_subtask[1::2]]


def test_the_transactions_of_others_are_not_touched() -> None:
    others = [
        *names("other", 0, 9),
        *names("p-0", 0, 9),
        *names("xp", 0, 9),
        "p",
        "p-0-9",
        "p-0-9-user",
        "p-0-x-" + "0" * 12,
    ]
    former = names("p.former", 0, 9)
    assert left_behind([*others, *former], {"p", "p.former"}, 0, 1, 0) == former
    assert left_behind(["p_former-0-9-" + "0" * 12], {"p.former"}, 0, 1, 0) == []


class Answers(TransactionCoordinators):
    def __init__(self, *endings: Ending) -> None:
        super().__init__("host:1", {})
        self.endings = endings

    def commit(self, transactions: object) -> list[tuple[Ending, str]]:
        return [(ending, "so it is") for ending in self.endings]


def test_a_commit_is_done_put_off_or_given_up_as_the_brokers_say() -> None:
    requests = [CommitRequest(KafkaTransaction(f"t{number}", 1, 0)) for number in range(3)]
    KafkaCommitter(Answers(Ending.ENDED, Ending.LATER, Ending.FORGOTTEN)).commit(requests)
    assert [request.outcome.value for request in requests] == ["committed", "retry later", "given up"]
    assert "transaction 't1' cannot be committed now: so it is" in requests[1].reason


LOADING, UNAVAILABLE, SPREADING = 14, 15, 51


class Coordinator(TransactionCoordinators):
    """Gives these codes, one for each question; connects to nobody."""

    def __init__(self, *codes: int) -> None:
        super().__init__("host:1", {})
        self.codes = list(codes)
        self.cluster = SimpleNamespace(brokers=lambda: [SimpleNamespace(nodeId=1)])

    def _asked(self, ask: Any) -> Any:
        return asyncio.run(ask(self))

    async def coordinator_lookup(self, *_: Any) -> int:
        if self.codes[0] == UNAVAILABLE:
            raise aiokafka.errors.for_code(self.codes.pop(0))
        return 1

    async def send(self, *_: Any) -> Any:
        return SimpleNamespace(error_code=self.codes.pop(0), transaction_states=[("t", 1, "Ongoing")])


def test_a_commit_is_over_when_all_partitions_have_heard_of_it() -> None:
    """Else who reads what is committed, right after it, reads nothing."""
    ended = Coordinator(0, 0, SPREADING, SPREADING, 0, 0)
    transactions = [KafkaTransaction(f"t{number}", 1, 0) for number in range(2)]
    assert ended.commit(transactions) == [(Ending.ENDED, "")] * 2
    assert not ended.codes
    before = Coordinator(SPREADING)  # the end of the one before: to be tried later
    assert before.commit(transactions[:1])[0][0] is Ending.LATER


def test_a_coordinator_that_is_loading_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "_RETRY_S", 0.0)
    assert Coordinator(LOADING, LOADING, 0).open_ids() == ["t"]
    Coordinator(UNAVAILABLE, LOADING, SPREADING, 0).abort(["t"])
    with pytest.raises(KafkaError, match="lists no transactions"):
        Coordinator(53).open_ids()


def test_brokers_that_do_not_answer_put_a_commit_off() -> None:
    nobody = TransactionCoordinators("127.0.0.1:1", {})
    ((ending, reason),) = nobody.commit([KafkaTransaction("t", 1, 0)])
    assert ending is Ending.LATER
    assert "127.0.0.1:1" in reason


def test_how_to_connect_is_said_to_both_clients() -> None:
    assert security({}) == {"security_protocol": "PLAINTEXT"}
    given = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u"}
    with pytest.raises(InvalidProgramError, match=r"client_options lack sasl\.password"):
        security(given)
    given["sasl.password"] = "p"
    assert security(given) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }
    context = security({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"})["ssl_context"]
    assert not context.check_hostname


@pytest.mark.parametrize(
    ("options", "guarantee", "message"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "EXACTLY_ONCE", "not by 'OAUTHBEARER'"),
        ({"transactional.id": "x"}, "EXACTLY_ONCE", "say it with transactional_id_prefix="),
        ({}, "NONE", "takes AT_LEAST_ONCE or EXACTLY_ONCE"),
    ],
)
def test_a_sink_that_cannot_keep_its_promise_is_refused(options: dict[str, str], guarantee: str, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        KafkaSink("host:1", "t", client_options=options, delivery_guarantee=DeliveryGuarantee[guarantee])
