"""`pyflink.datastream.data_stream`."""

from __future__ import annotations

from flinkray.connected_streams import ConnectedStreams
from flinkray.data_stream_sink import DataStreamSink
from flinkray.datastream import DataStream
from flinkray.keyed_stream import KeyedStream
from flinkray.windowed_stream import WindowedStream

__all__ = ["ConnectedStreams", "DataStream", "DataStreamSink", "KeyedStream", "WindowedStream"]
