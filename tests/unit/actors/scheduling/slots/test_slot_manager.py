"""Which slot goes to which job, and how many TaskExecutors are started for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.protocol.ports import Address, SessionId
from actors.protocol.resources import AllocationId, ResourceProfile, SlotReport, SlotRequest
from actors.scheduling.slots.slot_manager import (
    GIVEN_UP_MS,
    ROOM_TIMEOUT_MS,
    AllocateSlot,
    JobTarget,
    ReleaseTaskExecutor,
    ReportShortage,
    SlotManager,
    SlotManagerCommand,
    StartTaskExecutor,
)
from flinkray.types.records import JobId

CPU = ResourceProfile(1.0)
JOB = JobTarget(JobId("job"), Address("c/job-master"), SessionId("s"))
OTHER = JobTarget(JobId("other"), Address("c/other"), SessionId("t"))

Make = Callable[..., SlotManager]


@pytest.fixture
def make() -> Iterator[Make]:
    """Slot managers, each checked after the test."""
    made: list[SlotManager] = []

    def create(
        slots: int | None = 2, idle_timeout_ms: float = 1_000, releases_without_jobs: bool = False
    ) -> SlotManager:
        made.append(SlotManager("c", slots, CPU, idle_timeout_ms, releases_without_jobs))
        return made[-1]

    yield create
    for manager in made:
        manager.check()


def requests(*labels: str, cpus: float = 1.0) -> list[SlotRequest]:
    return [SlotRequest(ResourceProfile(cpus), label) for label in labels]


def reports(count: int, profile: ResourceProfile = CPU) -> list[SlotReport]:
    return [SlotReport(index, profile) for index in range(count)]


def started(commands: list[SlotManagerCommand]) -> list[Address]:
    return [command.task_executor for command in commands if isinstance(command, StartTaskExecutor)]


def allocated(commands: list[SlotManagerCommand]) -> list[tuple[str, Address, int]]:
    return [
        (command.label, command.task_executor, command.slot_index)
        for command in commands
        if isinstance(command, AllocateSlot)
    ]


def released(commands: list[SlotManagerCommand]) -> list[Address]:
    return [command.task_executor for command in commands if isinstance(command, ReleaseTaskExecutor)]


def test_missing_slots_start_just_as_many_task_executors_as_they_fill(make: Make) -> None:
    manager = make(slots=2)
    assert started(manager.declare(JOB, requests("a", "b", "c"), 0)) == ["c/te-1", "c/te-2"]


def sizes(commands: list[SlotManagerCommand]) -> list[int]:
    return [command.slots for command in commands if isinstance(command, StartTaskExecutor)]


def test_a_worker_gets_the_slots_that_are_needed_where_a_node_has_room_for_them(make: Make) -> None:
    manager = make(slots=None)
    manager.set_room([8.0])
    assert sizes(manager.expect(requests("a", "b"), 0)) == [2]
    # Two are coming; the job needs one more.
    assert sizes(manager.declare(JOB, requests("a", "b", "c"), 1)) == [1]
    allocations = manager.register(Address("c/te-1"), reports(2), 2)
    assert allocated(allocations) == [("a", "c/te-1", 0), ("b", "c/te-1", 1)]


def test_a_worker_is_never_larger_than_what_a_node_has_free(make: Make) -> None:
    manager = make(slots=None)
    manager.set_room([2.5, 4.0, 0.0])
    assert sizes(manager.declare(JOB, requests(*"abcdefgh"), 0)) == [4, 2, 1, 1]


def test_a_worker_has_one_slot_where_nobody_has_told_what_is_free(make: Make) -> None:
    manager = make(slots=None)
    assert sizes(manager.declare(JOB, requests("a", "b"), 0)) == [1, 1]


def test_a_number_of_slots_that_was_asked_for_is_kept_whatever_is_free(make: Make) -> None:
    manager = make(slots=1)
    manager.set_room([8.0])
    assert sizes(manager.declare(JOB, requests("a", "b"), 0)) == [1, 1]


def test_slots_of_other_sizes_get_workers_of_their_own(make: Make) -> None:
    manager = make(slots=None)
    manager.set_room([8.0])
    commands = manager.declare(JOB, [*requests("a", "b"), *requests("big", cpus=3), *requests("c")], 0)
    assert [
        (command.slots, command.profile.cpus) for command in commands if isinstance(command, StartTaskExecutor)
    ] == [
        (3, 1.0),
        (1, 3.0),
    ]


def test_a_large_worker_that_finds_no_room_gives_way_to_small_ones(make: Make) -> None:
    manager = make(slots=None)
    manager.set_room([8.0])
    manager.declare(JOB, requests("a", "b"), 0)
    assert manager.tick(ROOM_TIMEOUT_MS - 1) == []
    commands = manager.tick(ROOM_TIMEOUT_MS)
    assert (released(commands), sizes(commands)) == (["c/te-1"], [1, 1])
    assert manager.is_given_up(Address("c/te-1"))
    # Those wait for as long as it takes.
    assert manager.tick(10 * ROOM_TIMEOUT_MS) == []


def test_the_room_of_a_worker_that_died_is_not_counted_on_and_that_of_one_that_was_released_is(make: Make) -> None:
    manager = make(slots=None, idle_timeout_ms=100)
    manager.set_room([2.0])
    manager.declare(JOB, requests("a", "b"), 0)
    manager.register(Address("c/te-1"), reports(2), 1)
    assert sizes(manager.remove_task_executor(Address("c/te-1"), "kill -9", 2)) == [1, 1]
    manager.set_room([2.0])
    manager.remove_job(JOB.job_id, 3)
    assert sizes(manager.declare(JOB, requests("a", "b"), 4)) == [2]
    manager.remove_job(JOB.job_id, 5)
    assert sizes(manager.declare(JOB, requests("a", "b"), 6)) == [2]


def test_workers_of_an_expected_job_start_before_it_declares_what_it_needs(make: Make) -> None:
    manager = make(slots=1)
    assert started(manager.expect(requests("a", "b"), 0)) == ["c/te-1", "c/te-2"]
    assert manager.register(Address("c/te-1"), reports(1), 1) == []
    commands = manager.declare(JOB, requests("a", "b", "c"), 2)
    assert allocated(commands) == [("a", Address("c/te-1"), 0)]
    assert started(commands) == ["c/te-3"]


def test_what_an_expected_job_turns_out_not_to_need_is_given_up(make: Make) -> None:
    manager = make(slots=1)
    manager.expect(requests("a", "b"), 0)
    assert released(manager.declare(JOB, requests("a"), 1)) == ["c/te-2"]
    assert manager.expect(requests("a", "b"), 2) == []


def test_nothing_waits_for_ever_for_an_expected_job(make: Make) -> None:
    manager = make(slots=1, idle_timeout_ms=1_000)
    manager.expect(requests("a"), 0)
    manager.register(Address("c/te-1"), reports(1), 10)
    assert released(manager.tick(1_010)) == ["c/te-1"]
    assert manager.tick(1_020) == []


def test_a_declaration_is_idempotent(make: Make) -> None:
    manager = make()
    manager.declare(JOB, requests("a"), 0)
    assert manager.declare(JOB, requests("a"), 1) == []


def test_a_slot_that_appears_serves_the_oldest_declaration(make: Make) -> None:
    manager = make(slots=1)
    manager.declare(JOB, requests("a"), 0)
    manager.declare(OTHER, requests("b"), 1)
    assert allocated(manager.register(Address("c/te-2"), reports(1), 2)) == [("a", "c/te-2", 0)]
    assert allocated(manager.register(Address("c/te-1"), reports(1), 3)) == [("b", "c/te-1", 0)]


def test_a_second_registration_of_the_same_worker_changes_nothing(make: Make) -> None:
    manager = make()
    manager.declare(JOB, requests("a"), 0)
    manager.register(Address("c/te-1"), reports(2), 1)
    assert manager.register(Address("c/te-1"), reports(2), 2) == []
    assert manager.overview().free_slots == 1


def test_a_worker_that_did_not_listen_is_believed_what_it_has_when_it_registers_again(make: Make) -> None:
    manager = make()
    manager.declare(JOB, requests("a", "b"), 0)
    former = manager.register(Address("c/te-1"), reports(2), 1, registration=1)
    assert isinstance(former[0], AllocateSlot)
    # It has heard of one of the two.
    held = SlotReport(0, CPU, former[0].allocation_id, JOB.job_id, "a")
    again = manager.register(Address("c/te-1"), [held, SlotReport(1, CPU)], 2, registration=2)
    assert allocated(again) == [("b", "c/te-1", 1)]
    assert manager.register(Address("c/te-1"), reports(2), 3, registration=1) == []
    assert manager.overview().free_slots == 0


def test_the_slots_of_each_worker_show_who_has_them(make: Make) -> None:
    manager = make()
    manager.declare(JOB, requests("a"), 0)
    manager.register(Address("c/te-1"), reports(2), 1)
    shown = manager.reports()
    assert list(shown) == ["c/te-1"]
    assert [(slot.slot_index, slot.job_id, slot.label) for slot in shown[Address("c/te-1")]] == [
        (0, JOB.job_id, "a"),
        (1, None, ""),
    ]


def test_what_a_job_had_before_the_resource_manager_was_replaced_is_not_allocated_again(make: Make) -> None:
    manager = make()
    held = SlotReport(0, CPU, AllocationId("job-1-former"), JOB.job_id, "a")
    manager.register(Address("c/te-1-former"), [held, SlotReport(1, CPU)], 0, registration=3)
    assert manager.declare(JOB, requests("a"), 1) == []
    assert manager.overview().free_slots == 1


def test_idle_workers_of_a_job_that_is_yet_to_register_are_kept_for_a_while(make: Make) -> None:
    manager = make(releases_without_jobs=True)
    assert manager.register(Address("c/te-1-former"), reports(2), 0) == []
    assert allocated(manager.declare(JOB, requests("a", "b"), 10)) != []
    assert released(manager.remove_job(JOB.job_id, 20)) == []


def test_names_and_allocations_of_another_life_are_others() -> None:
    lives = [SlotManager("c", 1, CPU, 1_000, life=life) for life in ("", "1a", "2b")]
    names = [started(manager.declare(JOB, requests("a"), 0))[0] for manager in lives]
    assert names == ["c/te-1", "c/te-1-1a", "c/te-1-2b"]
    allocations = []
    for manager, name in zip(lives, names, strict=True):
        (allocation,) = manager.register(name, reports(1), 1)
        assert isinstance(allocation, AllocateSlot)
        allocations.append(allocation.allocation_id)
    assert allocations == ["job-1", "job-1-1a", "job-1-2b"]


def test_a_freed_slot_goes_to_the_job_that_waits_for_it(make: Make) -> None:
    manager = make(slots=1)
    manager.declare(JOB, requests("a"), 0)
    (allocation,) = manager.register(Address("c/te-1"), reports(1), 1)
    assert isinstance(allocation, AllocateSlot)
    manager.declare(OTHER, requests("b"), 2)
    manager.remove_job(JOB.job_id, 3)
    commands = manager.free_slot(Address("c/te-1"), 0, allocation.allocation_id, 4)
    assert allocated(commands) == [("b", "c/te-1", 0)]
    assert released(commands) == ["c/te-2"]  # started for b, and not needed before it has even come


def test_a_report_about_a_past_allocation_is_ignored(make: Make) -> None:
    manager = make()
    manager.declare(JOB, requests("a"), 0)
    manager.register(Address("c/te-1"), reports(2), 1)
    assert manager.free_slot(Address("c/te-1"), 0, AllocationId("another"), 2) == []
    assert manager.overview().free_slots == 1


def test_a_lost_slot_is_replaced(make: Make) -> None:
    manager = make(slots=1)
    manager.declare(JOB, requests("a"), 0)
    manager.register(Address("c/te-1"), reports(1), 1)
    assert started(manager.remove_task_executor(Address("c/te-1"), "kill -9", 2)) == ["c/te-2"]


def test_a_refused_allocation_is_tried_elsewhere(make: Make) -> None:
    manager = make(slots=1)
    manager.declare(JOB, requests("a"), 0)
    (allocation,) = manager.register(Address("c/te-1"), reports(1), 1)
    assert isinstance(allocation, AllocateSlot)
    taken = SlotReport(0, CPU, AllocationId("older"), OTHER.job_id, "b")
    commands = manager.refuse_allocation(Address("c/te-1"), allocation.allocation_id, taken, 2)
    assert started(commands) == ["c/te-2"]


def test_a_request_larger_than_a_slot_gets_a_worker_of_its_size(make: Make) -> None:
    manager = make(slots=2)
    commands = manager.declare(JOB, requests("big", cpus=3), 0)
    assert commands == [StartTaskExecutor(Address("c/te-1"), 1, 2, ResourceProfile(3))]


def test_what_counts_is_slots_and_not_their_labels(make: Make) -> None:
    manager = make(slots=2)
    manager.declare(JOB, requests("a", "b"), 0)
    manager.register(Address("c/te-1"), reports(2), 1)
    # The job holds two slots, and uses one of them for another request now.
    assert manager.declare(JOB, requests("a", "c"), 2) == []


def test_an_idle_worker_is_released_after_its_timeout(make: Make) -> None:
    manager = make(slots=1, idle_timeout_ms=1_000)
    manager.declare(JOB, requests("a"), 0)
    (allocation,) = manager.register(Address("c/te-1"), reports(1), 10)
    assert isinstance(allocation, AllocateSlot)
    manager.remove_job(JOB.job_id, 20)
    manager.free_slot(Address("c/te-1"), 0, allocation.allocation_id, 30)
    assert released(manager.tick(1_029)) == []
    assert released(manager.tick(1_030)) == ["c/te-1"]


def test_a_cluster_for_one_job_releases_idle_workers_with_it(make: Make) -> None:
    manager = make(slots=1, releases_without_jobs=True)
    manager.declare(JOB, requests("a"), 0)
    (allocation,) = manager.register(Address("c/te-1"), reports(1), 10)
    assert isinstance(allocation, AllocateSlot)
    assert released(manager.remove_job(JOB.job_id, 20)) == []
    assert released(manager.free_slot(Address("c/te-1"), 0, allocation.allocation_id, 30)) == ["c/te-1"]


def test_a_job_that_can_never_fit_is_told_once_and_after_a_grace(make: Make) -> None:
    manager = make(slots=2)
    manager.set_total(3.0, False, 0)
    manager.declare(JOB, requests("a", "b", "c"), 0)
    assert manager.tick(2_999) == []
    (shortage,) = manager.tick(3_000)
    # Two workers of two slots each: a worker is all or nothing.
    assert shortage == ReportShortage(JOB, "its TaskExecutors take 4 CPUs, and the whole cluster has 3")
    assert manager.tick(4_000) == []


def test_a_job_that_takes_more_memory_than_there_is_is_told_so(make: Make) -> None:
    manager = make(slots=1)
    manager.set_total(64.0, False, 0, total_memory_bytes=3 << 30)
    profile = ResourceProfile(1.0, 2 << 30)
    manager.declare(JOB, [SlotRequest(profile, "a")], 0)
    assert manager.tick(3_000) == []
    manager.declare(JOB, [SlotRequest(profile, "a"), SlotRequest(profile, "b")], 3_000)
    (shortage,) = manager.tick(6_000)
    reason = "its TaskExecutors take 4096 MiB of memory, and the whole cluster has 3072 MiB"
    assert shortage == ReportShortage(JOB, reason)
    assert str(manager.overview()).endswith("64 CPU(s) in the whole cluster, and 3072 MiB of memory")


def test_a_job_that_only_waits_for_another_one_is_not_told_so(make: Make) -> None:
    manager = make(slots=1)
    manager.set_total(1.0, False, 0)
    manager.declare(JOB, requests("a"), 0)
    manager.declare(OTHER, requests("b"), 0)
    assert manager.tick(10_000) == []


def test_workers_that_never_come_up_fail_the_jobs_that_wait(make: Make) -> None:
    manager = make(slots=1)
    (start,) = manager.declare(JOB, requests("a"), 0)
    for _ in range(2):
        assert isinstance(start, StartTaskExecutor)
        (start,) = manager.remove_task_executor(start.task_executor, "no such module", 1)
    assert isinstance(start, StartTaskExecutor)
    shortage, start = manager.remove_task_executor(start.task_executor, "no such module", 2)
    reason = "3 TaskExecutors in a row died before they could register; the last: no such module"
    assert shortage == ReportShortage(JOB, reason, is_about_starts=True)
    assert isinstance(start, StartTaskExecutor)
    assert released(manager.declare(JOB, [], 3)) == [start.task_executor]


def test_a_job_that_did_not_wait_when_workers_died_is_told_when_as_many_have_died_again(make: Make) -> None:
    manager = make(slots=1)
    commands = manager.declare(JOB, requests("a"), 0)
    told = []
    for death in range(7):
        commands = manager.remove_task_executor(*started(commands), "no such module", death)
        if any(isinstance(command, ReportShortage) for command in commands):
            told.append(death)
    assert told == [2, 5]


def test_a_request_that_its_worker_did_not_hear_is_made_again_for_the_same_slot(make: Make) -> None:
    manager = make(slots=2)
    manager.declare(JOB, requests("a"), 0)
    (lost,) = manager.register(Address("c/te-1"), reports(2), 1)
    assert isinstance(lost, AllocateSlot)
    (again,) = manager.repeat_allocation(Address("c/te-1"), 0, lost.allocation_id, 2)
    assert isinstance(again, AllocateSlot)
    assert (again.slot_index, again.job, again.label) == (0, JOB, "a")
    assert again.allocation_id != lost.allocation_id
    # The worker has heard of the first one after all, and is believed.
    held = SlotReport(0, CPU, lost.allocation_id, JOB.job_id, "a")
    assert manager.refuse_allocation(Address("c/te-1"), again.allocation_id, held, 3) == []
    assert manager.repeat_allocation(Address("c/te-1"), 0, again.allocation_id, 4) == []
    assert manager.overview().free_slots == 1


def test_a_request_that_nobody_heard_is_made_for_the_job_master_that_there_is_now(make: Make) -> None:
    manager = make(slots=1)
    manager.declare(JOB, requests("a"), 0)
    (lost,) = manager.register(Address("c/te-1"), reports(1), 1)
    assert isinstance(lost, AllocateSlot)
    successor = JobTarget(JOB.job_id, Address("c/job-master.2"), SessionId("s2"))
    manager.remove_job(JOB.job_id, 2, is_lost=True)
    manager.declare(successor, requests("a"), 3)
    (again,) = manager.repeat_allocation(Address("c/te-1"), 0, lost.allocation_id, 4)
    assert isinstance(again, AllocateSlot)
    assert again.job == successor


def test_a_slot_that_its_worker_never_heard_of_is_free_when_the_job_is_over(make: Make) -> None:
    manager = make(slots=1)
    manager.declare(JOB, requests("a"), 0)
    (lost,) = manager.register(Address("c/te-1"), reports(1), 1)
    assert isinstance(lost, AllocateSlot)
    manager.remove_job(JOB.job_id, 2)
    assert manager.repeat_allocation(Address("c/te-1"), 0, lost.allocation_id, 3) == []
    assert manager.overview().free_slots == 1
    manager.remove_task_executor(Address("c/te-1"), "kill -9", 4)
    assert manager.repeat_allocation(Address("c/te-1"), 0, lost.allocation_id, 5) == []


def test_a_worker_that_may_not_know_that_it_is_registered_is_believed_when_it_registers_again(make: Make) -> None:
    manager = make(slots=1)
    manager.declare(JOB, requests("a"), 0)
    manager.register(Address("c/te-1"), reports(1), 1, registration=1)
    manager.doubt_registration(Address("c/te-1"), 1)
    manager.doubt_registration(Address("c/te-1"), 1)
    assert allocated(manager.register(Address("c/te-1"), reports(1), 2, registration=1)) == [("a", "c/te-1", 0)]
    assert manager.register(Address("c/te-1"), reports(1), 3, registration=1) == []


def test_a_worker_that_was_given_up_before_it_came_is_not_remembered_for_ever(make: Make) -> None:
    manager = make(slots=1)
    manager.declare(JOB, requests("a"), 0)
    manager.declare(JOB, [], 1)
    manager.tick(GIVEN_UP_MS)
    assert manager.is_given_up(Address("c/te-1"))
    manager.tick(1 + GIVEN_UP_MS)
    assert not manager.is_given_up(Address("c/te-1"))


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_no_request_waits_beside_a_slot_that_fits(seed: int) -> None:
    chance = random.Random(seed)
    fixed = chance.choice([None, 1, 2, 3])
    manager = SlotManager("c", fixed, CPU, 100, chance.random() < 0.5)
    largest = 1.0  # CPUs that any node has had, as far as it was told
    now = 0
    jobs = [JOB, OTHER]
    coming: list[StartTaskExecutor] = []
    held: list[AllocateSlot] = []

    def follow(commands: list[SlotManagerCommand]) -> None:
        for command in commands:
            match command:
                case StartTaskExecutor():
                    coming.append(command)
                    assert command.slots == (fixed or command.slots)
                    assert fixed or command.slots == 1 or command.slots * command.profile.cpus <= largest
                case AllocateSlot():
                    held.append(command)
                case ReleaseTaskExecutor():
                    coming[:] = [start for start in coming if start.task_executor != command.task_executor]
                    assert all(allocation.task_executor != command.task_executor for allocation in held)

    for _ in range(300):
        now += 1 if chance.random() < 0.98 else int(ROOM_TIMEOUT_MS)
        event = chance.randrange(7)
        if event == 0:
            labels = chance.sample("abcdef", chance.randint(0, 4))
            follow(manager.declare(chance.choice(jobs), requests(*labels, cpus=chance.choice([1, 2])), now))
        elif event == 1:
            follow(manager.remove_job(chance.choice(jobs).job_id, now))
        elif event == 2 and coming:
            start = coming.pop(chance.randrange(len(coming)))
            follow(manager.register(start.task_executor, reports(start.slots, start.profile), now))
        elif event == 3 and held:
            freed = held.pop(chance.randrange(len(held)))
            follow(manager.free_slot(freed.task_executor, freed.slot_index, freed.allocation_id, now))
        elif event == 4 and held and chance.random() < 0.3:
            victim = chance.choice(held).task_executor
            held[:] = [allocation for allocation in held if allocation.task_executor != victim]
            follow(manager.remove_task_executor(victim, "kill -9", now))
        elif event == 5:
            room = [chance.choice([0.0, 0.5, 1.0, 3.0, 5.0]) for _ in range(chance.randint(0, 3))]
            largest = max([largest, *room])
            manager.set_room(room)
        else:
            follow(manager.tick(now))
        manager.check()


def test_a_task_executor_that_comes_costs_no_look_at_each_slot_for_each_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager = SlotManager("c", 1, CPU, 1_000)
    coming = started(manager.declare(JOB, requests(*map(str, range(60))), 0))
    looks = 0

    def is_free(slot: Any) -> bool:
        nonlocal looks
        looks += 1
        return slot.allocation_id is None

    monkeypatch.setattr("actors.scheduling.slots.slot_manager._TaskExecutorSlot.is_free", property(is_free))
    for address in coming:
        assert len(manager.register(address, reports(1), 1)) == 1
    assert looks < 60 * 200
    manager.check()
