"""What the lowering of each node stands on: the transformations of its inputs, changes, and keyed operators."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from flinkray.connectors.collection.source import TableSource, lookup_of_source
from flinkray.connectors.lookup import LookupTable
from flinkray.tables.plans.changelogs import changes_of, final_changes, inputs_need_before
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.nodes import Scan
from flinkray.tables.plans.tables import TablePath
from flinkray.tables.user_functions import Awaiting, Implementation
from flinkray.transformations.operator_factories import SourceFactory, TableFactory
from flinkray.transformations.partitioning import GlobalPartitioner, KeyGroupPartitioner
from flinkray.transformations.table_factories import DeduplicateFactory, GroupAggregateFactory, NormalizeFactory
from flinkray.transformations.table_join_factories import RegularJoinFactory
from flinkray.transformations.transformation import (
    PartitionTransformation,
    PhysicalTransformation,
    Transformation,
    upstream_of,
)
from flinkray.types.changelogs import Changes
from flinkray.types.keys import ColumnKey
from flinkray.types.records import Millis

_NUMBERED = re.compile(r"\*([^*\s]+)\*\d+")
"""What functions and tables are called that no catalog has."""
F = TypeVar("F", bound=TableFactory)


class Unexecutable(Exception):
    """A node of a plan that nothing executes yet.

    Args:
        reason: why not, and the way out; "": it may be executed some day.
    """

    def __init__(self, plan: Plan, reason: str = "") -> None:
        self.plan = plan
        self.reason = reason
        super().__init__(type(plan).__name__)


class SinkOptions(Struct, frozen=True):
    """What a program has set for the tables that it writes; values are those of the options."""

    nulls: str = "ERROR"
    """What becomes of rows with NULL in columns that are NOT NULL."""
    lengths: str = "IGNORE"
    """What becomes of values that do not have the length of their column."""
    materialize: str = "AUTO"
    """Where rows are kept, so that the last one of a primary key is known."""
    shuffle: str = "AUTO"
    """Where rows go to subtasks by their primary key."""
    refuses_conflicts: bool = False
    """Whether rows that change are refused of which several may have the same primary key at a time."""


class TableOptions(Struct, frozen=True):
    """What a program has set for its queries."""

    state_ttl_ms: Millis = Millis(0)
    """State that was not written for so long is forgotten; 0: never."""
    is_batch: bool = False
    """Whether the program runs in stages: operators give final rows, when all rows have come."""
    idle_timeout_ms: Millis = Millis(0)
    """A source without rows for so long holds no watermark back; 0: each does."""
    phases: str = "AUTO"
    """Whether aggregates that can be are computed within each batch first: AUTO, TWO_PHASE or ONE_PHASE."""
    time_zone: str = "UTC"
    """In which instants are dates and times of day."""
    least_rows: int = 0
    """How many rows wait for each other before operators that change results process them; 1: each is processed on its
    own; 0: as they come."""
    wait_ms: Millis = Millis(0)
    """How long a row waits for others."""
    has_duplicates: bool = False
    """Whether changes of tables with a primary key may come several times."""
    takes_table_options: bool = True
    """Whether a hint may change the options of a table."""
    sinks: SinkOptions = SinkOptions()
    awaiting: Awaiting = Awaiting()
    """How functions of the user's that are coroutines are awaited."""


class NodeUids:
    """Gives operators uids of the nodes that they are made for, `7_Join`; those of nodes without a number none.

    Args:
        numbers: of nodes.
    """

    def __init__(self, numbers: Mapping[Plan, int] | None = None) -> None:
        self._numbers = numbers or {}
        self.given: dict[int, tuple[str, ...]] = {}
        """The uids of the operators of each node that has some."""

    def give(self, plan: Plan, rows: Transformation) -> None:
        """Takes the operators above those that have uids to be those of a node."""
        number = self._numbers.get(plan)
        if number is None:
            return
        own = [each for each in upstream_of(rows) if isinstance(each, PhysicalTransformation) and each.uid is None]
        for operator in reversed(own):
            former = self.given.get(number, ())
            uid = f"{number}_{operator.name}"
            operator.uid = uid if uid not in former else f"{uid}_{len(former) + 1}"
            self.given[number] = (*former, operator.uid)


class Lowering(ABC):
    """Makes the transformations of plans; nodes that are equal, and give the same changes, become one.

    Args:
        streams: of the tables that the plans read; they have the columns of the table by its names.
        lookups: of the tables that can be asked for rows by key; streams of rows in memory can be, too.
        uids: gives operators their uids; None: they have none.
    """

    def __init__(
        self,
        streams: Mapping[TablePath, Transformation],
        options: TableOptions | None = None,
        lookups: Mapping[TablePath, LookupTable] | None = None,
        uids: NodeUids | None = None,
    ) -> None:
        self.options = options or TableOptions()
        self.uids = uids or NodeUids()
        self._streams = streams
        self._lookups = {} if lookups is None else lookups
        self._made: dict[tuple[Plan, bool], Transformation] = {}

    def of(self, plan: Plan, before: bool = True) -> Transformation:
        """The transformation whose rows are those of a plan, in the columns of `arrow_schema(plan.row_type)`.

        Args:
            before: whether what reads the rows needs -U, where they are updated.
        Raises:
            Unexecutable: a node of the plan cannot be executed yet.
        """
        key = (plan, before and self.changes(plan).updates)
        if key not in self._made:
            self._made[key] = self.lowered(plan, before)
            self.uids.give(plan, self._made[key])
        return self._made[key]

    @abstractmethod
    def lowered(self, plan: Plan, before: bool) -> Transformation:
        """As `of`, made anew."""

    def scanned(self, scan: Scan, before: bool) -> Transformation:
        """The rows of a table, with its own columns in any order, and perhaps others."""
        if scan.hints:
            raise Unexecutable(scan)
        return self._streams[scan.table.path]

    def lookup(self, scan: Scan) -> LookupTable | None:
        """What asks a table for its rows by key; None: it cannot be asked."""
        if scan.hints:
            return None
        return self._lookups.get(scan.table.path) or _in_memory(self._streams[scan.table.path])

    def user_aggregate(self, name: str) -> Implementation | None:
        """How the aggregate of that name is called, where it is one of the user's."""
        return None

    def changes(self, plan: Plan, before: bool = True) -> Changes:
        """The changes that the rows of `of(plan, before)` make."""
        return final_changes(plan) if self.options.is_batch else changes_of(plan, before)

    def input_changes(self, plan: Plan, before: bool) -> tuple[Changes, ...]:
        """The changes that come from each input of a node."""
        return tuple(map(self.changes, plan.inputs, inputs_need_before(plan, before)))

    def operator(
        self,
        name: str,
        description: str,
        plan: Plan,
        factory: TableFactory,
        keys: Sequence[Sequence[int]],
        before: bool,
        inputs: Sequence[Transformation] = (),
        computes: str = "",
    ) -> Transformation:
        """An operator whose rows of each input with the same key come to one subtask.

        Args:
            keys: the columns of the key of each input; none of them: all rows come to one subtask.
            before: whether -U is needed of its results.
            inputs: what stands for the inputs of the plan and has their keys; none: their own transformations.
            computes: all that its state depends on, as text, which is part of savepoints; "": the description says it.
        """
        factory = self.gathering(factory)
        needs = inputs_need_before(plan, before)
        inputs = inputs or [self.of(each, need) for each, need in zip(plan.inputs, needs, strict=True)]
        computes = state_text(f"{name} {computes or description}")
        if not any(keys):
            return PhysicalTransformation(
                name=name,
                description=description,
                computes=computes,
                factory=factory,
                input_transformations=tuple(map(to_one, inputs)),
                parallelism=1,
                max_parallelism=1,
            )
        selectors = [
            ColumnKey(tuple(each.row_type.names[number] for number in key))
            for each, key in zip(plan.inputs, keys, strict=True)
        ]
        return PhysicalTransformation(
            name=name,
            description=description,
            computes=computes,
            factory=factory,
            input_transformations=tuple(map(keyed, inputs, selectors)),
            keys=tuple(selectors),
        )

    def gathering(self, factory: F) -> F:
        """The operator as it processes rows: as they come, several together, or each on its own."""
        rows = 0 if self.options.is_batch else self.options.least_rows
        if rows == 1 or (rows and isinstance(factory, _GATHERING)):
            return replace(factory, least_rows=rows, wait_ms=self.options.wait_ms)
        return factory


_GATHERING = (DeduplicateFactory, GroupAggregateFactory, NormalizeFactory, RegularJoinFactory)
"""Operators that give fewer changes for more rows at a time."""


def _in_memory(stream: Transformation) -> LookupTable | None:
    """The rows of a stream that this process has as a table, as what can be asked for them by key."""
    factory = stream.factory if isinstance(stream, PhysicalTransformation) else None
    if not isinstance(factory, SourceFactory) or not isinstance(factory.source, TableSource):
        return None
    return lookup_of_source(factory.source)


def state_text(text: str) -> str:
    """What an operator computes as text that is the same in every process: without the numbers of what has no name."""
    return _NUMBERED.sub(r"\1", text)


def to_one(rows: Transformation) -> Transformation:
    """All rows, to one subtask."""
    return PartitionTransformation(name="Partition GLOBAL", input=rows, partitioner=GlobalPartitioner())


def keyed(rows: Transformation, key: ColumnKey) -> Transformation:
    """The rows, those with the same key in one subtask."""
    return PartitionTransformation(name=f"Key by {key}", input=rows, partitioner=KeyGroupPartitioner(key))
