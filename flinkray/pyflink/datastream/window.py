"""`pyflink.datastream.window`: the same classes, with the nested names and brackets that programs annotate with."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import Any, BinaryIO

from flinkray.pyflink.common.serializer import TypeSerializer
from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable
from flinkray.time.windows import CountWindow, GlobalWindow
from flinkray.time.windows import Window as TimeWindow
from flinkray.windows import assigners as windowing
from flinkray.windows import triggers
from flinkray.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    MergeCallback,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssignerContext,
)
from flinkray.windows.assigners import EventTimeSessionWindows as DynamicEventTimeSessionWindows
from flinkray.windows.assigners import ProcessingTimeSessionWindows as DynamicProcessingTimeSessionWindows
from flinkray.windows.continuous_triggers import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from flinkray.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    OnMergeContext,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TriggerContext,
    TriggerResult,
)

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeWindow",
    "TimeWindowSerializer",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
]


__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "Min WindowOperationDescriptor long_to_int_with_bit_mixing mod_inverse",
        "it is how PyFlink itself runs windows; use window(), with an assigner and a trigger",
    ),
)


class Window(ABC):
    """Base of windows of one's own; flinkray's count as such."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """The last millisecond that belongs to the window."""


for _window in (TimeWindow, CountWindow, GlobalWindow):
    Window.register(_window)


class _Bracketed:
    """`Trigger[tuple, TimeWindow]` is the class itself."""

    def __class_getitem__(cls, _parameters: Any) -> Any:
        return cls


class Trigger(_Bracketed, triggers.Trigger):
    TriggerContext = TriggerContext
    OnMergeContext = OnMergeContext


class WindowAssigner(_Bracketed, windowing.WindowAssigner):
    WindowAssignerContext = WindowAssignerContext


class MergingWindowAssigner(_Bracketed, windowing.MergingWindowAssigner):
    WindowAssignerContext = WindowAssignerContext
    MergeCallback = MergeCallback


# Windows travel pickled. The serializers are for assigners whose `get_window_serializer` gives one.


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    def serialize(self, element: TimeWindow, stream: BinaryIO) -> None:
        stream.write(struct.pack(">qq", element.start, element.end))

    def deserialize(self, stream: BinaryIO) -> TimeWindow:
        return TimeWindow(*struct.unpack(">qq", stream.read(16)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    def serialize(self, element: CountWindow, stream: BinaryIO) -> None:
        stream.write(struct.pack(">q", element.id))

    def deserialize(self, stream: BinaryIO) -> CountWindow:
        return CountWindow(*struct.unpack(">q", stream.read(8)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    def serialize(self, element: GlobalWindow, stream: BinaryIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BinaryIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow()
