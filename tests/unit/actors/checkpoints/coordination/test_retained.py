"""Completed checkpoints: which are kept, and when a shared file is used by none."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.checkpoints.coordination.retained import CompletedCheckpoints, Deletions
from flinkray.execution import JobStatus
from graphs.job_graph import CheckpointRetention
from tests.support.checkpoints import shared_file, sharing

NEVER, ON_FAILURE, ON_CANCELLATION = CheckpointRetention


def ids(checkpoints: Iterable[CompletedCheckpoint]) -> list[int]:
    return [checkpoint.checkpoint_id for checkpoint in checkpoints]


def plain(deletions: Deletions) -> tuple[list[int], set[str]]:
    paths = [file.path for file in deletions.files]
    assert len(paths) == len(set(paths))
    return ids(deletions.checkpoints), set(paths)


def test_the_newest_are_retained_and_older_ones_go() -> None:
    store = CompletedCheckpoints(2)
    assert [plain(store.add(sharing(n, [f"s{n}"]))) for n in (1, 2)] == [([], set()), ([], set())]
    assert plain(store.add(sharing(3, ["s2", "s3"]))) == ([1], {"s1"})
    assert plain(store.add(sharing(4, ["s3"]))) == ([2], set())
    assert plain(store.add(sharing(5, ["s3"]))) == ([3], {"s2"})
    assert (store.latest is not None and store.latest.checkpoint_id, ids(store.newest_first)) == (5, [5, 4])


def test_one_that_completes_after_a_newer_one_does_not_replace_it() -> None:
    store = CompletedCheckpoints(1)
    store.add(sharing(2, ["a"]))
    assert plain(store.add(sharing(1, ["a", "b"]))) == ([1], {"b"})
    assert ids(store.newest_first) == [2]


def test_savepoints_are_offered_never_deleted_and_do_not_count() -> None:
    store = CompletedCheckpoints(1)
    store.add(sharing(1, ["a"]))
    assert plain(store.add(sharing(2, ["a"], is_savepoint=True))) == ([], set())
    assert ids(store.newest_first) == [2, 1]
    assert plain(store.add(sharing(3, []))) == ([1], set()), "the file of a savepoint stays"
    assert ids(store.newest_first) == [3, 2]
    assert plain(store.at_job_end(JobStatus.FINISHED, NEVER)) == ([3], set())


def test_what_a_job_started_from_is_the_oldest_and_stays_whatever_its_id() -> None:
    store = CompletedCheckpoints(1)
    assert store.latest is None
    store.start_from(sharing(41, ["old"]))
    assert ids(store.newest_first) == [41]
    store.add(sharing(1, ["old", "new"]))
    assert ids(store.newest_first) == [1, 41]
    assert plain(store.add(sharing(2, []))) == ([1], {"new"})
    assert plain(store.at_job_end(JobStatus.CANCELED, NEVER)) == ([2], set())
    assert ids(store.newest_first) == [41]


def test_a_file_of_a_pending_checkpoint_is_not_deleted_under_it() -> None:
    store = CompletedCheckpoints(1)
    store.add(sharing(1, ["a", "b"]))
    store.register(3, [shared_file("a")])
    assert plain(store.add(sharing(2, []))) == ([1], {"b"})
    assert plain(store.abandon(3)) == ([], {"a"})
    assert plain(store.abandon(3)) == ([], set())


def test_what_comes_after_a_checkpoint_was_abandoned_goes_unless_it_is_used() -> None:
    store = CompletedCheckpoints(1)
    store.add(sharing(1, ["a"]))
    store.register(2, [shared_file("a")])
    store.abandon(2)
    store.register(2, [shared_file("a"), shared_file("late")])
    assert plain(store.abandon(2)) == ([], {"late"})


def test_what_tasks_wrote_for_a_checkpoint_and_it_does_not_use_goes_with_its_completion() -> None:
    store = CompletedCheckpoints(1)
    store.register(1, [shared_file("used"), shared_file("not")])
    assert plain(store.add(sharing(1, ["used"]))) == ([], {"not"})


def test_a_checkpoint_is_added_once() -> None:
    store = CompletedCheckpoints(1)
    store.add(sharing(1, []))
    with pytest.raises(ValueError, match="checkpoint 1 is in the store already"):
        store.add(sharing(1, []))


def test_one_that_cannot_be_read_is_passed_over_and_goes_with_the_next() -> None:
    store = CompletedCheckpoints(2)
    for n in (1, 2):
        store.add(sharing(n, [f"s{n}"]))
    store.set_aside(sharing(2, ["s2"]))
    assert ids(store.newest_first) == [1]
    assert plain(store.add(sharing(3, []))) == ([2], {"s2"})
    assert ids(store.newest_first) == [3, 1]


def test_what_stays_are_the_retained_the_unreadable_and_that_which_the_user_named() -> None:
    store = CompletedCheckpoints(2)
    initial, first, second, third = (sharing(each, []) for each in (41, 42, 43, 44))
    store.start_from(initial)
    for checkpoint in (first, second, third):
        store.add(checkpoint)
    store.add(sharing(45, [], is_savepoint=True))
    store.set_aside(third)
    assert store.directories == (second.directory, third.directory, initial.directory)
    store.at_job_end(JobStatus.FINISHED, NEVER)
    assert store.directories == (initial.directory,)


def test_savepoints_that_were_set_aside_are_left_alone() -> None:
    store = CompletedCheckpoints(1)
    initial, savepoint = sharing(1, ["i"]), sharing(1, ["s"], is_savepoint=True)
    store.start_from(initial)
    store.add(savepoint)
    store.set_aside(savepoint)
    assert store.newest_first == (initial,)
    store.set_aside(initial)
    assert store.latest is None
    assert plain(store.at_job_end(JobStatus.FINISHED, NEVER)) == ([], set())


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELED])
def test_a_job_that_could_go_on_leaves_its_last_checkpoint_whatever_its_retention(status: JobStatus) -> None:
    store = CompletedCheckpoints(3)
    for number in (1, 2, 3):
        store.add(sharing(number, ["all", f"{number}"]))
    store.add(sharing(4, [], is_savepoint=True))
    store.set_aside(sharing(3, ["all", "3"]))
    assert plain(store.at_job_end(status, NEVER, keeps_last=True)) == ([1, 3], {"1", "3"})
    store.check()


@pytest.mark.parametrize(
    ("status", "retention", "is_kept"),
    [
        (JobStatus.FINISHED, NEVER, False),
        (JobStatus.FINISHED, ON_FAILURE, False),
        (JobStatus.FINISHED, ON_CANCELLATION, False),
        (JobStatus.FAILED, NEVER, False),
        (JobStatus.FAILED, ON_FAILURE, True),
        (JobStatus.FAILED, ON_CANCELLATION, True),
        (JobStatus.CANCELED, NEVER, False),
        (JobStatus.CANCELED, ON_FAILURE, False),
        (JobStatus.CANCELED, ON_CANCELLATION, True),
    ],
)
def test_the_end_of_a_job_leaves_what_its_retention_says(
    status: JobStatus, retention: CheckpointRetention, is_kept: bool
) -> None:
    store = CompletedCheckpoints(2)
    for n in (1, 2):
        store.add(sharing(n, ["a", f"s{n}"]))
    store.register(3, [shared_file("a"), shared_file("pending")])
    expected = ([], {"pending"}) if is_kept else ([1, 2], {"a", "s1", "s2", "pending"})
    assert plain(store.at_job_end(status, retention)) == expected
    store.check()
    assert plain(store.at_job_end(status, retention)) == ([], set())


@pytest.mark.parametrize("seed", range(200))
def test_a_shared_file_goes_exactly_when_nothing_uses_it_any_more(seed: int) -> None:
    """Against a model that knows all users of all files, and looks at all of them after every step."""
    rng = random.Random(seed)
    retained = rng.randrange(1, 4)
    store = CompletedCheckpoints(retained)
    files: set[str] = {f"file {n}" for n in range(4)}
    deleted: set[str] = set()
    live: dict[int, CompletedCheckpoint] = {}
    aside: set[int] = set()
    pending: dict[int, set[str]] = {}
    users_own: set[str] = set()
    if rng.random() < 0.3:
        initial = sharing(rng.randrange(50), {"initial 1", "initial 2"})
        users_own |= {"initial 1", "initial 2"}
        files |= users_own
        store.start_from(initial)

    def used_by(checkpoint: CompletedCheckpoint) -> set[str]:
        return {file.path for file in checkpoint.shared_files()}

    def used() -> set[str]:
        return users_own.union(*pending.values(), *(used_by(each) for each in live.values()))

    next_id = 1
    for step in range(60):
        before = used()
        match rng.choice(["trigger", "acknowledge", "acknowledge", "complete", "complete", "abandon", "late", "aside"]):
            case "trigger":
                pending[next_id] = set()
                next_id += 1
                continue
            case "acknowledge" if pending:
                checkpoint_id = rng.choice(sorted(pending))
                new = f"file {seed} {step}"
                files.add(new)
                # Tasks use again what is there, or upload; never what is gone.
                there = sorted(files - deleted)
                taken = {*rng.sample(there, k=min(len(there), rng.randrange(3))), new}
                store.register(checkpoint_id, [shared_file(path) for path in taken])
                pending[checkpoint_id] |= taken
                continue
            case "complete" if pending:
                checkpoint_id = rng.choice(sorted(pending))
                acknowledged = pending.pop(checkpoint_id)
                kept = set(rng.sample(sorted(acknowledged), k=rng.randrange(len(acknowledged) + 1)))
                is_savepoint = rng.random() < 0.2
                added = sharing(checkpoint_id, kept, is_savepoint)
                before |= acknowledged
                if is_savepoint:
                    users_own |= kept
                else:
                    live[checkpoint_id] = added
                readable = sorted(set(live) - aside)
                doomed = set(live) - set(readable[-retained:])
                given = store.add(added)
                expected = sorted(doomed)
                live = {id: each for id, each in live.items() if id not in doomed}
                aside -= doomed
            case "abandon" if pending:
                checkpoint_id = rng.choice(sorted(pending))
                before |= pending.pop(checkpoint_id)
                given, expected = store.abandon(checkpoint_id), []
            case "late":
                late = {f"late {seed} {step}", *rng.sample(sorted(used()), k=min(1, len(used())))}
                files |= late
                before |= late
                store.register(next_id + 1_000, [shared_file(path) for path in late])
                given, expected = store.abandon(next_id + 1_000), []
            case "aside" if live:
                checkpoint_id = rng.choice(sorted(live))
                store.set_aside(live[checkpoint_id])
                aside.add(checkpoint_id)
                continue
            case _:
                continue
        store.check()
        checkpoints, paths = plain(given)
        assert checkpoints == expected
        assert paths == before - used(), "exactly what was used before and is not now"
        assert not paths & deleted, "deleted twice"
        deleted |= paths
    status = rng.choice([JobStatus.FINISHED, JobStatus.FAILED])
    retention = rng.choice(list(CheckpointRetention))
    before = used()
    pending.clear()
    if status is JobStatus.FINISHED or retention is NEVER:
        live.clear()
    _, paths = plain(store.at_job_end(status, retention))
    assert paths == before - used()
    assert not paths & deleted
