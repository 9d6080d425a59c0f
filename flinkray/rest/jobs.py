"""Jobs: in lists, in detail, and what they are made of. Times are in epoch milliseconds, -1 where not known yet."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from flinkray.rest.figures import IoMetrics

States = dict[str, int]
"""Name of a state -> how many are in it, or when it was entered; 0: never."""


class JobIdWithStatus(Struct, frozen=True, kw_only=True):
    """A job and its status."""

    id: str
    status: str


class JobIds(Struct, frozen=True, kw_only=True):
    """All jobs that are known."""

    jobs: list[JobIdWithStatus]


class JobInList(Struct, frozen=True, kw_only=True, rename="kebab"):
    """A job as a list shows it."""

    jid: str
    name: str
    job_type: str = field(name="jobType")
    scheduler_type: str = field(name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    state: str
    last_modification: int
    tasks: States
    """Execution state in small letters -> subtasks; `total` has all."""
    pending_operators: int


class JobsOverview(Struct, frozen=True, kw_only=True):
    """All jobs that are known, with how they are."""

    jobs: list[JobInList]


class PlanInput(Struct, frozen=True, kw_only=True):
    """What a vertex reads."""

    id: str
    num: int
    exchange: str
    ship_strategy: str


class PlanNode(Struct, frozen=True, kw_only=True):
    """A vertex of the job's graph; `description` has a line for each operator."""

    id: str
    operator: str
    parallelism: int
    operator_strategy: str
    description: str
    optimizer_properties: dict[str, Any]
    inputs: list[PlanInput] | UnsetType = UNSET
    """Left out of sources."""
    job_vertex_id: str | UnsetType = UNSET
    """The same as `id`, in plans of jobs that nobody has submitted: without it Flink's dashboard takes a vertex there
    for one that is yet to be made, and does not show its operators."""


class Plan(Struct, frozen=True, kw_only=True):
    """The job's graph."""

    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class JobPlan(Struct, frozen=True, kw_only=True):
    """The job's graph, by itself."""

    plan: Plan


class VertexInJob(Struct, frozen=True, kw_only=True, rename="kebab"):
    """A vertex, with its subtasks in sum."""

    id: str
    slot_sharing_group_id: str = field(name="slotSharingGroupId")
    name: str
    max_parallelism: int = field(name="maxParallelism")
    parallelism: int
    status: str
    start_time: int
    end_time: int
    duration: int
    tasks: States
    metrics: IoMetrics


class SlotWait(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Slots that a job has asked for and not got."""

    since: int
    needed: int
    missing: int
    resources: str
    """Of the missing ones, for example `2 slot(s) of 1 CPU`."""


class JobDetails(Struct, frozen=True, kw_only=True, rename="kebab"):
    """A job in detail."""

    jid: str
    application_id: str
    name: str
    is_stoppable: bool = field(name="isStoppable")
    state: str
    job_type: str
    scheduler_type: str = field(name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    max_parallelism: int = field(name="maxParallelism")
    now: int
    timestamps: States
    vertices: list[VertexInJob]
    status_counts: States
    """Execution state -> vertices."""
    plan: Plan
    pending_operators: int
    slot_wait: SlotWait | UnsetType = UNSET
    """Left out where the job has all slots that it has asked for. Flink has no such field."""


class JobStatusAnswer(Struct, frozen=True, kw_only=True):
    """The status of a job."""

    status: str


class ExecutionConfiguration(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The options that a job runs under; `user-config` has all that were set, with secrets hidden."""

    restart_strategy: str
    job_parallelism: int
    object_reuse_mode: bool
    user_config: dict[str, str]


class JobConfiguration(Struct, frozen=True, kw_only=True, rename="kebab"):
    """How a job is configured."""

    jid: str
    name: str
    execution_config: ExecutionConfiguration


class Accumulator(Struct, frozen=True, kw_only=True):
    """An accumulator of a job."""

    name: str
    type: str
    value: str


class JobAccumulators(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The accumulators of a job, over all subtasks."""

    job_accumulators: list[Accumulator]
    user_task_accumulators: list[Accumulator]
    serialized_user_task_accumulators: dict[str, Any]


class ConcurrentFailure(Struct, frozen=True, kw_only=True, rename="camel"):
    """A failure, with where it was; what is not known is left out."""

    exception_name: str
    stacktrace: str
    timestamp: int
    failure_labels: dict[str, str]
    task_name: str | UnsetType = UNSET
    endpoint: str | UnsetType = UNSET
    task_manager_id: str | UnsetType = UNSET


class Failure(ConcurrentFailure, frozen=True, kw_only=True, rename="camel"):
    """A failure that ended or restarted the job, with those that came before that was done."""

    concurrent_exceptions: list[ConcurrentFailure]


class ExceptionHistory(Struct, frozen=True, kw_only=True):
    """The last failures, newest first."""

    entries: list[Failure]
    truncated: bool | UnsetType = UNSET
    """Whether more of them are known; left out of applications, which have none."""


class JobExceptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """What failed in a job."""

    exception_history: ExceptionHistory


class JobResultStatus(Struct, frozen=True, kw_only=True):
    """IN_PROGRESS or COMPLETED."""

    id: str


class JobResult(Struct, frozen=True, kw_only=True, rename="kebab"):
    """How a job has ended."""

    id: str
    application_status: str
    accumulator_results: dict[str, str]
    net_runtime: int
    failure_cause: dict[str, str] | UnsetType = UNSET


class ExecutionResult(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Whether a job has ended, and how."""

    status: JobResultStatus
    job_execution_result: JobResult | UnsetType = UNSET


class Parallelism(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The bounds of a vertex's parallelism. A job goes on as it is until it can have as many subtasks as the upper one
    says, so that the lower one needs to be no higher; of a job that runs they are 1, and what it has."""

    lower_bound: int
    upper_bound: int


class VertexRequirements(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a vertex needs."""

    parallelism: Parallelism


class Application(Struct, frozen=True, kw_only=True, rename="kebab"):
    """An application: here each job is one of its own."""

    id: str
    name: str
    start_time: int
    end_time: int
    duration: int
    status: str
    jobs: States


class Applications(Struct, frozen=True, kw_only=True):
    """All applications."""

    applications: list[Application]


class ApplicationDetails(Struct, frozen=True, kw_only=True, rename="kebab"):
    """An application with its job."""

    id: str
    name: str
    status: str
    start_time: int
    end_time: int
    duration: int
    timestamps: States
    jobs: list[JobInList]
