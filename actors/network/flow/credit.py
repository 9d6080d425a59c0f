"""Credit-based flow control: ledgers of the buffers and bytes that each channel may send. Pure; only the network loop
calls them.

A receiver grants credits, one per free buffer; a sender spends one per data buffer; events cost nothing. So a sender
never has more on its way than its receiver can hold, and no channel can block the connection that it shares. After
Flink's BufferManager and credit-based flow control; a "buffer" here is the right to send one batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from flinkray.errors import PartitionError


class FloatingBuffers:
    """The buffers that the channels of one gate share by need."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.available = capacity
        self._waiting: deque[ReceiverCredit] = deque()

    def take(self) -> bool:
        """Takes one buffer; False: there is none."""
        if self.available == 0:
            return False
        self.available -= 1
        return True

    def wait(self, channel: ReceiverCredit) -> None:
        """Offers the channel the next free buffer, behind those who wait already."""
        self._waiting.append(channel)

    def give_back(self, count: int) -> None:
        """Takes buffers back, and offers them to those who wait. One that needs none any more is passed over, so
        that the buffer reaches a channel that does."""
        self.available += count
        while self.available and self._waiting:
            self.available -= 1
            if not self._waiting.popleft().accept_floating():
                self.available += 1


class ByteBudget:
    """The bytes that a slot may have granted or received and not yet consumed, over all its channels.

    Credits draw on it: a credit is granted only when a batch of the usual size would still fit. A channel whose sender
    has data and nothing that could move gets one credit in any case, so that no channel waits for the others' progress.
    """

    def __init__(self, limit: int, bytes_per_credit: int) -> None:
        self.limit = limit
        self.bytes_per_credit = bytes_per_credit
        self.reserved = 0
        self._waiting: deque[ReceiverCredit] = deque()

    def reserve_credit(self, is_needed: bool) -> bool:
        """Sets bytes for one credit aside, if they are there or the credit is needed whatever it costs."""
        if not is_needed and self.reserved + self.bytes_per_credit > self.limit:
            return False
        self.reserved += self.bytes_per_credit
        return True

    def settle_credit(self, nbytes: int) -> None:
        """A batch has come for a credit: its true size takes the place of what was set aside."""
        self.reserved += nbytes
        self.release(self.bytes_per_credit)

    def wait(self, channel: ReceiverCredit) -> None:
        self._waiting.append(channel)

    def release(self, nbytes: int) -> None:
        self.reserved -= nbytes
        while self._waiting and self.reserved + self.bytes_per_credit <= self.limit:
            self._waiting.popleft().fund_waiting()


class CreditStatistics(Struct, frozen=True):
    """A snapshot of one receiving channel.

    Always exclusive + floating == buffered + outstanding + announceable + unfunded.
    """

    exclusive: int
    floating: int
    """Floating buffers that this channel holds now."""
    buffered: int
    """Data buffers received and not yet consumed."""
    buffered_bytes: int
    outstanding: int
    """Credits that are granted to the sender, and for which no buffer has come."""
    announceable: int
    """Credits that the next message grants."""
    unfunded: int
    """Buffers that are free, but for which the slot's byte budget allows no credit now."""
    backlog: int
    """Data buffers that wait at the sender, as it last said."""


class ReceiverCredit:
    """The buffers of one remote channel, at its receiver.

    The channel wants as many free buffers as the sender has waiting, and its exclusive ones on top. It takes floating
    ones for that while there are any, and waits for them otherwise; a lower backlog returns nothing by itself.

    Args:
        exclusive: buffers that are the channel's own.
        on_credit: called when it is time to announce what there is: at least half of all the channel's buffers.
    """

    def __init__(
        self, exclusive: int, floating: FloatingBuffers, budget: ByteBudget, on_credit: Callable[[], None]
    ) -> None:
        self.exclusive = exclusive
        self._floating = floating
        self._budget = budget
        self._on_credit = on_credit
        self._free_exclusive = exclusive
        self._free_floating = 0
        self._used: deque[tuple[bool, int]] = deque()
        """(is floating, bytes) of the data buffers that wait to be consumed, oldest first."""
        self._used_floating = 0
        self._used_bytes = 0
        self._required = exclusive
        self._outstanding = 0
        self._announceable = 0
        self._unfunded = exclusive
        self._waits_for_floating = False
        self._waits_for_bytes = False
        self.is_released = False

    @property
    def outstanding(self) -> int:
        return self._outstanding

    @property
    def announceable(self) -> int:
        return self._announceable

    def initial_credit(self) -> int:
        """What the request for the subpartition grants; 0 where the slot's bytes are all granted to others."""
        self._fund()
        return self.take_announcement()

    def take_announcement(self) -> int:
        """The credits that the next message grants."""
        granted, self._announceable = self._announceable, 0
        self._outstanding += granted
        return granted

    def on_data(self, nbytes: int) -> None:
        """A data buffer came. Floating buffers are used first, so that they come free first.

        Raises:
            PartitionError: the sender had no credit for it.
        """
        if self._outstanding == 0:
            raise PartitionError("the sender sent a batch without credit")
        self._outstanding -= 1
        is_floating = self._free_floating > 0
        if is_floating:
            self._free_floating -= 1
        else:
            self._free_exclusive -= 1
        self._used.append((is_floating, nbytes))
        self._used_floating += is_floating
        self._used_bytes += nbytes
        self._budget.settle_credit(nbytes)

    def on_backlog(self, backlog: int) -> None:
        """The sender said how many data buffers wait there."""
        self._required = backlog + self.exclusive
        while self._free < self._required:
            if not self._floating.take():
                if not self._waits_for_floating:
                    self._waits_for_floating = True
                    self._floating.wait(self)
                break
            self._add_floating()
        self._fund()  # data that waits may entitle the channel to a credit beyond the byte budget

    def accept_floating(self) -> bool:
        """The pool offers a buffer. False: this channel is released or has enough; offer it to another."""
        self._waits_for_floating = False
        if self.is_released or self._free >= self._required:
            return False
        self._add_floating()
        if self._free < self._required:
            self._waits_for_floating = True
            self._floating.wait(self)
        return True

    def on_consumed(self) -> None:
        """The operator is done with the oldest data buffer."""
        is_floating, nbytes = self._used.popleft()
        self._used_floating -= is_floating
        self._used_bytes -= nbytes
        if is_floating:
            self._floating.give_back(1)
        else:
            self._free_exclusive += 1
            if self._free > self._required and self._free_floating:
                # The exclusive buffer takes the floating one's place, and its credit with it.
                self._free_floating -= 1
                self._floating.give_back(1)
            else:
                self._unfunded += 1
        self._fund()
        self._budget.release(nbytes)

    def fund_waiting(self) -> None:
        """The byte budget has room again."""
        self._waits_for_bytes = False
        self._fund()

    def release(self) -> None:
        """The channel is gone: its floating buffers and its bytes go to the others."""
        if self.is_released:
            return
        self.is_released = True
        floating = self._free_floating + self._used_floating
        nbytes = self._used_bytes + (self._outstanding + self._announceable) * self._budget.bytes_per_credit
        self._used.clear()
        self._free_floating = self._free_exclusive = self._used_floating = self._used_bytes = 0
        self._outstanding = self._announceable = self._unfunded = 0
        self._floating.give_back(floating)
        self._budget.release(nbytes)

    @property
    def _free(self) -> int:
        return self._free_exclusive + self._free_floating

    def _add_floating(self) -> None:
        self._free_floating += 1
        self._unfunded += 1
        self._fund()

    def _fund(self) -> None:
        if self.is_released:
            return
        while self._unfunded and self._budget.reserve_credit(is_needed=self._is_starved):
            self._unfunded -= 1
            self._announceable += 1
        if self._unfunded and not self._waits_for_bytes:
            self._waits_for_bytes = True
            self._budget.wait(self)
        # While the sender may still send, or much is unread, credits wait: so they go in fewer and larger messages.
        if 0 < self._announceable >= self._outstanding + len(self._used):
            self._on_credit()

    @property
    def _is_starved(self) -> bool:
        """Whether data waits at the sender that would wait for ever without another credit."""
        return self._required > self.exclusive and self._outstanding + self._announceable == 0 and not self._used

    def statistics(self) -> CreditStatistics:
        return CreditStatistics(
            exclusive=0 if self.is_released else self.exclusive,
            floating=self._free_floating + self._used_floating,
            buffered=len(self._used),
            buffered_bytes=self._used_bytes,
            outstanding=self._outstanding,
            announceable=self._announceable,
            unfunded=self._unfunded,
            backlog=self._required - self.exclusive,
        )

    def check(self) -> None:
        """Every buffer is in exactly one place, and something can always move."""
        now = self.statistics()
        assert now.exclusive + now.floating == now.buffered + now.outstanding + now.announceable + now.unfunded, now
        assert [self._used_floating, self._used_bytes] == [
            sum(column) for column in zip((0, 0), *self._used, strict=True)
        ], now
        assert self._free == now.outstanding + now.announceable + now.unfunded, now
        assert min(self._free_exclusive, self._free_floating, now.outstanding, now.unfunded) >= 0, now
        assert self.is_released or not self._is_starved, f"nothing can move: {now}"


class SenderCredit:
    """What the sender of one channel may still send."""

    def __init__(self, initial: int) -> None:
        self.granted = initial
        self.spent = 0

    @property
    def available(self) -> int:
        return self.granted - self.spent

    def add(self, count: int) -> None:
        self.granted += count

    def spend(self) -> None:
        """For one data buffer.

        Raises:
            PartitionError: there is none. The sender must look before it takes a buffer from its queue.
        """
        if self.available <= 0:
            raise PartitionError("a data buffer is to be sent without credit")
        self.spent += 1
