"""What readers, writers and source functions may know of the subtask that they run in."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from flinkray.errors import InvalidProgramError, operator_label


class SubtaskContext(Protocol):
    """What both a SourceReaderContext and a SinkWriterContext say. They belong to the task's thread."""

    @property
    def subtask_index(self) -> int:
        """The index of the subtask: 0 to `parallelism` - 1."""

    @property
    def parallelism(self) -> int:
        """The number of subtasks of the operator."""

    @property
    def attempt_number(self) -> int:
        """0 for the first attempt of the subtask, one more after each restart of it."""

    @property
    def operator_name(self) -> str:
        """The operator's name in the program, for errors, logs and metrics."""

    @property
    def job_id(self) -> str:
        """The job's id: 32 hex digits."""

    def count(self, name: str, increase: float = 1) -> None:
        """Adds to a counter among the operator's figures; from any thread, but for one name from one at a time."""

    def now_ms(self) -> int:
        """The task's clock: epoch milliseconds. Use no other, so that tests can drive it."""

    def check_cancelled(self) -> None:
        """Ends the task, from its thread, if the job is cancelled; for loops in which a reader or a writer waits. What
        it raises is no Exception, and is not to be caught."""


def subtask_label(context: SubtaskContext) -> str:
    """How errors and log lines call a subtask: "operator 'fares' (subtask 1 of 2)"."""
    return operator_label(context.operator_name, f"{context.subtask_index + 1} of {context.parallelism}")


class SubtaskRuntimeContext:
    """The RuntimeContext that `open` of a SourceFunction gets: it knows the subtask, and nothing that needs an
    operator, such as state, files or accumulators."""

    def __init__(self, subtask: SubtaskContext) -> None:
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

    def get_state(self, state_descriptor: Any) -> Any:
        self._refuse(f"state {state_descriptor.name!r}")

    def get_list_state(self, state_descriptor: Any) -> Any:
        self._refuse(f"state {state_descriptor.name!r}")

    def get_map_state(self, state_descriptor: Any) -> Any:
        self._refuse(f"state {state_descriptor.name!r}")

    def get_reducing_state(self, state_descriptor: Any) -> Any:
        self._refuse(f"state {state_descriptor.name!r}")

    def get_aggregating_state(self, state_descriptor: Any) -> Any:
        self._refuse(f"state {state_descriptor.name!r}")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidProgramError(
            f"{operator_label(self._subtask.operator_name)}: {what} is not available to a source function; "
            "use map or process after it"
        )
