"""TaskExecutors, and the logs of all processes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from actors.protocol.client_requests import ProcessFigures, TaskExecutorDetails
from actors.protocol.ports import Address
from actors.rest.answers import metrics, task_managers
from actors.rest.asking.call import Call
from actors.rest.asking.masters import Masters
from actors.rest.asking.refusals import Refusal
from actors.rest.handlers.jobs import aggregates_of
from flinkray.rest import task_managers as shapes
from flinkray.rest.cluster import ThreadDump
from flinkray.rest.metrics import AggregatedMetric, Metric
from graphs.states import ExecutionState

_SLOT = re.compile(r"(?P<executor>.+)/slot-(?P<index>\d+)\.\d+")
"""The address of a slot: that of its TaskExecutor, its index, and how many were started before."""


class TaskManagerHandlers:
    """Handlers of routes about TaskExecutors."""

    def __init__(self, masters: Masters) -> None:
        self._masters = masters

    def task_managers(self, _call: Call) -> shapes.TaskManagers:
        executors, tasks = self._masters.task_executors(), self._tasks()
        machines = self._masters.machines([executor.address for executor in executors])
        return shapes.TaskManagers(
            taskmanagers=[
                task_managers.task_manager(each, tasks.get(each.address, {}), _known(machines.get(each.address)))
                for each in executors
            ]
        )

    def task_manager(self, call: Call) -> shapes.TaskManagerDetails:
        executor = self._executor(call)
        tasks = self._tasks().get(executor.address, {})
        return task_managers.details(executor, tasks, self._masters.processes(executor.address))

    def task_manager_metrics(self, call: Call) -> list[Metric]:
        return metrics.listed(self._values(self._executor(call).address), call.list_in_query("get"))

    def metrics_of_task_managers(self, call: Call) -> list[AggregatedMetric]:
        wanted = call.list_in_query("taskmanagers")
        addresses = [executor.address for executor in self._masters.task_executors()]
        known = [each for each in addresses if wanted is None or task_managers.id_of(each) in wanted]
        numbers = [{name: float(value) for name, value in self._values(each).items()} for each in known]
        return metrics.over_several(numbers, call.list_in_query("get"), aggregates_of(call))

    def task_manager_threads(self, call: Call) -> ThreadDump:
        return task_managers.threads(self._masters.threads(self._executor(call).address))

    # -- inside --------------------------------------------------------------------------------------------------

    def _executor(self, call: Call) -> TaskExecutorDetails:
        name = call.parameters["taskmanagerid"]
        found = self._masters.task_executor(task_managers.address_of(name))
        if found is None:
            raise Refusal(404, f"there is no TaskExecutor {name!r}; /taskmanagers has those that there are")
        return found

    def _tasks(self) -> Mapping[str, Mapping[int, int]]:
        """TaskExecutor -> index of a slot -> how many subtasks are in it."""
        found: dict[str, Counter[int]] = {}
        for job in self._masters.all_details():
            for subtask in (each for vertex in job.vertices for each in vertex.subtasks):
                slot = _SLOT.fullmatch(subtask.slot or "")
                if slot is not None and not ExecutionState[subtask.state].is_terminal:
                    found.setdefault(slot["executor"], Counter())[int(slot["index"])] += 1
        return found

    def _values(self, address: Address) -> dict[str, str]:
        return {each.id: str(each.value) for each in task_managers.process_metrics(self._masters.processes(address))}


def _known(figures: ProcessFigures | None) -> Sequence[ProcessFigures]:
    return () if figures is None else (figures,)
