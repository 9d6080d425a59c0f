"""What an operator does, as a picklable description (Flink's StreamOperatorFactory).

The API makes these, the graphs carry them, and the runtime turns each into an operator
(`actors.operators.registry.create_operator`). None executes anything.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
from msgspec import Struct

from flinkray.types.changelogs import INSERTS, ChangelogMode, Changes
from flinkray.types.records import Millis, OutputTag, RecordType

if TYPE_CHECKING:  # a worker loads what its own operators consist of, and no more
    from flinkray.connectors.formats.message_format import MessageFormat
    from flinkray.connectors.sink import Sink
    from flinkray.connectors.source import Source
    from flinkray.expressions.tree import Expression
    from flinkray.functions.asynchronous import AsyncRetryStrategy
    from flinkray.functions.interfaces import Function
    from flinkray.patterns.pattern import Pattern
    from flinkray.state.descriptors import MapStateDescriptor
    from flinkray.tables.plans.expressions import BoundExpression
    from flinkray.tables.types.logical import LogicalType, RowType
    from flinkray.time.watermarks import WatermarkStrategy
    from flinkray.types.keys import ColumnKey
    from flinkray.windows.aggregates import Aggregate
    from flinkray.windows.assigners import WindowAssigner
    from flinkray.windows.evictors import Evictor
    from flinkray.windows.triggers import Trigger

RIGHT_SUFFIX = "_right"
"""What a columnar join puts after the name of a right column whose name the left has too."""


class ChainingStrategy(enum.Enum):
    """Whether an operator may join the chain of its input."""

    ALWAYS = "always"
    HEAD = "head"
    """Starts a chain; later operators may join it."""
    NEVER = "never"
    HEAD_WITH_SOURCES = "head with sources"
    """Starts a chain, and takes source operators into it."""


class ChangelogRole(enum.Enum):
    """What an operator does with the kinds of rows, which say what these do in a changelog."""

    REFUSES = "refuses"
    """It takes inserts only, and gives inserts only."""
    KEEPS = "keeps"
    """Each result has the kind of the row that it is made of."""
    BEGINS = "begins"
    """It takes inserts only, and gives a changelog."""
    MAKES = "makes"
    """It takes inserts or a changelog, and gives a changelog."""
    ENDS = "ends"
    """It takes a changelog, and gives inserts only, or nothing."""


class OperatorFactory(Struct, frozen=True):
    """Base of all. `output_type` of a subclass is what the user declared; None: the first batch decides."""

    default_strategy: ClassVar[ChainingStrategy] = ChainingStrategy.ALWAYS
    inputs: ClassVar[int] = 1
    """Number of logical inputs: 0 for a source, 2 for a co-operator."""
    barriers_overtake: ClassVar[bool] = True
    """Whether unaligned barriers may overtake the rows that wait for it."""
    is_row_function: ClassVar[bool] = False
    """Whether it works row by row, so that the runtime may fuse it with neighbours of its kind into one Python loop."""
    changelog: ClassVar[ChangelogRole] = ChangelogRole.REFUSES
    """What it does with the kinds of rows; `changelog_role` knows those for which more than the class decides."""
    yields_to_mailbox: ClassVar[bool] = False
    """Whether it waits inside process_batch by running other mails; then it must not be chained behind a source
    thread."""

    @property
    def user_functions(self) -> tuple[object, ...]:
        """The user's code in here, for checking that it can be pickled and for accurate errors."""
        held = (getattr(self, name, None) for name in ("function", "reduce", "aggregate", "process"))
        return tuple(function for function in held if function is not None)

    @property
    def ends_chain(self) -> bool:
        """Whether no operator may join the chain behind it, as it still gives rows when its own data have ended."""
        return False


# -- sources and sinks -------------------------------------------------------------------------------------------


class SourceFactory(OperatorFactory, frozen=True):
    """Reads a source, with event times and watermarks by the strategy."""

    source: Source
    watermark_strategy: WatermarkStrategy
    watermark: OperatorFactory | None = None
    """A WatermarkAssignerFactory that makes the watermark of each split in place of the strategy; rows keep the event
    times that they come with."""
    default_strategy = ChainingStrategy.HEAD
    inputs = 0


class SinkFactory(OperatorFactory, frozen=True):
    """Writes to a sink."""

    sink: Sink
    is_changelog: bool = False
    """Whether the rows come from a changelog, which the compiler finds out."""
    gives_committables: bool = False
    """Whether what it has committed goes on, to operators that the sink has added."""
    gives_prepared: bool = False
    """Whether what its writers have prepared goes through operators that the sink has added, to its committer."""

    @property
    def ends_chain(self) -> bool:
        return self.gives_committables or self.gives_prepared


class GlobalCommitterFactory(OperatorFactory, frozen=True):
    """Commits what the writers of a sink have prepared, where they do not do so themselves: the sink commits globally,
    or has operators between these and its committer."""

    sink: Sink
    gives_committables: bool = False
    """As of `SinkFactory`."""
    takes_messages: bool = False
    """Whether committables come through operators of the sink, as messages of its stream of committables."""
    barriers_overtake = False
    default_strategy = ChainingStrategy.NEVER


class TimestampsAndWatermarksFactory(OperatorFactory, frozen=True):
    """Assigns event times and watermarks behind a source."""

    strategy: WatermarkStrategy
    changelog = ChangelogRole.KEEPS


class RowtimeFactory(OperatorFactory, frozen=True):
    """Makes a column and the event times of rows the same. Watermarks pass as they are."""

    column: str
    is_added: bool = False
    """Whether the column is made of the event times, as an instant of milliseconds; otherwise these are made of it."""
    shift_ms: Millis = Millis(0)
    """How much later than the column the event times are."""
    drops: bool = False
    """Whether the column is left out of the results."""
    zone: str | None = "UTC"
    """The zone of an added column; None: it has times of UTC that say no zone."""
    may_be_null: bool = False
    """Whether rows whose column is NULL pass without an event time; otherwise they fail the job."""
    changelog = ChangelogRole.KEEPS


# -- row functions -----------------------------------------------------------------------------------------------


class MapFactory(OperatorFactory, frozen=True):
    """Gives `function(value)` for each value."""

    function: Function | Callable[[Any], Any]
    output_type: RecordType | None = None
    is_row_function = True
    changelog = ChangelogRole.KEEPS


class FlatMapFactory(OperatorFactory, frozen=True):
    """Gives the values of `function(value)`, an iterable or None, for each value."""

    function: Function | Callable[[Any], Any]
    output_type: RecordType | None = None
    is_row_function = True
    changelog = ChangelogRole.KEEPS


class FilterFactory(OperatorFactory, frozen=True):
    """Keeps the values for which the function is true."""

    function: Function | Callable[[Any], bool]
    is_row_function = True
    changelog = ChangelogRole.KEEPS


# -- columnar functions ------------------------------------------------------------------------------------------


OBJECTS_IN_ARROW = (
    "its input is objects, which have no Arrow columns; set output_type= of the function before to what Arrow holds, "
    'or take them as they are, with map_batches(..., batch_format="numpy") or "pandas"'
)


class MapBatchesFactory(OperatorFactory, frozen=True):
    """`function(batch)` on a pa.RecordBatch, a pandas DataFrame or a dict of numpy arrays; a callable or a class.

    It may return fewer or more rows than it got; event times are kept where the number of rows is unchanged,
    and otherwise every row gets the batch's highest. Of a changelog it must return as many rows as it got: they keep
    their kinds.
    """

    function: Callable[[Any], Any]
    batch_format: str = "pyarrow"
    output_type: RecordType | None = None
    changelog = ChangelogRole.KEEPS


class AsyncFactory(OperatorFactory, frozen=True):
    """Many calls at once, of an AsyncFunction, a coroutine function or a plain function that blocks.

    Starts a chain: it takes rows only while there is room, and waits for its last results before its input has ended,
    while timers still fire.
    """

    function: Function | Callable[[Any], Any]
    timeout_ms: Millis
    """The time limit of all attempts of a row; 0: none."""
    capacity: int
    is_ordered: bool
    retry: AsyncRetryStrategy
    output_type: RecordType | None = None
    default_strategy = ChainingStrategy.HEAD
    changelog = ChangelogRole.KEEPS

    @property
    def user_functions(self) -> tuple[object, ...]:
        return self.function, self.retry


class ProjectFactory(OperatorFactory, frozen=True):
    """New columns from expressions. `keep` says what of the input's columns stays, in its order, before new ones."""

    columns: tuple[tuple[str, Expression], ...]
    keep: frozenset[str] | None = frozenset()
    """Names that stay; None: all. A new column of the same name takes the old one's place."""
    changelog = ChangelogRole.KEEPS


class DropFactory(OperatorFactory, frozen=True):
    """Leaves columns out."""

    columns: tuple[str, ...]
    changelog = ChangelogRole.KEEPS


class RenameFactory(OperatorFactory, frozen=True):
    """Gives columns new names."""

    renames: tuple[tuple[str, str], ...]
    """(old, new)"""
    changelog = ChangelogRole.KEEPS


class WhereFactory(OperatorFactory, frozen=True):
    """Keeps the rows for which a boolean expression is true."""

    predicate: Expression
    changelog = ChangelogRole.KEEPS


class CalcFactory(OperatorFactory, frozen=True):
    """Keeps the rows for which a condition of SQL is true, and computes columns of them; after Flink's Calc."""

    columns: tuple[tuple[str, LogicalType], ...]
    """The columns of the input that the expressions read by their numbers."""
    projections: tuple[tuple[str, BoundExpression], ...]
    predicate: BoundExpression | None = None
    changelog = ChangelogRole.KEEPS


class DecodeFactory(OperatorFactory, frozen=True):
    """Reads messages in a column as rows."""

    message_format: MessageFormat
    column: str
    keep: tuple[str, ...]
    """Columns that the rows have in front, of the row that their message was in."""
    bad_messages: Literal["fail", "skip"] | OutputTag
    changelog = ChangelogRole.KEEPS


class EncodeFactory(OperatorFactory, frozen=True):
    """Writes rows as messages."""

    message_format: MessageFormat
    changelog = ChangelogRole.KEEPS


class AsChangelogFactory(OperatorFactory, frozen=True):
    """Takes out the column that says what each row does in a changelog, and begins that."""

    column: str
    changelog = ChangelogRole.BEGINS


class KindsAsColumnFactory(OperatorFactory, frozen=True):
    """Puts what each row does in a changelog into a column, and ends that."""

    column: str
    changelog = ChangelogRole.ENDS


# -- keyed and process functions ---------------------------------------------------------------------------------


class RunningAggregateFactory(OperatorFactory, frozen=True):
    """One result per row: the row's key columns and the aggregates over all rows of that key so far, it included."""

    aggregates: tuple[tuple[str, Aggregate], ...]


class RunningColumnFactory(OperatorFactory, frozen=True):
    """sum, min, max, min_by, max_by of a column: the row as it came, with that column replaced (Flink's semantics:
    sum/min/max keep the first row's other columns; min_by/max_by give the whole row with the extreme value)."""

    mode: str
    column: str | int
    output_type: RecordType | None = None


class ReduceFactory(OperatorFactory, frozen=True):
    """Running reduce per key: one result per row."""

    function: Function | Callable[[Any, Any], Any]
    output_type: RecordType | None = None


class ProcessFactory(OperatorFactory, frozen=True):
    """A ProcessFunction or KeyedProcessFunction (keyed exactly where the transformation has a key), or a plain
    `function(value, ctx)`."""

    function: Function | Callable[..., Any]
    output_type: RecordType | None = None


class CoMapFactory(OperatorFactory, frozen=True):
    """A CoMapFunction on two inputs."""

    function: Function
    output_type: RecordType | None = None
    inputs = 2


class CoFlatMapFactory(OperatorFactory, frozen=True):
    """A CoFlatMapFunction on two inputs."""

    function: Function
    output_type: RecordType | None = None
    inputs = 2


class CoProcessFactory(OperatorFactory, frozen=True):
    """A CoProcessFunction or KeyedCoProcessFunction."""

    function: Function
    output_type: RecordType | None = None
    inputs = 2


class BroadcastProcessFactory(OperatorFactory, frozen=True):
    """A BroadcastProcessFunction or KeyedBroadcastProcessFunction: input 1 is broadcast, input 0 may be keyed."""

    function: Function
    descriptors: tuple[MapStateDescriptor, ...]
    """The descriptors of the broadcast states."""
    output_type: RecordType | None = None
    inputs = 2


# -- windows -----------------------------------------------------------------------------------------------------


class WindowFactory(OperatorFactory, frozen=True):
    """Keyed windows with exactly one of: built-in `aggregates` (columnar), `reduce`, `aggregate`, or only `process`.

    `process` may accompany `reduce` or `aggregate` (incremental aggregation; it then gets the one result).
    """

    assigner: WindowAssigner
    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    reduce: Function | Callable[[Any, Any], Any] | None = None
    aggregate: Function | None = None
    process: Function | Callable[..., Any] | None = None
    allowed_lateness_ms: Millis = Millis(0)
    late_tag: OutputTag | None = None
    output_type: RecordType | None = None
    trigger: Trigger | None = None
    """The trigger; None: the assigner's default."""
    evictor: Evictor | None = None
    bounds_type: pa.DataType | None = None
    """A timestamp in milliseconds, of which bounds of windows in rows of built-in aggregates are; None: int64."""


class LocalWindowAggregateFactory(OperatorFactory, frozen=True):
    """The first of two phases of a window: before the exchange, rows of a batch become partial aggregates of what the
    window will merge. The compiler puts it there; no call of the API does."""

    window: WindowFactory
    key: ColumnKey | None
    """The key of the window; None: it has none."""


class WindowCoGroupFactory(OperatorFactory, frozen=True):
    """Two keyed inputs meet per key and window: `function(first_rows, second_rows)` once per firing, or with
    `is_join` `function(first, second)` for every pair. `function` None with `is_join`: the columnar inner join,
    whose rows are the first's columns, then the second's (a name that both have gets the suffix `_right`, and the
    second's key columns are left out)."""

    assigner: WindowAssigner
    is_join: bool
    function: Function | Callable[..., Any] | None = None
    allowed_lateness_ms: Millis = Millis(0)
    late_tag: OutputTag | None = None
    output_type: RecordType | None = None
    trigger: Trigger | None = None
    """The trigger; None: the assigner's default."""
    evictor: Evictor | None = None
    inputs = 2


class IntervalJoinFactory(OperatorFactory, frozen=True):
    """Two keyed inputs: pairs where `lower_ms <= right's event time - left's <= upper_ms`, through `function(left,
    right, ctx)`, a ProcessJoinFunction or a callable. `function` None: the pairs in columns, laid out as those of the
    columnar window join."""

    lower_ms: Millis
    upper_ms: Millis
    function: Function | Callable[..., Any] | None = None
    late_tags: tuple[OutputTag | None, OutputTag | None] = (None, None)
    """The side outputs for late rows of each input; None: they are dropped."""
    output_type: RecordType | None = None
    inputs = 2


class PatternFactory(OperatorFactory, frozen=True, kw_only=True):
    """Matches of a pattern, and what the user makes of them."""

    pattern: Pattern
    function: Function | Callable[..., Any]
    mode: str
    """select, flat_select or process."""
    is_event_time: bool = True
    late_tag: OutputTag | None = None
    timed_out_tag: OutputTag | None = None
    timed_out_select: Callable[..., Any] | None = None
    output_type: RecordType | None = None

    @property
    def user_functions(self) -> tuple[object, ...]:
        conditions = [leaf for leaf in self.pattern.leaves() if callable(leaf)]
        timed_out = () if self.timed_out_select is None else (self.timed_out_select,)
        return (self.function, *timed_out, *conditions)


class IterationInputFactory(OperatorFactory, frozen=True):
    """The entry of a stream into the iteration of that id; its rows pass as they are."""

    iteration_id: str


class MultipleInputFactory(OperatorFactory, frozen=True):
    """Several inputs into one row function `function(input_index, value)` that yields results; takes sources into
    its own chain (HEAD_WITH_SOURCES)."""

    function: Callable[[int, Any], Any]
    number_of_inputs: int
    output_type: RecordType | None = None
    default_strategy = ChainingStrategy.HEAD_WITH_SOURCES


# -- tables ------------------------------------------------------------------------------------------------------


class TableFactory(OperatorFactory, frozen=True, kw_only=True):
    """Base of the operators of tables (`table_factories.py`), which know the columns of their inputs, and take the
    changes that the planner of SQL lets come."""

    input_rows: tuple[RowType, ...]
    """The columns of the rows of each input, which has exactly these, in this order."""
    rows: RowType
    """The columns of the results."""
    takes: tuple[Changes, ...]
    """What the rows of each input do."""
    gives: Changes = INSERTS
    """What the results do."""
    state_ttl_ms: Millis = Millis(0)
    """State that was not written for so long is forgotten; 0: never."""
    least_rows: int = 0
    """How many rows wait for each other before they are processed; 1: each is processed on its own; 0: as they come."""
    wait_ms: Millis = Millis(0)
    """How long a row waits for others."""


def input_count(factory: OperatorFactory) -> int:
    """Number of logical inputs of the operator that `factory` describes."""
    return factory.number_of_inputs if isinstance(factory, MultipleInputFactory) else factory.inputs


def changelog_role(factory: OperatorFactory) -> ChangelogRole:
    """What the operator that `factory` describes does with the kinds of rows."""
    match factory:
        case SourceFactory():
            return ChangelogRole.BEGINS if factory.source.is_changelog else ChangelogRole.REFUSES
        case SinkFactory():
            takes_inserts_only = factory.sink.accepts is ChangelogMode.INSERT_ONLY
            return ChangelogRole.REFUSES if takes_inserts_only else ChangelogRole.ENDS
        case AsyncFactory(is_ordered=False):
            return ChangelogRole.REFUSES
        case TableFactory():
            return ChangelogRole.ENDS if factory.gives.is_insert_only else ChangelogRole.MAKES
        case DecodeFactory() if factory.message_format.is_changelog:
            return ChangelogRole.BEGINS
        case EncodeFactory() if factory.message_format.is_changelog:
            return ChangelogRole.ENDS
    return factory.changelog
