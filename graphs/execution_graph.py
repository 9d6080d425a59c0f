"""The ExecutionGraph: the JobGraph unfolded by parallelism, with the attempts to run each subtask.

Built and changed by the JobMaster alone, in its own thread. It decides nothing: the scheduler moves the executions
through their states, and this graph checks, records and reports.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NewType

from msgspec import Struct

from flinkray.config.configuration import Configuration
from flinkray.errors import ErrorInfo, InvalidProgramError
from flinkray.execution import JobStatus
from flinkray.transformations.transformation import ResourceSpec
from flinkray.types.records import JobId
from graphs.edge_manager import (
    ConsumedPartitionGroup,
    ConsumerVertexGroup,
    EdgeManager,
    ExecutionVertexId,
    ResultPartitionKey,
)
from graphs.job_graph import (
    CheckpointSettings,
    DataSetId,
    DistributionPattern,
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobVertex,
    JobVertexId,
    ResultPartitionType,
)
from graphs.job_status import JobStatusHistory
from graphs.states import ExecutionState, IllegalTransition, check_transition
from graphs.topology import sort_topologically

__all__ = [
    "AttemptId",
    "ConsumedPartitionGroup",
    "ConsumerVertexGroup",
    "EdgeManager",
    "Execution",
    "ExecutionGraph",
    "ExecutionJobVertex",
    "ExecutionListener",
    "ExecutionVertex",
    "ExecutionVertexId",
    "IntermediateResult",
    "IntermediateResultPartition",
    "JobInformation",
    "PartitionId",
    "ResultPartitionKey",
]

AttemptId = NewType("AttemptId", str)
"""One attempt to run one subtask: "<vertex id>_<subtask>_<attempt number>"; never reused. Of a graph that takes the
place of another one of the job, "<generation>." goes before the number."""
PartitionId = NewType("PartitionId", str)
"""What one attempt produces for one data set: "<data set id>#<attempt id>"."""

DEFAULT_MAX_PRIOR_ATTEMPTS = 16


class JobInformation(Struct, frozen=True):
    """What all tasks of a job share."""

    job_id: JobId
    job_name: str
    configuration: Configuration
    checkpoint_settings: CheckpointSettings = CheckpointSettings()


class Execution:
    """One attempt to run one subtask."""

    def __init__(self, vertex: ExecutionVertex, attempt_number: int, now_ms: int) -> None:
        self.vertex = vertex
        self.attempt_number = attempt_number
        generation = vertex.graph.generation
        prefix = f"{generation}." if generation else ""
        self.attempt_id = AttemptId(f"{vertex.id}_{prefix}{attempt_number}")
        self.history: list[ExecutionState] = [ExecutionState.CREATED]
        self.timestamps: dict[ExecutionState, int] = {ExecutionState.CREATED: now_ms}
        """State -> when it was entered, in epoch milliseconds."""
        self.allocation_id: str | None = None
        """The lease of the slot that the attempt runs in, once it has one."""
        self.location: str | None = None
        """Address of that slot's TaskExecutor."""
        self.error: ErrorInfo | None = None
        """Why the attempt failed."""
        self.accumulators: dict[str, int | float] = {}

    @property
    def state(self) -> ExecutionState:
        return self.history[-1]

    @property
    def partition_ids(self) -> tuple[PartitionId, ...]:
        """What this attempt produces, by result index."""
        return tuple(partition.id_for(self.attempt_id) for partition in self.vertex.results)

    def transition(self, to: ExecutionState, now_ms: int) -> None:
        """Moves on and tells the graph's listeners.

        Raises:
            IllegalTransition: the table of execution states does not have this move.
        """
        former = self.state
        check_transition(str(self), former, to, self.history)
        self.history.append(to)
        self.timestamps[to] = now_ms
        self.vertex.graph.notify_execution(self, former, now_ms)

    def __str__(self) -> str:
        return f"{self.vertex.name} attempt {self.attempt_number}"

    def __repr__(self) -> str:
        return f"<Execution {self} {self.state.name}>"


ExecutionListener = Callable[[Execution, ExecutionState, int], None]
"""Called with an execution that changed state, its former state, and the time in epoch milliseconds."""


class IntermediateResultPartition:
    """What one subtask produces for one data set, over all its attempts."""

    def __init__(self, result: IntermediateResult, producer: ExecutionVertex) -> None:
        self.result = result
        self.producer = producer
        self.key = ResultPartitionKey(result.id, producer.subtask_index)

    @property
    def consumer_groups(self) -> tuple[ConsumerVertexGroup, ...]:
        return tuple(self.producer.graph.edges.consumers_of(self.key))

    @property
    def consumed_groups(self) -> tuple[ConsumedPartitionGroup, ...]:
        """The groups that this partition belongs to."""
        return tuple(self.producer.graph.edges.groups_with(self.key))

    @property
    def number_of_subpartitions(self) -> int:
        """How many subtasks the partition feeds; 1 if nobody reads it."""
        groups = self.consumer_groups
        return len(groups[0]) if groups else 1

    def id_for(self, attempt_id: AttemptId) -> PartitionId:
        return PartitionId(f"{self.result.id}#{attempt_id}")

    @property
    def current_id(self) -> PartitionId:
        """The partition of the producer's current attempt."""
        return self.id_for(self.producer.current.attempt_id)


class IntermediateResult:
    """A data set with one partition per producer subtask."""

    def __init__(self, data_set: IntermediateDataSet, producer: ExecutionJobVertex) -> None:
        self.data_set = data_set
        self.producer = producer
        self.consumer_edges: list[JobEdge] = []
        self.partitions: tuple[IntermediateResultPartition, ...] = ()

    @property
    def id(self) -> DataSetId:
        return self.data_set.id

    @property
    def result_type(self) -> ResultPartitionType:
        return self.data_set.result_type

    @property
    def is_broadcast(self) -> bool:
        return any(edge.is_broadcast for edge in self.consumer_edges)

    @property
    def barriers_overtake(self) -> bool:
        return all(edge.barriers_overtake for edge in self.consumer_edges)

    @property
    def consumer_max_parallelism(self) -> int | None:
        """None where nobody reads it."""
        vertices = self.producer.graph.job_vertices
        return vertices[self.consumer_edges[0].target].max_parallelism if self.consumer_edges else None

    @property
    def pattern(self) -> DistributionPattern:
        """How partitions are spread over the consumer's subtasks; ALL_TO_ALL as well where nobody reads them."""
        return self.consumer_edges[0].pattern if self.consumer_edges else DistributionPattern.ALL_TO_ALL


class ExecutionVertex:
    """One parallel subtask, with its current attempt and the last ones before it."""

    def __init__(self, job_vertex: ExecutionJobVertex, subtask_index: int) -> None:
        self.job_vertex = job_vertex
        self.graph = job_vertex.graph
        self.id = ExecutionVertexId(job_vertex.id, subtask_index)
        self.subtask_index = subtask_index
        self.name = f"{job_vertex.name} ({subtask_index + 1}/{job_vertex.parallelism})"
        self.results = tuple(IntermediateResultPartition(result, self) for result in job_vertex.results)
        """What the subtask or vertex produces, by result index."""
        self.prior: deque[Execution] = deque(maxlen=self.graph.max_prior_attempts)
        """Former attempts, oldest first; only the last ones are kept."""
        self.current = Execution(self, self.graph.initial_attempt_number(self.id), self.graph.created_ms)

    @property
    def consumed(self) -> tuple[ConsumedPartitionGroup, ...]:
        """What the subtask reads, by gate index."""
        return tuple(self.graph.edges.consumed_by(self.id))

    @property
    def co_location_constraint(self) -> tuple[str, int] | None:
        """Subtasks with an equal one must share a slot: (co-location group, subtask index)."""
        group = self.job_vertex.co_location_group
        return None if group is None else (group, self.subtask_index)

    def new_attempt(self, now_ms: int = 0) -> Execution:
        """Puts the current attempt into the history and gives the next one, in CREATED.

        Raises:
            IllegalTransition: the current attempt has not ended.
        """
        ended = self.current
        if not ended.state.is_terminal:
            history = tuple(state.name for state in ended.history)
            raise IllegalTransition(str(ended), ended.state.name, "a new attempt", history)
        self.prior.append(ended)
        self.current = Execution(self, ended.attempt_number + 1, now_ms)
        self.graph.replace_execution(ended, self.current)
        return self.current

    def __repr__(self) -> str:
        return f"<ExecutionVertex {self.name} {self.current.state.name}>"


class ExecutionJobVertex:
    """A job vertex with its subtasks."""

    def __init__(self, graph: ExecutionGraph, job_vertex: JobVertex, parallelism: int) -> None:
        if not job_vertex.operators:
            raise InvalidProgramError(f"vertex {job_vertex.name!r} has nothing to run: it holds no operator")
        self.graph = graph
        self.job_vertex = job_vertex
        self.id = job_vertex.id
        self.name = job_vertex.name
        self.parallelism = parallelism
        self.max_parallelism = job_vertex.max_parallelism
        """That of the job vertex, or of the checkpoint that the job has started from where the program sets none."""
        self.slot_sharing_group = job_vertex.slot_sharing_group
        self.co_location_group = job_vertex.co_location_group
        self.resources: ResourceSpec = job_vertex.min_resources
        """What one subtask asks for beside its share of a slot."""
        self.coordinators = job_vertex.coordinators
        self.results = tuple(IntermediateResult(data_set, self) for data_set in job_vertex.results)
        """What the subtask or vertex produces, by result index."""
        self.inputs: tuple[IntermediateResult, ...] = ()
        """What the vertex reads, by gate index."""
        self.subtasks = tuple(ExecutionVertex(self, index) for index in range(parallelism))
        for result in self.results:
            result.partitions = tuple(subtask.results[result.data_set.index] for subtask in self.subtasks)

    @property
    def state(self) -> ExecutionState:
        """One state for all subtasks, by Flink's order of precedence: what went wrong first, then what still runs."""
        states = [subtask.current.state for subtask in self.subtasks]
        for decisive in (
            ExecutionState.FAILED,
            ExecutionState.CANCELING,
            ExecutionState.CANCELED,
            ExecutionState.INITIALIZING,
            ExecutionState.RUNNING,
        ):
            if decisive in states:
                return decisive
        finished = states.count(ExecutionState.FINISHED)
        if finished == len(states):
            return ExecutionState.FINISHED
        return ExecutionState.RUNNING if finished else ExecutionState.CREATED

    def connect_to_predecessors(self) -> None:
        """Joins the subtasks with the partitions that they read, gate by gate."""
        inputs = []
        for edge in sorted(self.job_vertex.inputs, key=lambda edge: edge.gate_index):
            result = self.graph.results[edge.source]
            if result.consumer_edges and not result.result_type.is_reconnectable:
                raise InvalidProgramError(
                    f"data set {result.id} of {result.producer.name!r} has a second consumer, {self.name!r}; "
                    f"a {result.result_type.name} result can be read only once"
                )
            result.consumer_edges.append(edge)
            inputs.append(result)
            partitions = result.producer.parallelism
            self.graph.edges.connect(result.id, partitions, result.result_type, self.id, self.parallelism, edge.pattern)
        self.inputs = tuple(inputs)


class ExecutionGraph:
    """All subtasks of a job, the partitions between them, and the attempts to run them."""

    def __init__(
        self,
        information: JobInformation,
        *,
        max_prior_attempts: int = DEFAULT_MAX_PRIOR_ATTEMPTS,
        parallelism: Mapping[JobVertexId, int] | None = None,
        attempt_numbers: Mapping[ExecutionVertexId, int] | None = None,
        generation: int = 0,
        now_ms: int = 0,
    ) -> None:
        self.information = information
        self.generation = generation
        self.max_prior_attempts = max_prior_attempts
        self.created_ms = now_ms
        self.job_vertices: dict[JobVertexId, ExecutionJobVertex] = {}
        """The vertices, in topological order."""
        self.vertices: dict[ExecutionVertexId, ExecutionVertex] = {}
        self.results: dict[DataSetId, IntermediateResult] = {}
        self.partitions: dict[ResultPartitionKey, IntermediateResultPartition] = {}
        self.executions: dict[AttemptId, Execution] = {}
        """The current attempt of each subtask."""
        self.edges = EdgeManager()
        self.status = JobStatusHistory(information.job_name, now_ms)
        self._parallelism = dict(parallelism or {})
        self._attempt_numbers = dict(attempt_numbers or {})
        self._listeners: list[ExecutionListener] = []

    @staticmethod
    def from_job_graph(
        job_graph: JobGraph,
        *,
        max_prior_attempts: int = DEFAULT_MAX_PRIOR_ATTEMPTS,
        parallelism: Mapping[JobVertexId, int] | None = None,
        attempt_numbers: Mapping[ExecutionVertexId, int] | None = None,
        generation: int = 0,
        now_ms: int = 0,
    ) -> ExecutionGraph:
        """The graph of a job, every subtask with a first attempt in CREATED.

        Args:
            max_prior_attempts: ended attempts that each subtask remembers.
            parallelism: vertex -> parallelism to use instead of the JobGraph's.
            attempt_numbers: subtask -> number of its first attempt, carried over from a graph that this one replaces,
                so that no attempt id is ever used twice. 0 where there is none.
            generation: how many graphs of the job there were before, of which nothing else is known.
            now_ms: when this happens, in epoch milliseconds.

        Raises:
            InvalidProgramError: a vertex or data set twice, a cycle, a vertex without operators, or a pipelined
                result with two consumers.
        """
        graph = ExecutionGraph(
            JobInformation(
                job_graph.job_id,
                job_graph.name,
                job_graph.configuration,
                job_graph.checkpoint_settings,
            ),
            max_prior_attempts=max_prior_attempts,
            parallelism=parallelism,
            attempt_numbers=attempt_numbers,
            generation=generation,
            now_ms=now_ms,
        )
        graph.attach(job_graph.vertices)
        return graph

    def rescaled(self, parallelism: Mapping[JobVertexId, int]) -> ExecutionGraph:
        """What the graph would be with so many subtasks of these vertices; this one stays as it is."""
        numbers = {**self.parallelisms, **parallelism}
        graph = ExecutionGraph(self.information, parallelism=numbers)
        graph._unfold(self.job_vertices.values())
        return graph

    def rescale(self, parallelism: Mapping[JobVertexId, int], now_ms: int) -> None:
        """Unfolds the job anew, these vertices with so many subtasks: everything below the vertices is another than
        before, and every subtask has an attempt in CREATED whose id no other one had. For a job of which nothing runs.

        Args:
            now_ms: when the attempts are created, in epoch milliseconds.
        """
        assert not any(execution.state.is_deployed for execution in self.executions.values()), "tasks run"
        self._parallelism.update(parallelism)
        self._attempt_numbers.update(self.next_attempt_numbers())
        self.created_ms = now_ms
        for parts in (self.vertices, self.results, self.partitions, self.executions):
            parts.clear()
        self.edges = EdgeManager()
        former, self.job_vertices = self.job_vertices, {}
        self._unfold(former.values())

    def _unfold(self, former: Iterable[ExecutionJobVertex]) -> None:
        """Attaches the vertices of a graph that this one follows."""
        vertices = list(former)
        self.attach(vertex.job_vertex for vertex in vertices)
        for vertex in vertices:
            self.job_vertices[vertex.id].max_parallelism = vertex.max_parallelism

    @property
    def rescaled_to(self) -> dict[JobVertexId, int]:
        """Vertex -> number of its subtasks, of those that have another than the JobGraph says."""
        given = self.job_vertices.values()
        return {each.id: each.parallelism for each in given if each.parallelism != each.job_vertex.parallelism}

    @property
    def parallelisms(self) -> dict[JobVertexId, int]:
        """Vertex -> number of its subtasks."""
        return {vertex.id: vertex.parallelism for vertex in self.job_vertices.values()}

    def attach(self, vertices: Iterable[JobVertex]) -> None:
        """Adds vertices, which may read only from each other: producers before consumers, each with its results."""
        added = list(vertices)
        self._refuse_duplicates(added)
        for job_vertex in sort_topologically(added):
            parallelism = self._parallelism.get(job_vertex.id, job_vertex.parallelism)
            vertex = ExecutionJobVertex(self, job_vertex, parallelism)
            self.job_vertices[vertex.id] = vertex
            self.results.update((result.id, result) for result in vertex.results)
            vertex.connect_to_predecessors()
            for subtask in vertex.subtasks:
                self.vertices[subtask.id] = subtask
                self.executions[subtask.current.attempt_id] = subtask.current
                self.partitions.update((partition.key, partition) for partition in subtask.results)

    def _refuse_duplicates(self, added: list[JobVertex]) -> None:
        vertices = {vertex.id: vertex.name for vertex in self.job_vertices.values()}
        producers = {result.id: result.producer.name for result in self.results.values()}
        for vertex in added:
            if vertex.id in vertices:
                raise InvalidProgramError(
                    f"two job vertices have the id {vertex.id}: {vertices[vertex.id]!r} and {vertex.name!r}"
                )
            vertices[vertex.id] = vertex.name
            for data_set in vertex.results:
                if data_set.id in producers:
                    raise InvalidProgramError(
                        f"two data sets have the id {data_set.id}: one of {producers[data_set.id]!r} "
                        f"and result {data_set.index} of {vertex.name!r}"
                    )
                producers[data_set.id] = vertex.name

    @property
    def job_id(self) -> JobId:
        return self.information.job_id

    @property
    def name(self) -> str:
        return self.information.job_name

    @property
    def is_stoppable(self) -> bool:
        """Whether every vertex without inputs can be asked to end its data early."""
        sources = (vertex.job_vertex for vertex in self.job_vertices.values() if not vertex.job_vertex.inputs)
        return all(source.is_stoppable for source in sources)

    @property
    def all_finished(self) -> bool:
        return all(execution.state is ExecutionState.FINISHED for execution in self.executions.values())

    def transition_job(self, to: JobStatus, now_ms: int) -> None:
        """Moves the job's own status; see `status` for its history and listeners."""
        self.status.transition(to, now_ms)

    def add_execution_listener(self, listener: ExecutionListener) -> None:
        """`listener` is called within `Execution.transition`, after the move."""
        self._listeners.append(listener)

    def notify_execution(self, execution: Execution, former: ExecutionState, now_ms: int) -> None:
        """Called by executions that changed state."""
        for listener in self._listeners:
            listener(execution, former, now_ms)

    def replace_execution(self, ended: Execution, following: Execution) -> None:
        """Called by vertices that got a new attempt."""
        del self.executions[ended.attempt_id]
        self.executions[following.attempt_id] = following

    def initial_attempt_number(self, vertex: ExecutionVertexId) -> int:
        return self._attempt_numbers.get(vertex, 0)

    def next_attempt_numbers(self) -> dict[ExecutionVertexId, int]:
        """Subtask -> the attempt number that a graph which replaces this one must begin with."""
        return {vertex.id: vertex.current.attempt_number + 1 for vertex in self.vertices.values()}

    def plan_dict(self) -> dict[str, Any]:
        """The job for display, in the shape of Flink's JSON plan; only JSON types in it."""
        return {
            "jid": self.job_id,
            "name": self.name,
            "nodes": [_plan_node(vertex) for vertex in self.job_vertices.values()],
        }


def _plan_node(vertex: ExecutionJobVertex) -> dict[str, Any]:
    inputs = [
        {
            "num": edge.gate_index,
            "id": edge.source_vertex,
            "ship_strategy": edge.ship_strategy,
            "exchange": vertex.graph.results[edge.source].result_type.name.lower(),
        }
        for edge in vertex.job_vertex.inputs
    ]
    return {
        "id": vertex.id,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism,
        "description": vertex.name,
        "operators": [operator.name for operator in vertex.job_vertex.operators],
        "inputs": inputs,
    }
