"""States and times of attempts, vertices and jobs, as Flink's REST interface shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.protocol.control_messages import SubtaskDetails
from flinkray.execution import JobStatus
from graphs.states import ExecutionState

UNKNOWN = -1

# Flink has these as well, for recoveries that are not here.
EXECUTION_STATES = (*(state.name for state in ExecutionState), "RECONCILING")
JOB_STATUSES = (*(status.name for status in JobStatus), "RECONCILING", "SUSPENDED")

_TERMINAL = frozenset(state.name for state in ExecutionState if state.is_terminal)

# What a task goes through before its end: a dashboard wants the time in each, reached or not.
LIFE = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")

Times = Iterable[tuple[str, int]]


def counts(states: Iterable[str]) -> dict[str, int]:
    """How many are in each state, with all states there are."""
    found = dict.fromkeys(EXECUTION_STATES, 0)
    for state in states:
        found[state] += 1
    return found


def counts_in_list(by_state: Mapping[str, int]) -> dict[str, int]:
    """The same as lists of jobs have it: in small letters, with the total."""
    found = {state.lower(): by_state.get(state, 0) for state in EXECUTION_STATES}
    return {"total": sum(found.values()), **found}


def timestamps(times: Times, states: Iterable[str] = EXECUTION_STATES) -> dict[str, int]:
    """When each state was entered; 0: never."""
    return {**dict.fromkeys(states, 0), **dict(times)}


def lasted(start: int, end: int) -> int:
    """How long that was; no less than nothing where the clocks of two machines differ."""
    return max(0, end - start)


def span(times: Times, now: int) -> tuple[int, int, int]:
    """(start, end, duration) of an attempt: from its deployment, -1 each where it has not come that far."""
    entered = dict(times)
    start = entered.get("DEPLOYING", UNKNOWN)
    end = max((time for state, time in entered.items() if state in _TERMINAL), default=UNKNOWN)
    if start == UNKNOWN:
        return UNKNOWN, end, UNKNOWN
    return start, end, lasted(start, now if end == UNKNOWN else end)


def durations(times: Times, now: int) -> dict[str, int]:
    """How long an attempt was in each state before its end; -1: it has not been there."""
    entered = sorted(times, key=lambda entry: entry[1])
    ends = [time for _, time in (*entered[1:], ("", now))]
    known = {state: lasted(start, end) for (state, start), end in zip(entered, ends, strict=False)}
    return {state: known.get(state, UNKNOWN) for state in LIFE}


def span_of_all(spans: Iterable[tuple[int, int, int]], now: int) -> tuple[int, int, int]:
    """(start, end, duration) of several attempts together: they have ended when all have."""
    known = list(spans)
    start = min((each[0] for each in known if each[0] != UNKNOWN), default=UNKNOWN)
    has_ended = bool(known) and all(end != UNKNOWN for _, end, _ in known)
    end = max(end for _, end, _ in known) if has_ended else UNKNOWN
    if start == UNKNOWN:
        return UNKNOWN, end, UNKNOWN
    return start, end, lasted(start, end if has_ended else now)


def of_vertex(subtasks: Iterable[SubtaskDetails]) -> str:
    """One state for several subtasks, by Flink's order: what went wrong first, then what still runs."""
    states = [subtask.state for subtask in subtasks]
    for decisive in ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "RUNNING"):
        if decisive in states:
            return decisive
    if states and all(state == "FINISHED" for state in states):
        return "FINISHED"
    if "FINISHED" in states:
        return "RUNNING"
    return next((state for state in ("DEPLOYING", "SCHEDULED") if state in states), "CREATED")


def job_span(times: Iterable[tuple[JobStatus, int]], status: JobStatus, now: int) -> tuple[int, int, int]:
    """(start, end, duration) of a job; the end is -1 while it has not ended."""
    entered = [time for _, time in times] or [now]
    end = max(entered) if status.is_terminal else UNKNOWN
    return min(entered), end, lasted(min(entered), now if end == UNKNOWN else end)
