"""AsyncDataStream: applies functions that wait for other systems, with many calls under way at once (PyFlink's)."""

from __future__ import annotations

from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.functions.asynchronous import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from flinkray.streams.checks.functions import async_factory
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.data_stream import DataStream
from flinkray.time.durations import Duration

NAME = "async wait operator"


class AsyncDataStream:
    """How a stream is sent through an AsyncFunction. `DataStream.async_map` does the same for plain functions as well.

    With `ordered_wait` results come in the order of the rows that they belong to; with `unordered_wait` as soon as they
    are there, but never across a watermark. Results have their row's event time.

    Rows whose results have not been emitted are part of a checkpoint; a job that goes on from it calls the function
    with them again.

    Arguments of all four:
        data_stream: the stream whose rows the function is called with.
        async_function: gives a list of results per row.
        timeout: how long a row may take, with all its attempts, before `async_function.timeout` is called instead; an
            int counts milliseconds; 0: for ever.
        async_retry_strategy: when a call is made again.
        capacity: how many rows may be under way at most, in each subtask; then the input waits. With `ordered_wait` a
            row counts until its results have been emitted, which those of earlier rows may hold up.
        output_type: the type of the results, as of `DataStream.map`.
    All raise:
        InvalidProgramError: an argument is not what it should be.
    """

    @classmethod
    def unordered_wait(
        cls,
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """Results as they come; each row's call is made once."""
        return cls._wait(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, is_ordered=False
        )

    @classmethod
    def unordered_wait_with_retry(
        cls,
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """Results as they come; calls are made again as the strategy says."""
        return cls._wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=False
        )

    @classmethod
    def ordered_wait(
        cls,
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """Results in the order of their rows; each row's call is made once."""
        return cls._wait(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, is_ordered=True
        )

    @classmethod
    def ordered_wait_with_retry(
        cls,
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """Results in the order of their rows; calls are made again as the strategy says."""
        return cls._wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=True
        )

    @classmethod
    def _wait(
        cls,
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        retry_strategy: AsyncRetryStrategy,
        capacity: int,
        output_type: Any,
        *,
        is_ordered: bool,
    ) -> DataStream:
        """What all four come down to."""
        if not isinstance(async_function, AsyncFunction):
            raise InvalidProgramError(
                f"an AsyncFunction is needed, not {async_function!r}; stream.async_map takes plain functions and "
                "coroutines"
            )
        if not isinstance(data_stream, DataStream):
            raise InvalidProgramError(f"{NAME} takes a DataStream, not {data_stream!r}")
        factory = async_factory(
            NAME, async_function, timeout, retry_strategy, capacity, output_type, is_ordered=is_ordered
        )
        return data_stream._one_input(NAME, factory, KnownType.of(factory.output_type))
