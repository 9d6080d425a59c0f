"""What users write: functions with a life cycle, and the contexts they are called with (names after PyFlink).

A plain callable does wherever no state, timer or life cycle is needed. All methods of one instance are called by one
thread, the task's own. Process functions are generators (or return an iterable, or None): they `yield value` for the
main output and `yield tag, value` for a side output, where `tag` is an `OutputTag`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from flinkray.functions.metrics import MetricGroup
from flinkray.state.descriptors import KeyedStateStore, ListState, ListStateDescriptor, MapState, MapStateDescriptor
from flinkray.types.records import MaybeNone

if TYPE_CHECKING:
    from flinkray.time.windows import Window

F = TypeVar("F")


class RuntimeContext(KeyedStateStore, Protocol):
    """What `open` gets: where the function runs, and its state."""

    def get_task_name(self) -> str:
        """The operator's name."""

    def get_task_name_with_subtasks(self) -> str:
        """The operator's name with the subtask, for example `map (1/2)`."""

    def get_number_of_parallel_subtasks(self) -> int:
        """The operator's parallelism."""

    def get_max_number_of_parallel_subtasks(self) -> int:
        """The operator's max parallelism: its number of key groups."""

    def get_index_of_this_subtask(self) -> int:
        """The index of the subtask: 0 to parallelism - 1."""

    def get_attempt_number(self) -> int:
        """0 for the first attempt of the subtask, one more after each restart of it."""

    def get_job_name(self) -> str:
        """The name that the job was submitted under."""

    def get_cached_file(self, name: str) -> str:
        """The local path of a file registered with `env.register_cached_file`."""

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """The value that `pipeline.global-job-parameters` has for the key, else `default_value`."""

    def get_metrics_group(self) -> MetricGroup:
        """A group for figures of the function's own, reported beside those of its operator."""

    def add_accumulator(self, name: str, initial: int | float = 0) -> Accumulator:
        """A counter that is summed over all subtasks and returned with the job's result."""


class Accumulator(Protocol):
    """A number that all subtasks add to. It counts from its initial value again when a task is restarted."""

    def add(self, value: int | float) -> None:
        """Adds to it; called by the thread of the function."""


class Function:
    """Base of all functions: `open` and `close` are called by the task's thread; override what is needed."""

    def __class_getitem__(cls, _types: Any) -> Any:
        """The class itself: PyFlink's programs write types in brackets behind it."""
        return cls

    def open(self, runtime_context: RuntimeContext, /) -> None:
        """Called once before the first row."""

    def close(self) -> None:
        """Called once after the last row, also when the task failed or was cancelled."""


class WrappedFunction(Function, Generic[F]):
    """Mixed into a function of one form around one of another, or a callable, whose life it shares."""

    def __init__(self, wrapped: F) -> None:
        self.wrapped = wrapped

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self.wrapped, Function):
            self.wrapped.open(runtime_context)

    def close(self) -> None:
        if isinstance(self.wrapped, Function):
            self.wrapped.close()


class OperatorStateStore(Protocol):
    """State of a function that belongs to no key: each subtask has its own."""

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """The subtasks share the elements out when a job goes on with more or fewer of them."""

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """When a job goes on, every subtask gets the elements of all."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """When a job goes on, every subtask gets the entries of one: for what is the same at all of them."""


class FunctionInitializationContext(OperatorStateStore, Protocol):
    """The argument of `CheckpointedFunction.initialize_state`."""

    @property
    def is_restored(self) -> bool:
        """The job goes on from a checkpoint or savepoint: the states hold what was saved in it."""


class FunctionSnapshotContext(FunctionInitializationContext, Protocol):
    """The argument of `CheckpointedFunction.snapshot_state`."""

    @property
    def checkpoint_id(self) -> int:
        """The number of the checkpoint that is being taken."""


class CheckpointedFunction(ABC):
    """Mixed into a function that keeps something besides keyed state, for example rows that it buffers (Flink's).

    `class Buffer(FlatMapFunction, CheckpointedFunction): ...`. Both methods are called by the task's thread.
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext, /) -> None:
        """Called once, before `open`: asks for the states, and takes back what they hold."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext, /) -> None:
        """Called for every checkpoint: brings the states up to date. What they hold then is saved."""


class MapFunction(Function, ABC):
    """For `map`: one value out for each value in."""

    @abstractmethod
    def map(self, value: Any, /) -> Any:
        """One value in, one value out."""


class FlatMapFunction(Function, ABC):
    """For `flat_map`: any number of values out for each value in."""

    @abstractmethod
    def flat_map(self, value: Any, /) -> Iterable[Any] | None:
        """One value in, any number out: a generator, or an iterable, or None."""


class FilterFunction(Function, ABC):
    """For `filter`: says which values stay."""

    @abstractmethod
    def filter(self, value: Any, /) -> bool:
        """Whether to keep the value."""


class KeySelectorFunction(Function, ABC):
    """For `key_by` and the like: gives the key of a value."""

    @abstractmethod
    def get_key(self, value: Any, /) -> Any:
        """The key of a value; hashable."""


class ReduceFunction(Function, ABC):
    """For `reduce` of keys and windows: makes one value of two."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any, /) -> Any:
        """One value of both, of the same type. It must be associative."""


class AggregateFunction(Function, ABC):
    """An accumulator per key (and window)."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """A new accumulator, of no values yet; anything that can be pickled."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any, /) -> Any:
        """The accumulator with the value added."""

    @abstractmethod
    def get_result(self, accumulator: Any, /) -> Any:
        """The result of an accumulator, which may be added to afterwards."""

    def merge(self, accumulator_a: Any, accumulator_b: Any, /) -> Any:
        """One accumulator of both; needed for windows that merge, such as sessions."""
        raise TypeError(f"{type(self).__name__} needs a merge method for windows that merge")


class CoMapFunction(Function, ABC):
    """For `map` of connected streams: one method per stream."""

    @abstractmethod
    def map1(self, value: Any, /) -> Any:
        """One value out for a value of the first stream."""

    @abstractmethod
    def map2(self, value: Any, /) -> Any:
        """One value out for a value of the second stream."""


class CoFlatMapFunction(Function, ABC):
    """For `flat_map` of connected streams: one method per stream."""

    @abstractmethod
    def flat_map1(self, value: Any, /) -> Iterable[Any] | None:
        """Any number of values out for a value of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any, /) -> Iterable[Any] | None:
        """Any number of values out for a value of the second stream."""


class TimerService(Protocol):
    """Timers of the current key. A timer that is registered twice fires once."""

    def current_processing_time(self) -> int:
        """Epoch milliseconds."""

    def current_watermark(self) -> int:
        """Epoch milliseconds; MIN_TIMESTAMP before the first watermark."""

    def register_event_time_timer(self, timestamp: int) -> None:
        """Has `on_timer` called for the current key when the watermark reaches `timestamp` (epoch milliseconds)."""

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Has `on_timer` called for the current key when the clock reaches `timestamp` (epoch milliseconds)."""

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Takes back the timer of the current key at `timestamp`; does nothing where there is none."""

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Takes back the timer of the current key at `timestamp`; does nothing where there is none."""


class TimeDomain(str, enum.Enum):  # noqa: UP042  (str() gives the member's name, as in PyFlink)
    """Which clock a timer goes by."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


class ProcessContext(Protocol):
    """The second argument of process functions."""

    def timestamp(self) -> int | MaybeNone:
        """Event time of the current row, or None."""

    def timer_service(self) -> TimerService:
        """Timers of the current key, and the clocks they go by; timers can be set in keyed functions only."""

    def get_current_key(self) -> Any:
        """The current key; raises outside a keyed function."""


class OnTimerContext(ProcessContext, Protocol):
    """The second argument of `on_timer`. Its `timestamp` is that of the timer."""

    def time_domain(self) -> TimeDomain:
        """`TimeDomain.EVENT_TIME` or `TimeDomain.PROCESSING_TIME`."""


class ProcessFunction(Function, ABC):
    """For `process`: sees each value with its context, and may give side outputs."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessContext, /) -> Iterable[Any] | None:
        """Called for each value: yields results, and `tag, value` for a side output."""


class KeyedProcessFunction(ProcessFunction):
    """For `process` of a keyed stream: has state of the key, from its `open`, and timers."""

    def on_timer(self, timestamp: int, ctx: OnTimerContext, /) -> Iterable[Any] | None:
        """A timer of the current key fired."""
        return None


class CoProcessFunction(Function, ABC):
    """For `process` of connected streams: one method per stream."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: ProcessContext, /) -> Iterable[Any] | None:
        """Called for each value of the first stream: yields results, and `tag, value` for a side output."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: ProcessContext, /) -> Iterable[Any] | None:
        """Called for each value of the second stream: yields results, and `tag, value` for a side output."""


class KeyedCoProcessFunction(CoProcessFunction):
    """For `process` of connected streams that are keyed: both inputs share state and timers of the key."""

    def on_timer(self, timestamp: int, ctx: OnTimerContext, /) -> Iterable[Any] | None:
        """A timer of the current key fired."""
        return None


class WindowContext(Protocol):
    """What a ProcessWindowFunction knows of the window that fires."""

    def window(self) -> Window:
        """The window that fires."""

    def current_watermark(self) -> int:
        """Epoch milliseconds; MIN_TIMESTAMP before the first watermark."""

    def current_processing_time(self) -> int:
        """Epoch milliseconds."""

    def window_state(self) -> KeyedStateStore:
        """State of the key and this window; `clear` of the function is where to drop it."""

    def global_state(self) -> KeyedStateStore:
        """State of the key that outlives its windows; the same as the runtime context's."""


class ProcessWindowFunction(Function, ABC):
    """Called once per key and firing, with all rows of the window (or the one aggregated result)."""

    @abstractmethod
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any], /) -> Iterable[Any] | None:
        """Called for each firing of a window: yields results, and `tag, value` for a side output."""

    def clear(self, context: WindowContext, /) -> None:
        """The window is over; drop what was kept for it."""


class WindowFunction(Function, ABC):
    """A ProcessWindowFunction that needs no more of the context than the window."""

    @abstractmethod
    def apply(self, key: Any, window: Window, inputs: Iterable[Any], /) -> Iterable[Any] | None:
        """Called for each firing of a window with its rows: yields results."""


class ProcessAllWindowFunction(Function, ABC):
    """A ProcessWindowFunction for windows over all rows of a stream, which have no key."""

    @abstractmethod
    def process(self, context: WindowContext, elements: Iterable[Any], /) -> Iterable[Any] | None:
        """Called for each firing of a window: yields results, and `tag, value` for a side output."""

    def clear(self, context: WindowContext, /) -> None:
        """The window is over; drop what was kept for it."""


class AllWindowFunction(Function, ABC):
    """A WindowFunction for windows over all rows of a stream, which have no key."""

    @abstractmethod
    def apply(self, window: Window, inputs: Iterable[Any], /) -> Iterable[Any] | None:
        """Called for each firing of a window with its rows: yields results."""


class JoinFunction(Function, ABC):
    """For `apply` of a window join: called for every pair of rows with one key in one window."""

    @abstractmethod
    def join(self, first: Any, second: Any, /) -> Any:
        """One result for the pair."""


class ProcessJoinContext(Protocol):
    """The third argument of a ProcessJoinFunction: event times, in epoch milliseconds."""

    def get_left_timestamp(self) -> int:
        """The event time of the left row."""

    def get_right_timestamp(self) -> int:
        """The event time of the right row."""

    def get_timestamp(self) -> int:
        """The event time of the pair and of its results: the later of the two."""


class ProcessJoinFunction(Function, ABC):
    """Called for every pair of an interval join."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinContext, /) -> Iterable[Any] | None:
        """Called for a pair: yields results, and `tag, value` for a side output."""


class CoGroupFunction(Function, ABC):
    """Called once per key and window, with the rows of both sides; either may be empty."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any], /) -> Iterable[Any] | None:
        """Called for each key and firing of a window: yields results."""


class SourceFunction(Function, ABC):
    """A blocking source of the old kind: runs on a thread of its own, hands rows over through a bounded queue."""

    @abstractmethod
    def run(self, ctx: SourceContext, /) -> Iterator[Any] | None:
        """Yield rows (or call `ctx.collect`) until done or cancelled."""

    def cancel(self) -> None:
        """Make `run` return soon; called by another thread."""


class SourceContext(Protocol):
    """What a source function gives its values to. Belongs to the thread of the function."""

    def collect(self, value: Any) -> None:
        """Hands a value over, without event time; waits while the task is behind."""

    def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
        """Hands a value over with its event time (epoch milliseconds); waits while the task is behind."""

    def is_cancelled(self) -> bool:
        """Whether the source is to end: nobody takes further values."""

    @property
    def subtask_index(self) -> int:
        """The index of the subtask: 0 to `parallelism` - 1."""

    @property
    def parallelism(self) -> int:
        """The number of subtasks, each of which calls the function."""


class SinkFunction(Function, ABC):
    """For `add_sink`: takes each value."""

    @abstractmethod
    def invoke(self, value: Any) -> None:
        """Called for each value, in the thread of the task. After a failure values come again."""


def as_callable(function: Function | Callable[..., Any], method: str) -> Callable[..., Any]:
    """The bound `method` of a Function object, or the callable itself."""
    bound = getattr(function, method, None)
    if callable(bound) and isinstance(function, Function):
        return bound  # type: ignore[no-any-return]
    if callable(function):
        return function
    raise TypeError(f"expected a callable or an object with a {method} method, got {function!r}")
