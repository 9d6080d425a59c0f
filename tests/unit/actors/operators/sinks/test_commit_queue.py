"""The order of commits, whatever is put off, and what a snapshot has meanwhile."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.operators.sinks.commit_queue import CommitQueue, pause_ms
from flinkray.connectors.committer import CommitOutcome, CommitRequest


class Queue(RuleBasedStateMachine):
    """Checkpoints are taken and complete while commits end as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = CommitQueue()
        self.taken = self.complete = 0
        self.prepared: dict[int, list[str]] = {}
        self.settled: list[str] = []
        self.carried: list[str] = []
        self.ever_carried: set[str] = set()
        self.late: list[str] = []
        """What was settled after it had been carried over."""
        self.attempt: list[CommitRequest[str]] = []

    @rule(number=st.integers(0, 3))
    def takes_a_checkpoint(self, number: int) -> None:
        self.taken += 1
        self.prepared[self.taken] = [f"{self.taken}-{index}" for index in range(number)]
        self.queue.add(self.taken, self.prepared[self.taken])

    @precondition(lambda self: self.complete < self.taken)
    @rule(data=st.data())
    def completes_one(self, data: st.DataObject) -> None:
        """Some fail, and are never complete."""
        self.complete = data.draw(st.integers(self.complete + 1, self.taken))
        self.queue.complete(self.complete)

    @precondition(lambda self: not self.attempt)
    @rule()
    def begins(self) -> None:
        self.attempt = self.queue.next()
        carried = [request.committable for request in self.attempt[: len(self.carried)]] if self.attempt else []
        assert carried == (self.carried if self.attempt else [])
        # What was carried over, came again and was put off is with what it came with.
        others = [request for request in self.attempt if request.committable not in self.ever_carried]
        assert len({request.checkpoint_id for request in others}) <= 1
        assert all(request.checkpoint_id <= self.complete for request in self.attempt)

    @precondition(lambda self: self.attempt)
    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        self.carried = []
        for request in self.attempt:
            match data.draw(st.sampled_from(list(CommitOutcome))):
                case CommitOutcome.RETRY_LATER:
                    request.retry_later("busy")
                    continue
                case CommitOutcome.CARRIED_OVER:
                    request.carry_over()
                    self.carried.append(request.committable)
                    self.ever_carried.add(request.committable)
                    continue
                case CommitOutcome.ALREADY_COMMITTED:
                    request.already_committed()
                case CommitOutcome.GIVEN_UP:
                    request.give_up("gone")
            (self.late if request.committable in self.ever_carried else self.settled).append(request.committable)
        outcomes = self.queue.settle(self.attempt)
        assert outcomes == Counter(request.outcome for request in self.attempt)
        self.attempt = []

    @invariant()
    def nothing_is_lost_doubled_or_before_an_earlier_checkpoint(self) -> None:
        left = [each for _, committables in self.queue.committables() for each in committables]
        everything = [each for committables in self.prepared.values() for each in committables]
        assert sorted(self.settled + self.late + left) == sorted(everything)
        checkpoints = [int(each.partition("-")[0]) for each in self.settled]
        assert checkpoints == sorted(checkpoints)
        assert self.queue.pending == len(left)


TestQueue = Queue.TestCase


def test_what_is_put_off_comes_again_without_the_others_and_may_have_changed() -> None:
    queue = CommitQueue()
    queue.add(1, ["a", "b", "c"])
    queue.complete(1)
    first, second, third = queue.next()
    first.retry_later("busy")
    third.retry_later("busy", "c again")
    assert second.outcome is CommitOutcome.COMMITTED
    queue.settle([first, second, third])
    assert [(each.committable, each.attempt) for each in queue.next()] == [("a", 1), ("c again", 1)]


def test_what_is_carried_over_keeps_its_checkpoint_and_comes_with_the_next() -> None:
    queue = CommitQueue()
    queue.add(1, ["a", "b"])
    queue.complete(1)
    first, second = queue.next()
    first.carry_over()
    queue.settle([first, second])
    assert queue.next() == [], "nothing waits for it"
    queue.add(2, ["c"])
    assert list(queue.committables()) == [(1, ["a"]), (2, ["c"])]
    queue.complete(2)
    assert [(each.committable, each.checkpoint_id) for each in queue.next()] == [("a", 1), ("c", 2)]


def test_pauses_grow_up_to_a_bound() -> None:
    assert [pause_ms(attempt) for attempt in (1, 2, 3, 20)] == [100, 200, 400, 10_000]
