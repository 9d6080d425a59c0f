"""The JobGraph: what the client submits. Chains are vertices, exchanges between them are edges over data sets.

Values only: everything here is frozen or built once by `graphs.compiler.job_graph_generator`, and survives a
cloudpickle round trip. User code travels as bytes (`OperatorConfig.factory_bytes`), so that no component on the way has
to import it.
"""

from __future__ import annotations

import enum
from typing import NewType

from msgspec import Struct, field

from flinkray.config.configuration import Configuration
from flinkray.transformations.operator_factories import OperatorFactory
from flinkray.transformations.partitioning import Partitioner, SubtaskStateMapper
from flinkray.transformations.transformation import ResourceSpec
from flinkray.types.keys import KeySelector
from flinkray.types.records import JobId, Millis, OperatorId, OutputTag

JobVertexId = NewType("JobVertexId", str)
"""Hash of the chain's head operator."""
DataSetId = NewType("DataSetId", str)


class DistributionPattern(enum.Enum):
    """Which consumer subtasks a producer subtask feeds."""

    POINTWISE = "POINTWISE"
    """Each producer subtask feeds one or more consumer subtasks."""
    ALL_TO_ALL = "ALL_TO_ALL"
    """Each producer subtask feeds every consumer subtask."""


class ResultPartitionType(enum.Enum):
    """How a result may be read: (is pipelined, has back pressure, is bounded, is persistent, is reconnectable)."""

    BLOCKING = (False, False, False, False, True)
    BLOCKING_PERSISTENT = (False, False, False, True, True)
    PIPELINED = (True, True, False, False, False)
    PIPELINED_BOUNDED = (True, True, True, False, False)
    PIPELINED_APPROXIMATE = (True, True, True, False, True)

    @property
    def is_pipelined(self) -> bool:
        return self.value[0]

    @property
    def has_back_pressure(self) -> bool:
        return self.value[1]

    @property
    def is_bounded(self) -> bool:
        return self.value[2]

    @property
    def is_persistent(self) -> bool:
        return self.value[3]

    @property
    def is_reconnectable(self) -> bool:
        return self.value[4]


class TaskKind(enum.Enum):
    """Which kind of task runs a vertex; a chain uses its head's."""

    SOURCE = "source"
    ONE_INPUT = "one input"
    TWO_INPUT = "two input"
    MULTIPLE_INPUT = "multiple input"


class ChainedEdge(Struct, frozen=True):
    """Leads from an operator to another one of its chain."""

    target_node: int
    input_index: int
    output_tag: OutputTag | None = None


class NetworkEdge(Struct, frozen=True):
    """Leads from an operator to another vertex, through the data set of that position in `JobVertex.results`."""

    result_index: int
    ship_strategy: str
    output_tag: OutputTag | None = None
    buffer_timeout_ms: Millis = Millis(100)


class NetworkInput(Struct, frozen=True):
    """A logical input that is fed by these gates (one for each JobEdge; several where streams are united)."""

    gates: tuple[int, ...]


class SourceInput(Struct, frozen=True):
    """A logical input that is fed by a source operator of the same chain (a chained source)."""

    source_node: int


class OperatorCode(Struct, frozen=True):
    """The part of an operator's configuration that may hold user code, pickled together."""

    factory: OperatorFactory
    keys: tuple[KeySelector | None, ...]
    """For each logical input its key selector, where the operator is keyed."""
    partitioners: tuple[Partitioner, ...]
    """The partitioner of each network output."""
    exchanges: tuple[Partitioner | None, ...] = ()
    """Of the head of a chain, per gate: how its rows are spread over subtasks; None where any subtask may have any."""


class OperatorConfig(Struct, frozen=True):
    """One operator of a chain (Flink's StreamConfig)."""

    node_id: int
    operator_id: OperatorId
    name: str
    uid: str | None
    chain_index: int
    """0 for chained sources; the head of a chain has 1."""
    code_bytes: bytes
    """cloudpickle of the OperatorCode."""
    factory_name: str
    """Class of the factory, for display."""
    is_row_function: bool
    inputs: tuple[NetworkInput | SourceInput, ...]
    """The logical inputs; only the chain's head has any."""
    chained_outputs: tuple[ChainedEdge, ...]
    network_outputs: tuple[NetworkEdge, ...]
    managed_memory_fractions: dict[str, float] = field(default_factory=dict)
    """Use case -> share of what the slot has for that use case; the same use cases for all operators of a slot."""
    alternative_ids: tuple[OperatorId, ...] = ()
    """Other ids under which this operator's state may have been saved (Flink's legacy hashes)."""
    delivery_guarantee: str | None = None
    """What a sink promises, for display; None: the operator is no sink."""
    computes: str = ""
    """What the operator computes, as text; state of one that computes something else is not its own. "": any may be."""

    def __repr__(self) -> str:
        return f"OperatorConfig({self.node_id}, {self.name!r}, {self.factory_name})"

    @property
    def is_chain_end(self) -> bool:
        return not self.chained_outputs


class IntermediateDataSet(Struct, frozen=True):
    """What a vertex produces for one JobEdge."""

    id: DataSetId
    producer: JobVertexId
    result_type: ResultPartitionType
    index: int
    """Position among the producer's results."""


class JobEdge(Struct, frozen=True):
    """Joins a data set to a consumer."""

    source: DataSetId
    source_vertex: JobVertexId
    target: JobVertexId
    pattern: DistributionPattern
    ship_strategy: str
    """Name of the partitioner, for display."""
    is_broadcast: bool
    upstream_mapper: SubtaskStateMapper
    downstream_mapper: SubtaskStateMapper
    input_index: int
    """Which logical input of the consumer's head operator it feeds; counts from 0."""
    gate_index: int
    """Position among the consumer's gates."""
    barriers_overtake: bool = True
    """Whether unaligned barriers go before the rows that wait here, which then are part of the checkpoint. The same for
    all inputs of a vertex: no, where the rows of one of them could not be given to other subtasks when the job is
    rescaled (broadcast; forward and rescale, unless the consumer makes asynchronous calls)."""


class CoordinatorConfig(Struct, frozen=True):
    """An operator coordinator to run at the JobMaster: the enumerator of a source, or a collector of results."""

    operator_id: OperatorId
    operator_name: str
    factory_bytes: bytes
    """cloudpickle of the OperatorFactory (SourceFactory, or SinkFactory of a CollectSink)."""

    def __repr__(self) -> str:
        return f"CoordinatorConfig({self.operator_id!r}, {self.operator_name!r})"


class JobVertex(Struct, frozen=True):
    """A chain of operators that runs as one task per subtask."""

    id: JobVertexId
    name: str
    """"head -> next", for example "Source: numbers -> map"."""
    kind: TaskKind
    parallelism: int
    max_parallelism: int
    operators: tuple[OperatorConfig, ...]
    """Chained sources, then the head, then the others in order of chain index. `head` picks the head."""
    inputs: tuple[JobEdge, ...]
    results: tuple[IntermediateDataSet, ...]
    slot_sharing_group: str
    co_location_group: str | None = None
    coordinators: tuple[CoordinatorConfig, ...] = ()
    min_resources: ResourceSpec = ResourceSpec()
    preferred_resources: ResourceSpec = ResourceSpec()
    is_stoppable: bool = True
    """Whether its sources can be asked to end their data early."""
    has_own_max_parallelism: bool = True
    """Whether the program sets the max parallelism; else it becomes that of the checkpoint that the job starts from."""
    has_own_parallelism: bool = True
    """Whether the program sets the parallelism of this vertex; else it is the job's."""
    fixed_because: str = ""
    """Why the vertex keeps its parallelism when the job is rescaled; empty: it may have another."""

    @property
    def head(self) -> OperatorConfig:
        return next(operator for operator in self.operators if operator.node_id == self.head_node)

    @property
    def head_node(self) -> int:
        return next(o.node_id for o in self.operators if o.node_id not in self._chained_sources)

    @property
    def has_chained_sources(self) -> bool:
        """Sources beside the head, which checkpoints start at also where other inputs come from other vertices."""
        return bool(self._chained_sources)

    @property
    def _chained_sources(self) -> frozenset[int]:
        inputs = (each for operator in self.operators for each in operator.inputs)
        return frozenset(each.source_node for each in inputs if isinstance(each, SourceInput))


class CheckpointRetention(enum.Enum):
    """Which checkpoints a job that has ended leaves behind (Flink's CheckpointRetentionPolicy)."""

    NEVER = "no-externalized-checkpoints"
    ON_FAILURE = "delete-on-cancellation"
    """A job that failed leaves them; one that was cancelled, or has finished, leaves none."""
    ON_CANCELLATION = "retain-on-cancellation"
    """A job that failed or was cancelled leaves them."""


class CheckpointSettings(Struct, frozen=True):
    """What the coordinator needs (Flink's JobCheckpointingSettings)."""

    interval_ms: Millis | None = None
    """Milliseconds between two checkpoints; None: there are no periodic checkpoints."""
    exactly_once: bool = True
    timeout_ms: Millis = Millis(600_000)
    min_pause_ms: Millis = Millis(0)
    max_concurrent: int = 1
    tolerable_failures: int = 0
    retention: CheckpointRetention = CheckpointRetention.NEVER
    is_unaligned: bool = False
    aligned_timeout_ms: Millis = Millis(0)
    """After this an aligned barrier becomes an unaligned one; 0: it is unaligned from the start."""
    retained: int = 1
    """How many completed checkpoints are kept while the job runs."""
    directory: str = ""
    """Where checkpoints go (path or URI); empty: the JobMaster keeps them in memory."""
    savepoint_directory: str = ""
    has_final: bool = True
    """Whether tasks that have reached the end of their data wait for one more checkpoint."""
    restore_path: str = ""
    """The savepoint or checkpoint that the job starts from."""
    allow_non_restored_state: bool = False
    impossible_because: str = ""
    """Why the program can have neither checkpoints nor savepoints; empty: it can."""
    vertices_to_trigger: tuple[JobVertexId, ...] = ()
    vertices_to_acknowledge: tuple[JobVertexId, ...] = ()

    @property
    def is_periodic(self) -> bool:
        return self.interval_ms is not None


class JobGraph(Struct, frozen=True):
    """A compiled program. `vertices` are in topological order."""

    job_id: JobId
    name: str
    is_batch: bool
    vertices: tuple[JobVertex, ...]
    configuration: Configuration
    checkpoint_settings: CheckpointSettings = CheckpointSettings()
    cached_files: dict[str, bytes] = field(default_factory=dict)

    def vertex(self, vertex_id: JobVertexId) -> JobVertex:
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)

    def consumers(self) -> dict[DataSetId, list[JobEdge]]:
        """Who reads each data set, in the order of the vertices."""
        consumers: dict[DataSetId, list[JobEdge]] = {
            data_set.id: [] for each in self.vertices for data_set in each.results
        }
        for vertex in self.vertices:
            for edge in vertex.inputs:
                consumers[edge.source].append(edge)
        return consumers
