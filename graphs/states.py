"""The state machines of an execution and of a job: one table each.

An execution (one attempt to run one subtask), after Flink's ExecutionState:

    CREATED -> SCHEDULED -> DEPLOYING -> INITIALIZING -> RUNNING -> FINISHED
       |           |            |             |             |
       |           |            +-------------+-------------+--> CANCELING -> CANCELED
       +-----------+-----------------------------------------------------------> CANCELED
    and from every state that is not terminal -> FAILED

A job, after Flink's JobStatus:

    INITIALIZING -> CREATED -> RUNNING -> FINISHED
                                 |  ^
                                 v  |
                               RESTARTING
    from every state that is not terminal -> FAILING -> FAILED, and -> CANCELLING -> CANCELED
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import TypeVar

from flinkray.errors import FlinkrayError
from flinkray.execution import JobStatus


class ExecutionState(enum.Enum):
    """Where one attempt of a subtask is."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    """The task is set up and restores its state."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        return self in (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)

    @property
    def is_deployed(self) -> bool:
        """Whether a slot has the attempt, or is about to get it, and is not asked to end it."""
        return self in (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING)


_E = ExecutionState

TRANSITIONS: Mapping[ExecutionState, frozenset[ExecutionState]] = {
    # Nothing runs before DEPLOYING, so a cancel needs no answer from a worker.
    _E.CREATED: frozenset({_E.SCHEDULED, _E.CANCELED, _E.FAILED}),
    _E.SCHEDULED: frozenset({_E.DEPLOYING, _E.CANCELED, _E.FAILED}),
    _E.DEPLOYING: frozenset({_E.INITIALIZING, _E.CANCELING, _E.FAILED}),
    _E.INITIALIZING: frozenset({_E.RUNNING, _E.CANCELING, _E.FAILED}),
    _E.RUNNING: frozenset({_E.FINISHED, _E.CANCELING, _E.FAILED}),
    _E.CANCELING: frozenset({_E.CANCELED, _E.FAILED}),
    _E.FINISHED: frozenset(),
    _E.CANCELED: frozenset(),
    _E.FAILED: frozenset(),
}

_J = JobStatus

JOB_TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    # A job that cannot even be set up has no execution to wait for: it fails or is cancelled at once.
    _J.INITIALIZING: frozenset({_J.CREATED, _J.FAILING, _J.FAILED, _J.CANCELLING, _J.CANCELED}),
    _J.CREATED: frozenset({_J.RUNNING, _J.FAILING, _J.CANCELLING}),
    _J.RUNNING: frozenset({_J.FINISHED, _J.RESTARTING, _J.FAILING, _J.CANCELLING}),
    _J.RESTARTING: frozenset({_J.RUNNING, _J.FAILING, _J.CANCELLING}),
    _J.FAILING: frozenset({_J.FAILED, _J.CANCELLING}),
    # Something that cannot be recovered may still break while the job is being cancelled.
    _J.CANCELLING: frozenset({_J.CANCELED, _J.FAILING}),
    _J.FAILED: frozenset(),
    _J.CANCELED: frozenset(),
    _J.FINISHED: frozenset(),
}

JOB_ENDS: Mapping[JobStatus, JobStatus] = {
    _J.RUNNING: _J.FINISHED,
    _J.FAILING: _J.FAILED,
    _J.CANCELLING: _J.CANCELED,
}
"""The status of a job whose executions have all ended -> the terminal status that it goes to. A job that is in another
status waits for new executions."""


def as_hindrance(status: JobStatus) -> str:
    """What those are told who want something of a job that does not run."""
    is_over = status.is_terminal or status in (_J.FAILING, _J.CANCELLING)
    return status.name if is_over else f"{status.name}; ask again when it runs"


State = TypeVar("State", ExecutionState, JobStatus)


class IllegalTransition(FlinkrayError):
    """A move that no table has. It means an error in the runtime, not in the program."""

    def __init__(self, subject: str, current: str, target: str, history: tuple[str, ...]) -> None:
        self.subject = subject
        self.current = current
        self.target = target
        self.history = history
        super().__init__(subject, current, target, history)

    def _text(self) -> str:
        road = " -> ".join(self.history) or "nothing before"
        return f"{self.subject} cannot go from {self.current} to {self.target}; the road there: {road}"


def check_transition(subject: str, current: State, target: State, history: Iterable[State]) -> None:
    """Passes if the table of their kind lets `subject` go from `current` to `target`.

    Args:
        history: the states that `subject` has been in, oldest first, `current` being the last.

    Raises:
        IllegalTransition: it does not. Staying in a state is no transition either.
    """
    allowed = TRANSITIONS[current] if isinstance(current, ExecutionState) else JOB_TRANSITIONS[current]
    if target not in allowed:
        raise IllegalTransition(subject, current.name, target.name, tuple(state.name for state in history))
