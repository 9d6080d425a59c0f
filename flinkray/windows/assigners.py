"""Window assigners: which windows a row belongs to. Descriptions; the operators are in `actors.operators.windows`."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from flinkray.state.descriptors import ValueStateDescriptor
from flinkray.time.durations import Duration, to_millis
from flinkray.time.windows import CountWindow, GlobalWindow, Window
from flinkray.types.records import MAX_TIMESTAMP, Millis

if TYPE_CHECKING:
    from flinkray.functions.interfaces import RuntimeContext
    from flinkray.windows.triggers import Trigger


class WindowAssignerContext(Protocol):
    """What an assigner may ask for."""

    def get_current_processing_time(self) -> int:
        """Epoch milliseconds."""

    def get_runtime_context(self) -> RuntimeContext:
        """The runtime context, for state of the current key."""


class WindowAssigner(ABC):
    """Which windows a row belongs to. Subclass it for windows of your own; they run row by row."""

    @abstractmethod
    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[Any]:
        """The windows of a row: objects that are hashable, picklable, and have `max_timestamp()`.

        Args:
            timestamp: the row's event time; of no meaning where the assigner's time is processing time.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any = None) -> Trigger:
        """The trigger of its windows where the program sets none."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether its windows end by event time, and rows can be late for them."""


def is_of_users(assigner: WindowAssigner) -> bool:
    """Whether the user says which windows an element gets, so that it need not be by its time."""
    return type(assigner).assign_windows.__module__ != __name__


class MergeCallback(ABC):
    """What `merge_windows` tells about windows that belong together; it may also be called as a function."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """The windows `to_be_merged` become the window `merge_result`."""

    def __call__(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.merge(to_be_merged, merge_result)


class MergingWindowAssigner(WindowAssigner):
    """Base of assigners whose windows may merge, as sessions do."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[Any], callback: Any) -> None:
        """Calls `callback(those that merge, their merged window)` for each set of two or more that belong together.

        Args:
            callback: a function, or a MergeCallback.
        """


# -- time windows of one size, aligned to the epoch


@dataclass(frozen=True, slots=True, init=False)
class AlignedWindows(WindowAssigner):
    """Base of tumbling and sliding windows: [start, start + size) for every start = offset + n * slide."""

    size_ms: Millis
    slide_ms: Millis
    offset_ms: Millis
    _uses_event_time: ClassVar[bool] = True

    def __init__(self, size: Duration, slide: Duration, offset: Duration = 0) -> None:
        for field, value in (
            ("size_ms", to_millis(size, "size")),
            ("slide_ms", to_millis(slide, "slide")),
            ("offset_ms", _offset(offset)),
        ):
            object.__setattr__(self, field, value)  # a frozen dataclass says no to a plain assignment
        name = type(self).__name__
        if self.size_ms <= 0 or self.slide_ms <= 0:
            raise ValueError(f"{name}: size and slide must be positive, got {self.size_ms} ms and {self.slide_ms} ms")
        # The offset shifts the starts within one slide, so it must be smaller than the slide, not the size.
        if abs(self.offset_ms) >= self.slide_ms:
            raise ValueError(
                f"{name}: the offset ({self.offset_ms} ms) must be smaller than the "
                f"{'slide' if self.slide_ms != self.size_ms else 'size'} ({self.slide_ms} ms)"
            )

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> list[Window]:
        """All windows that contain the row's time, ascending."""
        time = timestamp if self._uses_event_time else context.get_current_processing_time()
        last = (time - self.offset_ms) // self.slide_ms * self.slide_ms + self.offset_ms
        count = -(-(last + self.size_ms - time) // self.slide_ms)
        return [
            Window(start, start + self.size_ms)
            for start in range(last - (count - 1) * self.slide_ms, last + 1, self.slide_ms)
        ]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return _time_trigger(self._uses_event_time)

    def is_event_time(self) -> bool:
        return self._uses_event_time


def _time_trigger(is_event_time: bool) -> Trigger:
    from flinkray.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger  # which themselves need windows

    return EventTimeTrigger.create() if is_event_time else ProcessingTimeTrigger.create()


def _offset(offset: Duration) -> Millis:
    return Millis(offset) if isinstance(offset, int) and offset < 0 else to_millis(offset, "offset")


@dataclass(frozen=True, slots=True, init=False)
class TumblingEventTimeWindows(AlignedWindows):
    """Windows of one size by event time, one after another, aligned to the epoch plus an offset."""

    def __init__(self, size: Duration, offset: Duration = 0) -> None:
        """Windows of `size`, one after another, aligned to the epoch plus `offset` (may be negative as an int)."""
        # Dataclasses with slots are made anew, so super() without arguments would look for the former class.
        AlignedWindows.__init__(self, size, size, offset)

    @staticmethod
    def of(size: Duration, offset: Duration = 0) -> TumblingEventTimeWindows:
        """Windows of `size`, one after another, aligned to the epoch plus `offset` (may be negative as an int)."""
        return TumblingEventTimeWindows(size, offset)


@dataclass(frozen=True, slots=True, init=False)
class SlidingEventTimeWindows(AlignedWindows):
    """Windows of one size by event time, one starting every slide."""

    @staticmethod
    def of(size: Duration, slide: Duration, offset: Duration = 0) -> SlidingEventTimeWindows:
        """Windows of `size`, one starting every `slide`."""
        return SlidingEventTimeWindows(size, slide, offset)


@dataclass(frozen=True, slots=True, init=False)
class TumblingProcessingTimeWindows(AlignedWindows):
    """Windows of one size by the clock at which rows arrive, one after another."""

    _uses_event_time: ClassVar[bool] = False

    def __init__(self, size: Duration, offset: Duration = 0) -> None:
        """Windows of `size` by the clock at which rows arrive."""
        # Dataclasses with slots are made anew, so super() without arguments would look for the former class.
        AlignedWindows.__init__(self, size, size, offset)

    @staticmethod
    def of(size: Duration, offset: Duration = 0) -> TumblingProcessingTimeWindows:
        """Windows of `size` by the clock at which rows arrive."""
        return TumblingProcessingTimeWindows(size, offset)


@dataclass(frozen=True, slots=True, init=False)
class SlidingProcessingTimeWindows(AlignedWindows):
    """Windows of one size by the clock at which rows arrive, one starting every slide."""

    _uses_event_time: ClassVar[bool] = False

    @staticmethod
    def of(size: Duration, slide: Duration, offset: Duration = 0) -> SlidingProcessingTimeWindows:
        """Windows of `size` by the clock at which rows arrive, one starting every `slide`."""
        return SlidingProcessingTimeWindows(size, slide, offset)


# -- time windows that begin together, of growing size; SQL's CUMULATE


@dataclass(frozen=True, slots=True, init=False)
class CumulativeWindows(AlignedWindows):
    """Base of windows [start, start + n * step) for every n up to size / step, for every start = offset + m * size.

    The step is `slide_ms`, and divides the size.
    """

    def __init__(self, size: Duration, step: Duration, offset: Duration = 0) -> None:
        # Dataclasses with slots are made anew, so super() without arguments would look for the former class.
        AlignedWindows.__init__(self, size, step)
        if self.size_ms % self.slide_ms:
            raise ValueError(f"{type(self).__name__}: {self.slide_ms} ms do not divide the size of {self.size_ms} ms")
        object.__setattr__(self, "offset_ms", _offset(offset))  # a frozen dataclass says no to a plain assignment

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> list[Window]:
        """All windows that contain the row's time, the shortest one first."""
        time = timestamp if self._uses_event_time else context.get_current_processing_time()
        start = (time - self.offset_ms) // self.size_ms * self.size_ms + self.offset_ms
        first_end = (time - start) // self.slide_ms * self.slide_ms + start + self.slide_ms
        return [Window(start, end) for end in range(first_end, start + self.size_ms + 1, self.slide_ms)]


@dataclass(frozen=True, slots=True, init=False)
class CumulativeEventTimeWindows(CumulativeWindows):
    """Windows by event time that begin together every size, each a step longer than the one before."""


@dataclass(frozen=True, slots=True, init=False)
class CumulativeProcessingTimeWindows(CumulativeWindows):
    """Windows by the clock at which rows arrive, each a step longer than the one before."""

    _uses_event_time: ClassVar[bool] = False


# -- sessions


@dataclass(frozen=True, slots=True, init=False)
class SessionWindows(MergingWindowAssigner):
    """Base of sessions: a row opens [its time, its time + gap), and windows that overlap or touch become one."""

    gap_ms: Millis | None
    """The gap that must follow each row; None: `gap_function` says it for each."""
    gap_function: Callable[[Any], int] | None
    _uses_event_time: ClassVar[bool] = True

    def __init__(
        self,
        session_gap: Duration | GapExtractor | None = None,
        *,
        session_window_time_gap_extractor: GapExtractor | None = None,
    ) -> None:
        """
        Args:
            session_gap: of all rows; or, as for the other argument, what gives the gap of each row.
        """
        gap = session_window_time_gap_extractor if session_gap is None else session_gap
        is_dynamic = callable(gap) or hasattr(gap, "extract")
        object.__setattr__(self, "gap_ms", None if is_dynamic else _positive_gap(gap))  # type: ignore[arg-type]
        object.__setattr__(self, "gap_function", gap_function(gap) if is_dynamic else None)  # type: ignore[arg-type]

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> list[Window]:
        time = timestamp if self._uses_event_time else context.get_current_processing_time()
        gap = checked_gap(self.gap_ms if self.gap_function is None else self.gap_function(element))
        return [Window(time, min(time + gap, MAX_TIMESTAMP))]  # nothing ends after the end of time

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return _time_trigger(self._uses_event_time)

    def is_event_time(self) -> bool:
        return self._uses_event_time

    def merge_windows(self, windows: Iterable[Window], callback: Callable[[Collection[Window], Window], None]) -> None:
        Window.merge_windows(windows, callback)


def checked_gap(gap: object) -> int:
    """The gap as an int, which numpy's integers become too.

    Raises:
        ValueError: it is no positive whole number.
    """
    if isinstance(gap, bool) or not isinstance(gap, numbers.Integral) or gap <= 0:
        raise ValueError(f"the gap of a session must be a positive number of milliseconds, got {gap!r}")
    return int(gap)


class SessionWindowTimeGapExtractor(ABC):
    """Says how long a row keeps its session open."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The gap that must follow the row, in milliseconds; positive."""


GapExtractor = SessionWindowTimeGapExtractor | Callable[[Any], int]


def gap_function(extractor: GapExtractor) -> Callable[[Any], int]:
    """The function that gives a row's gap: the extractor's method, or the function itself."""
    extract = getattr(extractor, "extract", extractor)
    if not callable(extract):
        raise TypeError(f"a dynamic gap needs a function of the row, or an object with extract, not {extractor!r}")
    return extract


def _positive_gap(gap: Duration) -> Millis:
    gap_ms = to_millis(gap, "gap")
    if gap_ms <= 0:
        raise ValueError(f"the gap of a session must be positive, got {gap!r}")
    return gap_ms


@dataclass(frozen=True, slots=True, init=False)
class EventTimeSessionWindows(SessionWindows):
    """Sessions by event time. Made with `with_gap` or `with_dynamic_gap`."""

    @staticmethod
    def with_gap(size: Duration) -> EventTimeSessionWindows:
        """A key's session ends when no row has an event time less than the gap after its last."""
        return EventTimeSessionWindows(size)

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> EventTimeSessionWindows:
        """As `with_gap`; each row brings the gap that must follow it, `extractor(row)` in milliseconds."""
        return EventTimeSessionWindows(session_window_time_gap_extractor=extractor)


@dataclass(frozen=True, slots=True, init=False)
class ProcessingTimeSessionWindows(SessionWindows):
    """Sessions by processing time. Made with `with_gap` or `with_dynamic_gap`."""

    _uses_event_time: ClassVar[bool] = False

    @staticmethod
    def with_gap(size: Duration) -> ProcessingTimeSessionWindows:
        """A key's session ends when no row of it arrives for the length of the gap."""
        return ProcessingTimeSessionWindows(size)

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> ProcessingTimeSessionWindows:
        """As `with_gap`; each row brings the gap that must follow it, `extractor(row)` in milliseconds."""
        return ProcessingTimeSessionWindows(session_window_time_gap_extractor=extractor)


# -- one window for everything


@dataclass(frozen=True, slots=True)
class GlobalWindows(WindowAssigner):
    """All rows of a key in one window without an end: nothing fires it but a trigger that the program sets."""

    @staticmethod
    def create() -> GlobalWindows:
        """PyFlink's way to make one."""
        return GlobalWindows()

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> list[GlobalWindow]:
        return [GlobalWindow()]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        from flinkray.windows.triggers import NeverTrigger  # which itself needs windows

        return NeverTrigger()

    def is_event_time(self) -> bool:
        return False


# -- windows of a number of rows


_ROWS_OF_KEY = ValueStateDescriptor("count-window-rows", int)


@dataclass(frozen=True, slots=True, init=False)
class _CountWindows(WindowAssigner):
    """Base of count windows: number n has the rows n * slide ... n * slide + size - 1 of its key, counted from 0."""

    size: int
    slide: int

    def __init__(self, window_size: int, window_slide: int) -> None:
        if window_size <= 0 or window_slide <= 0:
            raise ValueError(f"count windows need a positive size and slide, got {window_size} and {window_slide}")
        object.__setattr__(self, "size", window_size)
        object.__setattr__(self, "slide", window_slide)

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> list[CountWindow]:
        rows = context.get_runtime_context().get_state(_ROWS_OF_KEY)
        number = rows.value() or 0
        rows.update(number + 1)
        first = max(0, -((self.size - 1 - number) // self.slide))
        return [CountWindow(id) for id in range(first, number // self.slide + 1)]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        from flinkray.windows.triggers import CountTrigger, PurgingTrigger  # which themselves need windows

        return PurgingTrigger.of(CountTrigger.of(self.size))  # a window that is full never gets another row

    def is_event_time(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, init=False)
class CountTumblingWindowAssigner(_CountWindows):
    """Windows of a number of rows of a key, one after another."""

    def __init__(self, window_size: int) -> None:
        """Every `window_size` rows of a key make a window."""
        _CountWindows.__init__(self, window_size, window_size)

    """Windows of a number of rows of a key, one after another. Made with `of`."""

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Every `window_size` rows of a key make a window."""
        return CountTumblingWindowAssigner(window_size)


@dataclass(frozen=True, slots=True, init=False)
class CountSlidingWindowAssigner(_CountWindows):
    """Windows of a number of rows of a key that overlap. Made with `of`."""

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Windows of `window_size` rows of a key, one beginning every `window_slide` rows."""
        return CountSlidingWindowAssigner(window_size, window_slide)
