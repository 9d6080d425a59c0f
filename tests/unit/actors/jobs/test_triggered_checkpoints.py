"""Which checkpoint serves who has asked for one."""

from __future__ import annotations

from actors.jobs.triggered_checkpoints import REMEMBERED, TriggeredCheckpoints
from actors.protocol.client_requests import TriggeredCheckpoint
from flinkray.state.checkpoint_statistics import CheckpointKind, CheckpointStatistics, CheckpointStatus


def ended(
    number: int,
    status: CheckpointStatus = CheckpointStatus.COMPLETED,
    kind: CheckpointKind = CheckpointKind.CHECKPOINT,
    failure: str | None = None,
) -> CheckpointStatistics:
    return CheckpointStatistics(number, kind, status, 0, 1, ended_ms=1, failure=failure)


def test_it_is_the_first_that_begins_from_then_on_and_ends() -> None:
    requests = TriggeredCheckpoints()
    requests.add("mine", 5)
    under_way = CheckpointStatistics(6, CheckpointKind.CHECKPOINT, CheckpointStatus.IN_PROGRESS, 0, 1)
    requests.look([under_way, ended(5, kind=CheckpointKind.SAVEPOINT), ended(4)])
    assert requests.of("mine") == TriggeredCheckpoint()
    assert requests.are_open
    requests.look([ended(7), ended(6), ended(4)])
    assert requests.of("mine") == TriggeredCheckpoint(checkpoint_id=6)
    assert not requests.are_open
    requests.look([])
    assert requests.of("mine") == TriggeredCheckpoint(checkpoint_id=6), "it is known after it has left the history"


def test_a_failure_is_told() -> None:
    requests = TriggeredCheckpoints()
    requests.add("mine", 1)
    requests.look([ended(1, CheckpointStatus.FAILED, failure="it took too long")])
    assert requests.of("mine") == TriggeredCheckpoint(failure="it took too long")


def test_only_the_last_requests_are_known() -> None:
    requests = TriggeredCheckpoints()
    for number in range(REMEMBERED + 1):
        requests.add(str(number), 1)
    assert requests.of("0") is None
    assert requests.of("1") == TriggeredCheckpoint()
    assert requests.of("never") is None
    requests.look([ended(1)])
    assert not requests.are_open
