"""`pyflink.datastream.async_data_stream`: without a declared type, results are any Python objects, as in PyFlink."""

from __future__ import annotations

from typing import Any

from flinkray.functions.asynchronous import AsyncFunction, AsyncRetryStrategy
from flinkray.pyflink.datastream.data_stream import DataStream, declared
from flinkray.streams import async_data_stream
from flinkray.streams import data_stream as datastream
from flinkray.time.durations import Duration

__all__ = ["AsyncDataStream"]


class AsyncDataStream(async_data_stream.AsyncDataStream):
    """flinkray's, for streams of PyFlink's."""

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: datastream.DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        return DataStream.of(
            async_data_stream.AsyncDataStream.unordered_wait_with_retry(
                data_stream, async_function, timeout, async_retry_strategy, capacity, declared(output_type)
            )
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: datastream.DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        return DataStream.of(
            async_data_stream.AsyncDataStream.ordered_wait_with_retry(
                data_stream, async_function, timeout, async_retry_strategy, capacity, declared(output_type)
            )
        )
