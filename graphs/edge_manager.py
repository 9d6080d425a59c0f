"""Which subtask reads which partitions: groups that are shared, so that S x T links cost S + T entries.

After Flink's EdgeManager and EdgeManagerBuildUtil.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from graphs.job_graph import DataSetId, DistributionPattern, JobVertexId, ResultPartitionType


class ExecutionVertexId(Struct, frozen=True, order=True):
    """One subtask of a job vertex."""

    vertex_id: JobVertexId
    subtask_index: int

    def __str__(self) -> str:
        return f"{self.vertex_id}_{self.subtask_index}"


class ResultPartitionKey(Struct, frozen=True, order=True):
    """What one subtask produces for one data set, whichever attempt does (Flink's IntermediateResultPartitionID)."""

    data_set_id: DataSetId
    partition_index: int
    """Subtask index of the producer."""

    def __str__(self) -> str:
        return f"{self.data_set_id}#{self.partition_index}"


class ConsumerVertexGroup(Struct, frozen=True, eq=False):
    """Neighbouring subtasks of one vertex that read the same partitions. Compared by identity: it is shared."""

    vertex_id: JobVertexId
    first: int
    size: int

    def __iter__(self) -> Iterator[ExecutionVertexId]:
        return (ExecutionVertexId(self.vertex_id, index) for index in range(self.first, self.first + self.size))

    def __len__(self) -> int:
        return self.size

    def index_of(self, vertex: ExecutionVertexId) -> int:
        """The position of a member, which is also the subpartition that it reads of every partition it consumes.

        Raises:
            KeyError: it is no member.
        """
        index = vertex.subtask_index - self.first
        if vertex.vertex_id != self.vertex_id or not 0 <= index < self.size:
            raise KeyError(f"subtask {vertex} does not belong to this group")
        return index


class ConsumedPartitionGroup(Struct, frozen=True, eq=False):
    """Neighbouring partitions of one data set that the same subtasks read. Compared by identity: it is shared."""

    data_set_id: DataSetId
    first: int
    size: int
    result_type: ResultPartitionType
    consumers: ConsumerVertexGroup

    def __iter__(self) -> Iterator[ResultPartitionKey]:
        return (ResultPartitionKey(self.data_set_id, index) for index in range(self.first, self.first + self.size))

    def __len__(self) -> int:
        return self.size

    def subpartition_of(self, vertex: ExecutionVertexId) -> int:
        """Which subpartition of each of these partitions `vertex` reads: its index among the consumers."""
        return self.consumers.index_of(vertex)


class EdgeManager:
    """The three maps between partitions and subtasks. Filled while the graph is built, read-only afterwards."""

    def __init__(self) -> None:
        self._consumers_of_partition: dict[ResultPartitionKey, list[ConsumerVertexGroup]] = {}
        self._groups_of_partition: dict[ResultPartitionKey, list[ConsumedPartitionGroup]] = {}
        self._groups_of_vertex: dict[ExecutionVertexId, list[ConsumedPartitionGroup]] = {}
        self._groups: list[ConsumedPartitionGroup] = []

    def consumers_of(self, partition: ResultPartitionKey) -> Sequence[ConsumerVertexGroup]:
        """Who reads the partition: one group per consuming edge."""
        return self._consumers_of_partition.get(partition, ())

    def groups_with(self, partition: ResultPartitionKey) -> Sequence[ConsumedPartitionGroup]:
        """The groups that the partition belongs to: one per consuming edge."""
        return self._groups_of_partition.get(partition, ())

    def consumed_by(self, vertex: ExecutionVertexId) -> Sequence[ConsumedPartitionGroup]:
        """What the subtask reads, in the order in which its edges were connected: by gate index."""
        return self._groups_of_vertex.get(vertex, ())

    @property
    def groups(self) -> Sequence[ConsumedPartitionGroup]:
        """All groups of partitions, in the order of connection."""
        return self._groups

    def connect(
        self,
        data_set_id: DataSetId,
        partitions: int,
        result_type: ResultPartitionType,
        consumer: JobVertexId,
        subtasks: int,
        pattern: DistributionPattern,
    ) -> None:
        """Joins all partitions of a data set with all subtasks of a consumer."""
        for first_partition, last_partition, first_subtask, last_subtask in spread(partitions, subtasks, pattern):
            vertices = ConsumerVertexGroup(consumer, first_subtask, last_subtask - first_subtask)
            group = ConsumedPartitionGroup(
                data_set_id, first_partition, last_partition - first_partition, result_type, vertices
            )
            self._groups.append(group)
            for partition in group:
                self._consumers_of_partition.setdefault(partition, []).append(vertices)
                self._groups_of_partition.setdefault(partition, []).append(group)
            for vertex in vertices:
                self._groups_of_vertex.setdefault(vertex, []).append(group)


def spread(partitions: int, subtasks: int, pattern: DistributionPattern) -> Iterator[tuple[int, int, int, int]]:
    """Blocks (first partition, end, first subtask, end) such that a block's subtasks read just the block's partitions.

    Flink's integer spreading. Pointwise, each side is cut into as many blocks as the smaller one has members: 5
    partitions on 3 subtasks give [0], [1, 2], [3, 4]; 4 on 6 are read as 0, 0, 1, 2, 2, 3.
    """
    if pattern is DistributionPattern.ALL_TO_ALL:
        yield 0, partitions, 0, subtasks
    elif partitions >= subtasks:
        for i in range(subtasks):
            yield i * partitions // subtasks, (i + 1) * partitions // subtasks, i, i + 1
    else:
        for p in range(partitions):
            yield p, p + 1, _ceil_div(p * subtasks, partitions), _ceil_div((p + 1) * subtasks, partitions)


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
