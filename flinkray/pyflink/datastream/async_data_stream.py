"""`pyflink.datastream.async_data_stream`: without a declared type, results are any Python objects, as in PyFlink."""

from __future__ import annotations

from typing import Any

from flinkray.functions.asynchronous import AsyncFunction, AsyncRetryStrategy
from flinkray.pyflink.datastream.data_stream import DataStream, declared
from flinkray.pyflink.imported_names import imported
from flinkray.streams import async_data_stream
from flinkray.streams import data_stream as datastream
from flinkray.time.durations import Duration

__all__ = ["AsyncDataStream"]

__getattr__ = imported(__name__)


class AsyncDataStream(async_data_stream.AsyncDataStream):
    """flinkray's AsyncDataStream, for PyFlink's streams and with PyFlink's rule for types."""

    @classmethod
    def _wait(
        cls,
        data_stream: datastream.DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        retry_strategy: AsyncRetryStrategy,
        capacity: int,
        output_type: Any,
        *,
        is_ordered: bool,
    ) -> DataStream:
        results = super()._wait(
            data_stream,
            async_function,
            timeout,
            retry_strategy,
            capacity,
            declared(output_type),
            is_ordered=is_ordered,
        )
        return DataStream.of(results)
