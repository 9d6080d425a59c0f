"""What `open` gets in functions that are a source: where they run, and nothing else."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from flinkray.errors import InvalidProgramError


class Subtask(Protocol):
    """A reader's context."""

    @property
    def subtask_index(self) -> int: ...

    @property
    def parallelism(self) -> int: ...

    @property
    def operator_name(self) -> str: ...


class SubtaskRuntimeContext:
    """A RuntimeContext that knows the subtask; state, files and accumulators need an operator."""

    def __init__(self, subtask: Subtask) -> None:
        self._subtask = subtask

    def get_task_name(self) -> str:
        return self._subtask.operator_name

    def get_task_name_with_subtasks(self) -> str:
        return f"{self._subtask.operator_name} ({self._subtask.subtask_index + 1}/{self._subtask.parallelism})"

    def get_number_of_parallel_subtasks(self) -> int:
        return self._subtask.parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._subtask.subtask_index

    def get_max_number_of_parallel_subtasks(self) -> int:
        self._refuse("the number of key groups")

    def get_attempt_number(self) -> int:
        self._refuse("the attempt number")

    def get_job_name(self) -> str:
        self._refuse("the job's name")

    def get_cached_file(self, name: str) -> str:
        self._refuse(f"cached file {name!r}")

    def get_job_parameter(self, key: str, default_value: str) -> str:
        self._refuse(f"job parameter {key!r}")

    def get_metrics_group(self) -> Any:
        self._refuse("a group of metrics")

    def add_accumulator(self, name: str, initial: int | float = 0) -> Any:
        self._refuse(f"accumulator {name!r}")

    def get_state(self, descriptor: Any) -> Any:
        self._refuse(f"state {descriptor.name!r}")

    def get_list_state(self, descriptor: Any) -> Any:
        self._refuse(f"state {descriptor.name!r}")

    def get_map_state(self, descriptor: Any) -> Any:
        self._refuse(f"state {descriptor.name!r}")

    def get_reducing_state(self, descriptor: Any) -> Any:
        self._refuse(f"state {descriptor.name!r}")

    def get_aggregating_state(self, descriptor: Any) -> Any:
        self._refuse(f"state {descriptor.name!r}")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidProgramError(
            f"operator {self._subtask.operator_name!r}: {what} is not available to a source function; "
            "use map or process after it"
        )
