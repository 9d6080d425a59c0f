"""The ledgers of buffers and bytes."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.network.flow.credit import ByteBudget, FloatingBuffers, ReceiverCredit, SenderCredit
from flinkray.errors import PartitionError

PLENTY = 1 << 30


class Channel:
    """A channel's ledger, with the credits it announces counted."""

    def __init__(self, exclusive: int, floating: FloatingBuffers, budget: ByteBudget | None = None) -> None:
        self.notices = 0
        self.ledger = ReceiverCredit(exclusive, floating, budget or ByteBudget(PLENTY, 1), self._on_credit)
        self.granted = self.ledger.initial_credit()
        self.notices = 0

    def _on_credit(self) -> None:
        self.notices += 1

    def announce(self) -> int:
        """What the next credit message carries."""
        granted = self.ledger.take_announcement()
        self.granted += granted
        return granted

    def receive(self, backlog: int = 0, nbytes: int = 1) -> None:
        self.ledger.on_data(nbytes)
        self.ledger.on_backlog(backlog)


def test_the_first_credit_is_the_exclusive_buffers() -> None:
    assert Channel(2, FloatingBuffers(8)).granted == 2


def test_a_channel_wants_its_backlog_and_its_exclusive_buffers_free() -> None:
    pool = FloatingBuffers(8)
    channel = Channel(2, pool)
    channel.receive(backlog=3)
    assert channel.announce() == 4, "one free exclusive buffer and four floating make 3 + 2"
    assert pool.available == 4


def test_no_floating_buffer_is_taken_without_a_backlog_beyond_the_free_ones() -> None:
    pool = FloatingBuffers(8)
    channel = Channel(2, pool)
    channel.ledger.on_backlog(0)
    assert channel.announce() == 0
    assert pool.available == 8


def test_credit_comes_back_only_when_the_batch_has_been_consumed() -> None:
    channel = Channel(1, FloatingBuffers(0))
    channel.receive()
    assert channel.announce() == 0
    channel.ledger.on_consumed()
    assert channel.announce() == 1


def test_credit_is_announced_when_it_is_half_of_the_buffers() -> None:
    channel = Channel(4, FloatingBuffers(0))
    for _ in range(4):
        channel.receive()
    channel.ledger.on_consumed()
    assert channel.notices == 0
    channel.ledger.on_consumed()
    assert channel.notices == 1
    assert channel.announce() == 2


def test_credit_is_announced_at_once_where_nothing_is_unread_and_the_sender_has_none() -> None:
    channel = Channel(1, FloatingBuffers(0))
    channel.receive()
    channel.ledger.on_consumed()
    assert (channel.notices, channel.announce()) == (1, 1)


def test_data_without_credit_is_refused() -> None:
    channel = Channel(1, FloatingBuffers(0))
    channel.receive()
    with pytest.raises(PartitionError, match="without credit"):
        channel.receive()


def test_a_floating_buffer_goes_back_to_the_pool_when_it_has_been_consumed() -> None:
    pool = FloatingBuffers(1)
    channel = Channel(1, pool)
    channel.ledger.on_backlog(1)
    assert channel.announce() == 1
    channel.receive(backlog=0)
    assert pool.available == 0
    channel.ledger.on_consumed()
    assert pool.available == 1
    assert channel.announce() == 0


def test_a_lower_backlog_returns_nothing_by_itself() -> None:
    pool = FloatingBuffers(4)
    channel = Channel(1, pool)
    channel.ledger.on_backlog(4)
    channel.ledger.on_backlog(0)
    assert pool.available == 0


def test_a_returned_exclusive_buffer_pushes_a_floating_one_back() -> None:
    pool = FloatingBuffers(2)
    channel = Channel(1, pool)
    channel.receive(backlog=1)  # takes the exclusive buffer, then two floating ones
    assert (channel.announce(), pool.available) == (2, 0)
    channel.ledger.on_backlog(0)
    channel.ledger.on_consumed()
    assert pool.available == 1
    assert channel.announce() == 0, "the sender keeps the credit that the floating buffer stood for"
    channel.ledger.check()


def test_a_channel_waits_for_floating_buffers_and_gets_the_next_free_one() -> None:
    pool = FloatingBuffers(1)
    greedy, patient = Channel(1, pool), Channel(1, pool)
    greedy.ledger.on_backlog(5)
    patient.ledger.on_backlog(1)
    greedy.announce()
    greedy.receive(backlog=0)
    assert patient.announce() == 0
    greedy.ledger.on_consumed()
    assert patient.announce() == 1


def test_a_waiting_channel_that_has_enough_lets_the_next_have_the_buffer() -> None:
    pool = FloatingBuffers(1)
    holder, sated, needy = (Channel(1, pool) for _ in range(3))
    for channel in (holder, sated, needy):
        channel.ledger.on_backlog(1)
    sated.ledger.on_backlog(0)
    holder.announce()
    holder.receive(backlog=0)
    holder.ledger.on_consumed()
    assert (sated.announce(), needy.announce()) == (0, 1)


def test_a_released_channel_gives_its_floating_buffers_and_bytes_to_the_others() -> None:
    pool, budget = FloatingBuffers(2), ByteBudget(PLENTY, bytes_per_credit=10)
    leaving, staying = Channel(1, pool, budget), Channel(1, pool, budget)
    leaving.ledger.on_backlog(2)
    leaving.announce()
    leaving.receive(nbytes=100)
    staying.ledger.on_backlog(2)
    leaving.ledger.release()
    leaving.ledger.release()
    assert staying.announce() == 2
    assert budget.reserved == 30
    leaving.ledger.check()


def test_credits_wait_for_the_byte_budget() -> None:
    budget = ByteBudget(limit=30, bytes_per_credit=10)
    first, second = Channel(2, FloatingBuffers(0), budget), Channel(2, FloatingBuffers(0), budget)
    assert (first.granted, second.granted) == (2, 1)
    first.receive(nbytes=10)
    first.ledger.on_consumed()
    assert second.announce() == 1, "it has waited longer than the first"
    assert first.announce() == 0


def test_a_channel_with_data_waiting_gets_one_credit_whatever_the_byte_budget_says() -> None:
    budget = ByteBudget(limit=1, bytes_per_credit=10)
    idle, busy = Channel(2, FloatingBuffers(4), budget), Channel(2, FloatingBuffers(4), budget)
    assert (idle.granted, busy.granted) == (0, 0)
    busy.ledger.on_backlog(3)
    assert (idle.announce(), busy.announce()) == (0, 1)
    busy.receive(backlog=2, nbytes=5)
    assert busy.announce() == 0, "the batch that it holds can still move"
    busy.ledger.on_consumed()
    assert busy.announce() == 1


def test_a_batch_counts_with_its_own_size_once_it_has_come() -> None:
    budget = ByteBudget(limit=1_000, bytes_per_credit=10)
    channel = Channel(1, FloatingBuffers(0), budget)
    assert budget.reserved == 10
    channel.receive(nbytes=400)
    assert budget.reserved == 400
    channel.ledger.on_consumed()
    assert budget.reserved == 10


def test_a_sender_cannot_spend_what_it_was_not_granted() -> None:
    credit = SenderCredit(1)
    credit.spend()
    with pytest.raises(PartitionError, match="without credit"):
        credit.spend()
    credit.add(2)
    assert (credit.available, credit.granted, credit.spent) == (2, 3, 1)


class CreditMachine(RuleBasedStateMachine):
    """Some channels of one gate against senders that behave: data only with credit, backlogs as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = FloatingBuffers(3)
        self.budget = ByteBudget(limit=60, bytes_per_credit=10)
        self.channels = [Channel(exclusive, self.pool, self.budget) for exclusive in (1, 2, 2)]
        self.senders = [SenderCredit(channel.granted) for channel in self.channels]
        self.on_the_way: list[deque[int]] = [deque() for _ in self.channels]
        self.buffered = [0 for _ in self.channels]

    numbers = st.integers(0, 2)

    @rule(number=numbers)
    def announce(self, number: int) -> None:
        self.senders[number].add(self.channels[number].announce())

    @rule(number=numbers, nbytes=st.integers(1, 40))
    def send(self, number: int, nbytes: int) -> None:
        if self.senders[number].available:
            self.senders[number].spend()
            self.on_the_way[number].append(nbytes)

    @rule(number=numbers, backlog=st.integers(0, 6))
    def arrive(self, number: int, backlog: int) -> None:
        if self.on_the_way[number] and not self.channels[number].ledger.is_released:
            self.channels[number].receive(backlog, self.on_the_way[number].popleft())
            self.buffered[number] += 1

    @rule(number=numbers, backlog=st.integers(0, 6))
    def announce_backlog(self, number: int, backlog: int) -> None:
        if not self.channels[number].ledger.is_released:
            self.channels[number].ledger.on_backlog(backlog)

    @rule(number=numbers)
    def consume(self, number: int) -> None:
        if self.buffered[number]:
            self.channels[number].ledger.on_consumed()
            self.buffered[number] -= 1

    @precondition(lambda self: not self.channels[2].ledger.is_released)
    @rule()
    def release_the_last(self) -> None:
        self.channels[2].ledger.release()
        self.senders[2] = SenderCredit(0)
        self.on_the_way[2].clear()
        self.buffered[2] = 0

    @invariant()
    def every_buffer_is_in_one_place(self) -> None:
        held = 0
        for channel, sender, on_the_way, buffered in zip(
            self.channels, self.senders, self.on_the_way, self.buffered, strict=True
        ):
            channel.ledger.check()
            statistics = channel.ledger.statistics()
            assert statistics.outstanding == sender.available + len(on_the_way)
            assert statistics.buffered == buffered
            held += statistics.floating
        assert held + self.pool.available == self.pool.capacity

    @invariant()
    def bytes_reserved_are_those_of_credits_and_buffers(self) -> None:
        expected = 0
        for channel in self.channels:
            statistics = channel.ledger.statistics()
            expected += statistics.buffered_bytes + 10 * (statistics.outstanding + statistics.announceable)
        assert self.budget.reserved == expected

    @invariant()
    def credit_waits_for_bytes_only_while_there_are_none(self) -> None:
        if any(channel.ledger.statistics().unfunded for channel in self.channels):
            assert self.budget.reserved + 10 > self.budget.limit


TestCreditMachine = CreditMachine.TestCase
TestCreditMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
