"""`pyflink.datastream`."""

from __future__ import annotations

from flinkray.connected_streams import ConnectedStreams
from flinkray.data_stream_sink import DataStreamSink
from flinkray.datastream import DataStream
from flinkray.environment import StreamExecutionEnvironment
from flinkray.functions import TimerService
from flinkray.keyed_stream import KeyedStream
from flinkray.pyflink.datastream.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    TimeDomain,
    WindowFunction,
)
from flinkray.pyflink.datastream.window import SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows
from flinkray.types import OutputTag
from flinkray.windowed_stream import WindowedStream

__all__ = [
    "AggregateFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "FilterFunction",
    "FlatMapFunction",
    "KeySelector",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "OutputTag",
    "Partitioner",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SlidingEventTimeWindows",
    "SourceFunction",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "TumblingEventTimeWindows",
    "WindowFunction",
    "WindowedStream",
]
