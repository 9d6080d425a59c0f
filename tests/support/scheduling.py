"""A scheduler that a test drives by hand."""

from __future__ import annotations

import random
from typing import Any

from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId, ResourceProfile, SlotOffer
from actors.protocol.task_messages import TaskStateChanged
from actors.scheduling.commands import DeployTask, SchedulerCommand, SubtasksReset
from actors.scheduling.scheduler import Scheduler
from flinkray.errors import ErrorInfo
from flinkray.transformations.partitioning import RescalePartitioner, ShufflePartitioner
from graphs.execution_graph import ExecutionGraph
from graphs.job_graph import JobGraph
from tests.support.control import JOB
from tests.support.graphs import Program

TE = Address("c/te-1")


def random_graph(chance: random.Random) -> JobGraph:
    """A source, and up to five operators that each read some of what comes before; every exchange of any kind."""
    program = Program({"parallelism.default": chance.randint(1, 4), "pipeline.operator-chaining.enabled": False})
    groups = chance.choice([["default"], ["default", "other"]])
    streams = [program.source()]
    for index in range(chance.randint(1, 5)):
        inputs = [
            program.partition(
                chance.choice(streams),
                chance.choice([RescalePartitioner(), ShufflePartitioner()]),
                chance.choice(["PIPELINED", "BATCH", "BATCH"]),
            )
            for _ in range(chance.randint(1, 2))
        ]
        group = chance.choice(groups)
        streams.append(program.map(program.union(*inputs), f"map {index}", slot_sharing_group=group))
    program.sink(streams[-1])
    return program.job_graph()


class Driver:
    """A scheduler, with the commands that it gave and slots to give it."""

    def __init__(self, graph: JobGraph, idle_timeout_ms: int = 100, **settings: Any) -> None:
        self.scheduler = Scheduler(
            ExecutionGraph.from_job_graph(graph), ResourceProfile(1.0), 1_000, idle_timeout_ms, **settings
        )
        self.now = 0
        self.offered = 0

    def commands(self) -> list[SchedulerCommand]:
        self.scheduler.check()
        return self.scheduler.take_commands()

    def deployed(self) -> list[str]:
        """Names of the tasks that were deployed since the last look."""
        return [command.deployment.task_name for command in self.commands() if isinstance(command, DeployTask)]

    def offer(self, *labels: str, task_executor: Address = TE) -> None:
        """One slot for each label; without any, one for everything that is missing."""
        wanted = labels or tuple(request.label for request in self.scheduler.pool.unserved())
        for label in wanted:
            self.offered += 1
            slot = Address(f"{task_executor}/slot-{self.offered}")
            allocation = AllocationId(f"allocation-{self.offered}")
            offer = SlotOffer(allocation, self.offered, slot, ResourceProfile(1.0), label)
            self.scheduler.offer_slots(task_executor, [offer], self.now)

    def report(self, name: str, *states: str, error: ErrorInfo | None = None) -> bool:
        """The task's slot reports these states; whether the last one changed anything."""
        vertices = self.scheduler.graph.vertices.values()
        execution = next(vertex.current for vertex in vertices if vertex.name == name)
        changed = False
        for state in states:
            message = TaskStateChanged(JOB, execution.attempt_id, state, error)
            changed = self.scheduler.change_task_state(message, self.now)
        return changed

    def state(self, name: str) -> str:
        return next(v.current.state.name for v in self.scheduler.graph.vertices.values() if v.name == name)

    @property
    def names(self) -> list[str]:
        return [vertex.name for vertex in self.scheduler.graph.vertices.values()]

    # -- restarts ------------------------------------------------------------------------------------------------

    def fail(self, name: str, error: BaseException | None = None) -> None:
        self.report(name, "FAILED", error=ErrorInfo.of(error or ValueError(f"bad row in {name}")))

    def stop_cancelled(self) -> None:
        """Every task that is being cancelled reports that it has stopped."""
        for name in self.names:
            if self.state(name) == "CANCELING":
                self.report(name, "CANCELED")

    def reset(self) -> SubtasksReset | None:
        """The restart that waits for its answer; other commands since the last look are dropped."""
        found = [command for command in self.commands() if isinstance(command, SubtasksReset)]
        assert len(found) <= 1
        return found[0] if found else None

    def answer(self, reset: SubtasksReset | None) -> list[str]:
        """Answers a restart; names of the tasks that this deploys."""
        assert reset is not None
        self.scheduler.deploy_restarted(reset.restart, self.now)
        return self.deployed()
