"""The records that API calls leave behind. Each references its inputs; there is no other edge list.

Physical transformations own an operator factory and become a node of the StreamGraph; virtual ones (partition, union,
side output) do not. Settings such as name, uid and parallelism are set after the call that made the transformation,
so the records are mutable until the StreamGraph is generated from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from flinkray.transformations.operator_factories import ChainingStrategy, OperatorFactory
from flinkray.transformations.partitioning import Partitioner
from flinkray.types.keys import KeySelector
from flinkray.types.records import Millis, OutputTag

DEFAULT_SLOT_SHARING_GROUP = "default"
DEFAULT_BUFFER_TIMEOUT_MS = Millis(100)

_next_id = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """What one subtask needs beside its share of a slot. Added up along a chain."""

    cpus: float = 0.0
    memory_bytes: int = 0

    def merge(self, other: ResourceSpec) -> ResourceSpec:
        """What both need together."""
        return ResourceSpec(self.cpus + other.cpus, self.memory_bytes + other.memory_bytes)


@dataclass(eq=False, kw_only=True)
class Transformation:
    """Base of all. `id` comes from a counter of this process; it orders nodes and never leaves the client."""

    name: str
    parallelism: int | None = None
    """The number of subtasks; None: the environment's."""
    id: int = field(default_factory=lambda: next(_next_id))
    max_parallelism: int | None = None
    uid: str | None = None
    uid_hash: str | None = None
    """32 hex digits that replace the computed operator id (Flink's setUidHash)."""
    description: str = ""
    computes: str = ""
    """What it computes, as text: state of an operator that computes something else is not its own. "": any may be."""
    slot_sharing_group: str | None = None
    """The slot sharing group; None: the inputs' common group, else the default."""
    co_location_key: str | None = None
    buffer_timeout_ms: Millis | None = None
    min_resources: ResourceSpec = ResourceSpec()
    preferred_resources: ResourceSpec = ResourceSpec()
    managed_memory_weights: dict[str, int] = field(default_factory=dict)
    """Operator-scope use case ("operator") -> weight."""
    managed_memory_slot_use_cases: frozenset[str] = frozenset()
    """Slot-scope use cases ("state backend", "python")."""

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        """The transformations whose records it takes, in order."""
        return ()


@dataclass(eq=False, kw_only=True)
class PhysicalTransformation(Transformation):
    """Becomes one node. `input_transformations[i]` feeds logical input i of the operator."""

    factory: OperatorFactory
    input_transformations: tuple[Transformation, ...] = ()
    keys: tuple[KeySelector | None, ...] = ()
    """The key selector of each input, where the operator is keyed."""
    chaining_strategy: ChainingStrategy | None = None
    """The chaining strategy that was set; None: the factory's default."""

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        return self.input_transformations

    @property
    def effective_chaining_strategy(self) -> ChainingStrategy:
        """The operator's own chaining strategy, else that of its kind."""
        return self.chaining_strategy or self.factory.default_strategy


@dataclass(eq=False, kw_only=True)
class PartitionTransformation(Transformation):
    """How the rows of `input` are spread over whatever consumes this (virtual)."""

    input: Transformation
    partitioner: Partitioner
    exchange_mode: str = "UNDEFINED"
    """PIPELINED, BATCH or UNDEFINED."""

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        return (self.input,)


@dataclass(eq=False, kw_only=True)
class UnionTransformation(Transformation):
    """All rows of several streams (virtual; creates no node of any kind)."""

    union_inputs: tuple[Transformation, ...]

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        return self.union_inputs


@dataclass(eq=False, kw_only=True)
class SideOutputTransformation(Transformation):
    """What `input` emits with `tag` (virtual)."""

    input: Transformation
    tag: OutputTag

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        return (self.input,)


def own_parallelism(transformation: Transformation) -> int | None:
    """The parallelism that was set for the operator whose rows these are; None: none was, or they are spread anew."""
    while isinstance(transformation, SideOutputTransformation):
        transformation = transformation.input
    return transformation.parallelism


def upstream_of(transformation: Transformation) -> Iterator[Transformation]:
    """The transformation and all that it reads from, each once."""
    seen: set[int] = set()
    waiting = [transformation]
    while waiting:
        each = waiting.pop()
        if each.id not in seen:
            seen.add(each.id)
            yield each
            waiting.extend(each.inputs)
